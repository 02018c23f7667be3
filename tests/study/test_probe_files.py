"""What ``bertfeat probe --json`` printed is read back by type, and nothing else is; it is drawn."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bertfeat.errors import CorpusError, UsageError
from bertfeat.plots import draw_layers
from bertfeat.study import LayerProbe, ProbeReport, ProbeScores, read_probes


@pytest.fixture
def probed() -> ProbeReport:
    measured = ProbeScores(0.9, 0.01, 0.8, 0.02)
    layers = (LayerProbe("layer2", 2, measured, True), LayerProbe("sum4", None, measured, False))
    counts = {"high": 30, "low": 35}
    return ProbeReport("a", "toy/model", "kind", "mean", 5, 65, 65, 6, 0, 0, counts, "low", measured, layers)


@pytest.mark.parametrize(
    "text",
    [
        *("x", "{}", "[1]", '{"layers": [{}]}', "null", "7", "[" * 100_000, '{"a":' * 100_000, '{"examples": 1e999}'),
        '{"examples": NaN}',
    ],
    ids=range(10),
)
def test_what_is_no_probe(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(CorpusError, match="line 1: this is not what bertfeat probe --json prints"):
        read_probes(tmp_path / "x.json")


@pytest.mark.parametrize(
    ("names", "value"),
    [
        (("features",), None),
        (("label",), 7),
        (("folds",), 1),
        (("folds",), "5"),
        (("examples",), 65.0),
        (("nulls",), -1),
        (("classes",), ["high"]),
        (("classes", "high"), "30"),
        (("baseline", "accuracy"), 1.5),
        (("baseline", "macro_f1"), None),
        (("layers",), []),
        (("layers", 0, "layer"), "2"),
        (("layers", 0, "converged"), "yes"),
        (("layers", 0, "measured"), []),
        (("layers", 0, "measured", "accuracy"), True),
    ],
)
def test_edited_probes_are_told(probed: ProbeReport, tmp_path: Path, names: tuple[Any, ...], value: Any) -> None:
    raw: Any = msgspec.to_builtins(probed)
    (tmp_path / "good.json").write_text(json.dumps(raw))
    assert read_probes(tmp_path / "good.json") == [probed]
    place = raw = json.loads(json.dumps(raw))
    for name in names[:-1]:
        place = place[name]
    place[names[-1]] = value
    (tmp_path / "x.json").write_text("\n" + json.dumps(raw))
    with pytest.raises(CorpusError, match=r"line 2: this is not what bertfeat probe --json prints, .* line: Exp"):
        read_probes(tmp_path / "x.json")


def test_probes_in_files_of_other_kinds(probed: ProbeReport, tmp_path: Path) -> None:
    line = json.dumps(msgspec.to_builtins(probed))
    (tmp_path / "marked.json").write_bytes(b"\xef\xbb\xbf" + line.encode() + b"\r\n\r\n" + line.encode())
    assert read_probes(tmp_path / "marked.json") == [probed, probed]
    (tmp_path / "wide.json").write_text(line, "utf-16")
    with pytest.raises(CorpusError, match="it is not UTF-8"):
        read_probes(tmp_path / "wide.json")
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(CorpusError, match="cannot be read"):
        read_probes(tmp_path / "pipe.json")


@pytest.mark.parametrize("measure", ["macro-f1", "accuracy"])
def test_several_probes_in_one_picture(probed: ProbeReport, tmp_path: Path, measure: str) -> None:
    other = replace(probed, label="$x_$", layers=(replace(probed.layers[0], column="layer7", layer=7),))
    figure = draw_layers([probed, other], tmp_path / "two.png", measure=measure)
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["2", "7", "sum4"]
    draw_layers([probed, other], tmp_path / "again.png", measure=measure)
    assert (tmp_path / "two.png").read_bytes() == (tmp_path / "again.png").read_bytes()


def test_what_cannot_be_drawn(probed: ProbeReport, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no probes to draw"):
        draw_layers([], tmp_path / "x.png")
    with pytest.raises(UsageError, match="by macro-f1 or accuracy, not by 'loss'"):
        draw_layers([probed], tmp_path / "x.png", measure="loss")
    with pytest.raises(CorpusError, match="cannot be read"):
        read_probes(tmp_path / "none.json")

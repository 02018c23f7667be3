"""No text is cut off, in any picture, at any width: every text that is drawn lies inside the picture."""

import logging
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bertfeat.core.features import FeatureSet
from bertfeat.errors import UsageError
from bertfeat.plots import draw_curves, draw_layers, draw_map, draw_table7
from bertfeat.plots.palette import NAMED
from bertfeat.plots.texts import choose_fonts, number_labels, one_line
from tests.support.drawn_reports import head_table_of, history_of, probed
from tests.support.plots_toy import LONG, drawn_texts, inside, plotted, svg_texts

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> FeatureSet:
    return plotted(tmp_path_factory.mktemp("plots") / f"{LONG[:90]}.features")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("width", "color"),
    [
        *((3.0, color) for color in (LONG, "hostile", "huge", "year")),
        *((3.5, "huge"), (4.99, "hostile"), (5.0, LONG), (5.0, "year"), (7.0, "hostile"), (13.0, LONG), (13.0, "huge")),
    ],
)
def test_maps(features: FeatureSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: float, color: str) -> None:
    with drawn_texts(monkeypatch) as drawn:
        draw_map(features, tmp_path / "map.png", color=color, width=width)
    assert len(drawn) > 4
    assert inside(drawn)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("width", "height"), [(3.0, 2.5), (3.0, 8.0), (4.0, 3.0), (8.0, 2.5), (8.0, 8.0)])
def test_maps_of_a_given_size_fit_or_are_refused(
    features: FeatureSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: float, height: float
) -> None:
    with drawn_texts(monkeypatch) as drawn:
        told = ""
        try:
            draw_map(features, tmp_path / "map.png", color="author", width=width, height=height)
        except UsageError as error:
            told = str(error)
    assert (f"{width:g} × {height:g} inches are too few" in told) == (not (tmp_path / "map.png").exists())
    assert told == "" or height < 8
    assert told != "" or inside(drawn)


SINGLE = [f"layer{number}" for number in range(7)]
MANY = [*(f"layer{number}" for number in range(49)), "concat4", LONG]
PROBES = {
    "one": [probed(SINGLE)],
    "long": [probed([*SINGLE, LONG, "sum4"], LONG, LONG), probed(["layer3"], "_under", "another/model")],
    "many": [probed(MANY, f"$label_{number}$") for number in range(14)],
    "combined": [probed([LONG, "sum4"])],
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "width"),
    [("one", None), ("one", 3.3), ("long", 3.3), ("long", 7.0), ("many", None), ("many", 3.3), ("combined", 7.0)],
)
def test_layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, width: float | None) -> None:
    with drawn_texts(monkeypatch) as drawn:
        draw_layers(PROBES[name], tmp_path / "layers.png", width=width)
    assert inside(drawn)
    shown = " ".join(text for text, _, _ in drawn).replace("\n", " ")
    assert "What the layers of" in shown
    assert "dashed: always the most frequent" in shown
    assert "macro F1" in shown


def test_layers_are_no_page(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"x.html: the form of a picture goes by .*: \.png, \.pdf or \.svg"):
        draw_layers([probed(SINGLE)], tmp_path / "x.html")


def test_lines_of_layers_differ_in_color_and_marker_and_are_named(tmp_path: Path) -> None:
    probes = [probed(SINGLE, label) for label in ("one", "two", "three")]
    draw_layers([*probes, replace(probes[0], label="four", model="an/other")], tmp_path / "layers.svg")
    texts = svg_texts(tmp_path / "layers.svg")
    for name in ("one, model", "two, model", "three, model", "four, other"):
        assert f"{name}, corpus.features" in texts
    source = (tmp_path / "layers.svg").read_text()
    legend = source.split('<g id="legend_1">')[1]
    assert len(set(re.findall(r'xlink:href="#(\w+)"', legend))) == 4  # a marker each
    assert {color for color in NAMED if color in legend} == set(NAMED[:4])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("epochs", [1, 40])
@pytest.mark.parametrize("losses", [(2.0, 0.5), (0.0, 0.0)], ids=["loss", "no loss"])
def test_curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epochs: int, losses: tuple[float, float]) -> None:
    with drawn_texts(monkeypatch) as drawn:
        draw_curves(history_of(epochs, losses), tmp_path / "curves.png")
    assert inside(drawn)
    shown = [text for text, _, _ in drawn]
    assert any("span F1 0.5000 on the development set, in epoch 1" in text for text in shown)
    assert [text for text in shown if "$" in text] == []  # no formula shows its source


TABLES = {
    "paper": head_table_of([("Embeddings", 91.0), ("Weighted Sum Last Four Hidden", 95.9)], 3, True),
    "one run": head_table_of([("Last Hidden", 94.9)], 1, False),
    "own rows": head_table_of([(LONG, None), *((f"Layer {number}", None) for number in range(48))], 5, True),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("made", TABLES.values(), ids=TABLES)
def test_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Any) -> None:
    with drawn_texts(monkeypatch) as drawn:
        draw_table7(made, tmp_path / "table7.png")
    assert inside(drawn)
    shown = [text for text, _, _ in drawn]
    assert "development set" in shown
    assert ("in the paper" in shown) == any(result.paper for result in made.rows)
    assert ("test set" in shown) == bool(made.rows[0].test)
    assert f"{100 * sum(made.rows[0].dev) / len(made.rows[0].dev):.1f}" in shown


def test_names_are_made_safe_to_show() -> None:
    assert one_line("a\x00b\n\tc  d") == "a\N{REPLACEMENT CHARACTER}b c d"
    assert one_line("\ud800x\N{RIGHT-TO-LEFT OVERRIDE}y") == "\N{REPLACEMENT CHARACTER}xy"
    assert len(one_line("x" * 10_000)) == 300
    assert one_line("x " + " " * 5_000 + "y") == "x…"


def test_numbers_have_as_few_digits_as_tell_them_apart() -> None:
    assert number_labels([0.1, 0.1]) == ["0.1", "0.1"]
    assert number_labels([1840.0, 1860.0, 1900.0]) == ["1840", "1860", "1900"]
    assert number_labels([-0.5, 0.0, 0.5]) == ["\N{MINUS SIGN}0.5", "0", "0.5"]
    assert number_labels([1_700_000_000.0, 1_700_000_500.0]) == ["1700000000", "1700000500"]


def test_fonts_are_found_for_characters_that_ours_lacks(caplog: pytest.LogCaptureFixture) -> None:
    from matplotlib import font_manager, ft2font

    paths = [font_manager.findfont(name) for name in ("STIXGeneral", "cmr10")]
    ours, stix = (ft2font.FT2Font(path).get_charmap() for path in (font_manager.findfont("DejaVu Sans"), paths[0]))
    only = chr(min(set(stix) - set(ours)))
    assert choose_fonts(["plain text"], paths) == ["DejaVu Sans"]
    assert choose_fonts([f"with {only}"], paths) == ["DejaVu Sans", "STIXGeneral"]
    assert caplog.records == []
    with caplog.at_level(logging.WARNING, "bertfeat"):
        assert choose_fonts(["\U0010fffd"], [*paths, __file__]) == ["DejaVu Sans"]
    assert "no installed font has \U0010fffd" in caplog.text


def test_characters_that_no_font_has_are_told_once(
    features: FeatureSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("matplotlib.font_manager.findSystemFonts", list)
    draw_map(features, tmp_path / "map.png", color="hostile")  # warnings are errors here
    assert sum("no installed font has" in record.message for record in caplog.records) == 1

"""Saved taggers: every version is read, every byte is checked, and what is no value of its field is refused."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertfeat.core.features import FeatureSet
from bertfeat.errors import HeadError
from bertfeat.learning import Tagger, verify_head
from bertfeat.learning.head_files import FORMAT_VERSION, read_head_record
from tests.support.tagging_golden import GOLDEN, JSON, WEIGHTS, put, rewritten
from tests.support.tagging_toy import scored, tagged


@pytest.fixture
def tagger(tmp_path: Path) -> Path:
    """A tagger of one's own, to be damaged, with its features beside it."""
    shutil.copytree(GOLDEN / f"tagger-{FORMAT_VERSION}", tmp_path / "golden")
    return tmp_path / "golden" / "tagger"


# ── versions ────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_version_has_its_golden_tagger() -> None:
    found = sorted(path.name for path in GOLDEN.glob("tagger-*"))
    assert found == [f"tagger-{version}" for version in range(1, FORMAT_VERSION + 1)]


@pytest.mark.parametrize("version", range(1, FORMAT_VERSION + 1))
def test_a_golden_tagger_tags_as_when_it_was_trained(version: int) -> None:
    golden = GOLDEN / f"tagger-{version}"
    expected = json.loads((golden / "expected.json").read_text())
    tagger, features = Tagger(golden / "tagger", device="cpu"), FeatureSet(golden / "features")
    assert [list(each.tags) for each in tagged(tagger, features)] == expected["tags"]
    assert scored(tagger, features).f1 == tagger.record.score == expected["score"]
    assert (tagger.record.best_epoch, len(tagger.record.history)) == (expected["best_epoch"], expected["epochs"])
    assert tagger.mix_weights is not None
    assert {str(layer): share for layer, share in tagger.mix_weights.items()} == pytest.approx(expected["mix"])
    report = verify_head(golden / "tagger")
    assert (report.format_version, report.epochs, report.labels) == (version, expected["epochs"], 5)
    assert report.bytes == sum((golden / "tagger" / name).stat().st_size for name in (JSON, WEIGHTS))


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", [JSON, WEIGHTS])
@pytest.mark.parametrize("put", ["fifo", "folder", "nothing", "loop", "device"])
def test_what_is_no_file_is_told_and_never_waited_for(tagger: Path, name: str, put: str) -> None:
    path = tagger / name
    path.unlink()
    if put == "fifo":
        os.mkfifo(path)
    elif put == "folder":
        path.mkdir()
    elif put == "loop":
        path.symlink_to(path)
    elif put == "device":
        path.symlink_to("/dev/zero")
    for use in (verify_head, Tagger):
        with pytest.raises(HeadError, match="tagger"):
            use(tagger)


# ── values ──────────────────────────────────────────────────────────────────────────────────────────────────


WRONG = [
    put("format_version", to="1"),
    put("format_version", to=-1.5),
    put("format_version", to=0),
    put("format_version", to=-1),
    put("format_version", to=None),
    put("model", to=None),
    put("model", to=[]),
    put("model", "num_layers", to="4"),
    put("extraction", to={}),
    put("extraction", "long", to="sideways"),
    put("extraction", "max_length", to="64"),
    put("extraction", "max_length", to=0),
    put("extraction", "dtype", to="int4"),
    put("extraction", "document_context", to=0),
    put("layers", to=7),
    put("network", "width", to=64),
    put("network", "width", to=True),
    put("network", "hidden", to=10**6),
    put("network", "hidden", to=4.0),
    put("network", "mixed", to=False),
    put("network", "crf", to=False),
    put("network", "crf", to="yes"),
    put("outputs", "labels", to=[]),
    put("outputs", "labels", to=["O", "B-A", "I-A", "B-B", "B-B"]),
    put("outputs", "labels", to="OBIBI"),
    put("outputs", "labels", 0, to=None),
    put("training", "epochs", to=0),
    put("training", "epochs", to=None),
    put("training", "hidden", to=10**12),
    put("training", "learning_rate", to="0.05"),
    put("training", "learning_rate", to=2.0),
    put("training", "memory", to=-1),
    put("training", "scheme", to="PLAIN"),
    put("data", to=[]),
    put("data", "train", to=7),
    put("best_epoch", to="8"),
    put("score", to=None),
    put("history", to={}),
    put("history", 3, to=7),
    put("history", 3, "words", to=216.0),
    put("history", 3, "rate", to=0),
    put("versions", to={"torch": 2}),
    put("places", to={"train": None}),
    put("weights", to={"bytes": -1, "xxh3": "00"}),
    put("weights", "xxh3", to="0" * 32),
    put("weights", "bytes", to=10**15),
]


@pytest.mark.parametrize("change", WRONG, ids=range(len(WRONG)))
def test_edited_settings_are_refused(tagger: Path, change: Callable[[dict[str, Any]], None]) -> None:
    rewritten(tagger, change)
    with pytest.raises(HeadError, match="tagger"):
        Tagger(tagger)


@pytest.mark.parametrize(
    "text",
    [
        b"", b"{", b"null", b"[]", b"7", b'"x"', b"{}", b'{"format_version": 1}', b'{"format_version": 1e999}',
        b'{"format_version": NaN}', b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe{}", b"1" * 100_000,
        b'{"format_version": 1, "digest": "00"}', b'{"format_version": true}',
    ],
    ids=range(16),
)  # fmt: skip
def test_what_is_no_settings_at_all(tagger: Path, text: bytes) -> None:
    (tagger / JSON).write_bytes(text)
    with pytest.raises(HeadError, match=r"head\.json: cannot be read"):
        Tagger(tagger)


def test_settings_are_written_as_they_are_read(tagger: Path) -> None:
    """And the names of labels may be anything that JSON holds."""
    rewritten(tagger, lambda raw: raw["outputs"].update(labels=["O", "B-\t", "B-\n", "B-\ud800", "B-é"]))
    assert read_head_record(tagger).outputs.labels == ("O", "B-\t", "B-\n", "B-\ud800", "B-é")
    assert json.loads((tagger / JSON).read_text("utf-8"))["outputs"]["scheme"] == "BIO"


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity"])
def test_numbers_that_are_none(tagger: Path, number: str) -> None:
    text = (tagger / JSON).read_text()
    (tagger / JSON).write_text(text.replace('"score": 1.0,\n "threshold"', f'"score": {number},\n "threshold"'))
    with pytest.raises(HeadError, match=r"head\.json: cannot be read"):
        Tagger(tagger)

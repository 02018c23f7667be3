"""The state of a golden tagger's features is told, and its settings are written as they are read."""

import json
import shutil
from pathlib import Path

import pytest

from bertfeat.features import FORMAT_VERSION as SET_VERSION
from bertfeat.learning import verify_head
from bertfeat.learning.head_files import FORMAT_VERSION, read_head_record
from tests.support.tagging_golden import GOLDEN, JSON, rewritten


@pytest.fixture
def tagger(tmp_path: Path) -> Path:
    """A tagger of one's own, to be damaged, with its features beside it."""
    shutil.copytree(GOLDEN / f"tagger-{FORMAT_VERSION}", tmp_path / "golden")
    return tmp_path / "golden" / "tagger"


def test_features_that_changed_or_went_are_told(tagger: Path) -> None:
    features = tagger.parent / "features"
    assert {str(state) for state in verify_head(tagger).features.values()} == {"the same"}
    shutil.move(features, tagger.parent / "elsewhere")
    assert {str(state) for state in verify_head(tagger).features.values()} == {"not there"}
    shutil.copytree(GOLDEN / f"v{SET_VERSION}" / "features", features)
    assert {str(state) for state in verify_head(tagger).features.values()} == {"changed since"}
    (features / ".bertfeat" / "manifest.json").write_text("{")
    assert {str(state) for state in verify_head(tagger).features.values()} == {"changed since"}


def test_settings_are_written_as_they_are_read(tagger: Path) -> None:
    """And the names of labels may be anything that JSON holds."""
    rewritten(tagger, lambda raw: raw["outputs"].update(labels=["O", "B-\t", "B-\n", "B-\ud800", "B-é"]))
    assert read_head_record(tagger).outputs.labels == ("O", "B-\t", "B-\n", "B-\ud800", "B-é")
    assert json.loads((tagger / JSON).read_text("utf-8"))["outputs"]["scheme"] == "BIO"

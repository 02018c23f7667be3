"""The state of a training between two epochs: what was edited is refused, and nothing outside the folder is read."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertfeat.core.features import FeatureSet
from bertfeat.errors import TrainingError
from bertfeat.io import write_json
from bertfeat.learning import HeadSettings
from tests.support.killed_training import Killed, killing_after
from tests.support.tagging_toy import feature_set, train
from tests.support.tiny_models import Tiny

QUICK = HeadSettings(hidden=4, epochs=4, dropout=0.1, learning_rate=0.01, batch_size=8)
STATE, TENSORS = "checkpoint.json", "checkpoint-2.safetensors"


@pytest.fixture(scope="module")
def sets(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> tuple[FeatureSet, FeatureSet]:
    home = tmp_path_factory.mktemp("checkpoint")
    model = tiny("bert").folder
    return feature_set(model, home / "train", 40, 1), feature_set(model, home / "dev", 20, 2)


@pytest.fixture(scope="module")
def begun(sets: tuple[FeatureSet, FeatureSet], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("begun") / "a"
    with pytest.raises(Killed):
        train(*sets, folder, layers="mix4", settings=QUICK, progress=killing_after(2))
    assert sorted(path.name for path in folder.iterdir()) == [".bertfeat", TENSORS, STATE]
    return folder


@pytest.fixture
def copy(begun: Path, tmp_path: Path) -> Path:
    return shutil.copytree(begun, tmp_path / "copy")


def rewritten(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    raw: dict[str, Any] = json.loads((folder / STATE).read_bytes())
    del raw["digest"]
    change(raw)
    write_json(folder / STATE, raw)


def refused(sets: tuple[FeatureSet, FeatureSet], folder: Path, problem: str) -> None:
    before = sorted(path.name for path in folder.rglob("*"))
    with pytest.raises(TrainingError, match=problem):
        train(*sets, folder, layers="mix4", settings=QUICK)
    assert sorted(path.name for path in folder.rglob("*")) == before
    done = train(*sets, folder, layers="mix4", settings=QUICK, overwrite=True)  # the remedy that is told
    assert done.resumed == 0


@pytest.mark.sampled(1, 3)
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda raw: raw.update(history=[]), "cannot be read"),
        (lambda raw: raw.update(history=None), "cannot be read"),
        (lambda raw: raw.update(identity={}), "in another way"),
        (lambda raw: raw["identity"].update(extraction=[]), "in another way"),
        (lambda raw: raw["identity"]["training"].update(hidden="4"), "in another way"),
        (lambda raw: raw["identity"]["training"].update(hidden=0), "in another way"),
        (lambda raw: raw["identity"]["data"].update(train=3), "in another way"),
        (lambda raw: raw["history"][0].update(loss="low"), "cannot be read"),
        (lambda raw: raw["history"][0].pop("words"), "cannot be read"),
        (lambda raw: raw.update(weights="../../somewhere.safetensors"), "cannot be read"),
        (lambda raw: raw.update(weights=None), "cannot be read"),
        (lambda raw: raw.update(format_version=2), "written in format 2 by a newer bertfeat"),
        (lambda raw: raw.update(format_version=0), "cannot be read"),
        (lambda raw: raw["identity"].update(layers="last"), r"in another way \(they differ in: layers\)"),
        (lambda raw: raw["history"].pop(), r"not the state of this training: checkpoint-1\.safetensors"),
        (lambda raw: raw["weights"].update(xxh3="0" * 32), "was changed after it was written"),
    ],
    ids=range(16),
)
def test_an_edited_state_is_refused(
    sets: tuple[FeatureSet, FeatureSet], copy: Path, change: Callable[[dict[str, Any]], object], problem: str
) -> None:
    rewritten(copy, change)
    refused(sets, copy, problem)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"[" * 100_000, b'{"history": 1e999}', b"\xff"], ids=range(6))
def test_what_is_no_state(sets: tuple[FeatureSet, FeatureSet], copy: Path, text: bytes) -> None:
    (copy / STATE).write_bytes(text)
    refused(sets, copy, r"checkpoint\.json: cannot be read .* with overwrite=True")


def test_a_value_that_was_changed_by_hand_is_told(sets: tuple[FeatureSet, FeatureSet], copy: Path) -> None:
    text = (copy / STATE).read_text()
    (copy / STATE).write_text(re.sub(r'"words": (\d)', r'"words": 1\1', text))
    refused(sets, copy, "its digest does not hold")


def test_tensors_that_were_changed_are_refused(sets: tuple[FeatureSet, FeatureSet], copy: Path) -> None:
    data = (copy / TENSORS).read_bytes()
    (copy / TENSORS).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    refused(sets, copy, rf"this is not the state of this training: {TENSORS} was changed after it was written")


@pytest.mark.parametrize("name", [STATE, TENSORS])
def test_a_pipe_in_its_place_is_not_waited_for(sets: tuple[FeatureSet, FeatureSet], copy: Path, name: str) -> None:
    (copy / name).unlink()
    os.mkfifo(copy / name)
    with pytest.raises(TrainingError, match=r"not a regular file|has 0 bytes, and had"):
        train(*sets, copy, layers="mix4", settings=QUICK)


def test_a_state_of_the_first_version_is_refused(sets: tuple[FeatureSet, FeatureSet], copy: Path) -> None:
    """It named its weights' file, in whatever folder."""
    outside = copy.parent / "outside.safetensors"
    shutil.copyfile(copy / TENSORS, outside)
    raw = json.loads((copy / STATE).read_text())
    state = {"weights": "../outside.safetensors", "identity": raw["identity"], "progress": {"history": [], "rate": 1}}
    (copy / STATE).write_text(json.dumps(state))
    refused(sets, copy, "cannot be read")
    assert outside.exists()


def test_half_written_files_of_a_killed_run_go(sets: tuple[FeatureSet, FeatureSet], copy: Path) -> None:
    for name in (".checkpoint-3.safetensors.tmp", ".checkpoint.json.tmp", ".head.json.tmp", ".curves.png.tmp"):
        (copy / name).write_text("half")
    (copy / ".mine.tmp").write_text("mine")
    train(*sets, copy, layers="mix4", settings=QUICK)
    found = sorted(path.name for path in copy.iterdir())
    assert found == [".bertfeat", ".mine.tmp", "head.json", "head.safetensors"]

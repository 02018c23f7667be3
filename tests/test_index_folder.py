"""The folder of an index: whole or not at all, and clear about what is wrong with it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from bertfeat.errors import Damaged, FolderLocked, IndexFolderError
from bertfeat.features import locked
from bertfeat.index import BuildOptions, VectorIndex, build_index
from bertfeat.index.folder import check_folder
from tests.index_toy import clustered, vector_set


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    vector_set(tmp_path / "toy.features", clustered(200))
    build_index(tmp_path / "toy.features", tmp_path / "toy.index")
    return tmp_path / "toy.index"


def test_the_folder_says_what_it_is(folder: Path) -> None:
    settings = VectorIndex(folder).settings
    assert sorted(path.name for path in folder.iterdir()) == ["documents.arrow", "index.faiss", "index.json"]
    assert (settings.count, settings.documents, settings.width) == (200, 200, 16)
    assert (settings.column.name, settings.metric, settings.factory) == ("last_mean", "cosine", "Flat")
    assert settings.model.fingerprint == "f" * 64
    assert "few enough to compare them all" in settings.reason
    assert settings.evaluation is not None
    assert settings.evaluation.recall == {"1": 1.0, "10": 1.0, "100": 1.0}
    assert settings.evaluation.queries_per_second > 0
    assert set(settings.files) == {"documents.arrow", "index.faiss"}
    assert check_folder(folder) == settings


def test_it_moves_as_one(folder: Path) -> None:
    before = VectorIndex(folder).search(clustered(5), 3)
    moved = VectorIndex(folder.rename(folder.with_name("elsewhere")))
    np.testing.assert_array_equal(moved.search(clustered(5), 3).numbers, before.numbers)
    assert moved.documents.take(np.array([3, 0]))["text"].to_pylist() == ["text of 4", "text of 1"]


@pytest.mark.parametrize("name", ["index.faiss", "documents.arrow"])
def test_a_file_cut_off(folder: Path, name: str) -> None:
    path = folder / name
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(IndexFolderError, match=rf"{name} has [\d,]+ bytes, but [\d,]+ were written"):
        VectorIndex(folder)


@pytest.mark.parametrize("name", ["index.faiss", "documents.arrow"])
def test_a_foreign_file_of_the_same_size(folder: Path, name: str) -> None:
    path = folder / name
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(IndexFolderError, match=rf"{name}.* build the index again"):
        VectorIndex(folder).documents.column("row")
    with pytest.raises(IndexFolderError, match="was changed after it was written"):
        check_folder(folder)


def test_another_index_in_its_place(folder: Path, tmp_path: Path) -> None:
    vector_set(tmp_path / "b.features", clustered(200, 8))
    build_index(tmp_path / "b.features", tmp_path / "b.index")
    shutil.copy(tmp_path / "b.index" / "index.faiss", folder / "index.faiss")
    settings = json.loads((folder / "index.json").read_text())
    settings["files"]["index.faiss"]["bytes"] = (folder / "index.faiss").stat().st_size
    (folder / "index.json").write_text(json.dumps(settings))
    with pytest.raises(IndexFolderError, match="holds 200 vectors of 8 values, but 200 of 16 were written"):
        VectorIndex(folder)


def test_a_missing_file(folder: Path) -> None:
    (folder / "documents.arrow").unlink()
    with pytest.raises(IndexFolderError, match=r"documents\.arrow is missing; copy the whole folder"):
        VectorIndex(folder)


def test_no_index(tmp_path: Path) -> None:
    with pytest.raises(IndexFolderError, match="this is no index"):
        VectorIndex(tmp_path)
    with pytest.raises(IndexFolderError, match="this is no index"):
        VectorIndex(tmp_path / "nowhere")


def test_a_newer_format_is_refused(folder: Path) -> None:
    settings = json.loads((folder / "index.json").read_text()) | {"format_version": 99}
    (folder / "index.json").write_text(json.dumps(settings))
    with pytest.raises(IndexFolderError, match="format 99 by a newer bertfeat"):
        VectorIndex(folder)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format_version": 1}', '{"format_version": "x"}'])
def test_settings_that_cannot_be_read(folder: Path, text: str) -> None:
    (folder / "index.json").write_text(text)
    with pytest.raises(IndexFolderError, match="cannot be read"):
        VectorIndex(folder)


def test_features_that_changed_since(folder: Path, tmp_path: Path) -> None:
    VectorIndex(folder).check_sources()
    shutil.rmtree(tmp_path / "toy.features")
    VectorIndex(folder).check_sources()  # not in their place: nothing to compare
    vector_set(tmp_path / "toy.features", clustered(201))
    with pytest.raises(IndexFolderError, match=r"changed since the index .*200 documents then, 201 now"):
        VectorIndex(folder).check_sources()


def test_features_that_are_damaged(tmp_path: Path) -> None:
    vector_set(tmp_path / "toy.features", clustered(200))
    part = next((tmp_path / "toy.features").glob("part-*"))
    data = bytearray(part.read_bytes())
    data[len(data) // 3] ^= 255
    part.write_bytes(data)
    with pytest.raises(Damaged):
        build_index(tmp_path / "toy.features", tmp_path / "toy.index")
    assert not (tmp_path / "toy.index").exists()


def test_a_folder_with_other_things_is_left_alone(folder: Path, tmp_path: Path) -> None:
    (folder / "thesis.txt").write_text("irreplaceable")
    with pytest.raises(IndexFolderError, match=r"thesis\.txt is no file of an index"):
        build_index(tmp_path / "toy.features", folder)
    assert (folder / "thesis.txt").read_text() == "irreplaceable"


def test_a_failed_build_leaves_the_old_index(folder: Path, tmp_path: Path) -> None:
    vectors = clustered(300)
    vectors[250] = np.nan
    vector_set(tmp_path / "bad.features", vectors)
    before = (folder / "index.json").read_bytes()
    with pytest.raises(IndexFolderError, match="not finite"):
        build_index(tmp_path / "bad.features", folder)
    assert (folder / "index.json").read_bytes() == before
    assert not list(tmp_path.glob(".*"))


BUILD = """
import sys, time
from bertfeat.index import build_index
def stop(progress):
    if progress.step == sys.argv[3]:
        print("here", flush=True)
        time.sleep(60)
build_index(sys.argv[1], sys.argv[2], progress=stop)
"""


@pytest.mark.parametrize("step", ["add", "write"])
def test_a_killed_build_leaves_the_old_index(folder: Path, tmp_path: Path, step: str) -> None:
    vector_set(tmp_path / "new.features", clustered(300))
    arguments = [sys.executable, "-c", BUILD, str(tmp_path / "new.features"), str(folder), step]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as build:
        assert build.stdout is not None
        assert build.stdout.readline() == "here\n"
        with pytest.raises(FolderLocked):
            build_index(tmp_path / "new.features", folder)
        build.send_signal(signal.SIGKILL)
    assert len(VectorIndex(folder)) == 200
    build_index(tmp_path / "new.features", folder)
    assert len(VectorIndex(folder)) == 300
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


def test_killed_between_the_two_moves_the_old_index_comes_back(folder: Path) -> None:
    work = folder.with_name(f".{folder.name}.building")
    (work / "new").mkdir(parents=True)
    folder.rename(work / "old")
    assert len(VectorIndex(folder)) == 200


def test_a_build_under_way_is_not_disturbed(folder: Path) -> None:
    work = folder.with_name(f".{folder.name}.building")
    with locked(work):
        folder.rename(work / "old")
        with pytest.raises(IndexFolderError, match="this is no index"):
            VectorIndex(folder)
        (work / "old").rename(folder)
    assert len(VectorIndex(folder)) == 200


def test_an_index_in_use_survives_its_replacement(folder: Path, tmp_path: Path) -> None:
    index = VectorIndex(folder)
    vector_set(tmp_path / "new.features", clustered(20, seed=9))
    build_index(tmp_path / "new.features", folder)
    assert (index.search(clustered(200), 1).numbers[:, 0] == np.arange(200)).all()


def test_equal_builds_give_equal_answers(tmp_path: Path) -> None:
    vector_set(tmp_path / "toy.features", clustered(2000))
    found = []
    for name in ("a", "b"):
        build_index(tmp_path / "toy.features", tmp_path / name, options=BuildOptions(type="ivf", evaluate=False))
        found.append(VectorIndex(tmp_path / name).search(clustered(50, seed=3), 10).numbers)
        time.sleep(0.01)
    np.testing.assert_array_equal(found[0], found[1])

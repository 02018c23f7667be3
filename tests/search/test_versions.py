"""The versions of an index: one run at a time, the old one or the new one, and nothing else touched."""

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from bertfeat.errors import FolderLockedError, IndexFolderError, StorageError, UsageError
from bertfeat.io import folder_lock
from bertfeat.progress import StepProgress
from bertfeat.search import (
    BuildOptions,
    VectorIndex,
    build_index,
    remove_documents,
    update_index,
    verify_index,
)
from bertfeat.search.versions import hold_index_folder
from tests.support.index_toy import RECORD, clustered, vector_set


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    vector_set(tmp_path / "toy.features", clustered(200))
    build_index(tmp_path / "toy.features", tmp_path / "toy.index")
    return tmp_path / "toy.index"


def test_a_folder_with_other_things_is_left_alone(folder: Path, tmp_path: Path) -> None:
    (folder / "thesis.txt").write_text("irreplaceable")
    with pytest.raises(IndexFolderError, match=r"thesis\.txt is no file of an index"):
        build_index(tmp_path / "toy.features", folder)
    assert (folder / "thesis.txt").read_text() == "irreplaceable"


def test_a_version_with_other_things_is_left_alone(folder: Path, tmp_path: Path) -> None:
    (folder / "version-1" / "thesis.txt").write_text("irreplaceable")
    with pytest.raises(IndexFolderError, match=r"version-1/thesis\.txt is no file of an index"):
        build_index(tmp_path / "toy.features", folder)
    assert (folder / "version-1" / "thesis.txt").read_text() == "irreplaceable"


def test_what_is_put_into_a_version_meanwhile_stays(folder: Path, tmp_path: Path) -> None:
    def put(_progress: StepProgress) -> None:
        (folder / "version-1" / "thesis.txt").write_text("irreplaceable")

    build_index(tmp_path / "toy.features", folder, progress=put)
    assert len(VectorIndex(folder)) == 200
    assert (folder / "version-1" / "thesis.txt").read_text() == "irreplaceable"


def test_a_folder_that_only_looks_like_an_unfinished_index_is_left_alone(tmp_path: Path) -> None:
    vector_set(tmp_path / "toy.features", clustered(20))
    (tmp_path / "mine" / "version-1").mkdir(parents=True)
    (tmp_path / "mine" / "version-1" / "index.faiss").write_text("irreplaceable")
    with pytest.raises(IndexFolderError, match="version-1 is no file of an index"):
        build_index(tmp_path / "toy.features", tmp_path / "mine")
    assert (tmp_path / "mine" / "version-1" / "index.faiss").read_text() == "irreplaceable"


def test_other_things_in_its_state_folder_are_left_alone(folder: Path, tmp_path: Path) -> None:
    (folder / ".bertfeat" / "notes").write_text("irreplaceable")
    with pytest.raises(IndexFolderError, match=r"\.bertfeat/notes is no file of an index"):
        build_index(tmp_path / "toy.features", folder)


def test_a_failed_build_leaves_the_old_index(folder: Path, tmp_path: Path) -> None:
    vectors = clustered(300)
    vectors[250] = np.nan
    vector_set(tmp_path / "bad.features", vectors)
    before = (folder / RECORD).read_bytes()
    with pytest.raises(IndexFolderError, match="not finite"):
        build_index(tmp_path / "bad.features", folder, overwrite=True)
    assert (folder / RECORD).read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == [".bertfeat", "version-1"]
    assert not list(tmp_path.glob(".*"))


def test_an_index_whose_record_is_damaged_is_built_again(folder: Path, tmp_path: Path) -> None:
    (folder / RECORD).write_text("{}")
    vector_set(tmp_path / "bad.features", np.full((5, 16), np.nan, np.float32))
    with pytest.raises(IndexFolderError, match="not finite"):
        build_index(tmp_path / "bad.features", folder)
    assert sorted(path.name for path in folder.iterdir()) == [".bertfeat", "version-1"]  # for whoever can mend it
    build_index(tmp_path / "toy.features", folder)
    assert verify_index(folder).vectors == 200
    assert sorted(path.name for path in folder.iterdir()) == [".bertfeat", "version-2"]


def test_a_record_of_another_index_has_nothing_removed(folder: Path, tmp_path: Path) -> None:
    right = (folder / RECORD).read_bytes()
    other = tmp_path / "other.index"
    for _ in range(2):
        build_index(tmp_path / "toy.features", other)
    (folder / RECORD).write_bytes((other / RECORD).read_bytes())  # it names version-2, which is not here
    with pytest.raises(IndexFolderError):
        update_index(folder, tmp_path / "toy.features")
    assert sorted(path.name for path in folder.iterdir()) == [".bertfeat", "version-1"]
    (folder / RECORD).write_bytes(right)
    assert verify_index(folder).vectors == 200


BUILD = """
import sys, time
from bertfeat.search import build_index
def stop(progress):
    if progress.step == sys.argv[3]:
        print("here", flush=True)
        time.sleep(60)
build_index(sys.argv[1], sys.argv[2], progress=stop, overwrite=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("step", ["add", "write"])
def test_a_killed_build_leaves_the_old_index(folder: Path, tmp_path: Path, step: str) -> None:
    vector_set(tmp_path / "new.features", clustered(300))
    arguments = [sys.executable, "-c", BUILD, str(tmp_path / "new.features"), str(folder), step]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as build:
        assert build.stdout is not None
        assert build.stdout.readline() == "here\n"
        with pytest.raises(FolderLockedError):
            build_index(tmp_path / "new.features", folder, overwrite=True)
        build.send_signal(signal.SIGKILL)
    assert len(VectorIndex(folder)) == 200
    build_index(tmp_path / "new.features", folder, overwrite=True)
    assert len(VectorIndex(folder)) == 300
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


def test_a_run_on_another_machine_that_holds_the_index_is_told(folder: Path) -> None:
    lock = folder / ".bertfeat" / "lock"
    owner = {"host": "node7", "boot": "another", "pid": 1, "ticks": 1, "since": "2020-01-01T00:00:00+00:00"}
    lock.write_text(json.dumps(owner))
    with pytest.raises(FolderLockedError, match=r"process 1 on node7 .*delete .*lock"):
        remove_documents(folder, ["1"])
    assert len(VectorIndex(folder)) == 200  # readers do not wait
    lock.unlink()
    remove_documents(folder, ["1"])
    assert len(VectorIndex(folder)) == 199


def test_a_link_to_an_index_stays_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "big disk").mkdir()
    real = folder.rename(tmp_path / "big disk" / "real.index")
    folder.symlink_to(real)
    vector_set(tmp_path / "new.features", clustered(20, seed=9), ids=[f"new {row}" for row in range(20)])
    update_index(folder, [tmp_path / "new.features"])
    assert folder.is_symlink()
    assert len(VectorIndex(real)) == len(VectorIndex(folder)) == 220
    assert sorted(path.name for path in (tmp_path / "big disk").iterdir()) == ["real.index"]
    build_index(tmp_path / "new.features", folder, overwrite=True)
    assert folder.is_symlink()
    assert len(VectorIndex(real)) == 20


def test_two_names_of_one_index_share_a_lock(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link.index").symlink_to(folder)
    with folder_lock(folder), pytest.raises(FolderLockedError):
        remove_documents(tmp_path / "link.index", ["1"])


@pytest.mark.parametrize("name", ["an index of mine", "색인 🙂 é", "-o", "x" * 245, "new\nline", "a.b.c"])
def test_names_of_all_kinds(name: str, tmp_path: Path) -> None:
    vector_set(tmp_path / "toy.features", clustered(20))
    build_index(tmp_path / "toy.features", tmp_path / name)
    remove_documents(tmp_path / name, ["1"])
    assert len(VectorIndex(tmp_path / name)) == verify_index(tmp_path / name).documents == 19
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "toy.features"])


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    vector_set(tmp_path / "toy.features", clustered(20))
    with pytest.raises(StorageError, match="File name too long"):
        build_index(tmp_path / "toy.features", tmp_path / ("x" * 300))
    with pytest.raises(IndexFolderError, match="File name too long"):
        VectorIndex(tmp_path / ("x" * 300))


def test_the_current_folder_can_be_an_index(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vector_set(tmp_path / "new.features", clustered(20))
    monkeypatch.chdir(folder)
    for here in (".", folder, f"../{folder.name}"):
        build_index(tmp_path / "new.features", here, overwrite=True)
        assert len(VectorIndex(".")) == 20


def test_places_where_no_index_can_be(folder: Path, tmp_path: Path) -> None:
    features = tmp_path / "toy.features"
    for taken in ("/", tmp_path):
        with pytest.raises(IndexFolderError, match="is no file of an index; name another folder"):
            build_index(features, taken)
    (tmp_path / "note.txt").write_text("")
    with pytest.raises(IndexFolderError, match=r"note\.txt: a file is there, and an index is a folder"):
        build_index(features, tmp_path / "note.txt")
    with pytest.raises(IndexFolderError, match="holds a feature set, no index"):
        build_index(features, features)
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(StorageError, match="circle cannot be read"):
        build_index(features, tmp_path / "circle")
    for nothing in (tmp_path / "no" / "such" / "folder", tmp_path / "no"):
        with pytest.raises(IndexFolderError, match="there is no such folder"):
            update_index(nothing, [features])
    assert not (tmp_path / "no").exists()
    assert len(VectorIndex(folder)) == 200


@pytest.mark.parametrize("name", ["version-2", ".bertfeat"])
def test_nothing_is_written_through_a_planted_link(name: str, folder: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    if name == ".bertfeat":
        shutil.copytree(folder / name, victim, dirs_exist_ok=True)
        shutil.rmtree(folder / name)
    (victim / "index.faiss").write_text("irreplaceable")
    (folder / name).symlink_to(victim)
    with pytest.raises((IndexFolderError, StorageError), match=r"is no file of an index|Not a directory"):
        remove_documents(folder, ["1"])
    assert (victim / "index.faiss").read_text() == "irreplaceable"


def test_an_index_in_use_survives_its_replacement(folder: Path, tmp_path: Path) -> None:
    index = VectorIndex(folder)
    vector_set(tmp_path / "new.features", clustered(20, seed=9))
    build_index(tmp_path / "new.features", folder, overwrite=True)
    assert (index.search(clustered(200), 1).numbers[:, 0] == np.arange(200)).all()


def test_equal_builds_give_equal_answers(tmp_path: Path) -> None:
    vector_set(tmp_path / "toy.features", clustered(2000))
    found = []
    for name in ("a", "b"):
        build_index(tmp_path / "toy.features", tmp_path / name, options=BuildOptions(type="ivf", evaluate=False))
        found.append(VectorIndex(tmp_path / name).search(clustered(50, seed=3), 10).numbers)
        time.sleep(0.01)
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.slow
def test_many_who_want_the_same_place(tmp_path: Path) -> None:
    """The one before fails, and removes the folder that it made, while the next one makes it."""
    told = Counter[str]()

    def want() -> None:
        for _ in range(2000):
            try:
                with hold_index_folder(tmp_path / "toy.index", new=True):
                    raise UsageError("held")
            except FolderLockedError:
                told["locked"] += 1
            except (UsageError, StorageError) as error:
                told[str(error)] += 1

    threads = [threading.Thread(target=want) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(told) <= {"held", "locked"}
    assert list(tmp_path.rglob("*")) in ([], [tmp_path / "toy.index"])  # whoever found the folder leaves it

"""Indexes of feature sets at addresses, and indexes that are at addresses themselves."""

import re
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertfeat.core.corpus import KeptColumn
from bertfeat.core.features import unit_vectors
from bertfeat.errors import FolderLockedError, IndexFolderError, StorageError
from bertfeat.io import Address, Location, Place, list_files, put_file, read_file, remove_stored
from bertfeat.progress import StepProgress
from bertfeat.search import (
    BuildOptions,
    Index,
    IndexSettings,
    VectorIndex,
    build_index,
    index_copy,
    measure_recall,
    read_index_settings,
    remove_documents,
    update_index,
    verify_index,
)
from tests.search.test_index import Stand
from tests.support.index_toy import RECORD, clustered, current_files, files_of, ids_of, vector_set, version_of
from tests.support.s3_server import STORED, Faults, S3Server
from tests.support.steps import Stop, start, steps

COUNT = 60
KEPT = {KeptColumn("year", "int64"): [1900 + row for row in range(COUNT)]}
_NUMBERS = count()


@pytest.fixture
def memory() -> Address:
    """Give an empty folder in memory."""
    return Address.parse(f"memory://search-{next(_NUMBERS)}/some/where")


@pytest.fixture(params=["memory", "s3"])
def address(request: pytest.FixtureRequest) -> Address:
    if request.param == "memory":
        memory: Address = request.getfixturevalue("memory")
        return memory
    bucket: Address = request.getfixturevalue("bucket")
    return bucket


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a cache folder of one's own."""
    monkeypatch.setenv("BERTFEAT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache/indexes"


def upload(folder: Path, address: Address) -> Address:
    """Bring a folder to an address."""
    for file in list_files(folder):
        put_file(address / file.name, read_file(folder / file.name))
    return address


def feature_set(folder: Place, seed: int = 0) -> Place:
    return vector_set(folder, clustered(COUNT, seed=seed), kept=KEPT)


def local_index(tmp_path: Path, name: str, seed: int = 0) -> Path:
    """An index whose feature set is there no more."""
    feature_set(tmp_path / f"{name}.features", seed)
    build_index(tmp_path / f"{name}.features", tmp_path / f"{name}.index", options=BuildOptions(evaluate=False))
    (tmp_path / f"{name}.features").rename(tmp_path / f"{name}.moved")
    return tmp_path / f"{name}.index"


def copies(cache: Path) -> list[Path]:
    return sorted(cache.glob("*/*"))


# ── of feature sets at addresses ────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(1)
def test_an_index_of_a_set_at_an_address_is_that_of_the_local_one(address: Address, tmp_path: Path) -> None:
    here, there = feature_set(tmp_path / "toy.features"), feature_set(address / "toy.features")
    options = BuildOptions(evaluate=False)
    for features, name in ((here, "here.index"), (str(there), "there.index")):
        build_index(features, tmp_path / name, options=options)
    ours, theirs = files_of(tmp_path / "here.index"), files_of(tmp_path / "there.index")
    assert {name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)} == {RECORD}
    index = Index(tmp_path / "there.index", encoder=Stand(clustered(COUNT)))
    assert [source.path for source in index.settings.sources] == [str(there)]
    (hit,) = index.search("7", 1, where="year < 1910").hits
    assert (hit.id, hit.source) == ("8", str(there))
    assert verify_index(tmp_path / "there.index").changed_sources == ()


def test_an_update_knows_its_set_by_its_address(memory: Address, tmp_path: Path) -> None:
    features = feature_set(memory / "toy.features")
    build_index(features, tmp_path / "toy.index", options=BuildOptions(evaluate=False))
    report = update_index(tmp_path / "toy.index", features)
    assert (report.added, report.removed, report.kept) == (0, 0, COUNT)
    assert [source.path for source in report.settings.sources] == [str(features)]


def test_a_set_that_changed_is_told_by_verification_and_a_search_needs_no_network(
    bucket: Address, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = feature_set(bucket / "toy.features")
    build_index(features, tmp_path / "toy.index", options=BuildOptions(evaluate=False))
    feature_set(features, seed=1)
    assert verify_index(tmp_path / "toy.index").changed_sources == (str(features),)
    s3.forget()
    index = Index(tmp_path / "toy.index", encoder=Stand(clustered(COUNT)))
    index.check_sources()
    assert s3.count() == 0
    monkeypatch.setenv("BERTFEAT_STORAGE_TIMEOUT", "0.2")
    with s3.harmed(Faults(down=True)):
        assert verify_index(tmp_path / "toy.index").changed_sources == ()  # as of a disk that is not there
    for file in list_files(features):
        remove_stored(features / file.name)
    assert verify_index(tmp_path / "toy.index").changed_sources == ()


# ── at addresses ────────────────────────────────────────────────────────────────────────────────────────────


def test_an_index_at_an_address_answers_as_the_local_one(address: Address, tmp_path: Path, cache: Path) -> None:
    folder = local_index(tmp_path, "toy")
    there = upload(folder, address / "toy.index")
    stand = Stand(clustered(COUNT))
    ours, theirs = Index(str(there), encoder=stand), Index(folder, encoder=stand)
    assert ours.vectors.folder == there
    assert ours.settings == theirs.settings
    assert [hit.id for hit in ours.search("7", 5).hits] == [hit.id for hit in theirs.search("7", 5).hits]
    report = verify_index(there)
    assert (report.files, report.bytes) == (verify_index(folder).files, verify_index(folder).bytes)
    assert measure_recall(str(there)).recall == measure_recall(folder).recall
    (copy,) = copies(cache)
    assert files_of(copy) == {name: data for name, data in files_of(folder).items() if name != ".bertfeat/kind"}


def test_it_is_downloaded_once_as_long_as_it_stays(bucket: Address, s3: S3Server, tmp_path: Path, cache: Path) -> None:
    there = upload(local_index(tmp_path, "old"), bucket / "toy.index")
    VectorIndex(there)
    s3.forget()
    first = VectorIndex(there)
    assert [request.kind for request in s3.requests] == ["get"]
    (copy,) = copies(cache)
    before = first.reconstruct(np.arange(COUNT))
    (version_of(copy) / "index.faiss").unlink()
    VectorIndex(there)
    assert copies(cache) == [copy]
    upload(local_index(tmp_path, "new", seed=1), there)
    (cache / copy.parent.name / ".killed.tmp").mkdir()
    changed = VectorIndex(there).reconstruct(np.arange(COUNT))
    (other,) = copies(cache)
    assert other != copy
    assert not np.array_equal(changed, before)
    assert np.array_equal(first.reconstruct(np.arange(COUNT)), before)  # its files are open


def test_an_index_that_is_replaced_meanwhile_is_downloaded_again(
    memory: Address, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = upload(local_index(tmp_path, "old"), memory / "toy.index")
    new = local_index(tmp_path, "new", seed=1)
    fetch = index_copy._fetch_file
    disturbed: list[Address] = []

    def fetch_and_disturb(place: Address, path: Path) -> None:
        fetch(place, path)
        if not disturbed:
            disturbed.append(upload(new, there))

    monkeypatch.setattr(index_copy, "_fetch_file", fetch_and_disturb)
    assert np.array_equal(
        VectorIndex(there).reconstruct(np.arange(COUNT)), VectorIndex(new).reconstruct(np.arange(COUNT))
    )
    assert len(copies(cache)) == 1


def test_without_a_cache_the_copy_lasts_as_long_as_the_process(memory: Address, tmp_path: Path) -> None:
    there = upload(local_index(tmp_path, "toy"), memory / "toy.index")  # BERTFEAT_CACHE is empty in tests
    assert len(VectorIndex(there)) == COUNT
    assert len(VectorIndex(there)) == COUNT


@pytest.mark.slow
def test_an_address_without_an_index_and_storage_that_is_down(
    bucket: Address, s3: S3Server, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(IndexFolderError, match=re.escape(f"{bucket}/nothing: this is no index")):
        Index(bucket / "nothing")
    there = upload(local_index(tmp_path, "toy"), bucket / "toy.index")
    monkeypatch.setenv("BERTFEAT_STORAGE_TIMEOUT", "0.2")
    with s3.harmed(Faults(down=True, names="faiss")), pytest.raises(StorageError, match=r"index\.faiss"):
        Index(there)
    assert copies(cache) == []
    VectorIndex(there)
    assert len(copies(cache)) == 1


# ── built and changed at addresses ──────────────────────────────────────────────────────────────────────────


def current_files_at(place: Address) -> dict[str, bytes]:
    version = place / read_index_settings(place).version
    return {file.name: read_file(version / file.name) for file in list_files(version)}


def names_at(place: Address) -> list[str]:
    return [file.name for file in list_files(place)]


@pytest.mark.sampled(1)
def test_an_index_is_built_and_changed_at_an_address_as_in_a_folder(
    address: Address, tmp_path: Path, cache: Path
) -> None:
    old, new = feature_set(tmp_path / "old.features"), tmp_path / "new.features"
    vector_set(new, clustered(5, seed=3), ids=["2", "a", "b", "c", "d"], kept={KeptColumn("year", "int64"): [1] * 5})
    here, there = tmp_path / "here.index", address / "there.index"
    updates: tuple[Callable[[Location], IndexSettings], ...] = (
        lambda place: build_index(old, place, options=BuildOptions(evaluate=False)),
        lambda place: update_index(place, new).settings,
        lambda place: remove_documents(place, ["1", "a"]).settings,
    )
    for update in updates:
        before = VectorIndex(there) if names_at(there) else None
        found = None if before is None else before.reconstruct(np.arange(before.settings.count))
        theirs, ours = update(there), update(here)
        unalike: dict[str, Any] = {"seconds": {}, "version": "", "made": 0}  # which the clock says
        assert replace(theirs, **unalike) == replace(ours, **unalike)
        renamed = {name: name.replace(theirs.version, ours.version) for name in names_at(there)}
        assert sorted(renamed.values()) == sorted(files_of(here).keys() - {".bertfeat/lock"})
        assert {renamed[name]: read_file(there / name) for name in names_at(there) if name != RECORD} == {
            name: data for name, data in files_of(here).items() if name != RECORD
        }
        if before is not None and found is not None:  # who has the old one open goes on with it
            assert np.array_equal(before.reconstruct(np.arange(before.settings.count)), found)
        verify_index(there)
        assert len(copies(cache)) == 1
    assert ids_of(there) == {str(row + 1) for row in range(1, COUNT)} | {"b", "c", "d"}


def test_what_was_built_is_not_downloaded_again(bucket: Address, s3: S3Server, tmp_path: Path, cache: Path) -> None:
    there = bucket / "toy.index"
    build_index(feature_set(tmp_path / "toy.features"), there, options=BuildOptions(evaluate=False))
    s3.forget()
    assert len(VectorIndex(there)) == COUNT
    assert [request.kind for request in s3.requests] == ["get"]
    (copy,) = copies(cache)
    assert current_files_at(there) == current_files(copy)


def test_a_failed_build_leaves_the_old_index_at_its_address(memory: Address, tmp_path: Path, cache: Path) -> None:
    there = upload(local_index(tmp_path, "old"), memory / "toy.index")
    before = {file.name: file.stamp for file in list_files(there)}
    wrong = clustered(COUNT, seed=1)
    wrong[7, 3] = np.nan
    with pytest.raises(IndexFolderError, match="is not finite"):
        build_index(vector_set(tmp_path / "wrong.features", wrong), there, overwrite=True)
    assert {file.name: file.stamp for file in list_files(there)} == before
    with pytest.raises(IndexFolderError, match="is not finite"):
        build_index(tmp_path / "wrong.features", memory / "first.index")
    assert names_at(memory / "first.index") == [".bertfeat/kind"]  # others may have claimed it meanwhile
    assert list(cache.glob("*.new")) == []


def test_an_address_with_other_things_is_left_alone(memory: Address, tmp_path: Path) -> None:
    features = feature_set(tmp_path / "toy.features")
    put_file(memory / "mine/notes.txt", b"mine")
    with pytest.raises(IndexFolderError, match=r"notes\.txt is no file of an index"):
        build_index(features, memory / "mine")
    with pytest.raises(IndexFolderError, match="holds a feature set, no index"):
        build_index(features, upload(features, memory / "toy.features"))
    with pytest.raises(IndexFolderError, match="this is no index"):
        update_index(memory / "nothing", features)
    assert names_at(memory / "mine") == ["notes.txt"]
    there = upload(local_index(tmp_path, "old"), memory / "toy.index")
    put_file(there / "version-1/notes.txt", b"mine")
    with pytest.raises(IndexFolderError, match=r"version-1/notes\.txt is no file of an index"):
        build_index(features, there)


@pytest.mark.slow
def test_two_at_once_at_an_address(bucket: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTFEAT_LEASE", "0.6")
    features = feature_set(tmp_path / "toy.features")
    there = bucket / "toy.index"

    def second(progress: StepProgress) -> None:
        if progress.step == "write" and not progress.done:
            with pytest.raises(FolderLockedError, match="another run is at work on it"):
                update_index(there, features)

    build_index(features, there, options=BuildOptions(evaluate=False))
    build_index(features, there, options=BuildOptions(evaluate=False), progress=second)
    assert ids_of(there) == {str(row + 1) for row in range(COUNT)}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("last", ["build", "append"])
@pytest.mark.parametrize("noticed", [True, False])
def test_a_run_that_was_stopped_for_longer_than_its_lease_harms_nothing(
    last: str, noticed: bool, bucket: Address, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one, on another machine, took the lock, and began or finished a version of its own meanwhile."""
    if noticed:
        monkeypatch.setenv("BERTFEAT_LEASE", "0.3")
    there, other = bucket / "toy.index", feature_set(tmp_path / "other.features", seed=5)
    build_index(feature_set(tmp_path / "old.features"), there, options=BuildOptions(evaluate=False))
    vector_set(
        tmp_path / "new.features", clustered(5, seed=3), ids=list("abcde"), kept={KeptColumn("year", "int64"): [1] * 5}
    )
    begun: list[Address] = []

    def meanwhile(progress: StepProgress) -> None:
        if progress.done != progress.total or begun:
            return
        remove_stored(there / ".bertfeat/lock")
        with monkeypatch.context() as elsewhere:
            elsewhere.setenv("BERTFEAT_CACHE", str(tmp_path / "elsewhere"))
            build_index(other, there, options=BuildOptions(evaluate=False), overwrite=True)
        begun.append(there)
        if noticed:
            put_file(there / "version-999/index.faiss", b"of a third run, which is at work now")
            time.sleep(0.4)

    late: Callable[[], object] = {
        "build": lambda: build_index(tmp_path / "old.features", there, progress=meanwhile),
        "append": lambda: update_index(there, tmp_path / "new.features", progress=meanwhile),
    }[last]
    with pytest.raises(FolderLockedError, match="was taken over" if noticed else "another run replaced the index"):
        late()
    assert begun
    versions = {name.partition("/")[0] for name in names_at(there)} - {".bertfeat"}
    assert versions == {read_index_settings(there).version, *(["version-999"] if noticed else [])}
    verify_index(there)
    found = VectorIndex(there).reconstruct(np.arange(COUNT))
    np.testing.assert_allclose(found, unit_vectors(clustered(COUNT, seed=5)), atol=1e-6)


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("steps_killed", ["record", pytest.param("all", marks=pytest.mark.slow)])
def test_killed_at_a_step_the_old_index_or_the_new_one_is_at_the_address(
    steps_killed: str, bucket: Address, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features, there = feature_set(tmp_path / "old.features"), bucket / "toy.index"
    vector_set(
        tmp_path / "new.features", clustered(5, seed=3), ids=list("abcde"), kept={KeptColumn("year", "int64"): [1] * 5}
    )
    build_index(features, there, options=BuildOptions(evaluate=False))
    whole = {name: read_file(there / name) for name in names_at(there)}
    reader, old = VectorIndex(there), ids_of(there)
    vectors = reader.reconstruct(np.arange(COUNT))
    command = ["index", str(tmp_path / "new.features"), "-o", str(there), "--update", "--quiet"]
    options: dict[str, Any] = {
        "folders": [STORED],
        "prepare": "tests.support.s3_server:announce_stored_files",
        "environment": {"BERTFEAT_LEASE": "60"},
    }
    events = steps(command, **options)
    done, new = names_at(there), ids_of(there)
    assert new == old | set("abcde")
    record = [number for number, event in enumerate(events, 1) if event.endswith(RECORD)]
    assert len(record) == 2
    monkeypatch.setenv("BERTFEAT_LEASE", "0.3")  # of the run after the killed one
    for step in record if steps_killed == "record" else range(1, len(events) + 1):
        for name in {*names_at(there)} - {*whole}:
            remove_stored(there / name)
        for name, data in whole.items():
            put_file(there / name, data)
        with start(command, stop=Stop(step, signal.SIGKILL), **options) as run:
            assert run.wait().exit_code == -signal.SIGKILL
        found = ids_of(there)
        assert found == (new if step > record[0] else old), events[step - 1]
        verify_index(there)
        update_index(there, tmp_path / "new.features")
        assert ids_of(there) == new
        assert len(names_at(there)) == len(done)  # no file of a version before
        assert len({name.partition("/")[0] for name in names_at(there)}) == 2
        assert len(copies(cache)) == 1
        assert list(cache.glob("*.new")) == []
    assert np.array_equal(reader.reconstruct(np.arange(COUNT)), vectors)

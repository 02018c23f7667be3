"""Indexes of feature sets at addresses, and indexes that are at addresses themselves."""

import re
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from bertfeat.corpus import KeptColumn
from bertfeat.errors import IndexFolderError, StorageError, UsageError
from bertfeat.io import Address, Place, list_files, put_file, read_file, remove_stored
from bertfeat.search import (
    BuildOptions,
    Index,
    VectorIndex,
    append_features,
    build_index,
    index_copy,
    measure_recall,
    remove_documents,
    verify_index,
)
from bertfeat.search.source_sets import unchanged_sources
from tests.search.test_index import Stand
from tests.support.index_toy import RECORD, clustered, files_of, vector_set, version_of
from tests.support.s3_server import Faults, S3Server

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
    assert [number for number, _ in unchanged_sources(index.settings)] == [0]


def test_an_update_knows_its_set_by_its_address(memory: Address, tmp_path: Path) -> None:
    features = feature_set(memory / "toy.features")
    build_index(features, tmp_path / "toy.index", options=BuildOptions(evaluate=False))
    report = append_features(tmp_path / "toy.index", features)
    assert (report.added, report.removed) == (COUNT, COUNT)
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


def test_an_index_is_built_and_changed_on_this_machine(memory: Address, tmp_path: Path) -> None:
    features = feature_set(tmp_path / "toy.features")
    there = upload(local_index(tmp_path, "old"), memory / "toy.index")
    before = {file.name: file.stamp for file in list_files(there)}
    for use in (
        lambda: build_index(features, there),
        lambda: append_features(str(there), features),
        lambda: remove_documents(there, ["1"]),
    ):
        with pytest.raises(UsageError, match="built and changed on this machine only; build or change it in a folder"):
            use()
    assert {file.name: file.stamp for file in list_files(there)} == before

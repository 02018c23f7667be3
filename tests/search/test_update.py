"""Appending, replacing and removing, held against an index built anew over the same vectors."""

import time
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bertfeat.core.corpus import KeptColumn, Value
from bertfeat.errors import IndexFolderError, UsageError
from bertfeat.search import (
    BuildOptions,
    Metric,
    VectorIndex,
    build_index,
    remove_documents,
    update_index,
)
from bertfeat.search.building import feature_source
from bertfeat.search.settings import SourceSet
from tests.support.features_toy import toy_part, toy_set
from tests.support.index_toy import RECORD, clustered, neighbors, vector_set

KINDS = ("flat", "ivf", "sq8", "hnsw", "IVF8,PQ4np", "disk")
REMOVES = ("flat", "ivf", "sq8", "IVF8,PQ4np")


def made(folder: Path, vectors: NDArray[np.float32], kind: str = "flat", metric: str = "cosine") -> Path:
    vector_set(folder / "toy.features", vectors)
    options = BuildOptions(type=kind, metric=Metric(metric), evaluate=False)
    if kind == "disk":
        options = BuildOptions(type="ivf", metric=Metric(metric), evaluate=False, memory=10_000)
    build_index(folder / "toy.features", folder / "toy.index", options=options)
    return folder / "toy.index"


def ids(index: VectorIndex, numbers: NDArray[np.int64]) -> list[list[str]]:
    return [index.documents.take(row)["id"].to_pylist() for row in numbers]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
def test_removed_documents_are_not_found(kind: str, tmp_path: Path) -> None:
    vectors = clustered(600)
    folder = made(tmp_path, vectors, kind)
    removed = [str(row + 1) for row in range(0, 600, 3)]
    done = remove_documents(folder, [*removed, "nobody"])
    assert (done.removed, done.unknown) == (200, ("nobody",))
    index = VectorIndex(folder)
    assert len(index) == 400
    assert index.settings.tombstones == (0 if kind in REMOVES else 200)
    found = index.search(vectors, 400, exact=True)
    stay = np.setdiff1d(np.arange(600), np.arange(0, 600, 3))
    assert {each for row in ids(index, found.numbers[:5]) for each in row} == {str(row + 1) for row in stay}
    if kind in ("flat", "ivf", "hnsw", "disk"):
        scores, _ = neighbors(vectors[stay], vectors, "cosine")
        np.testing.assert_allclose(found.scores, scores, atol=1e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
def test_appended_documents_replace_those_of_the_same_id(kind: str, tmp_path: Path) -> None:
    vectors, new = clustered(600), clustered(200, seed=5)
    folder = made(tmp_path, vectors, kind)
    names = [str(row + 1) for row in range(550, 750)]  # the first 50 are in the index
    vector_set(tmp_path / "new.features", new, ids=names)
    done = update_index(folder, [tmp_path / "new.features"])
    assert (done.added, done.removed) == (200, 50)
    index = VectorIndex(folder)
    assert len(index) == 750
    whole = np.concatenate([vectors[:550], new])
    found = index.search(whole, 1, exact=True)
    if kind in ("flat", "ivf", "hnsw", "disk"):
        assert ids(index, found.numbers) == [[str(row + 1)] for row in range(750)]
        scores, _ = neighbors(whole, whole[::7], "cosine")
        np.testing.assert_allclose(index.search(whole[::7], 20, exact=True).scores, scores[:, :20], atol=1e-5)
    assert index.documents.take(found.numbers[600:, 0])["_source"].to_pylist()[-1] == 1
    assert [source.documents for source in index.settings.sources] == [600, 200]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", KINDS)
def test_many_updates_one_after_the_other(kind: str, tmp_path: Path) -> None:
    """Numbers of inverted lists must stay those of the stores through removals and additions."""
    vectors = clustered(300)
    folder = made(tmp_path, vectors, kind)
    living = {str(row + 1): vectors[row] for row in range(300)}
    random = np.random.default_rng(1)
    for step in range(4):
        gone = random.choice(sorted(living), 40, replace=False).tolist()
        remove_documents(folder, gone)
        for name in gone:
            del living[name]
        fresh = clustered(30, seed=10 + step)
        names = [f"new {step} {row}" for row in range(20)] + sorted(living)[:10]
        vector_set(tmp_path / f"{step}.features", fresh, ids=names)
        update_index(folder, [tmp_path / f"{step}.features"])
        living |= dict(zip(names, fresh, strict=True))
    index = VectorIndex(folder)
    assert len(index) == len(living)
    matrix = np.stack(list(living.values()))
    found = index.search(matrix, 1, exact=True)
    if kind in ("flat", "ivf", "hnsw", "disk"):
        assert ids(index, found.numbers) == [[name] for name in living]
        np.testing.assert_allclose(found.scores, 1, atol=1e-5)


def test_zero_vectors_are_counted_through_updates(tmp_path: Path) -> None:
    vectors = clustered(100)
    vectors[[3, 50]] = 0
    folder = made(tmp_path, vectors)
    assert remove_documents(folder, ["4", "9"]).settings.zero_vectors == 1
    vector_set(tmp_path / "new.features", np.zeros((2, 16), np.float32), ids=["a", "b"])
    assert update_index(folder, [tmp_path / "new.features"]).settings.zero_vectors == 3


def test_everything_removed(tmp_path: Path) -> None:
    for kind in ("flat", "hnsw"):
        folder = made(tmp_path / kind, clustered(20), kind)
        remove_documents(folder, [str(row + 1) for row in range(20)])
        index = VectorIndex(folder)
        assert len(index) == 0
        assert index.search(clustered(2), 5).numbers.shape == (2, 0)


def test_nothing_to_remove_changes_nothing(tmp_path: Path) -> None:
    folder = made(tmp_path, clustered(20))
    before = (folder / RECORD).stat().st_mtime_ns
    assert remove_documents(folder, ["nobody"]).removed == 0
    assert (folder / RECORD).stat().st_mtime_ns == before


def test_features_of_another_model_are_refused(tmp_path: Path) -> None:
    folder = made(tmp_path, clustered(20))
    vector_set(tmp_path / "other.features", clustered(20), fingerprint="e" * 64)
    with pytest.raises(IndexFolderError, match=r"cannot be in .* different models"):
        update_index(folder, [tmp_path / "other.features"])


def test_words_are_removed_with_their_documents(tmp_path: Path) -> None:
    toy = toy_part(poolings=("word",))
    toy_set(tmp_path / "toy.features", toy)
    build_index(tmp_path / "toy.features", tmp_path / "toy.index")
    words = sum(sum(word != "🙂" for word in document.words) for document in toy.documents)
    assert len(VectorIndex(tmp_path / "toy.index")) == words
    remove_documents(tmp_path / "toy.index", ["1"])
    index = VectorIndex(tmp_path / "toy.index")
    assert len(index) == words - 5
    assert index.pieces is not None
    assert index.pieces.numbers("document").max() == index.settings.documents - 1
    texts = index.documents.take(index.pieces.numbers("document"))["text"].to_pylist()
    places = zip(texts, index.pieces.numbers("start"), index.pieces.numbers("end"), strict=True)
    found = [text[start:end] for text, start, end in places]
    assert found == [word for document in toy.documents[1:] for word in document.words if word != "🙂"]


@pytest.mark.slow
def test_time_grows_with_the_number_of_kept_columns_and_not_its_square(tmp_path: Path) -> None:
    times = {}
    for count in (500, 4000):
        kept: dict[KeptColumn, list[Value]] = {KeptColumn(f"c{at}", "int64"): [at] * 4 for at in range(count)}
        folder = vector_set(tmp_path / f"{count}.features", clustered(4), kept=kept, parts=1)
        begin = time.process_time()
        build_index(folder, tmp_path / f"{count}.index", options=BuildOptions(evaluate=False))
        update_index(tmp_path / f"{count}.index", [folder])
        remove_documents(tmp_path / f"{count}.index", ["2"])
        times[count] = time.process_time() - begin
    assert times[4000] < 25 * times[500]  # 8 times as many; it was 60 times as long


def test_a_kept_column_with_the_name_of_the_stores_own(tmp_path: Path) -> None:
    kept: dict[KeptColumn, list[Value]] = {KeptColumn("_source", "string"): ["x"] * 5}
    vector_set(tmp_path / "toy.features", clustered(5), kept=kept)
    with pytest.raises(IndexFolderError, match="it keeps a column '_source', and an index has one of that name"):
        build_index(tmp_path / "toy.features", tmp_path / "toy.index")


@pytest.mark.slow
def test_more_sets_than_two_bytes_can_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made(tmp_path, clustered(20))
    many = tuple(SourceSet(f"/nowhere/{number}", 1, "") for number in range(40_000))
    real = feature_source.merge_sources
    monkeypatch.setattr(
        "bertfeat.search.building.update.merge_sources", lambda known, sets: real([*known, *many], sets)
    )
    vector_set(tmp_path / "new.features", clustered(3), ids=["a", "b", "c"])
    update_index(folder, [tmp_path / "new.features"])
    assert VectorIndex(folder).documents.numbers("_source").tolist()[-3:] == [40_001] * 3


def test_an_empty_index_says_so(tmp_path: Path) -> None:
    folder = made(tmp_path, clustered(20))
    remove_documents(folder, [str(row + 1) for row in range(20)])
    with pytest.raises(IndexFolderError, match=r"toy\.index: the index is empty: all its documents were removed"):
        VectorIndex(folder).search(clustered(1), 0)


def test_what_is_there_already_changes_nothing(tmp_path: Path) -> None:
    folder = made(tmp_path, clustered(20))
    before = (folder / RECORD).read_bytes()
    for done in (update_index(folder, [tmp_path / "toy.features"]), update_index(folder)):
        assert (done.added, done.removed, done.kept, len(VectorIndex(folder))) == (0, 0, 20, 20)
    assert (folder / RECORD).read_bytes() == before
    assert remove_documents(folder, ["1", "1", "2"]).removed == 2
    assert remove_documents(folder, ["1", "2"]).unknown == ("1", "2")
    found = VectorIndex(folder).search(clustered(20)[2:], 1).numbers[:, 0]
    assert found.tolist() == list(range(18))


def test_numbers_of_records_replace_no_other_documents(tmp_path: Path) -> None:
    for name in ("a", "b"):
        vector_set(tmp_path / f"{name}.features", clustered(6))
    build_index(tmp_path / "a.features", tmp_path / "toy.index")
    before = (tmp_path / "toy.index" / RECORD).read_bytes()
    told = r"b\.features: its ids are the numbers of its records, and those of 6 other documents in the index; extract"
    with pytest.raises(IndexFolderError, match=told):
        update_index(tmp_path / "toy.index", tmp_path / "b.features")
    assert (tmp_path / "toy.index" / RECORD).read_bytes() == before
    vector_set(tmp_path / "own.features", clustered(6), ids=[*"uvwxyz"])
    assert update_index(tmp_path / "toy.index", tmp_path / "own.features").removed == 0
    vector_set(tmp_path / "a.features", clustered(8))  # the corpus has grown
    done = update_index(tmp_path / "toy.index", tmp_path / "a.features")
    assert len(VectorIndex(tmp_path / "toy.index")) == 8 + 6 == done.kept + done.added


def test_what_is_new_and_what_is_gone_are_one_version(tmp_path: Path) -> None:
    folder = made(tmp_path, clustered(20))
    vector_set(tmp_path / "new.features", clustered(6, seed=3), ids=["3", "4", "a", "b", "c", "d"])
    done = update_index(folder, tmp_path / "new.features", remove=["1", "2", "3", "a", "nobody"])
    assert (done.added, done.removed, done.unknown) == (4, 4, ("nobody",))
    assert (done.settings.updates, len(VectorIndex(folder))) == (1, 20)
    found = VectorIndex(folder).documents.take(np.arange(20))["id"].to_pylist()
    assert found == [*map(str, range(5, 21)), "4", "b", "c", "d"]


# ── one id in several sets ──────────────────────────────────────────────────────────────────────────────────

IDS = {"base": [*"abcdefgh"], "delta": [*"xbhy"], "last": [*"yzb"]}
LIVING = [*"acdefg", *"xh", *"yzb"]


def overlapping(folder: Path) -> list[Path]:
    """Three feature sets, of which later ones have documents of earlier ones anew."""
    for seed, (name, given) in enumerate(IDS.items()):
        vector_set(folder / f"{name}.features", clustered(len(given), seed=seed), ids=given)
    return [folder / f"{name}.features" for name in IDS]


def test_a_build_takes_the_last_document_of_an_id(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As if the sets were appended one after the other."""
    sets = overlapping(tmp_path)
    settings = build_index(sets, tmp_path / "built.index")
    build_index(sets[0], tmp_path / "grown.index")
    assert [update_index(tmp_path / "grown.index", one).removed for one in sets[1:]] == [2, 2]
    built, grown = VectorIndex(tmp_path / "built.index"), VectorIndex(tmp_path / "grown.index")
    numbers = np.arange(len(LIVING))
    assert built.documents.take(numbers)["id"].to_pylist() == grown.documents.take(numbers)["id"].to_pylist() == LIVING
    assert (settings.documents, settings.count) == (len(LIVING), len(LIVING))
    whole = np.concatenate([clustered(len(given), seed=seed) for seed, given in enumerate(IDS.values())])
    of_last = dict(zip("".join(map("".join, IDS.values())), whole, strict=True))
    scores, _ = neighbors(np.stack([of_last[name] for name in LIVING]), whole, "cosine")
    for index in (built, grown):
        np.testing.assert_allclose(index.search(whole, len(LIVING)).scores, scores, atol=1e-5)
    assert [message.split(": ", 1)[1] for message in caplog.messages] == [
        "left out 2 documents whose ids a later set has, too"
    ] * 2


def test_sets_that_are_appended_together_too(tmp_path: Path) -> None:
    base, *others = overlapping(tmp_path)
    build_index(base, tmp_path / "toy.index")
    done = update_index(tmp_path / "toy.index", others)
    assert (done.added, done.removed) == (5, 2)
    found = VectorIndex(tmp_path / "toy.index").documents.take(np.arange(len(LIVING)))["id"].to_pylist()
    assert found == LIVING


def test_numbers_of_records_are_documents_of_their_own(tmp_path: Path) -> None:
    for name in ("a", "b"):
        vector_set(tmp_path / f"{name}.features", clustered(6))
    vector_set(tmp_path / "own.features", clustered(2), ids=["3", "9"])
    assert build_index([tmp_path / "a.features", tmp_path / "b.features"], tmp_path / "two.index").documents == 12
    sets = [tmp_path / f"{name}.features" for name in ("a", "own", "b")]
    assert build_index(sets, tmp_path / "three.index").documents == 13


def test_no_set_at_all(tmp_path: Path) -> None:
    folder = made(tmp_path, clustered(9))
    with pytest.raises(UsageError, match="name at least one feature set, or none for all that the index records"):
        update_index(folder, [])

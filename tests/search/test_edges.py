"""Inputs at the edges: zero vectors, duplicates, one vector, too few of them, vectors that are no numbers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bertfeat.errors import IndexFolderError, NotDerivableError, UsageError
from bertfeat.search import BuildOptions, IndexSettings, Metric, VectorIndex, build_index
from tests.support.index_toy import clustered, neighbors, vector_set, version_of

TYPES = ("flat", "hnsw", "ivf", "sq8")


def built(
    folder: Path, vectors: NDArray[np.float32], kind: str = "auto", metric: str = "cosine", **options: Any
) -> VectorIndex:
    vector_set(folder / "toy.features", vectors, parts=1)
    chosen = BuildOptions(type=kind, metric=Metric(metric), **options)
    build_index(folder / "toy.features", folder / "toy.index", options=chosen)
    return VectorIndex(folder / "toy.index")


@pytest.mark.parametrize("kind", TYPES)
def test_zero_vectors_score_zero_under_cosine_and_are_counted(kind: str, tmp_path: Path) -> None:
    vectors = clustered(300)
    vectors[[5, 17]] = 0
    index = built(tmp_path, vectors, kind)
    assert index.settings.zero_vectors == 2
    if kind == "sq8":
        return  # quantized zeros are not quite zero
    found = index.search(vectors[:20], 300, exact=True)
    assert (found.scores[np.isin(found.numbers, [5, 17])] == 0).all()
    assert (found.scores[[5, 17]] == 0).all()


@pytest.mark.parametrize("metric", ["cosine", "ip", "l2"])
@pytest.mark.parametrize("kind", TYPES)
def test_one_vector(kind: str, metric: str, tmp_path: Path) -> None:
    index = built(tmp_path, clustered(1), kind, metric)
    found = index.search(clustered(3, seed=1), 5)
    assert found.numbers.tolist() == [[0], [0], [0]]
    assert index.settings.evaluation is None


@pytest.mark.sampled(8)
@pytest.mark.parametrize("count", [2, 3, 11, 40, 99])
@pytest.mark.parametrize("kind", TYPES)
def test_few_vectors(kind: str, count: int, tmp_path: Path) -> None:
    vectors = clustered(count)
    index = built(tmp_path, vectors, kind)
    found = index.search(vectors, 10, exact=True)
    scores, _ = neighbors(vectors, vectors, "cosine")
    np.testing.assert_allclose(found.scores, scores[:, :10], atol=0.02 if kind == "sq8" else 1e-5)
    assert index.settings.evaluation is not None


@pytest.mark.parametrize("kind", TYPES)
def test_duplicates_are_all_found(kind: str, tmp_path: Path) -> None:
    vectors = np.repeat(clustered(30), 10, axis=0)
    index = built(tmp_path, vectors, kind)
    found = index.search(vectors[::10], 10, exact=True)
    assert [sorted(row) for row in found.numbers.tolist()] == [list(range(n, n + 10)) for n in range(0, 300, 10)]
    evaluation = index.settings.evaluation
    assert evaluation is not None
    assert evaluation.recall["10"] > 0.9  # of equals any will do


def test_all_vectors_equal(tmp_path: Path) -> None:
    index = built(tmp_path, np.ones((500, 8), np.float32), "ivf")
    np.testing.assert_allclose(index.search(np.ones((1, 8), np.float32), 20).scores, 1, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "count", "message"),
    [
        pytest.param("IVF500,Flat", 100, "100 vectors cannot be divided into 500 clusters", id="clusters"),
        pytest.param("ivfpq", 100, "cannot be trained on 100 vectors", id="ivfpq"),
        pytest.param("PQ4", 100, "cannot be trained on 100 vectors", id="pq"),
        pytest.param("PQ5", 100, "multiple of the number of subquantizers", id="width"),
        pytest.param("IVF5,Flut", 100, "could not parse", id="unknown"),
        pytest.param("fast", 100, "FAISS cannot make 'fast'", id="word"),
    ],
)
def test_types_that_do_not_fit_are_refused(kind: str, count: int, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        built(tmp_path, clustered(count), kind)
    assert not (tmp_path / "toy.index").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["toy.features"]


def test_no_vectors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to index"):
        built(tmp_path, np.empty((0, 8), np.float32))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
def test_vectors_that_are_not_finite_are_named(bad: float, tmp_path: Path) -> None:
    vectors = clustered(50)
    vectors[31, 3] = bad
    with pytest.raises(IndexFolderError, match="vector 31 is not finite"):
        built(tmp_path, vectors, "ivf", "ip")


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    vector_set(tmp_path / "toy.features", clustered(5))
    with pytest.raises(NotDerivableError, match=r"stored columns .last_mean. do not contain"):
        build_index(tmp_path / "toy.features", tmp_path / "toy.index", "concat4_mean")


def test_a_recall_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"target_recall=1\.5: must be above 0 and at most 1"):
        BuildOptions(target_recall=1.5)


def test_a_wanted_recall_beyond_reach_is_told(tmp_path: Path) -> None:
    index = built(tmp_path, clustered(2000), "IVF16,PQ2np", target_recall=0.99)
    evaluation = index.settings.evaluation
    assert evaluation is not None
    assert evaluation.recall["10"] < evaluation.wanted
    assert index.settings.effort is not None
    assert index.settings.effort.tuned


def test_without_evaluation_the_effort_is_a_guess(tmp_path: Path) -> None:
    settings: IndexSettings = built(tmp_path, clustered(2000), "ivf", evaluate=False).settings
    assert settings.evaluation is None
    assert settings.effort is not None
    assert not settings.effort.tuned


def test_lists_on_disk(tmp_path: Path) -> None:
    vectors = clustered(3000)
    index = built(tmp_path, vectors, "ivf", memory=100_000)
    assert (version_of(tmp_path / "toy.index") / "index.lists").exists()
    (tmp_path / "toy.index").rename(tmp_path / "moved.index")
    moved = VectorIndex(tmp_path / "moved.index")
    scores, _ = neighbors(vectors, vectors[:50], "cosine")
    np.testing.assert_allclose(moved.search(vectors[:50], 10, exact=True).scores, scores[:, :10], atol=1e-5)
    assert (moved.search(vectors[:50], 1).numbers[:, 0] == np.arange(50)).mean() > 0.9
    assert len(index) == 3000


def test_two_sets_in_one_index(tmp_path: Path) -> None:
    vectors = clustered(300)
    first = vector_set(tmp_path / "a.features", vectors[:100])
    second = vector_set(tmp_path / "b.features", vectors[100:])
    build_index([first, second], tmp_path / "toy.index")
    index = VectorIndex(tmp_path / "toy.index")
    found = index.search(vectors, 1)
    assert (found.numbers[:, 0] == np.arange(300)).all()
    assert index.documents.numbers("_source").tolist() == [0] * 100 + [1] * 200
    assert [source.documents for source in index.settings.sources] == [100, 200]


def test_sets_of_different_models_are_refused(tmp_path: Path) -> None:
    first = vector_set(tmp_path / "a.features", clustered(10))
    second = vector_set(tmp_path / "b.features", clustered(10), fingerprint="e" * 64)
    with pytest.raises(IndexFolderError, match=r"b\.features cannot share an index with .*different models"):
        build_index([first, second], tmp_path / "toy.index")


def test_a_metric_is_given_by_its_name_too() -> None:
    assert BuildOptions(metric="l2").metric is Metric.L2  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="metric='dot': must be one of 'cosine', 'ip', 'l2'"):
        BuildOptions(metric="dot")  # type: ignore[arg-type]

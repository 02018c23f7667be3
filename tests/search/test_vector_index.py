"""Every index type under every metric, held against NumPy's brute force."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bertfeat.errors import UsageError
from bertfeat.search import BuildOptions, Metric, VectorIndex, build_index, measure_recall
from tests.search.test_index import Stand
from tests.support.index_toy import clustered, neighbors, vector_set

COUNT, WIDTH, K = 2500, 16, 10
EXACT = ("flat",)
WHOLE_VECTORS = ("flat", "hnsw", "ivf")  # stored unquantized
TYPES = (*WHOLE_VECTORS, "sq8", "ivfpq", "OPQ4,IVF16,SQ8", "IVF16,SQ8,RFlat", "PQ8x4fs,RFlat", "PCA8,Flat")
METRICS = ("cosine", "ip", "l2")


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return vector_set(tmp_path_factory.mktemp("sets") / "toy.features", clustered(COUNT, WIDTH))


@pytest.fixture(scope="module", params=[(kind, metric) for kind in TYPES for metric in METRICS], ids="-".join)
def index(request: pytest.FixtureRequest, features: Path, tmp_path_factory: pytest.TempPathFactory) -> VectorIndex:
    kind, metric = request.param
    folder = tmp_path_factory.mktemp("indexes") / "toy.index"
    options = BuildOptions(type=kind, metric=Metric(metric), target_recall=0.95)
    questions = [str(number) for number in range(len(asked()))]
    build_index(features, folder, options=options, queries=questions, encoder=Stand(asked()))
    return VectorIndex(folder)


def stored() -> NDArray[np.float32]:
    return clustered(COUNT, WIDTH)


def asked() -> NDArray[np.float32]:
    return clustered(300, WIDTH, seed=1)


@cache
def truth(metric: Metric) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The scores of all stored vectors for each that is asked, best first, and whose they are."""
    return neighbors(stored(), asked(), metric)


@pytest.mark.sampled(2)
def test_exact_types_find_what_brute_force_finds(index: VectorIndex) -> None:
    if index.settings.type not in EXACT:
        pytest.skip("not an exact type")
    found = index.search(asked(), K)
    scores, order = truth(index.metric)
    np.testing.assert_allclose(found.scores, scores[:, :K], atol=1e-5, rtol=1e-6)
    assert (found.numbers == order[:, :K]).mean() > 0.999  # but for ties


def test_scores_are_those_of_the_vectors_found(index: VectorIndex) -> None:
    if index.settings.type not in WHOLE_VECTORS:
        pytest.skip("its scores are those of quantized vectors")
    found = index.search(asked(), K)
    scores, order = truth(index.metric)
    back = np.argsort(order, axis=1)
    expected = np.take_along_axis(scores, np.take_along_axis(back, found.numbers, 1), 1)
    np.testing.assert_allclose(found.scores, expected, atol=1e-5, rtol=1e-6)


def test_recall_is_what_the_index_says(index: VectorIndex) -> None:
    judging = asked()[len(asked()) // 2 :]  # the first half tuned
    found = index.search(judging, K)
    order = truth(index.metric)[1][len(asked()) // 2 :]
    hits = [len({*row.tolist()} & {*best[:K].tolist()}) for row, best in zip(found.numbers, order, strict=True)]
    evaluation = index.settings.evaluation
    assert evaluation is not None
    assert (evaluation.of, evaluation.queries, evaluation.own) == ("given", len(judging), None)
    assert np.mean(hits) / K == pytest.approx(evaluation.recall["10"], abs=2e-3)  # of equals any will do
    if index.settings.effort is not None and index.settings.type in WHOLE_VECTORS and index.metric is not Metric.IP:
        assert evaluation.recall["10"] >= 0.94


@pytest.mark.sampled(9)
def test_each_stored_vector_finds_itself(index: VectorIndex) -> None:
    found = index.search(stored(), 1)
    itself = found.numbers[:, 0] == np.arange(COUNT)
    if index.metric is Metric.IP:
        return  # a longer vector in the same direction is rightly nearer
    if index.settings.type in WHOLE_VECTORS:
        assert itself.mean() >= 0.95  # the recall that was asked for
        one = 1.0 if index.metric is Metric.COSINE else 0.0
        np.testing.assert_allclose(found.scores[itself, 0], one, atol=1e-5)
    else:
        assert itself.mean() == pytest.approx(measure_recall(index, disturbed=False).own, abs=0.04)


def test_exact_asks_every_vector(index: VectorIndex) -> None:
    if index.settings.type not in WHOLE_VECTORS:
        pytest.skip("it stores quantized vectors")
    found = index.search(asked(), K, exact=True)
    scores, _ = truth(index.metric)
    np.testing.assert_allclose(found.scores, scores[:, :K], atol=1e-5, rtol=1e-6)


def test_more_hits_than_vectors(index: VectorIndex) -> None:
    found = index.search(asked()[:3], COUNT + 50)
    assert found.numbers.shape == (3, COUNT)
    assert (np.sort(found.numbers, axis=1) == np.arange(COUNT)).all()


def test_one_query_alone_is_answered_as_in_company(index: VectorIndex) -> None:
    together = index.search(asked()[:40], K)
    alone = index.search(asked()[:1], K)
    np.testing.assert_allclose(alone.scores, together.scores[:1], atol=1e-4, rtol=1e-5)


def test_reconstruct(index: VectorIndex) -> None:
    numbers = np.array([7, 0, COUNT - 1, 7])
    found = index.reconstruct(numbers)
    expected = stored()[numbers]
    if index.metric is Metric.COSINE:
        expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    if index.settings.type in WHOLE_VECTORS:
        np.testing.assert_allclose(found, expected, atol=1e-6)
    else:
        assert found.shape == expected.shape
    with pytest.raises(UsageError, match="no vector 2500"):
        index.reconstruct(np.array([COUNT]))
    for wrong in ([1.9], [-1], [True], ["1"], [[1], [2, 3]], [None]):
        with pytest.raises(UsageError, match=r"number|no vector"):
            index.reconstruct(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        pytest.param(np.zeros((2, 3), np.float32), "vectors of 16 values.* n × 16", id="width"),
        pytest.param(np.zeros(WIDTH, np.float32), "n × 16", id="flat"),
        pytest.param(np.full((1, WIDTH), np.nan, np.float32), "query vector 0 is not finite", id="nan"),
        pytest.param(np.full((1, WIDTH), 1j), "whole or real numbers, not complex128", id="complex"),
        pytest.param(np.full((1, WIDTH), "1"), "whole or real numbers, not <U1", id="text"),
    ],
)
def test_queries_that_do_not_fit(index: VectorIndex, queries: NDArray[np.float32], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        index.search(queries, K)


def test_k_below_one(index: VectorIndex) -> None:
    with pytest.raises(UsageError, match="k is 0"):
        index.search(asked(), 0)


def test_plain_faiss_opens_the_file(index: VectorIndex) -> None:
    import faiss  # type: ignore[import-untyped,unused-ignore]

    plain = faiss.read_index(str(index.folder / index.settings.version / "index.faiss"))
    assert (plain.ntotal, plain.d) == (COUNT, WIDTH)
    queries = asked()
    if index.metric is Metric.COSINE:
        faiss.normalize_L2(queries)
    _, numbers = plain.search(queries, 1)
    assert (numbers[:, 0] == index.search(asked(), 1).numbers[:, 0]).mean() > 0.95

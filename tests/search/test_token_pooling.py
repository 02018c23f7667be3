"""Token pooling, held against Ward's linkage written out: each step merges the two clusters that cost the least."""

import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bertfeat.errors import IndexFolderError, MissingLibraryError, UsageError
from bertfeat.search import BuildOptions, Index, MaxSim, build_index, update_index
from bertfeat.search.reranking import token_pooling
from bertfeat.search.reranking.token_pooling import pool_documents
from tests.search.test_rerank import COUNTLESS, QUERIES, Stand, all_documents, stand, tokens_of
from tests.support.features_toy import toy_part, toy_parts, toy_set

__all__ = ("stand",)  # a fixture


def ward(units: NDArray[np.floating], factor: int) -> list[set[int]]:
    """The clusters of tokens, by definition."""
    clusters = [{number} for number in range(len(units))]

    def cost(pair: tuple[set[int], set[int]]) -> float:
        one, other = (units[sorted(cluster)].mean(axis=0) for cluster in pair)
        sizes = [len(cluster) for cluster in pair]
        return float(sizes[0] * sizes[1] / sum(sizes) * ((one - other) ** 2).sum())

    while len(clusters) > -(-len(units) // factor):
        one, other = min(combinations(clusters, 2), key=cost)
        clusters = [each for each in clusters if each not in (one, other)] + [one | other]
    return sorted(clusters, key=min)


def means(units: NDArray[np.floating], factor: int) -> NDArray[np.floating]:
    found = [units[sorted(cluster)].mean(axis=0) for cluster in ward(units.astype(np.float64), factor)]
    return np.array(found).reshape(-1, units.shape[1])


def random_vectors(number: int, seed: int) -> NDArray[np.float32]:
    draw = np.random.default_rng(seed)
    return (draw.standard_normal((number, 12)) * draw.uniform(0.1, 9, (number, 1))).astype(np.float32)


def units_of(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


@pytest.mark.parametrize("factor", [2, 3, 5, 100])
def test_vectors_are_the_means_of_wards_clusters(factor: int) -> None:
    lengths = np.array([0, 1, 2, 3, 7, 0, 16, 5])
    vectors = random_vectors(int(lengths.sum()), factor)
    pooled, new = pool_documents(vectors, lengths, factor)
    assert new.tolist() == [-(-length // factor) for length in lengths.tolist()]
    documents = np.split(vectors, np.cumsum(lengths)[:-1])
    expected = np.concatenate([means(units_of(each), factor) for each in documents])
    np.testing.assert_allclose(pooled, expected, atol=1e-5)


def test_long_texts_are_pooled_run_by_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_pooling, "LONGEST_RUN", 8)
    vectors = random_vectors(20, 3)
    pooled, lengths = pool_documents(vectors, np.array([20]), 2)
    runs = [means(units_of(vectors[start:stop]), 2) for start, stop in ((0, 7), (7, 13), (13, 20))]
    np.testing.assert_allclose(pooled, np.concatenate(runs), atol=1e-5)
    assert lengths.tolist() == [len(pooled)]


def test_vectors_that_are_equal_or_zero() -> None:
    same = np.tile(random_vectors(1, 0), (6, 1))
    pooled, lengths = pool_documents(same, np.array([6]), 2)
    assert 1 <= lengths[0] == len(pooled) <= 3
    np.testing.assert_allclose(pooled, units_of(same)[: len(pooled)], atol=1e-6)
    zeros = np.zeros((4, 12), np.float32)
    assert not pool_documents(zeros, np.array([4]), 2)[0].any()
    with pytest.raises(ValueError, match="not finite"):
        pool_documents(np.full((4, 12), np.nan, np.float32), np.array([4]), 2)
    vectors = random_vectors(4, 1)
    kept, lengths = pool_documents(vectors, np.array([4]), 1)
    assert kept is vectors
    assert lengths.tolist() == [4]


# ── in an index ─────────────────────────────────────────────────────────────────────────────────────────────


def built(folder: Path, stand: Stand, **options: Any) -> Index:
    toy_set(folder / "toy.features", *toy_parts())
    build_options = BuildOptions(evaluate=False, with_tokens="concat4_token", **options)
    build_index(folder / "toy.features", folder / "toy.index", "concat4_mean", options=build_options)
    return Index(folder / "toy.index", encoder=stand)


@pytest.mark.parametrize("factor", [2, 3])
def test_hits_are_scored_by_the_pooled_vectors(factor: int, tmp_path: Path, stand: Stand) -> None:
    index = built(tmp_path, stand, pool_tokens=factor)
    tokens = index.settings.tokens
    assert tokens is not None
    counts = [len(tokens_of(document, "concat4", "token")[0]) for document in all_documents()]
    assert (tokens.pooled, tokens.count) == (factor, sum(-(-count // factor) for count in counts))
    for number in (0, 1, 3, 4):  # document 2 is empty
        _, query = tokens_of(QUERIES.documents[number], "concat4", "token")
        found = {hit.id: hit.maxsim for hit in index.search(str(number), 30, rerank=COUNTLESS).hits}
        for document in all_documents():
            pooled = means(tokens_of(document, "concat4", "token")[1], factor)
            best = (query @ units_of(pooled).T).max(axis=1) if len(pooled) else np.zeros(len(query))
            assert found[document.id] == pytest.approx(best.mean(), abs=0.02)


def test_documents_are_counted_by_their_tokens_all_the_same(tmp_path: Path, stand: Stand) -> None:
    pooled = built(tmp_path / "pooled", stand, pool_tokens=100).vectors.tokens
    whole = built(tmp_path / "whole", stand).vectors.tokens
    assert pooled is not None
    assert whole is not None
    assert pooled.vocabulary.strings == whole.vocabulary.strings
    assert pooled.vocabulary.counts.tolist() == whole.vocabulary.counts.tolist()
    assert pooled.vectors.rows.nbytes < whole.vectors.rows.nbytes
    weighted = Index(tmp_path / "pooled" / "toy.index", encoder=stand).search("0", 3, rerank=MaxSim(idf=True))
    assert len(weighted.hits) == 3


def test_without_scipy_nothing_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand: Stand) -> None:
    index = built(tmp_path / "made", stand, pool_tokens=2)
    more = toy_set(tmp_path / "more.features", toy_part(0, 0, 4, ids="more"))
    monkeypatch.setitem(sys.modules, "scipy.cluster.hierarchy", None)
    monkeypatch.setattr("bertfeat.search.building.build.create_faiss_index", None)  # called only after the check
    with pytest.raises(MissingLibraryError, match=r"pooling of tokens needs SciPy.*bertfeat\[analysis\]"):
        built(tmp_path / "other", stand, pool_tokens=2)
    with pytest.raises(MissingLibraryError, match="SciPy"):
        update_index(index.vectors.folder, more)


def test_wrong_options() -> None:
    with pytest.raises(UsageError, match="with_tokens"):
        BuildOptions(pool_tokens=2)
    for factor in (0, -1, 101):
        with pytest.raises(UsageError, match="pool_tokens"):
            BuildOptions(with_tokens="last_token", pool_tokens=factor)


def test_a_value_that_is_not_finite_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand: Stand) -> None:
    def spoiled(vectors: NDArray[np.float32], lengths: NDArray[np.int64], factor: int) -> Any:
        vectors[0, 0] = np.nan
        return pool_documents(vectors, lengths, factor)

    monkeypatch.setattr("bertfeat.search.building.token_writer.pool_documents", spoiled)
    with pytest.raises(IndexFolderError, match=r"toy\.features: a token has a value that is not finite"):
        built(tmp_path, stand, pool_tokens=2)
    assert not (tmp_path / "toy.index").exists()

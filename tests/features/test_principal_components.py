"""The directions of most variance, against scikit-learn's PCA, and the memory that it takes of wide vectors."""

import tracemalloc

import numpy as np
import pytest
from sklearn.decomposition import PCA

from bertfeat.search import find_principal_components


def falling(rows: int, width: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Vectors away from zero whose variances fall from direction to direction, as those of models do."""
    random = np.random.default_rng(7)
    turned = random.standard_normal((min(rows, width), width)) * np.geomspace(1, 0.01, min(rows, width))[:, None]
    return (random.standard_normal((rows, min(rows, width))) @ turned + 5).astype(np.float32)


@pytest.mark.parametrize(("rows", "width"), [(3, 2), (2, 40), (40, 7), (500, 96), (60, 3000)])
def test_it_is_pca(rows: int, width: int) -> None:
    vectors = falling(rows, width)
    oracle = PCA(2, svd_solver="full").fit(vectors.astype(np.float64))
    plane = find_principal_components(vectors)
    flat, expected = plane.place(vectors), oracle.transform(vectors)
    np.testing.assert_allclose(np.abs(flat), np.abs(expected), atol=2e-3 * np.abs(expected).max())
    np.testing.assert_allclose(plane.shares, oracle.explained_variance_ratio_, atol=1e-4)
    assert (find_principal_components(vectors).directions == plane.directions).all()


def test_more_than_two_components() -> None:
    vectors = falling(500, 96)
    oracle = PCA(20, svd_solver="full").fit(vectors.astype(np.float64))
    found = find_principal_components(vectors, 20)
    expected = oracle.transform(vectors)
    np.testing.assert_allclose(np.abs(found.place(vectors)), np.abs(expected), atol=2e-3 * np.abs(expected).max())
    np.testing.assert_allclose(found.shares, oracle.explained_variance_ratio_, atol=1e-5)
    assert len(find_principal_components(vectors[:3], 20).shares) == 20


@pytest.mark.parametrize("shape", [(0, 5), (1, 5), (1, 1), (6, 1)])
def test_fewer_than_two_directions(shape: tuple[int, int]) -> None:
    vectors = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    plane = find_principal_components(vectors)
    assert plane.directions.shape == (shape[1], 2)
    assert plane.place(vectors).shape == (shape[0], 2)
    assert plane.shares == pytest.approx((1.0, 0.0))
    assert np.isfinite(plane.place(vectors)).all()


def test_wide_vectors_take_no_square_of_their_width() -> None:
    """Twelve layers of 768, concatenated: a covariance in float64 would take 680 MB."""
    vectors = np.random.default_rng(1).standard_normal((300, 9216), np.float32)
    tracemalloc.start()
    find_principal_components(vectors)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * vectors.nbytes + (8 << 20)

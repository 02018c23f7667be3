"""Streamed sums against the whole at once, where that is hard: large means, and equal values among ranks."""

import numpy as np
import pytest
from scipy.stats import rankdata

from bertfeat.search import RunningMean
from bertfeat.study.likeness import CkaSums, average_ranks, find_similarity_structure


@pytest.mark.parametrize("cuts", [[], [1], [5, 6, 30], list(range(1, 50))], ids=len)
def test_deviations_add_up_to_those_from_the_mean_of_all(cuts: list[int]) -> None:
    vectors = np.random.default_rng(0).standard_normal((50, 4)) + np.array([0, 1, 100, 1e7])
    mean, products = RunningMean(), np.zeros((4, 4))
    for chunk in np.split(vectors, cuts):
        deviations = mean.deviations(chunk)
        products += deviations.T @ deviations
    assert mean.count == 50
    assert np.allclose(mean.mean, vectors.mean(0), rtol=1e-15)
    assert np.allclose(products, 49 * np.cov(vectors.T), rtol=1e-7, atol=1e-6)


def test_cka_far_from_the_origin() -> None:
    random = np.random.default_rng(1)
    ours = random.standard_normal((600, 5)).astype(np.float32)
    theirs = (ours[:, :3] + random.standard_normal((600, 3))).astype(np.float32)
    sums, far = CkaSums([5], [3]), CkaSums([5], [3])
    for at in range(0, 600, 70):
        sums.add([ours[at : at + 70]], [theirs[at : at + 70]])
        # in float64, so that the shift itself loses nothing
        far.add([ours[at : at + 70] + np.float64(2**16)], [theirs[at : at + 70] - np.float64(2**16)])
    centerd = [matrix.astype(float) - matrix.mean(0, dtype=float) for matrix in (ours, theirs)]
    grams = [matrix @ matrix.T for matrix in centerd]
    wanted = (grams[0] * grams[1]).sum() / np.sqrt((grams[0] ** 2).sum() * (grams[1] ** 2).sum())
    assert sums.matrix()[0, 0] == pytest.approx(wanted, abs=1e-12)
    assert far.matrix()[0, 0] == pytest.approx(wanted, abs=1e-7)


def test_ranks_of_equal_values() -> None:
    values = np.random.default_rng(2).integers(0, 9, 200).astype(float)
    assert np.array_equal(average_ranks(values), rankdata(values))


def test_equal_vectors_are_ordered_alike() -> None:
    vectors = np.repeat(np.random.default_rng(3).standard_normal((4, 6)), 5, axis=0)
    turned = vectors @ np.linalg.qr(np.random.default_rng(4).standard_normal((6, 6)))[0]
    ours, theirs = (find_similarity_structure(matrix, 2) for matrix in (vectors, turned))
    assert ours.overlap(theirs) == 1.0
    assert ours.correlate(theirs) == pytest.approx(1.0, abs=1e-12)

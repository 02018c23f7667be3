"""Similarity of layers: linear CKA and cosines over all items, and the similarities among the items of a sample.

CKA and cosines are summed in float64 as vectors are streamed.

Shapes: n items; m items of the sample; W width of a layer; V width of all layers of a set side by side.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.search import RunningMean
from bertfeat.study.matched_items import Vectors

Matrix64 = NDArray[np.float64]

_LEAST_SPREAD = 1e-12  # share of the squares up to which spread is float32 rounding: (a millionth of the length)²


class CkaSums:
    """Sums from which the linear CKA of every layer of one set with every layer of another follows.

    Kornblith et al. 2019 (arXiv:1905.00414), section 3: ``‖YᵀX‖² / (‖XᵀX‖ ‖YᵀY‖)`` in Frobenius norms, of centered X
    and Y. The products of the two sets take 8 V₁ V₂ bytes, however many vectors there are.
    """

    def __init__(self, first: Sequence[int], second: Sequence[int]) -> None:
        self._cuts = np.cumsum(second)[:-1]
        self._cross = [np.zeros((width, sum(second))) for width in first]
        self._own = [[np.zeros((width, width)) for width in widths] for widths in (first, second)]
        self._means = [[RunningMean() for _ in widths] for widths in (first, second)]

    def add(self, first: Sequence[NDArray[np.floating]], second: Sequence[NDArray[np.floating]]) -> None:
        """Add the vectors of n items: ``[n, W]`` of each layer."""
        centered = [
            [mean.deviations(chunk) for mean, chunk in zip(means, chunks, strict=True)]
            for means, chunks in zip(self._means, (first, second), strict=True)
        ]
        for sums, matrices in zip(self._own, centered, strict=True):
            for own, matrix in zip(sums, matrices, strict=True):
                own += matrix.T @ matrix
        side_by_side = np.hstack(centered[1])
        for cross, matrix in zip(self._cross, centered[0], strict=True):
            cross += matrix.T @ side_by_side

    def matrix(self) -> Matrix64:
        """The CKA of every pair, ``[layers of the first, layers of the second]``; NaN where a layer does not vary."""
        squares = np.array(
            [[np.sum(block**2) for block in np.split(cross, self._cuts, axis=1)] for cross in self._cross]
        )
        ours, theirs = (
            np.array([_own_norm(own, mean) for own, mean in zip(sums, means, strict=True)])
            for sums, means in zip(self._own, self._means, strict=True)
        )
        return np.minimum(squares / np.outer(ours, theirs), 1.0)  # rounding may put it above 1


def _own_norm(own: Matrix64, mean: RunningMean) -> float:
    """The Frobenius norm of XᵀX; NaN where all vectors are equal but for rounding."""
    spread = np.trace(own)
    constant = spread <= _LEAST_SPREAD * (spread + mean.count * np.sum(np.square(mean.mean)))
    return np.nan if constant else float(np.linalg.norm(own))


class CosineSums:
    """The cosine of each item's vectors in two sets, for every pair of layers of equal width."""

    def __init__(self, first: Sequence[int], second: Sequence[int]) -> None:
        self._comparable = np.equal.outer(first, second)
        self._sums = np.zeros(self._comparable.shape)
        self._least = np.full(self._comparable.shape, np.inf)
        self._count = 0

    def add(self, first: Vectors, second: Vectors) -> None:
        """Add the vectors of n items: ``[n, W]`` of each layer."""
        ours, theirs = ([_unit_rows(matrix) for matrix in matrices] for matrices in (first, second))
        for at, to in np.argwhere(self._comparable):
            cosines = np.einsum("nw,nw->n", ours[at], theirs[to])
            self._sums[at, to] += cosines.sum()
            self._least[at, to] = min(self._least[at, to], cosines.min())
        self._count += len(first[0])

    @property
    def means(self) -> Matrix64:
        """The mean of each pair; NaN where the widths differ."""
        return np.where(self._comparable, self._sums / self._count, np.nan)

    @property
    def least(self) -> Matrix64:
        """The least cosine of each pair; NaN where the widths differ."""
        return np.where(self._comparable, self._least, np.nan)


@dataclass(frozen=True, slots=True)
class SimilarityStructure:
    """The similarities among the items of a sample in one layer."""

    ranks: Matrix64  # [m(m-1)/2] ranks of the cosines of all pairs of items, centered and scaled to length 1
    nearest: NDArray[np.bool_]  # [m, m] whether the second is one of the k nearest of the first

    def correlate(self, other: "SimilarityStructure") -> float:
        """Spearman's correlation of the cosines of both."""
        return float(np.clip(self.ranks @ other.ranks, -1.0, 1.0))

    def overlap(self, other: "SimilarityStructure") -> float:
        """The share of nearest neighbors that both have."""
        return float((self.nearest & other.nearest).sum() / self.nearest.sum())


def find_similarity_structure(vectors: Matrix64, k: int) -> SimilarityStructure:
    """Compare the vectors of a sample, ``[m, W]``, with one another; of equally near ones the first is nearer.

    Where all cosines are equal, ranks are NaN.
    """
    units = _unit_rows(vectors)
    cosines = (units @ units.T).astype(np.float32)  # further digits are rounding, which would order equal texts
    ranks = average_ranks(cosines[np.triu_indices(len(units), 1)])
    ranks -= ranks.mean()
    np.fill_diagonal(cosines, -np.inf)
    order = np.argsort(-cosines, axis=1, kind="stable")
    nearest = np.zeros(cosines.shape, np.bool_)
    np.put_along_axis(nearest, order[:, :k], True, axis=1)
    length = np.linalg.norm(ranks)
    return SimilarityStructure(ranks / (length or np.nan), nearest)


def average_ranks(values: NDArray[np.floating]) -> Matrix64:
    """The rank of each value from 1 on; equal ones share the mean of their ranks. Shape: ``[n]`` → ``[n]``."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Matrix64 = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return ranks


def _unit_rows(matrix: NDArray[np.floating]) -> Matrix64:
    """Rows scaled to length 1, ``[n, W]``; zero vectors stay zero, as in every cosine of bertfeat."""
    exact = matrix.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    units: Matrix64 = exact / np.where(lengths > 0, lengths, 1.0)
    return units

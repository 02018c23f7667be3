"""Linear CKA of layers from sums over their vectors, which are streamed in float64.

Shapes: n vectors of a chunk; W width of a layer; V width of all layers of a set side by side.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Matrix64 = NDArray[np.float64]

_LEAST_SPREAD = 1e-12  # share of the squares that is no rounding of float32: a deviation of a millionth of the length


class RunningMean:
    """The mean of the vectors so far, and deviations whose products add up to those from the mean of all.

    By the pairwise update of Chan, Golub and LeVeque 1983 (The American Statistician 37, eq. 2.1), which is stable
    where the mean is large against the deviations.
    """

    def __init__(self) -> None:
        self.count = 0
        self.mean: Matrix64 | float = 0.0

    def deviations(self, chunk: NDArray[np.floating]) -> Matrix64:
        """Deviations from the chunk's own mean, and a last row for what it differs from the mean of those before.

        Shape: ``[n, W]`` → ``[n+1, W]``. Of two such matrices X and Y, summed over the chunks, XᵀY is what
        deviations from the means of all chunks would give.
        """
        before, self.count = self.count, self.count + len(chunk)
        own = chunk.mean(axis=0, dtype=np.float64)
        shift = own - self.mean
        self.mean = self.mean + shift * (len(chunk) / self.count)
        return np.vstack([chunk - own, shift * np.sqrt(before * len(chunk) / self.count)])


class CkaSums:
    """Sums from which the linear CKA of every layer of one set with every layer of another follows.

    Kornblith et al. 2019 (arXiv:1905.00414), section 3: ``‖YᵀX‖² / (‖XᵀX‖ ‖YᵀY‖)`` in Frobenius norms, of centred X
    and Y. They take 8 V₁ V₂ bytes, however many vectors there are.
    """

    def __init__(self, first: Sequence[int], second: Sequence[int]) -> None:
        self._cuts = np.cumsum(second)[:-1]
        self._cross = [np.zeros((width, sum(second))) for width in first]
        self._own = [[np.zeros((width, width)) for width in widths] for widths in (first, second)]
        self._means = [[RunningMean() for _ in widths] for widths in (first, second)]

    def add(self, first: Sequence[NDArray[np.floating]], second: Sequence[NDArray[np.floating]]) -> None:
        """Add the vectors of n items: ``[n, W]`` of each layer."""
        centred = [
            [mean.deviations(chunk) for mean, chunk in zip(means, chunks, strict=True)]
            for means, chunks in zip(self._means, (first, second), strict=True)
        ]
        for sums, matrices in zip(self._own, centred, strict=True):
            for own, matrix in zip(sums, matrices, strict=True):
                own += matrix.T @ matrix
        beside = np.hstack(centred[1])
        for cross, matrix in zip(self._cross, centred[0], strict=True):
            cross += matrix.T @ beside

    def matrix(self) -> Matrix64:
        """The CKA of every pair, ``[layers of the first, layers of the second]``; NaN where a layer does not vary."""
        squares = np.array(
            [[np.sum(block**2) for block in np.split(cross, self._cuts, axis=1)] for cross in self._cross]
        )
        ours, theirs = (
            np.array([_own_norm(own, mean) for own, mean in zip(sums, means, strict=True)])
            for sums, means in zip(self._own, self._means, strict=True)
        )
        return np.minimum(squares / np.outer(ours, theirs), 1.0)  # by rounding it may be above


def _own_norm(own: Matrix64, mean: RunningMean) -> float:
    """The Frobenius norm of XᵀX; NaN where all vectors are equal but for rounding."""
    spread = np.trace(own)
    constant = spread <= _LEAST_SPREAD * (spread + mean.count * np.sum(np.square(mean.mean)))
    return np.nan if constant else float(np.linalg.norm(own))

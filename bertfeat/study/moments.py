"""Linear CKA of layers from sums over their vectors, which are streamed in float64.

Shapes: n vectors of a chunk; W width of a layer; V width of all layers of a set side by side.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bertfeat.features import RunningMean

Matrix64 = NDArray[np.float64]

_LEAST_SPREAD = 1e-12  # share of the squares that is no rounding of float32: a deviation of a millionth of the length


class CkaSums:
    """Sums from which the linear CKA of every layer of one set with every layer of another follows.

    Kornblith et al. 2019 (arXiv:1905.00414), section 3: ``‖YᵀX‖² / (‖XᵀX‖ ‖YᵀY‖)`` in Frobenius norms, of centerd X
    and Y. They take 8 V₁ V₂ bytes, however many vectors there are.
    """

    def __init__(self, first: Sequence[int], second: Sequence[int]) -> None:
        self._cuts = np.cumsum(second)[:-1]
        self._cross = [np.zeros((width, sum(second))) for width in first]
        self._own = [[np.zeros((width, width)) for width in widths] for widths in (first, second)]
        self._means = [[RunningMean() for _ in widths] for widths in (first, second)]

    def add(self, first: Sequence[NDArray[np.floating]], second: Sequence[NDArray[np.floating]]) -> None:
        """Add the vectors of n items: ``[n, W]`` of each layer."""
        centerd = [
            [mean.deviations(chunk) for mean, chunk in zip(means, chunks, strict=True)]
            for means, chunks in zip(self._means, (first, second), strict=True)
        ]
        for sums, matrices in zip(self._own, centerd, strict=True):
            for own, matrix in zip(sums, matrices, strict=True):
                own += matrix.T @ matrix
        beside = np.hstack(centerd[1])
        for cross, matrix in zip(self._cross, centerd[0], strict=True):
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

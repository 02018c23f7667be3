"""Statistics of vectors: a running mean with deviations, in float64, and the directions of most variance (PCA).

The memory of both grows with the width of the vectors, not with its square.

Shapes: n vectors, W values in each.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray


class RunningMean:
    """The mean of all chunks so far; the products of its deviations sum to those of deviations from the overall mean.

    It uses the pairwise update of Chan, Golub and LeVeque 1983 (The American Statistician 37, eq. 2.1), which is stable
    if the mean is large compared with the deviations.
    """

    def __init__(self) -> None:
        self.count = 0
        self.mean: NDArray[np.float64] | float = 0.0

    def deviations(self, chunk: NDArray[np.floating]) -> NDArray[np.float64]:
        """Deviations from the chunk's own mean, and a last row for how much that mean differs from the mean before.

        Shape: ``[n, W]`` → ``[n+1, W]``. For two such matrices X and Y, the sum of XᵀY over the chunks is what
        deviations from the means of all chunks would give.
        """
        before, self.count = self.count, self.count + len(chunk)
        own = chunk.mean(axis=0, dtype=np.float64)
        shift = own - self.mean
        self.mean = self.mean + shift * (len(chunk) / self.count)
        return np.vstack([chunk - own, shift * np.sqrt(before * len(chunk) / self.count)])


_SEED = 4171
_OVERSAMPLED = 16  # extra directions of the randomized SVD, besides those that are wanted
_MOST_ROUNDS = 20
_MOST_VALUE = 1e15  # vectors with larger values are scaled down: float32 could not hold sums of their squares
_STILL = 1e-7  # relative change of the variances below which the iteration stops


@dataclass(frozen=True, slots=True)
class PrincipalComponents:
    """The directions in which vectors vary most, the first the most.

    Shape: C directions.
    """

    center: NDArray[np.float32]  # [W]
    directions: NDArray[np.float32]  # [W, C] of length 1; zero where vectors have no further direction
    shares: tuple[float, ...]  # [C] share of the total variance along each direction, 0 to 1

    def place(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """The coordinates of vectors along the directions: ``[m, W]`` → ``[m, C]``."""
        coordinates: NDArray[np.float32] = ((vectors - self.center) @ self.directions).astype(np.float32)
        return coordinates


def find_principal_components(vectors: NDArray[np.float32], count: int = 2) -> PrincipalComponents:
    """Find the ``count`` principal components of vectors ``[n, W]`` by randomized SVD (Halko, Martinsson, Tropp 2011).

    The result is the same every time. It takes memory for a copy of the vectors and a small multiple of their width,
    where a covariance would take ``W * W`` values. If squares of the values could exceed float32, all vectors are
    first scaled down by the same factor.
    """
    largest = float(np.abs(vectors).max(initial=0.0))
    if largest > _MOST_VALUE:
        found = find_principal_components(vectors / np.float32(largest), count)
        return replace(found, center=found.center * np.float32(largest))
    center = vectors.mean(axis=0, dtype=np.float64).astype(np.float32) if len(vectors) else np.zeros(vectors.shape[1])
    centered = vectors - center.astype(np.float32)
    total = float(np.einsum("ij,ij->", centered, centered, dtype=np.float64))
    rank = min(*centered.shape, count + _OVERSAMPLED)
    basis = np.random.default_rng(_SEED).standard_normal((centered.shape[1], rank)).astype(np.float32)
    energies, directions = np.zeros(count), np.zeros((centered.shape[1], rank), np.float32)
    for _ in range(_MOST_ROUNDS if total > 0 else 0):
        before = energies
        basis = np.linalg.qr(centered.T @ (centered @ basis))[0]
        placed = (centered @ basis).astype(np.float64)
        values, turned = np.linalg.eigh(placed.T @ placed)  # of a small square: much faster than an SVD of all rows
        directions = basis @ turned[:, ::-1].astype(np.float32)
        energies = np.pad(values[::-1].clip(min=0), (0, count))[:count]
        if np.allclose(energies, before, rtol=_STILL, atol=0):
            break
    best = np.pad(directions[:, :count], ((0, 0), (0, max(0, count - rank))))
    strongest = best[np.abs(best).argmax(axis=0), np.arange(count)] if len(best) else np.ones(count)
    best = best * np.where(strongest < 0, -1, 1)  # fixes the signs, so that plots look the same every time
    shares = (energies / total).clip(max=1.0).tolist() if total > 0 else [1.0] + [0.0] * (count - 1)
    return PrincipalComponents(center.astype(np.float32), np.ascontiguousarray(best, np.float32), tuple(shares))

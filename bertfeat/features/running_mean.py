"""The mean of vectors that stream by, in float64, and what sums of products need to be about it.

Shapes: n vectors of a chunk, W values in each.
"""

import numpy as np
from numpy.typing import NDArray


class RunningMean:
    """The mean of the vectors so far, and deviations whose products add up to those from the mean of all.

    By the pairwise update of Chan, Golub and LeVeque 1983 (The American Statistician 37, eq. 2.1), which is stable
    where the mean is large against the deviations.
    """

    def __init__(self) -> None:
        self.count = 0
        self.mean: NDArray[np.float64] | float = 0.0

    def deviations(self, chunk: NDArray[np.floating]) -> NDArray[np.float64]:
        """Deviations from the chunk's own mean, and a last row for what it differs from the mean of those before.

        Shape: ``[n, W]`` → ``[n+1, W]``. Of two such matrices X and Y, summed over the chunks, XᵀY is what
        deviations from the means of all chunks would give.
        """
        before, self.count = self.count, self.count + len(chunk)
        own = chunk.mean(axis=0, dtype=np.float64)
        shift = own - self.mean
        self.mean = self.mean + shift * (len(chunk) / self.count)
        return np.vstack([chunk - own, shift * np.sqrt(before * len(chunk) / self.count)])

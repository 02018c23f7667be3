"""Bootstrap intervals of means over queries; the same resamples for everything that is compared.

Shapes: Q queries, R resamples.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import UsageError, parameter

_RESAMPLES = 1000
_TAILS = (2.5, 97.5)  # percentiles of the resamples, for an interval of 95 %


@dataclass(frozen=True, slots=True)
class Interval:
    """A measured value, and the ends of its bootstrap interval of 95 %."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


class QueryResamples:
    """Resamples of queries: each draws as many with replacement as there are.

    As Sakai 2006 (SIGIR) does to tell systems apart.

    Raises:
        UsageError: the seed is below 0.
    """

    def __init__(self, queries: int, seed: int) -> None:
        if seed < 0:
            raise UsageError(f"{parameter('seed', seed)} is below 0")
        random = np.random.default_rng(seed)
        self._weights = random.multinomial(queries, np.full(queries, 1 / queries), _RESAMPLES) / queries  # [R, Q]

    def interval(self, scores: NDArray[np.float64]) -> Interval:
        """The mean of scores ``[Q]``, or of paired differences, between the percentiles of the resamples' means."""
        low, high = np.percentile(self._weights @ scores, _TAILS)
        return Interval(*(round(float(value), 5) for value in (scores.mean(), low, high)))

"""How good an approximate index is: recall and queries a second against exact search, and the effort that recall needs.

Shapes: Q queries, K nearest, n vectors of a block, W values.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.search import faiss_search
from bertfeat.search.faiss_import import faiss
from bertfeat.search.faiss_transforms import Transform
from bertfeat.search.metric import Metric

K = 10  # recall is tuned for this many nearest
DEPTHS = (1, 10, 100)
QUERIES = 1000  # half of them tune, the other half measures
CONFIDENCE = 1.645  # standard errors: the wanted recall is kept with a probability of 95 %
SECONDS_TIMED = 0.3

Search = Callable[[NDArray[np.float32], int, int | None], NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """The exact nearest vectors of some queries, best first."""

    queries: NDArray[np.float32]  # [Q, W] ready for FAISS
    own: NDArray[np.int64]  # [Q] the query's own number in the index: it is no answer to itself
    scores: NDArray[np.float32]  # [Q, K]
    numbers: NDArray[np.int64]  # [Q, K]
    queries_per_second: float  # of the exact search

    def part(self, which: slice) -> "GroundTruth":
        """Some of the queries."""
        return GroundTruth(
            self.queries[which], self.own[which], self.scores[which], self.numbers[which], self.queries_per_second
        )


class ExactSearch:
    """Finds the exact nearest of queries while the vectors stream by, so that they need not be in memory."""

    def __init__(
        self,
        queries: NDArray[np.float32],
        own: NDArray[np.int64],
        metric: Metric,
        count: int,
        transform: Transform | None = None,  # vectors are compared as this makes them
    ) -> None:
        self._queries, self._own, self._metric = queries, own, metric
        self._transform = transform or _untransformed
        self._compared = self._transform(queries)
        self._depth = min(max(DEPTHS), count - 1) + 1  # one more: the query itself
        shape = (len(queries), self._depth)
        # FAISS computes squared distances, hence a worst that no square passes
        self._best = (np.full(shape, metric.worst, np.float32), np.full(shape, faiss_search.EMPTY, np.int64))
        self._seconds = 0.0

    def add(self, start: int, vectors: NDArray[np.float32]) -> None:
        """Compare with the next vectors, ``[n, W]``, the first of which has the number ``start``."""
        began = time.perf_counter()
        depth = min(self._depth, len(vectors))
        scores, places = faiss.knn(self._compared, self._transform(vectors), depth, self._metric.faiss_metric)
        self._best = faiss_search.merge_neighbours([self._best, (scores, places + start)], self._depth, self._metric)
        self._seconds += time.perf_counter() - began

    def truth(self) -> GroundTruth:
        """What was found, without the queries themselves."""
        scores, numbers = without_own(*self._best, self._own)
        return GroundTruth(self._queries, self._own, scores, numbers, len(self._queries) / max(self._seconds, 1e-9))


def _untransformed(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    return vectors


def without_own(
    scores: NDArray[np.float32], numbers: NDArray[np.int64], own: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Leave each query's own number out of its row, or else the last: ``[Q, K+1]`` → ``[Q, K]``."""
    found = numbers == own[:, None]
    found[~found.any(axis=1), -1] = True
    shape = (len(own), numbers.shape[1] - 1)
    return scores[~found].reshape(shape), numbers[~found].reshape(shape)


def recalls(truth: GroundTruth, numbers: NDArray[np.int64], k: int, metric: Metric) -> NDArray[np.float64]:
    """The share of the k nearest that each query found, ``[Q]``; of equals at the k-th place any will do."""
    nearness = metric.nearness(truth.scores)
    limit = nearness[:, k - 1 : k]
    right = nearness >= limit - 1e-6 * np.abs(limit)
    hits = [
        min(k, len(np.intersect1d(row[ok], found[:k])))
        for row, ok, found in zip(truth.numbers, right, numbers, strict=True)
    ]
    return np.asarray(hits, np.float64) / k


def tune(truth: GroundTruth, search: Search, wanted: float, most: int, metric: Metric) -> int:
    """The least effort whose recall is at least ``wanted`` with 95 % confidence; where none is, what gains no more.

    Doubles the effort until it suffices, then halves the interval.
    """
    k = min(K, truth.numbers.shape[1])

    def bound(effort: int) -> float:
        each = recalls(truth, _answers(truth, search, k, effort), k, metric)
        return float(each.mean() - CONFIDENCE * each.std() / len(each) ** 0.5) if wanted < 1 else float(each.mean())

    reached: dict[int, float] = {}
    for effort in _ladder(most):
        reached[effort] = bound(effort)
        if reached[effort] >= wanted:
            low = max((tried for tried in reached if tried < effort), default=0)
            return _bisect(low, effort, lambda middle: bound(middle) >= wanted)
    best = max(reached.values())
    return min(effort for effort, value in reached.items() if value >= best - 0.002)


@dataclass(frozen=True, slots=True)
class Measured:
    """How an index did on some queries."""

    recall: dict[str, float]  # at 1, 10 and 100, as far as there are so many
    own: float  # share of the queries that find themselves at rank 1
    queries_per_second: float  # in one batch


def measure(truth: GroundTruth, search: Search, effort: int | None, metric: Metric) -> Measured:
    """Measure recall and speed."""
    depths = [k for k in DEPTHS if k <= truth.numbers.shape[1]] or [truth.numbers.shape[1]]
    recall = {str(k): float(recalls(truth, _answers(truth, search, k, effort), k, metric).mean()) for k in depths}
    times: list[float] = []
    began = time.perf_counter()
    while not times or time.perf_counter() - began < SECONDS_TIMED:
        before = time.perf_counter()
        search(truth.queries, min(K, truth.numbers.shape[1]), effort)
        times.append(time.perf_counter() - before)
    own = float((search(truth.queries, 1, effort)[:, 0] == truth.own).mean())
    return Measured(recall, own, len(truth.queries) / float(np.median(times)))


def _answers(truth: GroundTruth, search: Search, k: int, effort: int | None) -> NDArray[np.int64]:
    numbers = search(truth.queries, k + 1, effort)
    return without_own(np.empty(numbers.shape, np.float32), numbers, truth.own)[1]


def _ladder(most: int) -> Iterator[int]:
    effort = 1
    while effort < most:
        yield effort
        effort *= 2
    yield most


def _bisect(low: int, high: int, suffices: Callable[[int], bool]) -> int:
    """The least effort above ``low`` that suffices, to within an eighth; ``high`` is known to."""
    while high - low > max(1, high // 8):
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high

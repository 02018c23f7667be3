"""Recall and speed of an approximate index against exact search, and the search parameter that a recall needs.

Shapes: Q queries, K nearest, n vectors of a block, W values.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import UsageError
from bertfeat.io import Address
from bertfeat.search.building.build_options import BuildOptions
from bertfeat.search.settings import RecallReport, SearchParameter
from bertfeat.search.vector_index import VectorIndex
from bertfeat.search.vectors.faiss_import import FaissIndex, Scored, faiss
from bertfeat.search.vectors.faiss_index import (
    count_faiss_threads,
    flat_storage,
    largest_search_parameter,
    search_parameter_name,
)
from bertfeat.search.vectors.faiss_search import EMPTY, merge_neighbours, reconstruct_vectors, search_faiss
from bertfeat.search.vectors.faiss_transforms import Transform
from bertfeat.search.vectors.metric import Metric
from bertfeat.search.vectors.training_sample import QUERIES, sample_numbers

K = 10  # recall is tuned for this many nearest
DEPTHS = (1, 10, 100)
CONFIDENCE = 1.645  # standard errors: the target recall is reached with a probability of 95 %
SECONDS_TIMED = 0.3
UNTUNED_LISTS = 32  # without evaluation one list in so many is read
UNTUNED_GRAPH = 64

Search = Callable[[NDArray[np.float32], int, int | None], NDArray[np.int64]]
"""The numbers of the ``k`` nearest of queries ``[Q, W]``, with a value of the search parameter: ``[Q, K]``."""


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
        self.queries, self.own, self._metric = queries, own, metric
        self._transform = transform or _untransformed
        self._compared = self._transform(queries)
        self._depth = min(max(DEPTHS), count - 1) + 1  # one more: the query itself
        shape = (len(queries), self._depth)
        # FAISS computes squared distances, hence a worst that no square passes
        self._best: Scored = (np.full(shape, metric.worst, np.float32), np.full(shape, EMPTY, np.int64))
        self._seconds = 0.0

    def add(self, start: int, vectors: NDArray[np.float32]) -> None:
        """Compare with the next vectors, ``[n, W]``, the first of which has the number ``start``."""
        began = time.perf_counter()
        depth = min(self._depth, len(vectors))
        scores, places = faiss.knn(self._compared, self._transform(vectors), depth, self._metric.faiss_metric)
        self._best = merge_neighbours([self._best, (scores, places + start)], self._depth, self._metric)
        self._seconds += time.perf_counter() - began

    @property
    def found(self) -> tuple[Scored, float]:
        """The nearest so far, and the seconds that it took to find them."""
        return self._best, self._seconds

    def take_in(self, found: Scored, seconds: float) -> None:
        """Take in what a search with the same queries has found among other vectors."""
        self._best = merge_neighbours([self._best, found], self._depth, self._metric)
        self._seconds += seconds

    def truth(self) -> GroundTruth:
        """The nearest vectors of each query, without the query itself."""
        scores, numbers = without_own(*self._best, self.own)
        return GroundTruth(self.queries, self.own, scores, numbers, len(self.queries) / max(self._seconds, 1e-9))


def measure_recall(index: VectorIndex | str | Path | Address, *, queries: int = QUERIES) -> RecallReport:
    """Measure recall and speed of an index as it is now against exact search, with some of its own vectors as queries.

    Exact search compares vectors as the index stores them. What an index of codes loses by its codes is therefore not
    measured; a build measures that too, because it has the vectors at hand.

    Raises:
        UsageError: an index of fewer than two vectors, or no queries.
        IndexFolderError: the folder is no index, or its type cannot give its vectors back.
    """
    index = index if isinstance(index, VectorIndex) else VectorIndex(index)
    if queries < 1:
        raise UsageError(f"{queries} queries measure nothing; ask for at least 1")
    if len(index) < 2:
        raise UsageError(f"{index.folder} has {len(index)} vectors, and recall is measured with at least 2")
    living = np.arange(index.settings.count) if index.removed is None else np.flatnonzero(~index.removed)
    own = living[sample_numbers(len(living), queries)]
    vectors = index.reconstruct(own)
    began = time.perf_counter()
    exact = index.search_stored(vectors, min(max(DEPTHS), len(index) - 1) + 1, exact=True)
    seconds = time.perf_counter() - began
    truth = GroundTruth(vectors, own, *without_own(exact.scores, exact.numbers, own), len(own) / max(seconds, 1e-9))

    def search(queries: NDArray[np.float32], k: int, value: int | None) -> NDArray[np.int64]:
        return index.search_stored(queries, k, search_parameter=value).numbers

    measured = index.settings.evaluation
    target_recall = BuildOptions().target_recall if measured is None else measured.wanted
    return judge_search(truth, search, None, index.metric, target_recall=target_recall, vectors=len(index))


def tune_and_judge(
    index: FaissIndex, truth: GroundTruth, metric: Metric, target_recall: float
) -> tuple[SearchParameter | None, RecallReport]:
    """Find the search parameter that the target recall needs on half of the queries, and measure it on the others."""

    def search(queries: NDArray[np.float32], k: int, value: int | None) -> NDArray[np.int64]:
        return search_faiss(index, queries, k, value)[1]

    half = (len(truth.own) + 1) // 2
    tuning, judging = truth.part(slice(0, half)), truth.part(slice(half if half < len(truth.own) else 0, None))
    name, parameter = search_parameter_name(index), None
    if name is not None:
        value = tune(tuning, search, target_recall, largest_search_parameter(index), metric)
        parameter = SearchParameter(name, value, tuned=True)
    value_used = parameter.value if parameter else None
    return parameter, judge_search(
        judging, search, value_used, metric, target_recall=target_recall, vectors=int(index.ntotal)
    )


def guess_search_parameter(index: FaissIndex) -> SearchParameter | None:
    """The search parameter of an index that was not evaluated."""
    name = search_parameter_name(index)
    if name is None:
        return None
    guess = max(1, largest_search_parameter(index) // UNTUNED_LISTS) if name == "nprobe" else UNTUNED_GRAPH
    return SearchParameter(name, guess, tuned=False)


def stored_truth(index: FaissIndex) -> GroundTruth:
    """Exact answers for a sample of an index's own vectors, where it stores them whole."""
    flat = flat_storage(index)
    if flat is None:
        raise ValueError("the index does not store whole vectors; ExactSearch judges it")
    own = sample_numbers(int(index.ntotal), QUERIES)
    queries = reconstruct_vectors(flat, own)
    depth = min(max(DEPTHS), int(index.ntotal) - 1) + 1
    began = time.perf_counter()
    scores, numbers = search_faiss(flat, queries, depth, None)
    seconds = time.perf_counter() - began
    return GroundTruth(queries, own, *without_own(scores, numbers, own), len(own) / max(seconds, 1e-9))


def _untransformed(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    return vectors


def without_own(scores: NDArray[np.float32], numbers: NDArray[np.int64], own: NDArray[np.int64]) -> Scored:
    """Remove each query's own number from its row, or else the last number: ``[Q, K+1]`` → ``[Q, K]``."""
    left_out = numbers == own[:, None]
    left_out[~left_out.any(axis=1), -1] = True
    shape = (len(own), numbers.shape[1] - 1)
    return scores[~left_out].reshape(shape), numbers[~left_out].reshape(shape)


def recall_at_k(truth: GroundTruth, numbers: NDArray[np.int64], k: int, metric: Metric) -> NDArray[np.float64]:
    """The share of the k nearest that each query found, ``[Q]``; of equals at the k-th place any will do."""
    nearness = metric.nearness(truth.scores)
    limit = nearness[:, k - 1 : k]
    right = nearness >= limit - 1e-6 * np.abs(limit)
    hits = [
        min(k, len(np.intersect1d(row[ok], answer[:k])))
        for row, ok, answer in zip(truth.numbers, right, numbers, strict=True)
    ]
    return np.asarray(hits, np.float64) / k


def tune(truth: GroundTruth, search: Search, target_recall: float, largest: int, metric: Metric) -> int:
    """The least value that reaches ``target_recall`` with 95 % confidence; else the least one of the best recall.

    Doubles the value until it suffices, then halves the interval.
    """
    k = min(K, truth.numbers.shape[1])

    def bound(value: int) -> float:
        recalls = recall_at_k(truth, _search_others(truth, search, k, value), k, metric)
        mean = float(recalls.mean())
        return mean - CONFIDENCE * float(recalls.std()) / len(recalls) ** 0.5 if target_recall < 1 else mean

    reached: dict[int, float] = {}
    for value in _doubled(largest):
        reached[value] = bound(value)
        if reached[value] >= target_recall:
            low = max((tried for tried in reached if tried < value), default=0)
            return _bisect(low, value, lambda middle: bound(middle) >= target_recall)
    best = max(reached.values())
    return min(value for value, recall in reached.items() if recall >= best - 0.002)


def judge_search(
    truth: GroundTruth, search: Search, value: int | None, metric: Metric, *, target_recall: float, vectors: int
) -> RecallReport:
    """Measure recall, and queries a second in one batch; ``vectors`` are in the index."""
    depths = [k for k in DEPTHS if k <= truth.numbers.shape[1]] or [truth.numbers.shape[1]]
    recall = {
        str(k): float(recall_at_k(truth, _search_others(truth, search, k, value), k, metric).mean()) for k in depths
    }
    times: list[float] = []
    began = time.perf_counter()
    while not times or time.perf_counter() - began < SECONDS_TIMED:
        before = time.perf_counter()
        search(truth.queries, min(K, truth.numbers.shape[1]), value)
        times.append(time.perf_counter() - before)
    return RecallReport(
        recall=recall,
        own=float((search(truth.queries, 1, value)[:, 0] == truth.own).mean()),
        wanted=target_recall,
        queries=len(truth.own),
        queries_per_second=round(len(truth.queries) / float(np.median(times)), 1),
        exact_queries_per_second=round(truth.queries_per_second, 1),
        threads=count_faiss_threads(),
        vectors=vectors,
    )


def _search_others(truth: GroundTruth, search: Search, k: int, value: int | None) -> NDArray[np.int64]:
    """The nearest of each query without itself, ``[Q, k]``."""
    numbers = search(truth.queries, k + 1, value)
    return without_own(np.empty(numbers.shape, np.float32), numbers, truth.own)[1]


def _doubled(largest: int) -> Iterator[int]:
    value = 1
    while value < largest:
        yield value
        value *= 2
    yield largest


def _bisect(low: int, high: int, suffices: Callable[[int], bool]) -> int:
    """The least value above ``low`` that suffices, to within an eighth; ``high`` is known to."""
    while high - low > max(1, high // 8):
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high

"""Recall and speed of an approximate index against exact search, and the search parameter that a target recall needs.

The queries are a user's own ones, or disturbed stored vectors. A stored vector lies among similar ones, so an
approximate search finds its neighbors easily: an index that was tuned to a recall of 0.97 on stored vectors reached
0.92 for the questions of the same collection, since questions lie between the places where documents lie. So Gaussian
noise is added to stored vectors. One part of it has the vectors' own covariance, and leads away from where documents
lie densely; the other part is alike in all directions, and leads away from all documents. Both parts are scaled by the
usual distance of vectors from their mean, so that they fit every model, metric and transform.
``benchmarks/recall.py`` measures the recall for collections whose questions are known.

Shapes: Q queries, K nearest, n vectors of a block, W values.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertfeat.arguments import checked
from bertfeat.errors import UsageError
from bertfeat.io import Address
from bertfeat.search.options import BuildOptions
from bertfeat.search.settings import IndexSettings, QueryKind, RecallReport, SearchParameter, SearchParameterName
from bertfeat.search.vector_index import VectorIndex
from bertfeat.search.vectors.faiss_import import FaissIndex, Scored, faiss
from bertfeat.search.vectors.faiss_index import (
    count_faiss_threads,
    flat_storage,
    largest_search_parameter,
    search_parameter_name,
    stores_whole_vectors,
)
from bertfeat.search.vectors.faiss_search import (
    EMPTY,
    merge_neighbors,
    reconstruct_vectors,
    scan_all_vectors,
    search_faiss,
)
from bertfeat.search.vectors.faiss_transforms import Transform, transformed_index
from bertfeat.search.vectors.metric import Metric
from bertfeat.search.vectors.vector_blocks import QUERIES, sample_numbers

SECONDS_TIMED = 0.3
_K = 10  # recall is tuned for this many nearest
_DEPTHS = (1, 10, 100)  # recall is reported for each
_CONFIDENCE = 1.645  # standard errors: the target recall is reached with a probability of 95 %
_LEAST: Mapping[SearchParameterName, int] = {"nprobe": 4, "efSearch": 2 * _K}
"""The least value that tuning may choose: a few queries may all be easy, and this much costs next to nothing."""

_ALONG, _AROUND = 1.0, 4.0
"""The lengths of the two parts of the noise, first that with the vectors' covariance, then that alike in all
directions, in units of the usual distance of a vector from the mean of all. With a noise of 1.5 the nearest vectors are
as far from a query as from a question. But noise keeps more of the order of the documents than a question does, so it
is made larger, until recall is that of questions or lower."""

_QUERIES_AGAIN = 200
"""The number of queries with which recall is measured after an update: its standard error is 0.01 or less."""

_SEED = 2971

_Search = Callable[[NDArray[np.float32], int, int | None], NDArray[np.int64]]
"""A search for queries ``[Q, W]``, with ``k`` and a value of the search parameter; returns the numbers ``[Q, k]``."""


@dataclass(frozen=True, slots=True)
class RecallQueries:
    """Queries, prepared for FAISS."""

    kind: QueryKind
    vectors: NDArray[np.float32]  # [Q, W]
    own: NDArray[np.int64]  # [Q] number of the stored vector that each was made from, never a hit; [0] where given
    stored: NDArray[np.float32] | None = None  # [Q, W] those vectors as they are; None where queries were given

    def __len__(self) -> int:
        return len(self.vectors)

    def part(self, which: slice) -> "RecallQueries":
        """Select a slice of the queries."""
        stored = None if self.stored is None else self.stored[which]
        return RecallQueries(self.kind, self.vectors[which], self.own[which], stored)


def given_queries(vectors: NDArray[np.float32]) -> RecallQueries:
    """A user's queries ``[Q, W]``, prepared for FAISS."""
    return RecallQueries(QueryKind.GIVEN, vectors, np.empty(0, np.int64))


def stored_queries(vectors: NDArray[np.float32], own: NDArray[np.int64]) -> RecallQueries:
    """Queries that are stored vectors ``[Q, W]`` as they are; ``own`` are the vectors' numbers."""
    return RecallQueries(QueryKind.STORED, vectors, own, vectors)


def disturbed_queries(vectors: NDArray[np.float32], own: NDArray[np.int64], metric: Metric) -> RecallQueries:
    """Queries that are stored vectors ``[Q, W]`` with noise; ``own`` are the vectors' numbers.

    ``metric`` prepares them again. Where vectors are so long that with noise they could not be compared, all stay as
    they are.
    """
    try:
        disturbed = disturb(vectors)
        metric.prepare(disturbed)
        return RecallQueries(QueryKind.DISTURBED, disturbed, own, vectors)
    except ValueError:  # of the metric
        return stored_queries(vectors, own)


def disturb(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Vectors ``[Q, W]`` with noise."""
    random, (count, width) = np.random.default_rng(_SEED), vectors.shape
    from_mean = vectors - vectors.mean(axis=0)
    usual = float(np.sqrt(np.square(from_mean, dtype=np.float64).sum(axis=1).mean()))
    along = random.standard_normal((count, count), np.float32) @ from_mean / np.float32(count**0.5)
    around = random.standard_normal((count, width), np.float32) * np.float32(usual / width**0.5)
    disturbed: NDArray[np.float32] = vectors + np.float32(_ALONG) * along + np.float32(_AROUND) * around
    return disturbed


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """The exact nearest vectors of some queries, best first."""

    asked: RecallQueries
    scores: NDArray[np.float32]  # [Q, K]
    numbers: NDArray[np.int64]  # [Q, K]
    queries_per_second: float  # of the exact search

    def part(self, which: slice) -> "GroundTruth":
        """Select a slice of the queries, with their nearest vectors."""
        return GroundTruth(self.asked.part(which), self.scores[which], self.numbers[which], self.queries_per_second)


def ground_truth(asked: RecallQueries, found: Scored, seconds: float) -> GroundTruth:
    """The truth from the results of an exact search, which took ``seconds``.

    From results ``[Q, K+1]`` the vector that a query was made from is left out; those of given queries stay whole.
    """
    others = found if asked.kind is QueryKind.GIVEN else without_own(*found, asked.own)
    return GroundTruth(asked, *others, len(asked) / max(seconds, 1e-9))


class ExactSearch:
    """Finds the exact nearest of queries while the vectors stream by, so that they need not be in memory."""

    def __init__(
        self,
        asked: RecallQueries,
        metric: Metric,
        count: int,
        transform: Transform | None = None,  # vectors are compared as this makes them
    ) -> None:
        self._asked, self._metric = asked, metric
        self._transform = transform or (lambda vectors: vectors)
        self._compared = self._transform(asked.vectors)
        self._depth = min(max(_DEPTHS), count - 1) + 1  # one more: the vector that a query was made of
        shape = (len(asked), self._depth)
        # FAISS computes squared distances, so the worst score must be above every square: infinity
        self._best: Scored = (np.full(shape, metric.worst, np.float32), np.full(shape, EMPTY, np.int64))
        self._seconds = 0.0

    def add(self, start: int, vectors: NDArray[np.float32]) -> None:
        """Compare with the next vectors, ``[n, W]``, the first of which has the number ``start``."""
        began = time.perf_counter()
        depth = min(self._depth, len(vectors))
        scores, places = faiss.knn(self._compared, self._transform(vectors), depth, self._metric.faiss_metric)
        self._best = merge_neighbors([self._best, (scores, places + start)], self._depth, self._metric)
        self._seconds += time.perf_counter() - began

    def truth(self) -> GroundTruth:
        """The nearest vectors of each query, without the one that it was made of."""
        return ground_truth(self._asked, self._best, self._seconds)


@checked
def measure_recall(
    index: VectorIndex | str | Path | Address, *, queries: int = QUERIES, disturbed: bool = True
) -> RecallReport:
    """Measure recall and speed of an index as it is now against exact search, with some of its own vectors as queries.

    By default they are ``disturbed`` until they are as far from the others as questions are; undisturbed, they measure
    the search by stored documents. Exact search compares vectors as the index stores them, so the loss that codes cause
    is not measured; a build measures that too, because it has the vectors at hand.

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
    asked = disturbed_queries(vectors, own, index.metric) if disturbed else stored_queries(vectors, own)
    began = time.perf_counter()
    exact = index.search_stored(asked.vectors, min(max(_DEPTHS), len(index) - 1) + 1, exact=True)
    seconds = time.perf_counter() - began
    truth = ground_truth(asked, (exact.scores, exact.numbers), seconds)

    def search(queries: NDArray[np.float32], k: int, value: int | None) -> NDArray[np.int64]:
        return index.search_stored(queries, k, search_parameter=value).numbers

    measured = index.settings.evaluation
    target_recall = BuildOptions().target_recall if measured is None else measured.wanted
    return _judge_search(truth, search, None, index.metric, target_recall=target_recall, vectors=len(index))


def judge_again(index: FaissIndex, settings: IndexSettings, removed: NDArray[np.bool_]) -> IndexSettings:
    """Settings of an index that has changed, with its recall as it is now, on a sample of its own vectors, disturbed.

    After its vectors have doubled in number the search parameter is tuned again. What was measured at the build stays
    where the index was never judged, keeps no whole vectors, or has fewer than two left; ``removed [n]`` are
    tombstones.
    """
    living = np.flatnonzero(~removed) if len(removed) else np.arange(settings.count)
    stored = index if settings.transform is None else transformed_index(index)
    measured, former, metric = settings.evaluation, settings.effort, settings.metric
    if measured is None or len(living) < 2 or not stores_whole_vectors(stored):
        return settings
    if former is None:  # every search is exact
        return replace(settings, evaluation=replace(measured, vectors=len(living)), updates=0)
    tunes = not former.tuned or len(living) > 2 * former.vectors
    selected = ~removed if len(removed) else None
    own = living[sample_numbers(len(living), QUERIES if tunes else _QUERIES_AGAIN)]
    asked = disturbed_queries(reconstruct_vectors(stored, own), own, metric)
    began = time.perf_counter()
    found = scan_all_vectors(stored, asked.vectors, min(max(_DEPTHS), len(living) - 1) + 1, selected)
    truth = ground_truth(asked, found, time.perf_counter() - began)
    effort, judged = tune_and_judge(stored, truth, metric, measured.wanted, selected, None if tunes else former)
    judged = replace(judged, transformed=measured.transformed, vectors=len(living))
    return replace(settings, effort=effort, evaluation=judged, updates=0)


def tune_and_judge(
    index: FaissIndex,
    truth: GroundTruth,
    metric: Metric,
    target_recall: float,
    selected: NDArray[np.bool_] | None = None,
    tuned: SearchParameter | None = None,
) -> tuple[SearchParameter | None, RecallReport]:
    """Find the search parameter that the target recall needs on half of the queries, and measure it on the others.

    Of an index with tombstones the ``selected [n]`` vectors are searched. A parameter that is ``tuned`` already stays.
    """

    def search(queries: NDArray[np.float32], k: int, value: int | None) -> NDArray[np.int64]:
        return search_faiss(index, queries, k, value, selected)[1]

    queries = len(truth.asked)
    half = (queries + 1) // 2
    tuning, judging = truth.part(slice(0, half)), truth.part(slice(half if half < queries else 0, None))
    name, parameter = search_parameter_name(index), tuned
    if name is not None and tuned is None:
        largest = largest_search_parameter(index)
        value = _tune(tuning, search, target_recall, min(_LEAST[name], largest), largest, metric)
        parameter = SearchParameter(name, value, tuned=True, vectors=int(index.ntotal))
    value_used = parameter.value if parameter else None
    return parameter, _judge_search(
        judging, search, value_used, metric, target_recall=target_recall, vectors=int(index.ntotal)
    )


def guess_search_parameter(index: FaissIndex) -> SearchParameter | None:
    """The search parameter of an index that was not evaluated."""
    name = search_parameter_name(index)
    if name is None:
        return None
    largest = largest_search_parameter(index)
    guess = largest // 32 if name == "nprobe" else 64  # one list in 32
    return SearchParameter(name, max(guess, min(_LEAST[name], largest)), tuned=False, vectors=int(index.ntotal))


def stored_truth(index: FaissIndex, given: RecallQueries | None, metric: Metric) -> GroundTruth:
    """Exact answers of an index that stores its vectors whole: for given queries, else for some of its own vectors."""
    flat = flat_storage(index)
    if flat is None:
        raise ValueError("the index does not store whole vectors; ExactSearch judges it")
    if given is None:
        own = sample_numbers(int(index.ntotal), QUERIES)
        given = disturbed_queries(reconstruct_vectors(flat, own), own, metric)
    depth = min(max(_DEPTHS), int(index.ntotal) - 1) + 1
    began = time.perf_counter()
    found = search_faiss(flat, given.vectors, depth, None)
    return ground_truth(given, found, time.perf_counter() - began)


def without_own(scores: NDArray[np.float32], numbers: NDArray[np.int64], own: NDArray[np.int64]) -> Scored:
    """Remove each query's own number from its row, or the last one if it is absent: ``[Q, K+1]`` → ``[Q, K]``."""
    left_out = numbers == own[:, None]
    left_out[~left_out.any(axis=1), -1] = True
    shape = (len(own), numbers.shape[1] - 1)
    return scores[~left_out].reshape(shape), numbers[~left_out].reshape(shape)


def recall_at_k(truth: GroundTruth, numbers: NDArray[np.int64], k: int, metric: Metric) -> NDArray[np.float64]:
    """The share of the k nearest that each query found, ``[Q]``; of vectors as near as the k-th, any counts."""
    nearness = metric.nearness(truth.scores)
    limit = nearness[:, k - 1 : k]
    right = nearness >= limit - 1e-6 * np.abs(limit)
    hits = [
        min(k, len(np.intersect1d(row[ok], answer[:k])))
        for row, ok, answer in zip(truth.numbers, right, numbers, strict=True)
    ]
    return np.asarray(hits, np.float64) / k


def _tune(truth: GroundTruth, search: _Search, target_recall: float, least: int, largest: int, metric: Metric) -> int:
    """The least value that reaches ``target_recall`` with 95 % confidence; else the least within 0.002 of the best.

    Doubles the value until it suffices, then halves the interval.
    """
    k = min(_K, truth.numbers.shape[1])

    def bound(value: int) -> float:
        recalls = recall_at_k(truth, _search_others(truth, search, k, value), k, metric)
        mean = float(recalls.mean())
        return mean - _CONFIDENCE * float(recalls.std()) / len(recalls) ** 0.5 if target_recall < 1 else mean

    reached: dict[int, float] = {}
    for value in _doubled(least, largest):
        reached[value] = bound(value)
        if reached[value] >= target_recall:
            low = max((tried for tried in reached if tried < value), default=least - 1)
            return _bisect(low, value, lambda middle: bound(middle) >= target_recall)
    best = max(reached.values())
    return min(value for value, recall in reached.items() if recall >= best - 0.002)


def _judge_search(
    truth: GroundTruth, search: _Search, effort: int | None, metric: Metric, *, target_recall: float, vectors: int
) -> RecallReport:
    """Measure an index of so many ``vectors``: recall, how many of them find themselves, queries a second in one batch.

    ``effort`` is the value of its search parameter, None for an index that has none.
    """
    asked = truth.asked
    deepest = truth.numbers.shape[1]
    depths = [k for k in _DEPTHS if k < vectors and k <= deepest] or [deepest]  # a query's own vector is no hit
    recall = {
        str(k): float(recall_at_k(truth, _search_others(truth, search, k, effort), k, metric).mean()) for k in depths
    }
    return RecallReport(
        recall=recall,
        of=asked.kind,
        own=None if asked.stored is None else float((search(asked.stored, 1, effort)[:, 0] == asked.own).mean()),
        wanted=target_recall,
        queries=len(asked),
        queries_per_second=round(
            len(asked) / _batch_seconds(lambda: search(asked.vectors, min(_K, deepest), effort)), 1
        ),
        exact_queries_per_second=round(truth.queries_per_second, 1),
        threads=count_faiss_threads(),
        vectors=vectors,
    )


def _batch_seconds(search: Callable[[], object]) -> float:
    """The median duration of a search that is repeated for a while."""
    times: list[float] = []
    began = time.perf_counter()
    while not times or time.perf_counter() - began < SECONDS_TIMED:
        before = time.perf_counter()
        search()
        times.append(time.perf_counter() - before)
    return float(np.median(times))


def _search_others(truth: GroundTruth, search: _Search, k: int, effort: int | None) -> NDArray[np.int64]:
    """The nearest of each query without the vector that it was made from, ``[Q, k]``."""
    if truth.asked.kind is QueryKind.GIVEN:
        return search(truth.asked.vectors, k, effort)
    numbers = search(truth.asked.vectors, k + 1, effort)
    return without_own(np.empty(numbers.shape, np.float32), numbers, truth.asked.own)[1]


def _doubled(least: int, largest: int) -> Iterator[int]:
    value = least
    while value < largest:
        yield value
        value *= 2
    yield largest


def _bisect(low: int, high: int, suffices: Callable[[int], bool]) -> int:
    """The least value above ``low`` that suffices, to within an eighth; ``high`` is known to suffice."""
    while high - low > max(1, high // 8):
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high

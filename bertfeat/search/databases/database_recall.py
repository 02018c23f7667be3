"""Recall of a vector database: what it finds, against exact search over the very vectors that were loaded.

Exact search is done in NumPy while the vectors stream by on their way into the database.
Shapes: Q queries, K nearest, n vectors of a block, W values.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bertfeat.search.databases.database_rows import DatabaseRows, RowBlock
from bertfeat.search.evaluation.recall import GroundTruth, recall_at_k, without_own
from bertfeat.search.vectors.faiss_import import Scored
from bertfeat.search.vectors.faiss_search import EMPTY, merge_neighbours
from bertfeat.search.vectors.metric import Metric
from bertfeat.search.vectors.training_sample import sample_numbers

NEAREST = 10
ENOUGH = 0.9  # a lower recall is warned about
_QUERIES = 100
_DEPTH = 100  # of exact search, so that equal vectors beyond the nearest ones are known as such
_SCORED_ROWS = 8192  # vectors that are compared at once

DatabaseSearch = Callable[[NDArray[np.float32], int, Mapping[str, int]], NDArray[np.int64]]
"""The keys of the ``k`` nearest of queries ``[Q, W]`` under some parameters: ``[Q, k]``, padded with EMPTY."""


@dataclass(frozen=True, slots=True)
class DatabaseRecall:
    """The share of the true 10 nearest that a database finds, over some of its own vectors as queries."""

    nearest: int  # 10, or all others where there are fewer
    queries: int
    default: float  # with the database's own parameters
    best: float  # with these ones
    parameters: Mapping[str, int] = field(default_factory=dict)  # empty where the database's own are enough


class ExactRows:
    """Exact search for a sample of the rows, whose vectors stream by."""

    def __init__(self, queries: NDArray[np.float32], numbers: NDArray[np.int64], count: int) -> None:
        self._queries, self._numbers = queries, numbers
        self._own = np.full(len(numbers), EMPTY, np.int64)
        self._depth = min(_DEPTH, count - 1) + 1  # one more: the query itself
        shape = (len(queries), self._depth)
        self._best: Scored = (np.full(shape, -np.inf, np.float32), np.full(shape, EMPTY, np.int64))

    def add(self, block: RowBlock, keys: NDArray[np.int64]) -> None:
        """Compare with the next rows, which have those keys ``[n]``."""
        inside = (self._numbers >= block.start) & (self._numbers < block.start + len(keys))
        self._own[inside] = keys[self._numbers[inside] - block.start]
        for start in range(0, len(keys), _SCORED_ROWS):
            cut = slice(start, start + _SCORED_ROWS)
            scores = self._queries @ block.vectors[cut].T
            depth = min(self._depth, scores.shape[1])
            places = np.argpartition(-scores, depth - 1, axis=1)[:, :depth]
            found = (np.take_along_axis(scores, places, 1), keys[cut][places])
            self._best = merge_neighbours([self._best, found], self._depth, Metric.COSINE)

    def truth(self) -> GroundTruth:
        """The nearest rows of each query, without the query itself."""
        return GroundTruth(self._queries, self._own, *without_own(*self._best, self._own), queries_per_second=0.0)


def sample_queries(rows: DatabaseRows, done: Callable[[int], None]) -> ExactRows | None:
    """Read a sample of the vectors, to be queries; None where there are no two vectors, or all are zero vectors."""
    numbers = sample_numbers(rows.count, _QUERIES)
    vectors = np.zeros((len(numbers), rows.width), np.float32)
    for block in rows.blocks(columns=False):
        first, last = np.searchsorted(numbers, (block.start, block.start + len(block.vectors)))
        vectors[first:last] = block.vectors[numbers[first:last] - block.start]
        done(block.start + len(block.vectors))
    has_direction = vectors.any(axis=1)
    if rows.count < 2 or not has_direction.any():
        return None
    return ExactRows(vectors[has_direction], numbers[has_direction], rows.count)


def judge_database(truth: GroundTruth, search: DatabaseSearch, trials: Sequence[Mapping[str, int]]) -> DatabaseRecall:
    """Measure recall with the database's own parameters, and where it is low with the ``trials``, until it is not."""
    nearest = min(NEAREST, truth.numbers.shape[1])

    def recall(parameters: Mapping[str, int]) -> float:
        found = search(truth.queries, nearest + 1, parameters)
        others = without_own(np.empty(found.shape, np.float32), found, truth.own)[1]
        return round(float(recall_at_k(truth, others, nearest, Metric.COSINE).mean()), 4)

    default = best = recall({})
    chosen: Mapping[str, int] = {}
    for parameters in trials:
        if best >= ENOUGH:
            break
        if (reached := recall(parameters)) > best:
            best, chosen = reached, parameters
    return DatabaseRecall(nearest, len(truth.own), default, best, dict(chosen))

"""Recall of a vector database: what it finds, against exact search over the very vectors that were loaded.

Exact search is done in NumPy while the vectors stream by on their way into the database.
Shapes: Q queries, K nearest, n vectors of a block, W values.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from bertfeat.features import unit_vectors
from bertfeat.search.databases.database_rows import DatabaseRows, RowBlock
from bertfeat.search.evaluation.recall import GroundTruth, ground_truth, recall_at_k, without_own
from bertfeat.search.evaluation.recall_queries import RecallQueries, disturb
from bertfeat.search.settings import QueryKind
from bertfeat.search.vectors.faiss_import import Scored
from bertfeat.search.vectors.faiss_search import EMPTY, merge_neighbors
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
    """The share of the true 10 nearest that a database finds, over some of its own vectors, disturbed, as queries."""

    nearest: int  # 10, or all others where there are fewer
    queries: int
    of: QueryKind
    default: float  # with the database's own parameters
    best: float  # with these ones
    parameters: Mapping[str, int] = field(default_factory=dict)  # empty where the database's own are enough


class ExactRows:
    """Exact search by queries that are made of a sample of the rows, whose vectors stream by."""

    def __init__(self, asked: RecallQueries, count: int) -> None:
        self._asked = asked
        self._own = np.full(len(asked), EMPTY, np.int64)
        self._depth = min(_DEPTH, count - 1) + 1  # one more: the vector that a query was made of
        shape = (len(asked), self._depth)
        self._best: Scored = (np.full(shape, -np.inf, np.float32), np.full(shape, EMPTY, np.int64))

    def add(self, block: RowBlock, keys: NDArray[np.int64]) -> None:
        """Compare with the next rows, which have those keys ``[n]``."""
        inside = (self._asked.own >= block.start) & (self._asked.own < block.start + len(keys))
        self._own[inside] = keys[self._asked.own[inside] - block.start]
        for start in range(0, len(keys), _SCORED_ROWS):
            cut = slice(start, start + _SCORED_ROWS)
            scores = self._asked.vectors @ block.vectors[cut].T
            depth = min(self._depth, scores.shape[1])
            places = np.argpartition(-scores, depth - 1, axis=1)[:, :depth]
            found = (np.take_along_axis(scores, places, 1), keys[cut][places])
            self._best = merge_neighbors([self._best, found], self._depth, Metric.COSINE)

    def truth(self) -> GroundTruth:
        """The nearest rows of each query, without the one that it was made of."""
        return ground_truth(replace(self._asked, own=self._own), self._best, seconds=0.0)


def sample_queries(rows: DatabaseRows, done: Callable[[int], None]) -> ExactRows | None:
    """Read a sample of the vectors and make queries of them; None where there are not two, or none has a direction."""
    numbers = sample_numbers(rows.count, _QUERIES)
    vectors = np.zeros((len(numbers), rows.width), np.float32)
    for block in rows.blocks(columns=False):
        first, last = np.searchsorted(numbers, (block.start, block.start + len(block.vectors)))
        vectors[first:last] = block.vectors[numbers[first:last] - block.start]
        done(block.start + len(block.vectors))
    has_direction = vectors.any(axis=1)
    if rows.count < 2 or not has_direction.any():
        return None
    own, stored = numbers[has_direction], vectors[has_direction]
    return ExactRows(RecallQueries(QueryKind.DISTURBED, unit_vectors(disturb(stored)), own, stored), rows.count)


def judge_database(truth: GroundTruth, search: DatabaseSearch, trials: Sequence[Mapping[str, int]]) -> DatabaseRecall:
    """Measure recall with the database's own parameters, and where it is low with the ``trials``, until it is not."""
    nearest = min(NEAREST, truth.numbers.shape[1])

    def recall(parameters: Mapping[str, int]) -> float:
        found = search(truth.asked.vectors, nearest + 1, parameters)
        others = without_own(np.empty(found.shape, np.float32), found, truth.asked.own)[1]
        return round(float(recall_at_k(truth, others, nearest, Metric.COSINE).mean()), 4)

    default = best = recall({})
    chosen: Mapping[str, int] = {}
    for parameters in trials:
        if best >= ENOUGH:
            break
        if (reached := recall(parameters)) > best:
            best, chosen = reached, parameters
    return DatabaseRecall(nearest, len(truth.asked), truth.asked.kind, default, best, dict(chosen))

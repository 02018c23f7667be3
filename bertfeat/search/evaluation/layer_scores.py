"""The table of which layers search best: a row for each column and transform, with intervals over the queries."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.display import displayed
from bertfeat.errors import UsageError, parameter
from bertfeat.search.evaluation.beir import RETRIEVAL_METRICS, OwnIds, seem_documents

RANKED_BY = RETRIEVAL_METRICS[0]
"""The metric by which rows are compared: nDCG@10."""


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


@displayed
@dataclass(frozen=True, slots=True)
class LayerScores:
    """The retrieval scores of one column under one transform, by the relevance judgments."""

    column: str  # concat4_mean
    transform: str  # as asked for: none, half-whiten, whiten:128
    width: int  # values that are compared after it
    scores: Mapping[str, Interval]  # by key of RETRIEVAL_METRICS, over queries
    difference: Interval  # of nDCG@10 from the best row, over the same queries
    few_vectors: bool  # for so wide a whitening in full


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A column or transform that could not be had."""

    column: str
    transform: str
    reason: str


@displayed
@dataclass(frozen=True, slots=True)
class LayerTable:
    """The columns of a feature set scored on a BEIR folder, in the order asked for."""

    features: str
    model: str
    documents: int
    queries: int
    judged_documents: int
    unknown_documents: int  # judged ones that the set does not have
    own_ids: OwnIds  # the rule that was used
    rows: tuple[LayerScores, ...]
    left_out: tuple[LeftOut, ...]
    own_first: int = 0  # queries whose first hit has their own id, in the row that has most of them

    @property
    def seem_documents(self) -> bool:
        """Whether the queries seem to be documents of the corpus, though their own ids are kept."""
        return seem_documents(self.own_ids, self.own_first, self.queries)

    @property
    def best(self) -> LayerScores:
        """The row with the best nDCG@10; of equal ones the first."""
        return max(self.rows, key=lambda row: row.scores[RANKED_BY.key].value)

"""The queries by which an index is tuned and its recall is told: a user's own ones, or disturbed stored vectors.

A stored vector lies among its like, and an approximate search finds its neighbors easily: a recall of 0.97 that is
tuned on stored vectors was 0.92 for the questions of the same collection. Questions lie between the places where
documents lie. So Gaussian noise is added to stored vectors: one part of the vectors' own covariance, which leads away
from where documents lie densely, one part alike in all directions, which leads away from all of them. Both are measured
by how far vectors lie from their mean, so that they fit every model, metric and transform. ``benchmarks/recall.py``
tells what is found for the questions of collections where these are known.

Shapes: Q queries, W values in a vector.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.search.settings import QueryKind
from bertfeat.search.vectors.metric import Metric

ALONG, AROUND = 1.0, 4.0
"""Length of the two parts of the noise, of the vectors' covariance and alike in all directions, over the usual distance
of a vector from the mean of all. With noise of 1.5 the nearest are as far off as a question's; but noise keeps more of
the order of the documents than a question does, so it is larger, until recall is that of questions or less."""
_SEED = 2971


@dataclass(frozen=True, slots=True)
class RecallQueries:
    """Queries, prepared for FAISS."""

    kind: QueryKind
    vectors: NDArray[np.float32]  # [Q, W]
    own: NDArray[np.int64]  # [Q] number of the stored vector that each was made of, no answer to it; [0] where given
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
    """Stored vectors ``[Q, W]`` of those numbers, as they are."""
    return RecallQueries(QueryKind.STORED, vectors, own, vectors)


def disturbed_queries(vectors: NDArray[np.float32], own: NDArray[np.int64], metric: Metric) -> RecallQueries:
    """Stored vectors ``[Q, W]`` of those numbers with noise; ``metric`` prepares them again.

    Vectors so long that those with noise could not be compared stay as they are.
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
    disturbed: NDArray[np.float32] = vectors + np.float32(ALONG) * along + np.float32(AROUND) * around
    return disturbed

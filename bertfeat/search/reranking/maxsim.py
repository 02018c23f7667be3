"""MaxSim: how near a document is to a query, token by token, and the options of scoring hits by it again.

Each token of the query is compared with every token of the document, and the largest cosine counts. ColBERT sums these
(Khattab and Zaharia 2020, section 3.2); BERTScore takes their mean, weighted by inverse document frequencies (its
recall: Zhang et al. 2020, section 3). It is the mean here, so that scores of short and long queries have one scale.

Shapes: q tokens of a query, n tokens of a document, W values in a vector.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import UsageError

RERANK_DEPTH = 50
"""How many hits are scored again, unless more are asked for."""
MOST_WEIGHT = 1_000_000
"""Largest weight of the score by vector, beside which maxsim decides between equal ones only."""


@dataclass(frozen=True, slots=True)
class MaxSim:
    """Scores the best hits by vector again: ``maxsim + weight * score``, larger is nearer.

    ``column`` names the token or word vectors that are compared, such as ``layer5_token``: a stored column, or a recipe
    that the stored ones contain. By default they are of the index's own recipe. ``depth`` is how many hits are scored
    again, by default 50 or as many as are asked for. With ``idf`` rare tokens of the query count for more: each by
    ``log((N + 1) / (df + 1))``, where ``df`` of the index's ``N`` documents have it. Special tokens, and words without
    a vector, take no part.

    Raises:
        UsageError: a depth below 1, or a weight that is negative, no number or too large.
    """

    column: str | None = None
    depth: int | None = None
    weight: float = 0.5
    idf: bool = True

    def __post_init__(self) -> None:
        if self.depth is not None and self.depth < 1:
            raise UsageError(f"a depth of {self.depth} scores no hit again", remedy="give at least 1")
        if not 0 <= self.weight <= MOST_WEIGHT:  # NaN is neither
            raise UsageError(f"the weight of the first score is {self.weight}, but it is from 0 to {MOST_WEIGHT:,}")


def check_rerank(rerank: "MaxSim | str | None") -> MaxSim | None:
    """The options of scoring again, also by the name of the method, ``"maxsim"``.

    Raises:
        UsageError: a method that there is not.
    """
    if rerank is None or isinstance(rerank, MaxSim):
        return rerank
    if rerank != "maxsim":
        raise UsageError(f"hits cannot be scored again by {rerank!r}", remedy="there is maxsim")
    return MaxSim()


def compute_maxsim(query: NDArray[np.float32], weights: NDArray[np.float32], document: NDArray[np.float32]) -> float:
    """The weighted mean over the query's tokens of the largest cosine among the document's.

    Shape: ``[q, W]`` and ``[n, W]``, of length 1 or 0; ``weights`` ``[q]``. 0 where a side has no tokens, or the
    weights are all 0.
    """
    total = float(weights.sum())
    if not len(document) or total == 0:
        return 0.0
    return float((query @ document.T).max(axis=1) @ weights) / total

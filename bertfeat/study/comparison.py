"""The result of a comparison of two feature sets."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bertfeat.display import displayed

Measure = Literal["cka", "rsa", "neighbors", "cosine", "least_cosine"]
"""The name of a measure of two layers; see :class:`LayerPair`."""


@dataclass(frozen=True, slots=True)
class ComparedSet:
    """One of the two feature sets, and what of it was left out."""

    features: str
    model: str
    precision: str
    layers: tuple[str, ...]  # the compared columns, without their pooling: layer3, concat4
    failed: int  # rows that failed here and are documents of the other set
    without_vector: int  # tokens of no characters, which are special ones and white space; words that were not embedded
    unmatched: int  # tokens or words whose characters are none's of the other set


@dataclass(frozen=True, slots=True)
class LayerPair:
    """The similarity of two layers, one of each set; None where a measure is undefined.

    CKA, RSA and neighbors are undefined where a layer has equal vectors everywhere, as has the embedding of ``[CLS]``,
    and cosines where the layers differ in width.
    """

    first: str
    second: str
    cka: float | None  # linear centerd kernel alignment, 0 to 1: Kornblith et al. 2019, section 3
    rsa: float | None  # Spearman correlation of the cosines within each set: Kriegeskorte et al. 2008
    neighbors: float | None  # share of common ones among the k nearest by cosine
    cosine: float | None  # mean over all items
    least_cosine: float | None


@displayed
@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """Two feature sets over the same rows, layer by layer."""

    first: ComparedSet
    second: ComparedSet
    pooling: str
    by_text: bool  # whether texts were compared; where a set stores none, rows are matched by number and id
    documents: int  # that both sets have
    items: int  # documents, tokens or words that were compared
    sample: int  # of them, for RSA and neighbors
    k: int
    seed: int
    pairs: tuple[LayerPair, ...]  # every layer of the first with every layer of the second, in this order

    @property
    def partners(self) -> tuple[LayerPair, ...]:
        """For each layer of the first set a layer of the second: of the same place, or else the likest by CKA."""
        wide, high = len(self.second.layers), len(self.first.layers)
        rows = [self.pairs[at * wide : (at + 1) * wide] for at in range(high)]
        if wide == high:
            return tuple(row[at] for at, row in enumerate(rows))
        return tuple(max(row, key=lambda pair: -1.0 if pair.cka is None else pair.cka) for row in rows)

    def matrix(self, measure: Measure = "cka") -> NDArray[np.float64]:
        """A measure of every pair, ``[layers of the first, layers of the second]``; NaN where it is undefined."""
        values = np.array([getattr(pair, measure) for pair in self.pairs], np.float64)
        return values.reshape(len(self.first.layers), len(self.second.layers))

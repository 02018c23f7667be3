"""The spans that usages stand in: sentences, paragraphs, runs of words, or the places that a kept column lists.

Shapes: S spans, n ranges or hits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bertfeat.core import FeatureSet, SpanCutter, SpanRule
from bertfeat.usages.near import NearWord, Stretches
from bertfeat.usages.word_index import Hits, WordIndex

Bounds = Callable[[NDArray[np.int64]], NDArray[np.int64]]
"""Gives the characters ``[n, 2]`` beyond which nothing is context of some hits, whose numbers are ``[n]``."""

_WHOLE_TEXT = np.array([0, np.iinfo(np.int32).max])  # characters of any text
_TEXT = 1 << 32  # places of one text are below this number, so that a text and a place in it make one number


@dataclass(frozen=True, slots=True)
class TextSpans:
    """The spans of some texts; they may overlap."""

    start: NDArray[np.int64]  # [S] ascending places: the number of the text, times `_TEXT`, and a character in it
    end: NDArray[np.int64]  # [S]
    farthest: NDArray[np.int64]  # [S] the largest end so far

    @classmethod
    def read(cls, features: FeatureSet, index: WordIndex, cutter: SpanCutter, texts: NDArray[np.int64]) -> Self:
        """Read those documents of a feature set that have some texts, and cut them.

        Raises:
            FeatureSetError: the kept column lists no spans, or such as are empty or outside the text.
            DamagedError: a part or the word index is damaged.
            MissingLibraryError: words of Korean texts are counted, and what found them is not installed.
        """
        paired = index.texts_per_document == 2
        documents = np.unique(texts // index.texts_per_document)
        found, places = 0, [np.empty((2, 0), np.int64)]
        names = [*cutter.names, "pair"] if paired else cutter.names
        for batch in features.stream_rows(index.rows[documents].tolist(), names):
            found += len(batch)
            numbers = np.searchsorted(index.rows, batch.column("row").to_numpy())
            cut = [cutter.cut(batch), cutter.cut_pairs(batch)] if paired else [cutter.cut(batch)]
            for document, *of_texts in zip(numbers.tolist(), *cut, strict=True):
                for text, spans in enumerate(of_texts, document * index.texts_per_document):
                    places.append(np.stack([spans.start, spans.end]) + np.int64(text * _TEXT))
        if found < len(documents):
            raise index.damaged("documents that do not exist")
        start, end = np.concatenate(places, axis=1)
        return cls(start, end, np.maximum.accumulate(end))

    def hold(self, texts: NDArray[np.int64], ranges: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mask of the ranges that lie in a span, ``[n]``; see :meth:`around`."""
        held: NDArray[np.bool_] = self.around(texts, ranges)[:, 1] > 0
        return held

    def around(self, texts: NDArray[np.int64], ranges: NDArray[np.int64]) -> NDArray[np.int64]:
        """The characters of the first span that each of some ranges lies in, ``[n, 2]``; -1 where it is in none.

        Shapes: ``texts [n]``, ``ranges [n, 2]`` of characters in these texts.
        """
        begin, stop = texts * _TEXT + ranges.T
        at = np.searchsorted(self.farthest, stop)  # the first span that does not end before the range does
        inside = np.flatnonzero(at < len(self.start))
        inside = inside[self.start[at[inside]] <= begin[inside]]
        found = np.full(ranges.shape, -1, np.int64)
        found[inside] = np.stack([self.start[at[inside]], self.end[at[inside]]], axis=1) % _TEXT
        return found


def bound_hits(
    features: FeatureSet, index: WordIndex, hits: Hits, near: NearWord | None, cutter: SpanCutter | None
) -> tuple[Hits, Bounds]:
    """Keep the hits that the other word is near, in one span with them.

    Raises:
        FeatureSetError, DamagedError, MissingLibraryError: see :meth:`TextSpans.read`; or later, by the bounds.
    """
    texts = index.text_of(hits.first)

    def around(stretches: Stretches) -> NDArray[np.int64]:
        of_stretches = texts[stretches.numbers]
        if cutter is None:
            return np.broadcast_to(_WHOLE_TEXT, (len(of_stretches), 2))
        return TextSpans.read(features, index, cutter, of_stretches).around(of_stretches, stretches.characters)

    def around_hits(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        return around(Stretches(numbers, index.characters(hits[numbers])))

    if near is None and (cutter is None or _always_holds(cutter.rule, index, hits)):
        return hits, around_hits  # documents that are not shown need not be read
    every = Stretches(np.arange(len(hits)), index.characters(hits))
    stretches = every if near is None else near.find(index, hits)
    bounds, found = np.full((len(hits), 2), -1, np.int64), around(stretches)
    inside = found[:, 1] > 0
    bounds[stretches.numbers[inside]] = found[inside]  # of a hit with two stretches, the second one's
    kept = bounds[:, 1] > 0
    return hits[kept], bounds[kept].__getitem__


def _always_holds(rule: SpanRule, index: WordIndex, hits: Hits) -> bool:
    """Whether all hits stand in a span for certain: single words of letters, in which no sentence ends."""
    if rule.kind not in ("sentences", "paragraphs") or (hits.length > 1).any():
        return False
    return all(map(str.isalnum, index.spell(np.unique(index.words[hits.first]))))


def open_cutter(features: FeatureSet, spans: str | None) -> SpanCutter | None:
    """What cuts the texts of a feature set into spans, which are given as they are written; None for no spans.

    Raises:
        UsageError: unknown spans, or the kept column that would list them is missing.
    """
    return None if spans is None else SpanCutter(features, SpanRule.parse(spans))

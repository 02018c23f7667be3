"""The spans that usages stand in: sentences, paragraphs, runs of words, or the places that a kept column lists.

Shapes: S spans, n ranges.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bertfeat.features import FeatureSet, SpanCutter
from bertfeat.usages.word_index import WordIndex

WHOLE_TEXT = np.array([0, np.iinfo(np.int32).max])
"""The range of characters of any whole text."""

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
            FeatureSetError: the kept column is missing, or lists no spans, or such as are empty or outside the text.
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

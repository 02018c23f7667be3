"""The occurrences of a searched word in a text, and the stored vectors that belong to each of them.

Shapes: n words of a text, p vectors of a document.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bertfeat.core import CharSpans, DocumentPieces, FeatureSettings, Unit, align_words, split_words
from bertfeat.ragged import offsets_of
from bertfeat.usages.pattern import Pattern
from bertfeat.usages.pattern_search import find_pattern
from bertfeat.usages.word_index import WordIndex


@dataclass(frozen=True, slots=True)
class VectorPicks:
    """The vectors of a document that make up one occurrence, and the weight of each."""

    numbers: tuple[int, ...]  # indices of the document's tokens or words; empty if the occurrence has no vector
    weights: tuple[float, ...]  # one for each number; they add up to 1

    def moved(self, offset: int) -> Self:
        """The same vectors, counted from ``offset``."""
        return type(self)(tuple(number + offset for number in self.numbers), self.weights)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One occurrence of the word in a text."""

    start: int  # character offsets
    end: int
    picks: VectorPicks


@dataclass(frozen=True, slots=True)
class TextWords:
    """The words of one text of a document, and the vectors of each."""

    spans: CharSpans  # [n] where each word lies in the text
    first: NDArray[np.int64]  # [n] the vectors of a word are those with `numbers[first:stop]`
    stop: NDArray[np.int64]  # [n]
    numbers: NDArray[np.intp]  # [p] of the document's tokens or words that lie in the text

    @classmethod
    def of_text(
        cls, text: str, pieces: DocumentPieces, unit: Unit, settings: FeatureSettings, *, in_pair: bool = False
    ) -> Self:
        """The words of a text, from the tokens or words (``unit``) of its document.

        Words are those that the set stores. If it stores tokens, or chosen words only, the set's rule splits the text,
        and each word has what overlaps it; of its tokens, those that ``settings.subword`` names represent it.
        """
        inside = pieces.end > pieces.start  # special tokens are in no text
        if pieces.segment is not None:
            inside &= pieces.segment == in_pair
        if unit is Unit.WORD and not settings.only:
            numbers = np.flatnonzero(inside)
            first = np.arange(len(numbers))
            stop = first + (1 if pieces.aligned is None else pieces.aligned[numbers])
            return cls(CharSpans(pieces.start[numbers], pieces.end[numbers]), first, stop, numbers)
        numbers = np.flatnonzero(inside if pieces.aligned is None else inside & pieces.aligned)
        words = split_words(text, settings.word_rule)
        first, stop = align_words(words, CharSpans(pieces.start[numbers], pieces.end[numbers]))
        if unit is Unit.TOKEN and settings.subword != "mean":
            if settings.subword == "last":
                first = np.maximum(first, stop - 1)
            else:  # the first token, also in a set that has no word vectors and so no rule
                stop = np.minimum(stop, first + 1)
        return cls(words, first, stop, numbers)

    def picks(self, words: range) -> VectorPicks:
        """The mean of some words that have vectors, where each counts as the mean of its own vectors."""
        vectors = [self.numbers[self.first[word] : self.stop[word]].tolist() for word in words]
        with_vectors = [numbers for numbers in vectors if numbers]
        return VectorPicks(
            tuple(number for numbers in with_vectors for number in numbers),
            tuple(1 / (len(with_vectors) * len(numbers)) for numbers in with_vectors for _ in numbers),
        )


def find_occurrences(
    pattern: Pattern, text: str, pieces: DocumentPieces, unit: Unit, settings: FeatureSettings
) -> Iterator[Occurrence]:
    """Find a pattern in the only text of a document, whose tokens or words (``unit``) are ``pieces``."""
    words = TextWords.of_text(text, pieces, unit, settings)
    places = zip(words.spans.start.tolist(), words.spans.end.tolist(), strict=True)
    index = WordIndex.of_text([text[start:end] for start, end in places], words.spans)
    hits = find_pattern(index, pattern)
    for first, length in zip(hits.first.tolist(), hits.length.tolist(), strict=True):
        start, end = int(words.spans.start[first]), int(words.spans.end[first + length - 1])
        yield Occurrence(start, end, words.picks(range(first, first + length)))


def combine_vectors(matrix: NDArray[np.float32], picks: Sequence[VectorPicks]) -> NDArray[np.float32]:
    """The vector of each occurrence, each of which has at least one pick: ``[n, width]``.

    The rows of ``matrix`` are the vectors that the picks refer to, pick after pick.
    """
    weights = np.fromiter((weight for pick in picks for weight in pick.weights), np.float32, len(matrix))
    starts = offsets_of([len(pick.numbers) for pick in picks])[:-1]
    if len(starts) == len(matrix):
        return matrix
    vectors: NDArray[np.float32] = np.add.reduceat(matrix * weights[:, None], starts, axis=0)
    return vectors

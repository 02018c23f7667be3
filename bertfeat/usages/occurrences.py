"""Where the words of documents are, and which stored vectors make up each of them.

Shapes: n words of a text, p vectors of a document.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.features import DocumentPieces
from bertfeat.recipe import Pooling
from bertfeat.usages.match import WordQuery


@dataclass(frozen=True, slots=True)
class VectorPicks:
    """Which vectors of a document make up one occurrence, and with what weight each."""

    numbers: tuple[int, ...]  # of the tokens or words in the document; none: it has no vector
    weights: tuple[float, ...]  # they add up to 1


@dataclass(frozen=True, slots=True)
class Occurrence:
    """The word, found in a document."""

    in_pair: bool
    start: int  # character offsets in the text
    end: int
    picks: VectorPicks


@dataclass(frozen=True, slots=True)
class _TextWords:
    """The words of one text."""

    text: str
    start: list[int]  # [n]
    end: list[int]  # [n]
    vectors: list[tuple[int, ...]]  # [n] numbers of the vectors that each word has


def find_occurrences(
    wanted: WordQuery, texts: Sequence[str], pieces: DocumentPieces, kind: Pooling, subword: str
) -> Iterator[Occurrence]:
    """Find the word in a document, in the first text first.

    ``pieces`` are the document's words or, with ``kind`` token, its tokens; the words are then those of bertfeat's own
    rule, and ``subword`` says which of a word's tokens stand for it: ``first``, ``last`` or ``mean``.
    """
    for segment, text in enumerate(texts):
        if not wanted.may_stand_in(text):
            continue
        inside = _pieces_of_text(pieces, segment)
        words = (
            _stored_words(text, pieces, inside)
            if kind is Pooling.WORD
            else _words_of_tokens(text, pieces, inside, subword)
        )
        for first, stop in wanted.find(text, words.start, words.end):
            yield Occurrence(
                segment == 1, words.start[first], words.end[stop - 1], _mean_of_words(words.vectors[first:stop])
            )


def combine_vectors(matrix: NDArray[np.float32], picks: Sequence[VectorPicks]) -> NDArray[np.float32]:
    """The vector of each occurrence, none of which is without: ``[n, width]``.

    ``matrix`` has the vectors that the picks number, one pick after the other.
    """
    weights = np.fromiter((weight for pick in picks for weight in pick.weights), np.float32, len(matrix))
    starts = np.cumsum([0, *(len(pick.numbers) for pick in picks)])[:-1]
    if len(starts) == len(matrix):
        return matrix
    vectors: NDArray[np.float32] = np.add.reduceat(matrix * weights[:, None], starts, axis=0)
    return vectors


def _pieces_of_text(pieces: DocumentPieces, segment: int) -> NDArray[np.intp]:
    """Numbers of the pieces that are in a text; special tokens are in none."""
    inside = pieces.end > pieces.start
    if pieces.segment is not None:
        inside &= pieces.segment == segment
    return np.flatnonzero(inside)


def _stored_words(text: str, pieces: DocumentPieces, inside: NDArray[np.intp]) -> _TextWords:
    aligned = [True] * len(inside) if pieces.aligned is None else pieces.aligned[inside].tolist()
    pairs = zip(inside.tolist(), aligned, strict=True)
    vectors: list[tuple[int, ...]] = [(number,) if has else () for number, has in pairs]
    return _TextWords(text, pieces.start[inside].tolist(), pieces.end[inside].tolist(), vectors)


def _words_of_tokens(text: str, pieces: DocumentPieces, inside: NDArray[np.intp], subword: str) -> _TextWords:
    from bertfeat.words import CharSpans, align_words, split_words  # here, because a word set needs no tokenizers

    words = split_words(text)
    first, stop = align_words(words, CharSpans(pieces.start[inside], pieces.end[inside]))
    numbers = inside.tolist()
    cut = {"first": slice(0, 1), "last": slice(-1, None), "mean": slice(None)}[subword]
    vectors = [tuple(numbers[a:b][cut]) for a, b in zip(first.tolist(), stop.tolist(), strict=True)]
    return _TextWords(text, words.start.tolist(), words.end.tolist(), vectors)


def _mean_of_words(words: Sequence[tuple[int, ...]]) -> VectorPicks:
    """The mean over those of the words that have vectors, each the mean of its own."""
    having = [numbers for numbers in words if numbers]
    return VectorPicks(
        tuple(number for numbers in having for number in numbers),
        tuple(1 / (len(having) * len(numbers)) for numbers in having for _ in numbers),
    )

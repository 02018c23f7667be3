"""Where the words of documents are, and which stored vectors make up each of them.

Shapes: n words of a text, p vectors of a document.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.features import DocumentPieces
from bertfeat.recipe import Pooling
from bertfeat.usages.words import Wanted


@dataclass(frozen=True, slots=True)
class Picks:
    """Which vectors of a document make up one occurrence, and with what weight each."""

    numbers: tuple[int, ...]  # of the tokens or words in the document; none: it has no vector
    weights: tuple[float, ...]  # they add up to 1


@dataclass(frozen=True, slots=True)
class Occurrence:
    """The word, found in a document."""

    in_pair: bool
    start: int  # character offsets in the text
    end: int
    picks: Picks


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of one text."""

    text: str
    start: list[int]  # [n]
    end: list[int]  # [n]
    vectors: list[tuple[int, ...]]  # [n] numbers of the vectors that each word has


def occurrences(
    wanted: Wanted, texts: Sequence[str], pieces: DocumentPieces, kind: Pooling, subword: str
) -> Iterator[Occurrence]:
    """Find the word in a document, in the first text first.

    ``pieces`` are the document's words or, with ``kind`` token, its tokens; the words are then those of bertfeat's own
    rule, and ``subword`` says which of a word's tokens stand for it: ``first``, ``last`` or ``mean``.
    """
    for segment, text in enumerate(texts):
        if not wanted.may_stand_in(text):
            continue
        inside = _inside(pieces, segment)
        words = _given(text, pieces, inside) if kind is Pooling.WORD else _split(text, pieces, inside, subword)
        for first, stop in wanted.find(text, words.start, words.end):
            yield Occurrence(segment == 1, words.start[first], words.end[stop - 1], _picks(words.vectors[first:stop]))


def combined(matrix: NDArray[np.float32], picks: Sequence[Picks]) -> NDArray[np.float32]:
    """The vector of each occurrence, none of which is without: ``[n, width]``.

    ``matrix`` has the vectors that the picks number, one pick after the other.
    """
    weights = np.fromiter((weight for pick in picks for weight in pick.weights), np.float32, len(matrix))
    starts = np.cumsum([0, *(len(pick.numbers) for pick in picks)])[:-1]
    if len(starts) == len(matrix):
        return matrix
    vectors: NDArray[np.float32] = np.add.reduceat(matrix * weights[:, None], starts, axis=0)
    return vectors


def _inside(pieces: DocumentPieces, segment: int) -> NDArray[np.intp]:
    """Numbers of the pieces that are in a text; special tokens are in none."""
    inside = pieces.end > pieces.start
    if pieces.segment is not None:
        inside &= pieces.segment == segment
    return np.flatnonzero(inside)


def _given(text: str, pieces: DocumentPieces, inside: NDArray[np.intp]) -> _Words:
    aligned = [True] * len(inside) if pieces.aligned is None else pieces.aligned[inside].tolist()
    pairs = zip(inside.tolist(), aligned, strict=True)
    vectors: list[tuple[int, ...]] = [(number,) if has else () for number, has in pairs]
    return _Words(text, pieces.start[inside].tolist(), pieces.end[inside].tolist(), vectors)


def _split(text: str, pieces: DocumentPieces, inside: NDArray[np.intp], subword: str) -> _Words:
    from bertfeat.words import Spans, align, split_words  # here, because a word set needs no tokenizers

    words = split_words(text)
    first, stop = align(words, Spans(pieces.start[inside], pieces.end[inside]))
    numbers = inside.tolist()
    cut = {"first": slice(0, 1), "last": slice(-1, None), "mean": slice(None)}[subword]
    vectors = [tuple(numbers[a:b][cut]) for a, b in zip(first.tolist(), stop.tolist(), strict=True)]
    return _Words(text, words.start.tolist(), words.end.tolist(), vectors)


def _picks(words: Sequence[tuple[int, ...]]) -> Picks:
    """The mean over those of the words that have vectors, each the mean of its own."""
    having = [numbers for numbers in words if numbers]
    return Picks(
        tuple(number for numbers in having for number in numbers),
        tuple(1 / (len(having) * len(numbers)) for numbers in having for _ in numbers),
    )

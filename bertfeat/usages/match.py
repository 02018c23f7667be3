"""The occurrences of a searched word in a text, and the stored vectors that belong to each of them.

Shapes: n words of a text, p vectors of a document.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.features import DocumentPieces
from bertfeat.recipe import Unit
from bertfeat.words import CharSpans, WordQuery, align_words, split_words


@dataclass(frozen=True, slots=True)
class VectorPicks:
    """The vectors of a document that make up one occurrence, and the weight of each."""

    numbers: tuple[int, ...]  # indices of the document's tokens or words; empty if the occurrence has no vector
    weights: tuple[float, ...]  # one for each number; they add up to 1


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One occurrence of the word in a document."""

    in_pair: bool
    start: int  # character offsets in the text
    end: int
    picks: VectorPicks


@dataclass(frozen=True, slots=True)
class _TextWords:
    """The words of one text."""

    start: list[int]  # [n]
    end: list[int]  # [n]
    vectors: list[tuple[int, ...]]  # [n] numbers of the vectors of each word


def find_occurrences(
    query: WordQuery, texts: Sequence[str], pieces: DocumentPieces, unit: Unit, subword: str
) -> Iterator[Occurrence]:
    """Find the word in the texts of a document, in their order.

    ``pieces`` are the document's words or, with ``unit`` token, its tokens; then bertfeat's own rule splits the text
    into words, and ``subword`` says which of a word's tokens represent it: ``first``, ``last`` or ``mean`` (all).
    """
    for segment, text in enumerate(texts):
        if not query.may_occur_in(text):
            continue
        inside = _pieces_of_text(pieces, segment)
        words = _stored_words(pieces, inside) if unit is Unit.WORD else _words_of_tokens(text, pieces, inside, subword)
        for first, stop in query.find(text, words.start, words.end):
            picks = _mean_of_words(words.vectors[first:stop])
            yield Occurrence(segment == 1, words.start[first], words.end[stop - 1], picks)


def combine_vectors(matrix: NDArray[np.float32], picks: Sequence[VectorPicks]) -> NDArray[np.float32]:
    """The vector of each occurrence, each of which has at least one pick: ``[n, width]``.

    The rows of ``matrix`` are the vectors that the picks refer to, pick after pick.
    """
    weights = np.fromiter((weight for pick in picks for weight in pick.weights), np.float32, len(matrix))
    starts = np.cumsum([0, *(len(pick.numbers) for pick in picks)])[:-1]
    if len(starts) == len(matrix):
        return matrix
    vectors: NDArray[np.float32] = np.add.reduceat(matrix * weights[:, None], starts, axis=0)
    return vectors


def _pieces_of_text(pieces: DocumentPieces, segment: int) -> NDArray[np.intp]:
    """The indices of the pieces in a text; special tokens are in none."""
    inside = pieces.end > pieces.start
    if pieces.segment is not None:
        inside &= pieces.segment == segment
    return np.flatnonzero(inside)


def _stored_words(pieces: DocumentPieces, inside: NDArray[np.intp]) -> _TextWords:
    """The words as the feature set has them."""
    aligned = [True] * len(inside) if pieces.aligned is None else pieces.aligned[inside].tolist()
    pairs = zip(inside.tolist(), aligned, strict=True)
    vectors: list[tuple[int, ...]] = [(number,) if has_vector else () for number, has_vector in pairs]
    return _TextWords(pieces.start[inside].tolist(), pieces.end[inside].tolist(), vectors)


def _words_of_tokens(text: str, pieces: DocumentPieces, inside: NDArray[np.intp], subword: str) -> _TextWords:
    """The words of a text, aligned with its tokens."""
    words = split_words(text)
    first, stop = align_words(words, CharSpans(pieces.start[inside], pieces.end[inside]))
    numbers = inside.tolist()
    cut = {"first": slice(0, 1), "last": slice(-1, None), "mean": slice(None)}[subword]
    vectors = [tuple(numbers[a:b][cut]) for a, b in zip(first.tolist(), stop.tolist(), strict=True)]
    return _TextWords(words.start.tolist(), words.end.tolist(), vectors)


def _mean_of_words(words: Sequence[tuple[int, ...]]) -> VectorPicks:
    """The picks of a mean over the words that have vectors, where each word counts as the mean of its own vectors."""
    with_vectors = [numbers for numbers in words if numbers]
    return VectorPicks(
        tuple(number for numbers in with_vectors for number in numbers),
        tuple(1 / (len(with_vectors) * len(numbers)) for numbers in with_vectors for _ in numbers),
    )

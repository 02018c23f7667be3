"""The words of a text that match the searched word, and the stored vectors that belong to each of them.

Shapes: n words of a text, p vectors of a document.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import UsageError
from bertfeat.features import DocumentPieces
from bertfeat.recipe import Unit
from bertfeat.search import query_text


class Match(StrEnum):
    """The rule by which words of a text match the searched word."""

    EXACT = "exact"  # the word itself
    PREFIX = "prefix"  # every word that begins with it: 은행 finds 은행에서
    ANY = "any"  # every word


@dataclass(frozen=True, slots=True)
class WordQuery:
    """The word that is searched, in the form that is compared."""

    word: str  # as it was given
    key: str  # the word without case; several words have one space between them
    needle: str  # the longest part of the key without white space; a text that lacks it has no match
    match: Match

    def may_occur_in(self, text: str) -> bool:
        """Whether the words of a text must be compared at all."""
        return self.match is Match.ANY or self.needle in fold_case(text)

    def find(self, text: str, start: list[int], end: list[int]) -> list[tuple[int, int]]:
        """The ranges of words that match, mostly one word each; ``start`` and ``end`` are the offsets of all words."""
        if self.match is Match.ANY:
            return [(at, at + 1) for at, span in enumerate(zip(start, end, strict=True)) if is_word(text[slice(*span)])]
        ranges = ((at, self._matching_words(text, start[at], end[at:])) for at in range(len(start)))
        return [(at, at + count) for at, count in ranges if count]

    def _matching_words(self, text: str, start: int, ends: list[int]) -> int:
        """Count the words from ``start`` on that make up the query; 0 if they do not."""
        for count, end in enumerate(ends, 1):
            key = fold_case(text[start:end])
            if key == self.key or (self.match is Match.PREFIX and key.startswith(self.key)):
                return count
            if not key or not self.key.startswith(key):
                return 0
        return 0


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


def parse_word(word: str, match: Match | str = Match.EXACT) -> WordQuery:
    """Prepare a word for the search.

    Raises:
        UsageError: there is no word, or no such way to match.
    """
    word = query_text(word, "the word to look for")
    try:
        match = Match(match)
    except ValueError as error:
        raise UsageError(f"match {match!r} is unknown", remedy=f"there are: {', '.join(Match)}") from error
    key = fold_case(word)
    return WordQuery(word, key, max(key.split(), key=len), match)


def fold_case(text: str) -> str:
    """A text in the form that is compared: without case, composed (NFC), each run of white space as one space."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())
    return " ".join(text.lower().split())


def is_word(text: str) -> bool:
    """Whether a text contains a letter or digit, so that it is not only punctuation."""
    return any(character.isalnum() for character in text)


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
    from bertfeat.words import CharSpans, align_words, split_words  # here, because a word set needs no tokenizers

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

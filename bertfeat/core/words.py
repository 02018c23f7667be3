"""Words, the same for every model: where they are in a text, which subwords they consist of, and which ones match.

Words match without regard to case. ``train*`` stands for every word that begins with ``train``.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Self

import numpy as np
import regex
from numpy.typing import NDArray

from bertfeat.arguments import require_text
from bertfeat.core.korean import find_particle_borders, kiwi_version
from bertfeat.errors import UsageError

# a punctuation mark is a word; so is a run of anything else between white space and punctuation
_WORD = regex.compile(r"\p{P}|[^\s\p{P}]+")


@dataclass(frozen=True, slots=True)
class CharSpans:
    """The spans of words (or pieces) in a text: character offsets, end exclusive, in order."""

    start: NDArray[np.int32]  # [N]
    end: NDArray[np.int32]  # [N]

    def __len__(self) -> int:
        return len(self.start)


class WordRule(StrEnum):
    """The rule by which running text is split into words."""

    SPACES = "spaces"  # runs between white space and Unicode punctuation, and each punctuation mark by itself
    KOREAN = "korean"  # these, with the particles that follow Korean words as words of their own

    @property
    def record(self) -> str:
        """The rule as feature sets record it, with the versions of the program that it asks.

        Raises:
            MissingLibraryError: the program is not installed.
        """
        return f"{self} {kiwi_version()}" if self is WordRule.KOREAN else str(self)

    def check_installed(self) -> None:
        """Refuse the rule where the program that it asks is not installed."""
        _ = self.record

    @classmethod
    def from_record(cls, recorded: str) -> Self:
        """The rule that a feature set records."""
        return cls(recorded.partition(" ")[0])


def split_words(text: str, rule: WordRule = WordRule.SPACES) -> CharSpans:
    """Find the words of a running text.

    Raises:
        MissingLibraryError: the program that the rule asks is not installed.
    """
    spans = np.array([match.span() for match in _WORD.finditer(text)], np.int32).reshape(-1, 2)
    words = CharSpans(spans[:, 0], spans[:, 1])
    return words if rule is WordRule.SPACES else _cut_words(words, find_particle_borders(text))


def _cut_words(words: CharSpans, borders: Sequence[int]) -> CharSpans:
    """The parts of words between borders that lie inside of them."""
    cuts = np.unique(np.array(borders, np.int32))
    word = np.searchsorted(words.start, cuts, side="right") - 1
    cuts = cuts[(word >= 0) & (words.start[word] < cuts) & (cuts < words.end[word])] if len(words) else cuts[:0]
    return CharSpans(np.sort(np.concatenate([words.start, cuts])), np.sort(np.concatenate([words.end, cuts])))


def count_words(text: str) -> int:
    """The number of words between spaces that :func:`split_words` finds, in a third of the time."""
    return len(_WORD.findall(text))


def locate_words(words: Sequence[str]) -> CharSpans:
    """Locate given words in their text, which is the words joined by single spaces."""
    lengths = np.fromiter(map(len, words), np.int32, len(words))
    start = np.fromiter(accumulate((lengths + 1)[:-1].tolist(), initial=0), np.int32) if len(words) else lengths
    return CharSpans(start, start + lengths)


def align_words(words: CharSpans, pieces: CharSpans) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the range of pieces that overlap each word; empty where a word has none.

    A piece that reaches over two words (``'t`` of ``don't``) belongs to both.

    Shape: ``words [N]``, ``pieces [P]`` → first piece ``[N]`` and the one after the last ``[N]``.
    """
    # normalization can reorder characters within a cluster; running extremes keep the offsets sorted for the searches
    ends = np.maximum.accumulate(pieces.end)
    starts = np.minimum.accumulate(pieces.start[::-1])[::-1]
    first = np.searchsorted(ends, words.start, side="right")
    stop = np.searchsorted(starts, words.end, side="left")
    return first, np.where(words.end > words.start, np.maximum(stop, first), first)


# ── matching ──────────────────────────────────────────────────────────────────────────────────────────────────

WILDCARD = "*"
"""Stands at the end of a word for whatever may follow."""


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

    @classmethod
    def parse(cls, word: str, match: Match | str = Match.EXACT, *, what: str = "the word to look for") -> Self:
        """Prepare a word for the search; ``train*`` matches all that begin with ``train``.

        Raises:
            UsageError: there is no word, or no such way to match; ``what`` names the word in the message.
        """
        word = require_text(word, what)
        try:
            match = Match(match)
        except ValueError as error:
            raise UsageError(f"match {match!r} is unknown", remedy=f"there are: {', '.join(Match)}") from error
        key = fold_case(word)
        if match is not Match.ANY and len(key) > 1 and key[-1] == WILDCARD and key[-2] not in "* ":  # f*** is a word
            key, match = key[:-1], Match.PREFIX
        return cls(word, key, max(key.split(), key=len), match)

    def may_occur_in(self, text: str) -> bool:
        """Whether the words of a text must be compared at all."""
        return self.match is Match.ANY or self.needle in fold_case(text)

    def find(self, text: str, start: list[int], end: list[int]) -> list[tuple[int, int]]:
        """The ranges of words that match, mostly one word each; ``start`` and ``end`` are the offsets of all words."""
        if self.match is Match.ANY:
            return [(at, at + 1) for at, span in enumerate(zip(start, end, strict=True)) if is_word(text[slice(*span)])]
        ranges = ((first, self._stop_of_match(text, start[first], end, first)) for first in range(len(start)))
        return [(first, stop) for first, stop in ranges if stop]

    def _stop_of_match(self, text: str, start: int, end: list[int], first: int) -> int:
        """The number after that of the last word of a match that begins with the word ``first``; 0 if none does."""
        for at in range(first, len(end)):
            key = fold_case(text[start : end[at]])
            if key == self.key or (self.match is Match.PREFIX and key.startswith(self.key)):
                return at + 1
            if not key or not self.key.startswith(key):
                return 0
        return 0


@dataclass(frozen=True)
class WordList:
    """A list of words, by which some words of a text are chosen.

    Its entries are words, beginnings of words (``train*``), or several words that follow one another (``don't`` is
    three words, because an apostrophe is a word).
    """

    entries: tuple[str, ...]  # without case, sorted, each once; a beginning ends in an asterisk

    @classmethod
    def parse(cls, words: Iterable[str]) -> Self:
        """Make a list of words as a user gives them.

        Raises:
            UsageError: one of them is empty, or chooses every word; or there are none.
        """
        queries = [WordQuery.parse(word, what=f"word {number} of the list") for number, word in enumerate(words, 1)]
        if not queries:
            raise UsageError("a list without words chooses nothing", remedy="name the words")
        if any(query.key == WILDCARD for query in queries):
            raise UsageError("an asterisk alone chooses every word", remedy="write train* for words that begin so")
        beginnings = {Match.EXACT: "", Match.PREFIX: WILDCARD}
        return cls(tuple(sorted({query.key + beginnings[query.match] for query in queries})))

    @cached_property
    def queries(self) -> tuple[WordQuery, ...]:
        """A query for each entry."""
        return tuple(map(WordQuery.parse, self.entries))

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(query.key for query in self.queries if query.match is Match.EXACT)

    @cached_property
    def _beginnings(self) -> tuple[str, ...]:
        return tuple(query.key for query in self.queries if query.match is Match.PREFIX)

    @cached_property
    def _phrases(self) -> tuple[WordQuery, ...]:
        """The entries that are several words between spaces."""
        return tuple(query for query in self.queries if count_words(query.key) > 1)

    def places(self, text: str, spans: CharSpans, rule: WordRule = WordRule.SPACES) -> NDArray[np.int32]:
        """The numbers of the chosen words among the words of a text, which lie at ``spans``; ascending."""
        start, end = spans.start.tolist(), spans.end.tolist()
        folded = [fold_word(text[begin:stop]) for begin, stop in zip(start, end, strict=True)]
        chosen = {at for at, word in enumerate(folded) if word in self._words or word.startswith(self._beginnings)}
        # what is one word in a list may be two in a text: 은행에서
        phrases = self._phrases if rule is WordRule.SPACES else self.queries
        whole = fold_case(text) if phrases else ""
        for phrase in phrases:
            if phrase.needle in whole:
                chosen.update(at for first, stop in phrase.find(text, start, end) for at in range(first, stop))
        return np.array(sorted(chosen), np.int32)

    def covers(self, query: WordQuery, rule: WordRule = WordRule.SPACES) -> bool:
        """Whether it chooses every word that a query finds; a query for any word finds those that there are."""
        if query.match is Match.ANY:
            return True
        if query.match is Match.PREFIX:
            return query.key.startswith(self._beginnings)
        spans = split_words(query.key, rule)
        return len(self.places(query.key, spans, rule)) == len(spans)


def fold_case(text: str) -> str:
    """A text in the form that is compared: without case, composed (NFC), each run of white space as one space."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())
    return " ".join(text.lower().split())


fold_word = lru_cache(1 << 16)(fold_case)
""":func:`fold_case` for words, which come again and again."""


def is_word(text: str) -> bool:
    """Whether a text contains a letter or digit, so that it is not only punctuation."""
    return any(character.isalnum() for character in text)

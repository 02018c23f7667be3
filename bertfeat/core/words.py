"""Words, the same for every model: where they are in a text, which subwords they consist of, and which ones match.

Words match without regard to case. In a list of words, ``train*`` stands for every word that begins with ``train``.
"""

import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import pairwise, starmap
from threading import Lock
from typing import Self

import numpy as np
import regex
from numpy.typing import NDArray

from bertfeat.arguments import require_text
from bertfeat.core.korean import find_particle_borders, kiwi_version
from bertfeat.errors import UsageError
from bertfeat.ragged import Int64s, lengths_of, offsets_of

_Places = NDArray[np.integer]
_UTF32 = f"utf-32-{'le' if sys.byteorder == 'little' else 'be'}"


@dataclass(frozen=True, slots=True)
class CharSpans:
    """The spans of words (or pieces) in a text: character offsets, end exclusive, in order."""

    start: NDArray[np.int32]  # [N]
    end: NDArray[np.int32]  # [N]

    def __len__(self) -> int:
        return len(self.start)

    @classmethod
    def join(cls, spans: Sequence[Self]) -> Self:
        """The spans of several texts, one after another."""
        start, end = ([np.zeros(0, np.int32), *(getattr(each, name) for each in spans)] for name in ("start", "end"))
        return cls(np.concatenate(start), np.concatenate(end))

    def cut(self, counts: NDArray[np.int64]) -> Iterator[Self]:
        """The spans of each text, of which there are so many."""
        return map(self.take, starmap(slice, pairwise(offsets_of(counts).tolist())))

    def take(self, numbers: NDArray[np.integer] | NDArray[np.bool_] | slice) -> Self:
        """Some of the spans."""
        return type(self)(self.start[numbers], self.end[numbers])


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


def code_points(text: str) -> NDArray[np.uint32]:
    """The characters of a text as numbers; half of a surrogate pair is one, too. Shape: ``[len(text)]``."""
    return np.frombuffer(text.encode(_UTF32, "surrogatepass"), np.uint32)


def split_words(text: str, rule: WordRule = WordRule.SPACES) -> CharSpans:
    """Find the words of a running text.

    Raises:
        MissingLibraryError: the program that the rule asks is not installed.
    """
    words = _between_spaces(text)
    return _split_off_particles(words, text) if rule is WordRule.KOREAN else words


def split_each(texts: Sequence[str], rule: WordRule = WordRule.SPACES) -> tuple[CharSpans, Int64s]:
    """Find the words of running texts: their spans, text after text, and how many each text has.

    Raises:
        MissingLibraryError: the program that the rule asks is not installed.
    """
    found, counts = list[CharSpans](), list[Int64s]()
    for some in cut_into_blocks(texts, _BLOCK, _BLOCK):
        spans, count = _between_spaces_of_each(some)
        if rule is WordRule.KOREAN:
            parts = list(map(_split_off_particles, spans.cut(count), some))
            spans, count = CharSpans.join(parts), lengths_of(parts)
        found.append(spans)
        counts.append(count)
    return CharSpans.join(found), np.concatenate([np.zeros(0, np.int64), *counts])


def cut_into_blocks(texts: Sequence[str], size: int, longest: int) -> Iterator[Sequence[str]]:
    """Cut texts into blocks of neighbors, of about ``size`` characters; one of more than ``longest`` is a block."""
    lengths = lengths_of(texts)
    long, number = lengths > longest, np.cumsum(lengths) // size
    cuts = np.flatnonzero((number[1:] != number[:-1]) | long[1:] | long[:-1]) + 1
    for start, stop in pairwise([0, *cuts.tolist(), len(texts)]) if texts else ():
        yield texts[start:stop]


def _between_spaces_of_each(texts: Sequence[str]) -> tuple[CharSpans, Int64s]:
    """Find the words of several texts, and how many each has."""
    joined = _between_spaces(" ".join(texts))
    offsets = offsets_of(lengths_of(texts) + 1)
    counts = np.diff(np.searchsorted(joined.start, offsets))
    shift = np.repeat(offsets[:-1].astype(np.int32), counts)
    return CharSpans(joined.start - shift, joined.end - shift), counts


def _between_spaces(text: str) -> CharSpans:
    """Find punctuation marks, and the runs of anything else between them and white space."""
    kinds = _KINDS.of(code_points(f" {text} "))
    own = kinds[1:-1]
    mark = own == _MARK
    # a run begins where the kind is larger than the one before, and ends where it is larger than the next: what is
    # inside of one has the largest number
    start = np.flatnonzero(mark | (own > kinds[:-2])).astype(np.int32)
    end = np.flatnonzero(mark | (own > kinds[2:])).astype(np.int32)
    return CharSpans(start, end + np.int32(1))


class CharacterTable:
    """A table of what each character is, by a function of one, which is asked when a character is met first."""

    def __init__(self, entry_of: Callable[[str], int], dtype: type[np.unsignedinteger]) -> None:
        """Take the function, whose numbers are at least 1, and the type that holds them."""
        self.entries: NDArray[np.unsignedinteger] = np.zeros(sys.maxunicode + 1, dtype)  # 0: not met yet
        self._entry_of, self._learning = entry_of, Lock()

    def of(self, characters: NDArray[np.unsignedinteger]) -> NDArray[np.unsignedinteger]:
        """The entries of characters. Shape: ``[n]`` → ``[n]``."""
        entries: NDArray[np.unsignedinteger] = self.entries[characters]
        if not entries.all():
            self.learn(characters)
            entries = self.entries[characters]
        return entries

    def learn(self, characters: NDArray[np.unsignedinteger]) -> None:
        """Enter the characters that were not met before."""
        new = np.unique(characters[self.entries[characters] == 0]).tolist()
        with self._learning:
            for code_point in new:
                if not self.entries[code_point]:
                    self.entries[code_point] = self._entry_of(chr(code_point))


_BLOCK = 1 << 15  # characters that are split at once: what is computed of them stays in a processor's cache
_SPACE, _MARK, _INSIDE = 1, 2, 3
_IS_SPACE, _IS_MARK = regex.compile(r"\s").match, regex.compile(r"\p{P}").match
_KINDS = CharacterTable(lambda each: _SPACE if _IS_SPACE(each) else _MARK if _IS_MARK(each) else _INSIDE, np.uint8)


def _split_off_particles(words: CharSpans, text: str) -> CharSpans:
    """Words, and the particles that follow Korean ones as words of their own."""
    cuts = np.unique(np.array(find_particle_borders(text), np.int32))
    word = np.searchsorted(words.start, cuts, side="right") - 1
    cuts = cuts[(word >= 0) & (words.start[word] < cuts) & (cuts < words.end[word])] if len(words) else cuts[:0]
    return CharSpans(np.sort(np.concatenate([words.start, cuts])), np.sort(np.concatenate([words.end, cuts])))


def locate_words(words: Sequence[str]) -> CharSpans:
    """Locate given words in their text, which is the words joined by single spaces."""
    lengths = lengths_of(words)
    start = offsets_of(lengths + 1)[:-1]
    return CharSpans(start.astype(np.int32), (start + lengths).astype(np.int32))


def align_words(words: CharSpans, pieces: CharSpans) -> tuple[Int64s, Int64s]:
    """Find the range of pieces that overlap each word; empty where a word has none.

    A piece that reaches over two words (``'t`` of ``don't``) belongs to both.

    Shape: ``words [N]``, ``pieces [P]`` → first piece ``[N]`` and the one after the last ``[N]``.
    """
    return _overlaps(words.start, words.end, pieces.start, pieces.end)


def align_each(words: CharSpans, word_counts: Int64s, pieces: CharSpans, piece_counts: Int64s) -> tuple[Int64s, Int64s]:
    """Find the range of pieces that overlap each word of several texts, which follow one another.

    Shape: ``words [N]``, ``word_counts [T]``, ``pieces [P]``, ``piece_counts [T]`` → first piece ``[N]`` and the one
    after the last ``[N]``, among all pieces.
    """
    ends = (spans.end.max(initial=0) for spans in (words, pieces))
    width = 1 + max(map(int, ends)) - min(0, int(pieces.start.min(initial=0)))
    begins = width * np.arange(len(word_counts))  # each text gets a range of characters of its own
    of_words, of_pieces = np.repeat(begins, word_counts), np.repeat(begins, piece_counts)
    return _overlaps(words.start + of_words, words.end + of_words, pieces.start + of_pieces, pieces.end + of_pieces)


def _overlaps(start: _Places, end: _Places, piece_start: _Places, piece_end: _Places) -> tuple[Int64s, Int64s]:
    # normalization can reorder characters within a cluster; running extremes keep the offsets sorted for the searches
    first = np.searchsorted(np.maximum.accumulate(piece_end), start, side="right")
    stop = np.searchsorted(np.minimum.accumulate(piece_start[::-1])[::-1], end, side="left")
    return first, np.where(end > start, np.maximum(stop, first), first)


# ── matching ──────────────────────────────────────────────────────────────────────────────────────────────────

WILDCARD = "*"
"""Stands at the end of a word for whatever may follow."""


@dataclass(frozen=True, slots=True)
class WordQuery:
    """The word that is searched, or the beginning of words, in the form that is compared."""

    word: str  # as it was given
    key: str  # the word without case; several words have one space between them
    needle: str  # the longest part of the key without white space; a text that lacks it has no match
    begins: bool = False  # whether words match that begin with it: 은행 finds 은행에서

    @classmethod
    def parse(cls, word: str, *, what: str = "the word to look for") -> Self:
        """Prepare a word for the search; ``train*`` matches all that begin with ``train``.

        Raises:
            UsageError: there is no word; ``what`` names it in the message.
        """
        query = cls.of(require_text(word, what))
        key = query.key
        if len(key) == 1 or key[-1] != WILDCARD or key[-2] in "* ":  # f*** is a word
            return query
        return cls(query.word, key[:-1], max(key[:-1].split(), key=len), begins=True)

    @classmethod
    def of(cls, word: str, *, begins: bool = False) -> Self:
        """The query for a word, or a beginning of words, as it stands."""
        key = fold_case(word)
        return cls(word, key, max(key.split(), key=len), begins)

    @property
    def entry(self) -> str:
        """The word without case, as a list of words has it: a beginning ends in an asterisk."""
        return self.key + WILDCARD * self.begins

    def find(self, text: str, start: list[int], end: list[int]) -> list[tuple[int, int]]:
        """The ranges of words that match, mostly one word each; ``start`` and ``end`` are the offsets of all words."""
        ranges = ((first, self._stop_of_match(text, start[first], end, first)) for first in range(len(start)))
        return [(first, stop) for first, stop in ranges if stop]

    def _stop_of_match(self, text: str, start: int, end: list[int], first: int) -> int:
        """The number after that of the last word of a match that begins with the word ``first``; 0 if none does."""
        for at in range(first, len(end)):
            key = fold_case(text[start : end[at]])
            if key == self.key or (self.begins and key.startswith(self.key)):
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
        return cls(tuple(sorted({query.entry for query in queries})))

    @cached_property
    def queries(self) -> tuple[WordQuery, ...]:
        """A query for each entry."""
        return tuple(map(WordQuery.parse, self.entries))

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(query.key for query in self.queries if not query.begins)

    @cached_property
    def _beginnings(self) -> tuple[str, ...]:
        return tuple(query.key for query in self.queries if query.begins)

    @cached_property
    def _phrases(self) -> tuple[WordQuery, ...]:
        """The entries that are several words between spaces."""
        return tuple(query for query in self.queries if len(split_words(query.key)) > 1)

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
        """Whether it chooses every word that a query finds."""
        if query.begins:
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

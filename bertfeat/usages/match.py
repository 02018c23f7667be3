"""A word as it is looked for, and the words of a text that match it."""

import unicodedata
from dataclasses import dataclass
from enum import StrEnum

from bertfeat.errors import UsageError
from bertfeat.search.queries import query_text


class Match(StrEnum):
    """Which words of a text count as the word that is looked for."""

    EXACT = "exact"  # the word itself
    PREFIX = "prefix"  # every word that begins with it: 은행 finds 은행에서
    ANY = "any"  # every word


@dataclass(frozen=True, slots=True)
class WordQuery:
    """The word that is looked for, in the form that is compared."""

    word: str  # as it was given
    key: str  # folded; several words with one space between
    needle: str  # a piece of the key without white space, which a text must contain
    match: Match

    def may_stand_in(self, text: str) -> bool:
        """Whether it is worth to look at the words of a text."""
        return self.match is Match.ANY or self.needle in fold_case(text)

    def find(self, text: str, start: list[int], end: list[int]) -> list[tuple[int, int]]:
        """The ranges of words, of which there are usually one each, that match; ``start`` and ``end`` of all words."""
        if self.match is Match.ANY:
            return [(at, at + 1) for at, span in enumerate(zip(start, end, strict=True)) if is_word(text[slice(*span)])]
        ranges = ((at, self._reach(text, start[at], end[at:])) for at in range(len(start)))
        return [(at, at + reach) for at, reach in ranges if reach]

    def _reach(self, text: str, start: int, ends: list[int]) -> int:
        """How many words from ``start`` on are the wanted ones; 0: they are others."""
        for reach, end in enumerate(ends, 1):
            key = fold_case(text[start:end])
            if key == self.key or (self.match is Match.PREFIX and key.startswith(self.key)):
                return reach
            if not key or not self.key.startswith(key):
                return 0
        return 0


def parse_word(word: str, match: Match | str = Match.EXACT) -> WordQuery:
    """Make a word ready to be looked for.

    Raises:
        UsageError: there is no word, or no such way to match.
    """
    word = query_text(word, "the word to look for")
    try:
        match = Match(match)
    except ValueError as error:
        raise UsageError(f"match {match!r} is unknown; there are: {', '.join(Match)}") from error
    key = fold_case(word)
    return WordQuery(word, key, max(key.split(), key=len), match)


def fold_case(text: str) -> str:
    """A text as it is compared: without case, composed (NFC), every run of white space one space."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())
    return " ".join(text.lower().split())


def is_word(text: str) -> bool:
    """Whether there is a letter or digit, so that it is no mere punctuation."""
    return any(sign.isalnum() for sign in text)

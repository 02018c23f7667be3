"""Words near a usage: up to a number of words before or after it, in the same text. Punctuation marks do not count.

Shapes: n hits, m hits of the word that is to be near.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bertfeat.arguments import require_at_least
from bertfeat.errors import UsageError, parameter
from bertfeat.usages.word_index import Hits, WordIndex
from bertfeat.words import WordQuery

REACH = 5
"""The number of words on each side that are near, by default."""


def check_reach(left: int, right: int) -> None:
    """Refuse numbers of words before and after a usage that leave no word near."""
    require_at_least(0, left=left, right=right)
    if not left + right:
        raise UsageError(f"{parameter('left', 0)} and {parameter('right', 0)} leave no word near")


@dataclass(frozen=True, slots=True)
class NearWord:
    """A word that must stand near a usage: up to ``left`` words before it, or ``right`` words after it."""

    query: WordQuery
    left: int
    right: int

    @classmethod
    def of(cls, word: str | None, left: int | None, right: int | None) -> Self | None:
        """The word that is near; None where none is asked for."""
        if word is None:
            for name, value in (("left", left), ("right", right)):
                if value is not None:
                    problem = f"{parameter(name, value)} says how near a word must stand"
                    raise UsageError(problem, remedy=f"name it with {parameter('near')}")
            return None
        near = cls(WordQuery.parse(word), REACH if left is None else left, REACH if right is None else right)
        check_reach(near.left, near.right)
        return near

    def mask(self, index: WordIndex, hits: Hits) -> NDArray[np.bool_]:
        """Mask of the hits that the word is near, ``[n]``."""
        words = index.without_marks(np.arange(len(index.words)))  # places, so that distances are counted in words
        begin, end = word_borders(words, hits)
        others = index.find(self.query)
        other_begin, other_end = word_borders(words, others)
        texts, other_texts = index.text_of(hits.first), index.text_of(others.first)
        # in each direction the nearest one decides: where it is in another text, so are all that are farther away
        before, after = np.argsort(other_end, kind="stable"), np.argsort(other_begin, kind="stable")
        last = np.searchsorted(other_end[before], begin, side="right") - 1
        following = np.searchsorted(other_begin[after], end)
        found = np.zeros(len(hits), bool)
        inside = np.flatnonzero(last >= 0)
        nearest = before[last[inside]]
        found[inside] = (begin[inside] - other_end[nearest] < self.left) & (other_texts[nearest] == texts[inside])
        inside = np.flatnonzero(following < len(after))
        nearest = after[following[inside]]
        found[inside] |= (other_begin[nearest] - end[inside] < self.right) & (other_texts[nearest] == texts[inside])
        return found


def word_borders(words: NDArray[np.int64], hits: Hits) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers of words before each hit, and up to its end, of ascending places of words; ``[n]`` each."""
    return np.searchsorted(words, hits.first), np.searchsorted(words, hits.first + hits.length)

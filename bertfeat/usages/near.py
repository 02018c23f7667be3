"""Words near a usage: up to a number of words before or after it, in the same text. Punctuation marks do not count.

With spans, the word is in the same span, too (:mod:`bertfeat.usages.spans`).

Shapes: n hits, m stretches.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bertfeat.arguments import require_at_least
from bertfeat.errors import UsageError, parameter
from bertfeat.usages.pattern import Pattern
from bertfeat.usages.pattern_search import find_pattern
from bertfeat.usages.settings import UsageSettings
from bertfeat.usages.word_index import Hits, WordIndex

REACH = 5
"""The number of words on each side that are near, by default."""

_ANY_REACH = 1 << 62  # more words than there are


def check_reach(left: int, right: int) -> None:
    """Refuse numbers of words before and after a usage that leave no word near."""
    require_at_least(0, left=left, right=right)
    if not left + right:
        raise UsageError(f"{parameter('left', 0)} and {parameter('right', 0)} leave no word near")


@dataclass(frozen=True, slots=True)
class NearWord:
    """A word that must stand near a usage: up to ``left`` words before it, or ``right`` words after it."""

    pattern: Pattern
    left: int
    right: int

    @classmethod
    def of(cls, asked: UsageSettings) -> Self | None:
        """The word that is near; None where none is asked for. In ``spans`` it is near anywhere in the usage's span."""
        left, right = asked.left, asked.right
        if asked.near is None:
            for name, value in (("left", left), ("right", right)):
                if value is not None:
                    problem = f"{parameter(name, value)} says how near a word must stand"
                    raise UsageError(problem, remedy=f"name it with {parameter('near')}")
            return None
        reach = REACH if asked.spans is None else _ANY_REACH
        near = cls(Pattern.parse(asked.near), reach if left is None else left, reach if right is None else right)
        check_reach(near.left, near.right)
        return near

    def find(self, index: WordIndex, hits: Hits) -> "Stretches":
        """The stretches to the nearest such word after each hit, then from the nearest one before it, within reach."""
        words = index.without_marks(np.arange(len(index.words)))  # places, so that distances are counted in words
        begin, end = word_borders(words, hits)
        others = find_pattern(index, self.pattern)
        other_begin, other_end = word_borders(words, others)
        texts, other_texts = index.text_of(hits.first), index.text_of(others.first)
        # In each direction the nearest one decides: where it is in another text, so are all that are farther away. It
        # is found by places: a punctuation mark takes up no words, so that by these it would be near itself.
        ends = others.first + others.length
        before, after = np.argsort(ends, kind="stable"), np.argsort(others.first, kind="stable")
        last = np.searchsorted(ends[before], hits.first, side="right") - 1
        following = np.searchsorted(others.first[after], hits.first + hits.length)
        own, foreign = index.characters(hits), index.characters(others)

        def reach(numbers: NDArray[np.int64], nearest: NDArray[np.int64], close: NDArray[np.bool_]) -> Stretches:
            reached = close & (other_texts[nearest] == texts[numbers])
            return Stretches(numbers[reached], stretch_over(own[numbers[reached]], foreign[nearest[reached]]))

        inside = np.flatnonzero(last >= 0)
        nearest = before[last[inside]]
        on_the_left = reach(inside, nearest, begin[inside] - other_end[nearest] < self.left)
        inside = np.flatnonzero(following < len(after))
        nearest = after[following[inside]]
        on_the_right = reach(inside, nearest, other_begin[nearest] - end[inside] < self.right)
        return Stretches(
            np.concatenate([on_the_right.numbers, on_the_left.numbers]),
            np.concatenate([on_the_right.characters, on_the_left.characters]),
        )


@dataclass(frozen=True, slots=True)
class Stretches:
    """Stretches of text that reach from some hits to a word near each."""

    numbers: NDArray[np.int64]  # [m] of the hits; one may be there twice
    characters: NDArray[np.int64]  # [m, 2]


def stretch_over(ranges: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.int64]:
    """The stretches that reach over two ranges of characters each; ``[n, 2]``, as both arguments."""
    return np.stack([np.minimum(ranges[:, 0], others[:, 0]), np.maximum(ranges[:, 1], others[:, 1])], axis=1)


def word_borders(words: NDArray[np.int64], hits: Hits) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers of words before each hit, and up to its end, of ascending places of words; ``[n]`` each."""
    return np.searchsorted(words, hits.first), np.searchsorted(words, hits.first + hits.length)

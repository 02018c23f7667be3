"""Answers as tokens of a passage: which tokens an answer has, and which tokens are the best answers.

``N`` tokens of the passage, in its order, with the characters of it where each begins and ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Places = Sequence[int] | NDArray[np.integer]
"""Characters of a passage before each of its tokens, or up to the end of each; [N]."""


@dataclass(frozen=True, slots=True)
class AnswerTokens:
    """The first and last token of an answer, counted from 0 in the passage."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class NoAnswerTokens:
    """An answer that no tokens stand for, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class ScoredAnswer:
    """Tokens that may be an answer, and the sum of their start's and end's scores."""

    tokens: AnswerTokens
    score: float


def find_answer_tokens(
    passage: str, token_starts: Places, token_ends: Places, text: str, start: int
) -> AnswerTokens | NoAnswerTokens:
    """Find the tokens that have any character of an answer, which stands at ``start`` in the passage.

    They may have characters before and after it, where it begins or ends inside of a word.
    """
    stop = start + len(text)
    if not text.strip():
        return NoAnswerTokens("the answer is empty")
    if start < 0 or not passage.startswith(text, start):
        return NoAnswerTokens(f"the answer does not stand at {start} in the passage")
    begins, ends = np.asarray(token_starts), np.asarray(token_ends)
    found = np.flatnonzero((begins < stop) & (ends > start) & (begins < ends))
    if not len(found):
        return NoAnswerTokens("no token has a character of the answer")
    first, last = int(found[0]), int(found[-1])
    if last == len(ends) - 1 and passage[ends[last] : stop].strip():
        return NoAnswerTokens("the tokens end before the answer does: the passage was cut off")
    return AnswerTokens(first, last)


def best_answers(
    start_scores: NDArray[np.floating],  # [N]
    end_scores: NDArray[np.floating],  # [N]
    count: int = 1,
    most_tokens: int = 30,
) -> list[ScoredAnswer]:
    """Find the ``count`` answers of at most so many tokens with the highest sums of scores, the best first.

    A token of score -inf begins or ends none. Of equal sums the one that begins first comes first, then the shorter.
    There are fewer where the passage is short. (Devlin et al. 2019, section 4.2.)
    """
    tokens = len(start_scores)
    width = min(most_tokens, tokens)
    if not tokens or count < 1 or width < 1:
        return []
    padded = np.concatenate([end_scores, np.full(width - 1, -np.inf)]).astype(np.float64)
    sums = (start_scores.astype(np.float64)[:, None] + sliding_window_view(padded, width)).ravel()  # [N * width]
    best = _highest(sums, count)
    return [
        ScoredAnswer(AnswerTokens(place // width, place // width + place % width), float(sums[place]))
        for place in best.tolist()
        if sums[place] > -np.inf
    ]


def answer_text(passage: str, token_starts: Places, token_ends: Places, tokens: AnswerTokens) -> str:
    """The part of a passage from a token to another, without white space at its ends."""
    return passage[int(token_starts[tokens.first]) : int(token_ends[tokens.last])].strip()


def _highest(values: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """The places of the highest values, the highest first, and of equal ones the first."""
    if count < len(values):
        least = np.partition(values, -count)[-count]
        places = np.flatnonzero(values >= least)
    else:
        places = np.arange(len(values))
    return places[np.argsort(-values[places], kind="stable")][:count]

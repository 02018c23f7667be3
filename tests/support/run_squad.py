"""What BERT's run_squad.py does with the windows of a passage, without its shortcuts."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bertfeat.learning import Guess


def best_of(windows: list[Any], max_answer: int) -> Guess:
    """Every span of every window that begins where the window has most context."""
    best, place = -np.inf, (0, 0)
    for number, (_, offsets, starts, ends) in enumerate(windows):
        for i, start in enumerate(starts):
            if number == most_context([each[1] for each in windows], offsets[i]):
                for j in range(i, min(i + max_answer, len(ends))):
                    if start + ends[j] > best:
                        best, place = start + ends[j], (offsets[i][0], offsets[j][1])
    return Guess("", start=place[0], end=place[1], no_answer=min(each[0] for each in windows) - best)


def most_context(windows: Sequence[Sequence[tuple[int, int]]], token: tuple[int, int]) -> int:
    """The window of ``_check_is_max_context`` in run_squad.py."""
    best, whose = None, -1
    for number, offsets in enumerate(windows):
        if token in offsets:
            left = offsets.index(token)
            score = min(left, len(offsets) - 1 - left) + 0.01 * len(offsets)
            if best is None or score > best:
                best, whose = score, number
    return whose

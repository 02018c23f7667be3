"""Keyword in context: lines with the word aligned in the middle, by the columns that text takes on a terminal."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from .kept_columns import value_columns
from .terminal import MIN_TEXT_WIDTH, cell_width, cut_end, cut_start, pad, single_line

if TYPE_CHECKING:
    from bertfeat.usages import Usage

ID_WIDTH = 20
"""Columns of an id at most."""


def kwic_lines(usages: Sequence["Usage"], width: int, *, show: Sequence[str] = (), colour: bool) -> Iterator[str]:
    """A line a usage: score, id, kept columns, and the word between its contexts, cut to the width."""
    scores = ["" if usage.score is None else f"{usage.score:6.3f}  " for usage in usages]
    ids = [cut_start(single_line(usage.id), ID_WIDTH) for usage in usages]
    wide = max((cell_width(shown) for shown in ids), default=0)
    base = width - wide - 2 - max(map(len, scores), default=0)
    values = value_columns([usage.values for usage in usages], show, base // 3)
    room = max(MIN_TEXT_WIDTH, base - max(map(cell_width, values), default=0))
    words = [cut_end(single_line(usage.word), room // 3) for usage in usages]
    left_width = (room - _median_width(map(cell_width, words))) // 2
    for usage, score, shown, kept, word in zip(usages, scores, ids, values, words, strict=True):
        head = f"{score}{pad(shown, wide)}  {kept}"
        left = cut_start(single_line(usage.left).lstrip(), left_width)
        right = cut_end(single_line(usage.right).rstrip(), room - left_width - cell_width(word))
        before = pad(left, left_width, right=True)
        if colour:
            head, word = click.style(head, dim=True), click.style(word, fg="red", bold=True)
        yield f"{head}{before}{word}{right}"


def _median_width(widths: Iterable[int]) -> int:
    """The median width of the words, so that one long word does not move the others."""
    ordered = sorted(widths)
    return ordered[len(ordered) // 2] if ordered else 0

"""Keyword in context: lines with the word aligned in the middle, by the width that signs have on a terminal."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from .cells import LEAST, cells, clean, cut_end, cut_start, padded
from .kept import value_columns

if TYPE_CHECKING:
    from bertfeat.usages import Usage

ID_WIDTH = 20
"""Columns of an id at most."""


def kwic_lines(usages: Sequence["Usage"], width: int, *, show: Sequence[str] = (), colour: bool) -> Iterator[str]:
    """A line a usage: score, id, kept columns, and the word between its contexts, cut to the width."""
    scores = ["" if usage.score is None else f"{usage.score:6.3f}  " for usage in usages]
    ids = [cut_start(clean(usage.id), ID_WIDTH) for usage in usages]
    wide = max((cells(shown) for shown in ids), default=0)
    base = width - wide - 2 - max(map(len, scores), default=0)
    values = value_columns([usage.values for usage in usages], show, base // 3)
    room = max(LEAST, base - max(map(cells, values), default=0))
    words = [cut_end(clean(usage.word), room // 3) for usage in usages]
    left_width = (room - _typical(map(cells, words))) // 2
    for usage, score, shown, kept, word in zip(usages, scores, ids, values, words, strict=True):
        head = f"{score}{padded(shown, wide)}  {kept}"
        left = cut_start(clean(usage.left).lstrip(), left_width)
        right = cut_end(clean(usage.right).rstrip(), room - left_width - cells(word))
        before = padded(left, left_width, right=True)
        if colour:
            head, word = click.style(head, dim=True), click.style(word, fg="red", bold=True)
        yield f"{head}{before}{word}{right}"


def _typical(widths: Iterable[int]) -> int:
    """The middle one of the words' widths, so that one long word does not move the others."""
    ordered = sorted(widths)
    return ordered[len(ordered) // 2] if ordered else 0

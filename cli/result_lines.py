"""Hits and usages as lines, by the columns that text takes on a terminal.

A hit has its score, id, kept columns and text, in full or cut to a width. A usage is a keyword in context: the word
stands in the middle.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from .kept_columns import value_columns
from .terminal import MIN_TEXT_WIDTH, cell_width, cut_end, cut_start, pad, single_line

if TYPE_CHECKING:
    from bertfeat.search import Hit
    from bertfeat.usages import Usage

_ID_WIDTH = 20  # columns of an id at most
_ENOUGH = 16  # characters of a text that are looked at, for each column of the line


def hit_lines(hits: Sequence["Hit"], width: int | None, show: Sequence[str] = ()) -> list[str]:
    """A line a hit; without a ``width`` nothing is cut."""
    scores = [f"{hit.score:7.4f}" for hit in hits]
    ids = [single_line(hit.id) if width is None else cut_start(single_line(hit.id), _ID_WIDTH) for hit in hits]
    widest, wide = max(map(len, scores), default=0), max(map(cell_width, ids), default=0)
    base = None if width is None else width - widest - wide - 4
    values = value_columns([hit.values for hit in hits], show, None if base is None else base // 2)
    lines = []
    for hit, score, shown, kept in zip(hits, scores, ids, values, strict=True):
        room = None if base is None else max(MIN_TEXT_WIDTH, base - cell_width(kept))
        line = f"{score:>{widest}}  {pad(shown, wide)}  {kept}{hit_text(hit, room)}".rstrip()
        lines.append(line if width is None else cut_end(line, width))
    return lines


def hit_text(hit: "Hit", width: int | None = None) -> str:
    """The text of a hit on one line; in an index of words with the word between stars, which is never cut away."""
    texts = [hit.text or ""] if hit.pair is None else [hit.text or "", hit.pair]
    before, word, after = "", "", ""
    for number, text in enumerate(texts):
        joint = " ||| " if number else ""
        if hit.piece is not None and hit.piece.in_pair == bool(number):
            start, end = hit.piece.start, hit.piece.end
            before, word, after = before + after + joint + text[:start], f"*{text[start:end]}*", text[end:]
        else:
            after += joint + text
    if width is None:
        return single_line(before + word + after).strip()
    enough = _ENOUGH * width
    left, right = single_line(before[-enough:]).lstrip(), single_line(after[:enough]).rstrip()
    word = cut_end(single_line(word), width)
    room = width - cell_width(word)
    behind = min(cell_width(right), max(room // 2, room - cell_width(left)))
    return (cut_start(left, room - behind) + word + cut_end(right, behind)).lstrip()


def kwic_lines(usages: Sequence["Usage"], width: int, *, show: Sequence[str] = (), color: bool) -> Iterator[str]:
    """A line a usage: score, id, kept columns, and the word between its contexts, cut to the width."""
    scores = ["" if usage.score is None else f"{usage.score:6.3f}  " for usage in usages]
    ids = [cut_start(single_line(usage.id), _ID_WIDTH) for usage in usages]
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
        if color:
            head, word = click.style(head, dim=True), click.style(word, fg="red", bold=True)
        yield f"{head}{before}{word}{right}"


def _median_width(widths: Iterable[int]) -> int:
    """The median width of the words, so that one long word does not move the others."""
    ordered = sorted(widths)
    return ordered[len(ordered) // 2] if ordered else 0

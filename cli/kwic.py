"""Keyword in context: lines with the word aligned in the middle, by the width that signs have on a terminal."""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click
import regex

if TYPE_CHECKING:
    from bertfeat.usages import Usage

WIDTH = 100
"""Columns of a line where there is no terminal."""

_LEAST = 24  # columns for word and context, however narrow the terminal
_ID = 20  # columns of an id at most
_JOINERS = "\u200c\u200d"  # not printable by Python's rule, but part of emoji and of Persian or Hindi words


def line_width(wanted: int | None) -> int:
    """Columns of a line: what was asked for, else those of the terminal, else :data:`WIDTH`."""
    return wanted or shutil.get_terminal_size((WIDTH, 24)).columns


def has_colour() -> bool:
    """Whether stdout is a terminal that shows colours, and NO_COLOR does not forbid them."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def kwic_lines(usages: Sequence["Usage"], width: int, *, colour: bool) -> Iterator[str]:
    """A line a usage: score, id, and the word between its contexts, cut to the width."""
    scores = ["" if usage.score is None else f"{usage.score:6.3f}  " for usage in usages]
    ids = [_cut_start(_clean(usage.id), _ID) for usage in usages]
    wide = max((cells(shown) for shown in ids), default=0)
    room = max(_LEAST, width - wide - 2 - max(map(len, scores), default=0))
    words = [_cut_end(_clean(usage.word), room // 3) for usage in usages]
    left_width = (room - _typical(map(cells, words))) // 2
    for usage, score, shown, word in zip(usages, scores, ids, words, strict=True):
        head = f"{score}{shown}{' ' * (wide - cells(shown))}  "
        left = _cut_start(_clean(usage.left).lstrip(), left_width)
        right = _cut_end(_clean(usage.right).rstrip(), room - left_width - cells(word))
        before = " " * (left_width - cells(left)) + left
        if colour:
            head, word = click.style(head, dim=True), click.style(word, fg="red", bold=True)
        yield f"{head}{before}{word}{right}"


def cells(text: str) -> int:
    """Columns that a text takes: two for wide signs, none for combining marks."""
    from rich.cells import cell_len

    return cell_len(text)


def _typical(widths: Iterable[int]) -> int:
    """The middle one of the words' widths, so that one long word does not move the others."""
    ordered = sorted(widths)
    return ordered[len(ordered) // 2] if ordered else 0


def _clean(text: str) -> str:
    """A text on one line, without what moves a terminal's cursor or turns its direction."""
    printable = "".join(sign if sign.isprintable() or sign in _JOINERS else " " for sign in text)
    return str(regex.sub(r"\s+", " ", printable))


def _cut_end(text: str, width: int) -> str:
    """The beginning of a text that fits the width; an ellipsis says that there is more."""
    if cells(text) <= width:
        return text
    return "".join(_fitting(regex.findall(r"\X", text), width - 1)) + "…"


def _cut_start(text: str, width: int) -> str:
    """The end of a text that fits the width; an ellipsis says that there is more."""
    if cells(text) <= width:
        return text
    return "…" + "".join(reversed(list(_fitting(reversed(regex.findall(r"\X", text)), width - 1))))


def _fitting(clusters: Iterable[str], width: int) -> Iterator[str]:
    """As many whole signs, with their marks, as fit."""
    for cluster in clusters:
        width -= cells(cluster)
        if width < 0:
            return
        yield cluster

"""Kept columns beside hits and usages (``--show``), in lines, in CSV and in JSON; and conditions that none meets."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from bertfeat.errors import did_you_mean

from .option_types import listed_option
from .terminal import cell_width, cut_end, pad, single_line

if TYPE_CHECKING:
    from bertfeat.corpus import Value
    from bertfeat.search import Index
    from bertfeat.where import Condition, ReadColumn

show_option = listed_option("--show", metavar="COL[,COL]", help="Kept columns beside each hit, or all.")

_WIDEST = 20  # columns that a value takes on a terminal
_PADDED = 40  # columns that values are padded to where lines are not cut
_NARROWEST = 4
_GAP = "  "


def columns_to_show(show: Sequence[str], kept: Sequence[str]) -> tuple[str, ...]:
    """The kept columns that ``--show`` names; ``all`` are all of them.

    Raises:
        click.UsageError: there is no such column.
    """
    if list(show) == ["all"]:
        return tuple(kept)
    for name in show:
        if name not in kept:
            existing = f"there are: {', '.join(kept)}" if kept else "none was kept (bertfeat extract --keep keeps them)"
            meant = did_you_mean(name, kept)
            raise click.UsageError(single_line(f"--show {name}: there is no such kept column; {meant}{existing}"))
    return tuple(show)


def value_columns(rows: Sequence[Mapping[str, "Value"]], names: Sequence[str], room: int | None) -> list[str]:
    """The values of each row, side by side and aligned, with a gap after each, in at most ``room`` columns.

    Numbers are aligned at the right. Without a limit nothing is cut.
    """
    shown = {name: [single_line(format_value(row.get(name))).strip() for row in rows] for name in names}
    widths = {name: max(map(cell_width, texts), default=0) for name, texts in shown.items()}
    if room is not None:
        widths = _narrowed({name: min(width, _WIDEST) for name, width in widths.items()}, room)
    lines = [""] * len(rows)
    for name, texts in shown.items():
        right = not any(isinstance(row.get(name), str | bool) for row in rows)
        for at, text in enumerate(texts):
            width = widths[name] if room is not None else min(widths[name], _PADDED)
            lines[at] += pad(text if room is None else cut_end(text, width), width, right=right) + _GAP
    return lines


def format_value(value: "Value") -> str:
    """A value as text; an empty text for null."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def json_values(values: Mapping[str, "Value"], names: Sequence[str]) -> dict[str, "Value"]:
    """The values of those columns for JSON, which has no NaN and no infinity."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
        if name in names
    }


def _narrowed(widths: dict[str, int], room: int) -> dict[str, int]:
    """Widths that fit the room, if possible: the widest becomes narrower first."""
    while widths and sum(widths.values()) + len(_GAP) * len(widths) > room:
        widest = max(widths, key=widths.__getitem__)
        if widths[widest] <= _NARROWEST:
            break
        widths[widest] -= 1
    return widths


def unmet_in_index(index: "Index", where: str | None) -> str:
    """Return the message that no document of an index meets a condition; see :func:`unmet_line`."""
    from bertfeat.search import living_values
    from bertfeat.where import parse_where

    condition = None if where is None else parse_where(index.vectors.documents, where)
    return unmet_line(condition, lambda name: living_values(index, name))


def unmet_line(condition: "Condition | None", read: "ReadColumn") -> str:
    """Return the message that no document meets a condition, with the ranges of the numbers that it reads."""
    from bertfeat.where import describe_ranges

    ranges = "" if condition is None else describe_ranges(condition, read)
    return "no document meets the condition" + (f"; {ranges}" if ranges else "")

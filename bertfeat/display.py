"""The display of values: sizes and durations in words; results as one line of text, and as HTML tables in notebooks."""

import enum
import html
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import PurePath
from typing import TypeVar

from bertfeat.errors import shorten

_LONGEST = 240  # characters of a line
_CELL, _CELL_ENTRIES = 300, 12  # characters of a cell, and entries of a mapping or sequence in it
# control characters (except tab, line feed and form feed) and noncharacters, which cells do not show
_CONTROLS = dict.fromkeys(
    [*range(9), 11, *range(13, 32), *range(127, 160), 0xFFFE, 0xFFFF], "\N{REPLACEMENT CHARACTER}"
)

Cells = Mapping[str, object]
"""A row of a table: its cells by the names of the columns."""

Kind = TypeVar("Kind", bound=type)


class ToTheRight(str):
    """The text of a cell that is aligned to the right, such as the context to the left of a word."""


def format_size(number: float) -> str:
    """A number of bytes for people: ``1.5 MB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.3g} TB"


def format_duration(seconds: float) -> str:
    """A time for people: ``42 s``, ``3 min 20 s``, ``5 h 12 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


# ── results ─────────────────────────────────────────────────────────────────────────────────────────────────


def displayed(kind: Kind) -> Kind:
    """Give a dataclass a ``repr`` of one line, and the table that Jupyter shows (``_repr_html_``).

    The line shows what the dataclass's method ``cells`` returns, else its fields; empty values are left out, and long
    ones shortened. The table has a row for each dataclass in its sequences and mappings, or, without any, for each
    cell.
    """
    kind.__repr__ = _repr_line  # type: ignore[method-assign,assignment]
    kind._repr_html_ = _as_html  # type: ignore[attr-defined]
    return kind


def html_table(rows: Sequence[Cells], caption: str = "") -> str:
    """Rows as a table of HTML, at most fifty; columns that are empty in all of them are left out."""
    visible = rows[:50]
    names = dict.fromkeys(name for row in visible for name, value in row.items() if not _is_empty(value))
    side = {name: _side([row[name] for row in visible if name in row]) for name in names}
    head = "".join(f'<th style="text-align: {side[name]}">{html.escape(name)}</th>' for name in names)
    body = "".join(f"<tr>{''.join(_cell(row.get(name), side[name]) for name in names)}</tr>" for row in visible)
    rest = len(rows) - len(visible)
    more = f'<tr><td colspan="{len(names)}">… and {rest:,} more</td></tr>' if rest else ""
    label = f'<caption style="text-align: left">{html.escape(caption)}</caption>' if caption else ""
    return f'<table class="dataframe">{label}<thead><tr>{head}</tr></thead><tbody>{body}{more}</tbody></table>'


def html_facts(title: str, facts: Cells, tables: Iterable[str] = ()) -> str:
    """A title, facts by their names, and tables below them, as HTML."""
    below = "".join(tables)
    known = {name: value for name, value in facts.items() if not _is_empty(value)}
    if not below:
        rows = "".join(f"<tr><th>{html.escape(name)}</th>{_cell(value, 'left')}</tr>" for name, value in known.items())
        return f'<div><b>{html.escape(title)}</b><table class="dataframe"><tbody>{rows}</tbody></table></div>'
    line = " · ".join(f"{name} {_cell_text(value)}" for name, value in known.items())
    return f'<div><b>{html.escape(title)}</b> <span dir="auto">{html.escape(line)}</span>{below}</div>'


def repr_line(title: str, facts: Cells) -> str:
    """A title and facts in one line: ``Usages(word='bank', found=51, usages=<51 Usage>)``."""
    known = (f"{name}={brief(value)}" for name, value in facts.items() if not _is_empty(value))
    return shorten(f"{title}({', '.join(known)}", _LONGEST - 1) + ")"


def brief(value: object, entries: int = 3, characters: int = 60) -> str:
    """A value in a few characters: a text in quotation marks, an array by its shape, a long sequence by its length."""
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, str | PurePath):
        return repr(shorten(str(value), characters))
    if isinstance(value, float):
        return f"{value:.4g}"
    if hasattr(value, "shape"):
        return str(list(value.shape))
    if is_dataclass(value):
        return shorten(str(value), characters)
    if isinstance(value, Mapping):
        inside = ", ".join(f"{key}: {brief(each)}" for key, each in value.items())
        return f"{{{inside}}}" if _are_few(value.values(), entries) else f"<{len(value)} entries>"
    if isinstance(value, Sequence):
        kind = type(value[0]).__name__ if len(value) else "items"
        return f"[{', '.join(map(brief, value))}]" if _are_few(value, entries) else f"<{len(value)} {kind}>"
    return shorten(value, characters)


def _repr_line(self: object) -> str:
    return repr_line(type(self).__name__, _own_cells(self))


def _as_html(self: object) -> str:
    facts, tables = dict(_own_cells(self)), []
    for name, value in list(facts.items()):
        if rows := _table_rows(value):
            tables.append(html_table(rows, name))
            del facts[name]
    return html_facts(type(self).__name__, facts, tables)


def _own_cells(value: object) -> Cells:
    """The facts of a value: those of its method ``cells``; without one, the fields that are shown, or its entries."""
    if isinstance(value, Mapping):
        return value
    own: Callable[[], Cells] | None = getattr(value, "cells", None)
    if own is not None:
        return own()
    return {field.name: getattr(value, field.name) for field in fields(value) if field.repr}  # type: ignore[arg-type]


def _table_rows(value: object) -> list[Cells]:
    """A row for each dataclass or mapping in a sequence, and for each dataclass in a mapping; none for others."""
    if isinstance(value, Mapping):
        return [{"name": name, **_cells_of(item)} for name, item in value.items() if is_dataclass(item)]
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    return [_cells_of(item) for item in value if isinstance(item, Mapping) or is_dataclass(item)]


def _cells_of(item: object) -> Cells:
    """The row of an item: its cells; those in nested mappings and dataclasses become cells of the row themselves."""
    row: dict[str, object] = {}
    for name, value in _own_cells(item).items():
        nested = is_dataclass(value) and type(value).__str__ is object.__str__
        inner = _cells_of(value) if nested else value if isinstance(value, Mapping) else {name: value}
        row.update({f"{name}.{key}" if key in row else key: each for key, each in inner.items()})
    return row


def _is_empty(value: object) -> bool:
    return value is None or value is False or (hasattr(value, "__len__") and not len(value))


def _are_few(values: Collection[object], entries: int) -> bool:
    return len(values) <= entries and all(isinstance(value, str | int | float | None) for value in values)


def _side(column: Sequence[object]) -> str:
    """The side to which the cells of a column are aligned: right for numbers and :class:`ToTheRight`, else left."""
    to_the_right = (isinstance(value, int | float | ToTheRight) and not isinstance(value, bool) for value in column)
    known = [right for right, value in zip(to_the_right, column, strict=True) if value is not None]
    return "right" if all(known) else "left"


def _cell(value: object, side: str) -> str:
    return f'<td dir="auto" style="text-align: {side}">{html.escape(_cell_text(value))}</td>'


def _cell_text(value: object) -> str:
    """A value as the text of a cell."""
    if value is None:
        return ""
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, str | PurePath):
        return shorten(str(value).translate(_CONTROLS), _CELL)
    return brief(value, _CELL_ENTRIES, _CELL)

"""The columns of a corpus: checks of those that the settings name, and the types and values of those that are kept."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from bertfeat.core.corpus.document import RESERVED_COLUMNS, KeptColumn, Value
from bertfeat.core.corpus.input_file import Columns
from bertfeat.core.corpus.settings import CorpusSettings
from bertfeat.core.spans import SpanRule
from bertfeat.errors import (
    CorpusError,
    UsageError,
    WrongColumnsError,
    did_you_mean,
    parameter,
    quote_names,
    shell_spelling,
)

SAMPLE = 1000
"""The number of records at the beginning of a corpus from which the types of kept columns are inferred."""

_TYPES = ("string", "int64", "float64", "bool")
_INT = re.compile(r"-?(0|[1-9][0-9]*)")  # 007 and +82 are names, not numbers
_FLOAT = re.compile(r"-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|-?(nan|inf|NaN|Infinity)")
_BOOLS = {"true": True, "false": False}
_INT64 = range(-(2**63), 2**63)


class ConversionError(Exception):
    """A value does not fit the type of its column; the caller turns the row into a failure."""


def require_columns(table: Columns, settings: CorpusSettings, *, several: bool = False) -> None:
    """Refuse a table that lacks a column that the settings name, unless its later records may have it.

    If it is one of ``several`` files, the error says what to do if it is no corpus but describes the others.
    """
    if not table.complete:
        return
    needed = dict.fromkeys(settings.texts, "text_columns")
    for option in ("pair_column", "id_column", "tag_column"):
        name: str | None = getattr(settings, option)
        if name is not None:
            needed[name] = option
    describing = f"if it describes the other files, give {parameter('metadata', table.name)}" if several else ""
    for name, option in needed.items():
        if name not in table.columns:
            raise WrongColumnsError(
                f"no column '{name}'; there are {quote_names(table.columns)}: name one with {parameter(option)}",
                where=table.name,
                remedy=separator_hint(table.columns) or did_you_mean(name, table.columns).rstrip() or describing,
            )


def separator_hint(columns: tuple[str, ...]) -> str:
    """The remedy where the name of one column seems to be the names of several; "" otherwise."""
    remedies = {
        ",": f"give {parameter('format', 'csv')}",
        "\t": f"give {parameter('format', 'tsv')}",
        ";": "convert it to commas",
    }
    for separator, remedy in remedies.items():
        if len(columns) == 1 and separator in columns[0]:
            return f"the columns seem to be separated by {separator!r}: {remedy}"
    return ""


def find_kept_columns(tables: Sequence[Columns], settings: CorpusSettings) -> tuple[KeptColumn, ...]:
    """The columns to keep and their types: as given, else as the files declare, else by the first 1,000 records."""
    if not settings.keep:
        return ()
    columns = tuple(dict.fromkeys(name for table in tables for name in table.columns))
    named = [settings.pair_column, settings.tag_column, *(id_column(settings, table.columns) for table in tables)]
    used = [*settings.texts, *(name for name in named if name is not None)]
    types = select_kept_names(settings.keep, columns, used)
    in_each = set(columns).intersection(*(table.columns for table in tables))
    for name, type_ in types.items():
        if name in in_each:
            continue
        _require_column(name, tables, parameter("keep", (name,)), comes_later=type_ is not None)
    return tuple(KeptColumn(name, type_ or _type_in(name, tables)) for name, type_ in types.items())


def find_list_of_spans(
    split: str | None, tables: Sequence[Columns], kept: Sequence[KeptColumn]
) -> tuple[KeptColumn, ...]:
    """The column that is read beside the kept ones because it lists the spans of each text, if there is one.

    Raises:
        UsageError: the tables do not have it.
    """
    rule = SpanRule.of(split)
    if rule is None or rule.kind != "column" or any(column.name == rule.column for column in kept):
        return ()
    _require_column(rule.column, tables, parameter("split", split))
    return (KeptColumn(rule.column, "string"),)


def _require_column(name: str, tables: Sequence[Columns], where: str, *, comes_later: bool = False) -> None:
    """Refuse a column that a table lacks; where later records may bring it, unless it is said to come."""
    for table in tables:
        if table.complete and name not in table.columns:
            raise UsageError(
                f"no such column in {table.name}; there are {quote_names(table.columns)}",
                where=where,
                remedy=did_you_mean(name, table.columns).rstrip(),
            )
    if not comes_later and not any(name in table.columns for table in tables):
        existing = tuple(dict.fromkeys(column for table in tables for column in table.columns))
        later = f"{parameter('keep', (f'{name}:string',))} takes a field that comes later"
        raise UsageError(
            f"no such field in the first {SAMPLE:,} records; there are {quote_names(existing)}",
            where=where,
            remedy=f"{did_you_mean(name, existing)}{later}",
        )


def _type_in(name: str, tables: Sequence[Columns]) -> str:
    files: dict[str, str] = {}  # by type, the first file that has it
    for table in tables:
        if name in table.types:
            files.setdefault(table.types[name], table.name)
    type_ = _joint_type(set(files)) if files else "string"
    if type_ == "string" and len(files) > 1:
        differ = " and ".join(f"{type_} in {file}" for type_, file in files.items())
        raise CorpusError(f"column '{name}' is {differ}", remedy=f"give {parameter('keep', (f'{name}:string',))}")
    return type_


def id_column(settings: CorpusSettings, columns: tuple[str, ...]) -> str | None:
    """The column of the ids: as the settings name it, else ``id`` or ``_id`` where there is one."""
    if settings.id_column is not None:
        return settings.id_column
    return next((name for name in ("id", "_id") if name in columns), None)


def select_kept_names(keep: Sequence[str], columns: Sequence[str], used: Iterable[str]) -> dict[str, str | None]:
    """Names of the columns to keep, with the types given for them.

    ``all`` stands for the ``columns`` that are not ``used`` otherwise. ``NAME:type`` gives a type, unless a column
    has that whole name. A name is refused if the feature set has a column of its own for it.
    """
    if tuple(keep) == ("all",):
        elsewhere = set(used)
        types: dict[str, str | None] = dict.fromkeys(column for column in columns if column not in elsewhere)
    else:
        types = {}
        existing = frozenset(columns)
        for item in keep:
            name, type_ = split_type(item, existing)
            if types.get(name, type_) != type_:
                before = types[name] or "its own type"
                raise UsageError(f"the column is kept already, as {before}", where=parameter("keep", (item,)))
            types[name] = type_
    reserved = tuple(name for name in types if name in RESERVED_COLUMNS)
    if reserved:
        others = tuple(name for name in types if name not in RESERVED_COLUMNS)
        instead = f" or keep the others only: {parameter('keep', others)}" if others else ""
        raise UsageError(
            f"the feature set has its own column {quote_names(reserved)}",
            where=parameter("keep", tuple(keep)),
            remedy=f"rename it in the input{instead}",
        )
    return types


def split_type(item: str, columns: Collection[str]) -> tuple[str, str | None]:
    """The name and the type in ``NAME:type``; a column that has that whole name is meant, where there is one."""
    name, colon, type_ = item.rpartition(":")
    if not colon or item in columns:
        return item, None
    if type_ in _TYPES:
        return name, type_
    if name in columns:
        raise UsageError(f"not a type; there are {', '.join(_TYPES)}", where=parameter("keep", (item,)))
    return item, None


@dataclass(frozen=True, slots=True)
class ColumnSample:
    """The columns of a corpus, as its first records have them."""

    seen: int  # records, blank lines, and what cannot be read
    count: int  # records only
    columns: tuple[str, ...]  # in order of appearance
    types: Mapping[str, str]  # of the columns that have values


def sample_columns(records: Iterable[object], size: int, *, cells: bool = False) -> ColumnSample:
    """Find the columns of the mappings among the first ``size`` records; with ``cells``, strings stand for values.

    A column is int64, float64 (also where both occur), bool, else string; nulls do not count. Cells that are spelled
    differently but stand for one value (1.1 and 1.10, true and True) are names, so their column is string.
    """
    types: dict[str, set[str]] = {}
    spellings: dict[tuple[str, object], str] = {}  # of each value that a cell stands for, by column
    seen = count = 0
    for record in islice(records, size):
        seen += 1
        if isinstance(record, Mapping):
            count += 1
            for name, value in record.items():
                parsed = parse_cell(value) if cells else value
                type_ = _value_type(parsed)
                if cells and type_ in ("int64", "float64", "bool"):
                    bare = str(value).strip()
                    if spellings.setdefault((name, parsed), bare) != bare:
                        type_ = "string"
                types.setdefault(name, set()).update(() if type_ is None else (type_,))
    columns = tuple(str(name) for name in types)
    return ColumnSample(seen, count, columns, {name: _joint_type(found) for name, found in types.items() if found})


def _joint_type(types: set[str]) -> str:
    """The type that holds values of all these types."""
    if len(types) == 1:
        return next(iter(types))
    return "float64" if types == {"int64", "float64"} else "string"


def parse_cell(cell: object) -> object:
    """The value of a cell of a CSV file: a number, a truth value, null, or the text itself."""
    bare = "" if cell is None else str(cell).strip(" \t\r\n")
    if not bare:
        return None
    if _INT.fullmatch(bare):
        return int(bare) if len(bare) < 30 else cell  # longer ones are far beyond 64 bits
    if _FLOAT.fullmatch(bare):
        return float(bare)
    return _BOOLS.get(bare.lower(), cell)


def _value_type(value: object) -> str | None:
    """Type of a value; whole numbers beyond 64 bits, lists and objects are kept as strings."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return None
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64" if value in _INT64 else "string"
    return "float64" if isinstance(value, float) else "string"


def convert_values(columns: Sequence[KeptColumn], fields: Mapping[str, object]) -> tuple[Value, ...]:
    """The kept values of a record; a missing field is null, lists and objects become JSON.

    A value that does not fit its column's type raises a :class:`ConversionError`.
    """
    return tuple([_convert(fields.get(column.name), column) for column in columns])


def _convert(value: object, column: KeptColumn) -> Value:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str) and column.type != "string":
        value = parse_cell(value)
    if value is None:
        return None
    try:
        return _CONVERTERS[column.type](value)
    except (ValueError, OverflowError):
        remedy = f"give {shell_spelling('keep', (f'{column.name}:string',))}"
        raise ConversionError(f"field '{column.name}' is not {column.type}; {remedy}") from None


def _to_string(value: object) -> str:
    if isinstance(value, bool | int | float | list | tuple | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _to_int(value: object) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value not in _INT64:
        raise ValueError(value)
    return value


def _to_float(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(value)
    return float(value)


def _to_bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(value)
    return value


_CONVERTERS: dict[str, Callable[[object], Value]] = {
    "string": _to_string,
    "int64": _to_int,
    "float64": _to_float,
    "bool": _to_bool,
}

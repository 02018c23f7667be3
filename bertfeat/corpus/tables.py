"""Files whose records have named fields, read into documents: what JSONL, CSV and Parquet have in common."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from bertfeat.corpus.columns import joint_type, select_kept_names
from bertfeat.corpus.compression import Meter
from bertfeat.corpus.document import BlankLine, Failure, KeptColumn, Row, quote_names, shorten
from bertfeat.corpus.records import BadRecord, Record, RecordShape, id_column
from bertfeat.corpus.settings import CorpusSettings
from bertfeat.errors import CorpusError, UsageError, WrongColumnsError

SAMPLE = 1000
"""Types of kept columns are inferred from so many records at the beginning of a corpus."""


class Columns(Protocol):
    """What is known of the columns of a file before it is read."""

    @property
    def name(self) -> str:
        """Name of the file, for messages."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the fields that records have, in order of appearance."""

    @property
    def complete(self) -> bool:
        """Whether ``columns`` are all that there can be."""

    @property
    def types(self) -> Mapping[str, str]:
        """Types of the columns as kept columns, as far as the file declares them or its first records tell."""


class RecordFile(Columns, Protocol):
    """A file of records with named fields."""

    @property
    def cells(self) -> bool:
        """Whether all fields are strings that stand for values."""

    def records(self, meter: Meter, names: Sequence[str]) -> Iterator[Record]:
        """Read all records; the fields ``names`` are needed."""


class RecordReader:
    """Makes rows of the records of a table."""

    def __init__(self, table: RecordFile, settings: CorpusSettings, kept: tuple[KeptColumn, ...], prefix: str) -> None:
        self._table = table
        self._shape = RecordShape.of(settings, table.columns, kept, cells=table.cells)
        self._prefix = prefix

    def rows(self, row: int, meter: Meter) -> Generator[Row, None, int]:
        """Read the rows of the file, numbered from ``row``; returns the number after the last."""
        prefix, name, read = self._prefix, self._table.name, self._shape.read
        for number, record in enumerate(self._table.records(meter, self._shape.used), 1):
            if record is None:
                yield BlankLine(row)
            elif isinstance(record, BadRecord):
                reason = f"{name}, {record.where}: {record.reason}"
                yield Failure(row, f"{prefix}{number}", reason, shorten(record.value))
            else:
                made = read(row, record, f"{prefix}{number}")
                if isinstance(made, Failure):
                    made = replace(made, reason=f"{name}, record {number}: {made.reason}")
                yield made
            row += 1
        return row


def require_columns(table: Columns, settings: CorpusSettings) -> None:
    """Refuse a table that lacks a column it must have; one that need not be complete may still show it later.

    Raises:
        WrongColumns: names the column and those that there are.
    """
    if not table.complete:
        return
    needed = dict.fromkeys(settings.texts, "--text-column")
    needed |= {settings.pair_column: "--pair-column"} if settings.pair_column is not None else {}
    needed |= {settings.id_column: "--id-column"} if settings.id_column is not None else {}
    needed |= {settings.tag_column: "--tag-column"} if settings.tag_column is not None else {}
    for name, option in needed.items():
        if name not in table.columns:
            raise WrongColumnsError(
                f"{table.name}: no column '{name}'; there are {quote_names(table.columns)}: name one with {option}"
                + _separator_hint(table.columns)
            )


def _separator_hint(columns: tuple[str, ...]) -> str:
    for separator, remedy in ((",", "give --format csv"), ("\t", "give --format tsv"), (";", "convert it to commas")):
        if len(columns) == 1 and separator in columns[0]:
            return f"; the columns seem to be parted by {separator!r}: {remedy}"
    return ""


def find_kept_columns(tables: Sequence[Columns], settings: CorpusSettings) -> tuple[KeptColumn, ...]:
    """The columns to keep and their types: as given, as the files declare, else by the first 1,000 records.

    Raises:
        UsageError: a column that there is not, or a name that the feature set needs for itself.
        CorpusError: files that give a column different types, or lack it.
    """
    if not settings.keep:
        return ()
    columns = tuple(dict.fromkeys(name for table in tables for name in table.columns))
    given = [settings.pair_column, settings.tag_column, *(id_column(settings, table.columns) for table in tables)]
    used = [*settings.texts, *(name for name in given if name is not None)]
    wanted = select_kept_names(settings.keep, columns, used)
    return tuple(KeptColumn(name, kind or _type(name, tables)) for name, kind in _present(wanted, tables))


def _present(wanted: Mapping[str, str | None], tables: Sequence[Columns]) -> Iterator[tuple[str, str | None]]:
    named = [(table, frozenset(table.columns)) for table in tables]
    for name, kind in wanted.items():
        for table, columns in named:
            if table.complete and name not in columns:
                raise UsageError(
                    f"--keep {name}: no such column in {table.name}; there are {quote_names(table.columns)}"
                )
        if kind is None and not any(name in columns for _, columns in named):
            there = quote_names(tuple(dict.fromkeys(column for table in tables for column in table.columns)))
            raise UsageError(
                f"--keep {name}: no such field in the first {SAMPLE:,} records; there are {there}; "
                f"--keep {name}:string takes a field that comes later"
            )
        yield name, kind


def _type(name: str, tables: Sequence[Columns]) -> str:
    files: dict[str, str] = {}  # the first that has each type
    for table in tables:
        if name in table.types:
            files.setdefault(table.types[name], table.name)
    kind = joint_type(set(files)) if files else "string"
    if kind == "string" and len(files) > 1:
        differ = " and ".join(f"{kind} in {file}" for kind, file in files.items())
        raise CorpusError(f"column '{name}' is {differ}; give --keep {name}:string")
    return kind

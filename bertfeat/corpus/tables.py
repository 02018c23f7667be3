"""Records with named fields → documents: what JSONL, CSV and Parquet have in common."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace

from bertfeat.corpus.columns import joint_type, select_kept_names
from bertfeat.corpus.compression import Meter
from bertfeat.corpus.document import BlankLine, Failure, KeptColumn, Row
from bertfeat.corpus.input_file import Columns, RecordFile
from bertfeat.corpus.records import BadRecord, RecordShape, id_column
from bertfeat.corpus.settings import CorpusSettings
from bertfeat.errors import CorpusError, UsageError, WrongColumnsError, parameter
from bertfeat.io import quote_names, shorten

SAMPLE = 1000
"""Types of kept columns are inferred from so many records at the beginning of a corpus."""


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
                result = read(row, record, f"{prefix}{number}")
                if isinstance(result, Failure):
                    result = replace(result, reason=f"{name}, record {number}: {result.reason}")
                yield result
            row += 1
        return row


def require_columns(table: Columns, settings: CorpusSettings) -> None:
    """Refuse a table without a column that the settings name; one that need not be complete may still have it later.

    Raises:
        WrongColumnsError: names the column and those that there are.
    """
    if not table.complete:
        return
    needed = dict.fromkeys(settings.texts, "text_columns")
    for option in ("pair_column", "id_column", "tag_column"):
        name: str | None = getattr(settings, option)
        if name is not None:
            needed[name] = option
    for name, option in needed.items():
        if name not in table.columns:
            raise WrongColumnsError(
                f"no column '{name}'; there are {quote_names(table.columns)}: name one with {parameter(option)}",
                where=table.name,
                remedy=_separator_hint(table.columns),
            )


def _separator_hint(columns: tuple[str, ...]) -> str:
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
    """The columns to keep and their types: as given, as the files declare, else by the first 1,000 records.

    Raises:
        UsageError: a column that does not exist, or a name that the feature set needs for itself.
        CorpusError: files that give a column different types, or lack it.
    """
    if not settings.keep:
        return ()
    columns = tuple(dict.fromkeys(name for table in tables for name in table.columns))
    named = [settings.pair_column, settings.tag_column, *(id_column(settings, table.columns) for table in tables)]
    used = [*settings.texts, *(name for name in named if name is not None)]
    types = select_kept_names(settings.keep, columns, used)
    return tuple(KeptColumn(name, type_ or _type_in(name, tables)) for name, type_ in _existing(types, tables))


def _existing(types: Mapping[str, str | None], tables: Sequence[Columns]) -> Iterator[tuple[str, str | None]]:
    columns_of = [(table, frozenset(table.columns)) for table in tables]
    for name, type_ in types.items():
        keep = parameter("keep", (name,))
        for table, columns in columns_of:
            if table.complete and name not in columns:
                raise UsageError(f"no such column in {table.name}; there are {quote_names(table.columns)}", where=keep)
        if type_ is None and not any(name in columns for _, columns in columns_of):
            existing = quote_names(tuple(dict.fromkeys(column for table in tables for column in table.columns)))
            raise UsageError(
                f"no such field in the first {SAMPLE:,} records; there are {existing}",
                where=keep,
                remedy=f"{parameter('keep', (f'{name}:string',))} takes a field that comes later",
            )
        yield name, type_


def _type_in(name: str, tables: Sequence[Columns]) -> str:
    files: dict[str, str] = {}  # the first that has each type
    for table in tables:
        if name in table.types:
            files.setdefault(table.types[name], table.name)
    type_ = joint_type(set(files)) if files else "string"
    if type_ == "string" and len(files) > 1:
        differ = " and ".join(f"{type_} in {file}" for type_, file in files.items())
        raise CorpusError(f"column '{name}' is {differ}", remedy=f"give {parameter('keep', (f'{name}:string',))}")
    return type_

"""Records with named fields → documents: what JSONL, CSV, Parquet and SQuAD have in common."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace

from bertfeat.corpus.blocks import Meter
from bertfeat.corpus.columns import joint_type, sample_columns, select_kept_names
from bertfeat.corpus.document import BlankLine, Failure, KeptColumn, Row
from bertfeat.corpus.input_file import Columns, CorpusFile
from bertfeat.corpus.lines import BadLine
from bertfeat.corpus.positions import START, Position
from bertfeat.corpus.records import BadRecord, Record, RecordShape, id_column, is_storable
from bertfeat.corpus.settings import CorpusSettings
from bertfeat.errors import CorpusError, UsageError, WrongColumnsError, did_you_mean, parameter
from bertfeat.io import quote_names, shorten

SAMPLE = 1000
"""Types of kept columns are inferred from so many records at the beginning of a corpus."""


class RecordReader(ABC):
    """Reads a file, from a position on, as records with named fields, and makes rows of them."""

    def __init__(self, file: CorpusFile, start: Position, meter: Meter) -> None:
        self.file, self.start, self.meter = file, start, meter
        self._number = start.record  # of the record given last, counted from 1

    @classmethod
    @abstractmethod
    def look(cls, file: CorpusFile, sample_size: int) -> Columns:
        """Look at the beginning of a file: its columns, and their types in so many records."""

    @abstractmethod
    def records(self, names: Sequence[str]) -> Iterator[Record]:
        """Read the records from the start on; the fields ``names`` are needed."""

    @abstractmethod
    def position_of(self, record: int, *, last: bool) -> Position:
        """The position of the record that was given last, or else of the one after it; ``record`` are before it."""

    def position(self, *, last: bool) -> Position:
        """The position of the row that was given last, or else of the one after it."""
        if self._number == self.start.record:
            return self.start
        return self.position_of(self._number - last, last=last)

    def rows(self, row: int) -> Generator[Row, None, None]:
        """Read the rows, numbered from ``row``."""
        file = self.file
        shape = RecordShape.of(file.settings, file.columns, file.kept, cells=file.source.format.cells)
        prefix, name, read = file.id_prefix, file.name, shape.read
        for number, record in enumerate(self.records(shape.used), self.start.record + 1):
            self._number = number
            if record is None:
                yield BlankLine(row)
            elif isinstance(record, BadRecord):
                reason = f"{name}, {record.where}: {record.reason}"
                name_of_row = f"{prefix}{number}" if record.id is None else record.id
                yield Failure(row, name_of_row, reason, shorten(record.value))
            else:
                result = read(row, record, f"{prefix}{number}")
                if isinstance(result, Failure):
                    result = replace(result, reason=f"{name}, record {number}: {result.reason}")
                yield result
            row += 1


class LineRecordReader(RecordReader):
    """Reads a text file in which each line is a record."""

    def __init__(self, file: CorpusFile, start: Position, meter: Meter) -> None:
        super().__init__(file, start, meter)
        self._lines = file.lines(start, meter)

    @classmethod
    def look(cls, file: CorpusFile, sample_size: int) -> Columns:
        """The fields of the first records."""
        sample = sample_columns(cls(file, START, Meter()).records(()), sample_size)
        columns = tuple(name for name in sample.columns if is_storable(name))
        return Columns(file.name, columns, sample.types, seen=sample.seen, sampled=sample.count)

    @abstractmethod
    def record(self, line: str, number: int, names: Sequence[str]) -> Record:
        """The record of a line, of which the fields ``names`` are needed; a blank line is None. Lines count from 1.

        Raises:
            ValueError: the line is none; it becomes a failed row with this reason.
        """

    def records(self, names: Sequence[str]) -> Iterator[Record]:
        """Read the records from the start on."""
        number = self.start.line
        for lines in self._lines:
            for line in lines:
                number += 1
                if isinstance(line, BadLine):
                    yield BadRecord(f"line {number}", line.reason, line.text)
                    continue
                try:
                    record = self.record(line, number, names)
                except ValueError as error:
                    record = BadRecord(f"line {number}", str(error), line)
                yield record

    def position_of(self, record: int, *, last: bool) -> Position:
        """The position of a record, which is a line."""
        return Position(self._lines.newest.offset_of(record), record, record)


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
                remedy=_separator_hint(table.columns) or did_you_mean(name, table.columns).rstrip(),
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
                raise UsageError(
                    f"no such column in {table.name}; there are {quote_names(table.columns)}",
                    where=keep,
                    remedy=did_you_mean(name, table.columns).rstrip(),
                )
        if type_ is None and not any(name in columns for _, columns in columns_of):
            existing = tuple(dict.fromkeys(column for table in tables for column in table.columns))
            later = f"{parameter('keep', (f'{name}:string',))} takes a field that comes later"
            raise UsageError(
                f"no such field in the first {SAMPLE:,} records; there are {quote_names(existing)}",
                where=keep,
                remedy=f"{did_you_mean(name, existing)}{later}",
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

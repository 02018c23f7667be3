"""Readers of CSV and TSV files with a header, quoted as in the csv module's dialects excel and excel-tab."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec, module_from_spec
from typing import ClassVar, Protocol, cast

from bertfeat.core.corpus.blocks import Meter
from bertfeat.core.corpus.columns import sample_columns
from bertfeat.core.corpus.document import MAX_LINE, START, Position
from bertfeat.core.corpus.input_file import Columns, CorpusFile
from bertfeat.core.corpus.lines import BadLine, LineReader
from bertfeat.core.corpus.records import BadRecord, Record, RecordReader
from bertfeat.errors import CorpusError, quote_names


class _CsvModule(Protocol):
    """The part of Python's csv module that is used here."""

    Error: type[Exception]

    def field_size_limit(self, limit: int, /) -> int: ...
    def reader(self, lines: Iterable[str], /, *, delimiter: str, strict: bool) -> Iterator[list[str]]: ...


def _own_csv_module() -> _CsvModule:
    """Load the csv parser a second time, with a limit of its own.

    ``csv.field_size_limit`` is shared by the whole process: raising it would affect the program that calls us.
    """
    spec = find_spec("_csv")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.field_size_limit(MAX_LINE)
    return cast(_CsvModule, module)


_csv = _own_csv_module()


class _CsvLines:
    """The lines that a csv reader asks for; remembers the newest one that could not be read."""

    def __init__(self, reader: LineReader) -> None:
        self._reader = reader
        self._lines = (line for some in reader for line in some)
        self.number = reader.given  # of the newest line
        self.begin = reader.newest  # the block in which the newest record begins, or the one before it
        self.last = ""
        self.bad: BadLine | None = None  # the newest that was bad

    def start_record(self) -> int:
        """Forget the previous record; returns the number of the next line."""
        self.bad = None
        self.begin = self._reader.newest
        return self.number + 1

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.number += 1
        if isinstance(line, BadLine):
            self.bad = line
            line = line.text
        self.last = line
        return line + "\n"


class CsvReader(RecordReader):
    """Reads a CSV file; its first line names the columns."""

    delimiter: ClassVar[str] = ","

    def __init__(self, file: CorpusFile, start: Position, meter: Meter) -> None:
        super().__init__(file, start, meter)
        self._lines = file.lines(start, meter, keep_returns=True)
        self._columns = file.columns
        self._begin = self._lines.newest, start.line  # of the record given last: its block, and the lines before it

    @classmethod
    def look(cls, file: CorpusFile, sample_size: int) -> Columns:
        """The columns of the first line, and their types in the first records."""
        reader = cls(file, START, Meter())
        sample = sample_columns(reader.records(()), sample_size, cells=True)
        return Columns(file.name, reader._columns, sample.types, complete=True, seen=sample.seen, sampled=sample.count)

    def records(self, names: Sequence[str]) -> Iterator[Record]:
        """Read the records after the header; an empty line is None."""
        lines = _CsvLines(self._lines)
        reader = _csv.reader(lines, delimiter=self.delimiter, strict=True)
        if self.start.offset == 0:
            self._read_header(reader, lines)
        while True:
            first = lines.start_record()
            try:
                record = self._make_record(next(reader), lines, first)
            except StopIteration:
                return
            except _csv.Error as error:
                record = self._bad_record(lines, first, str(error))
            self._begin = lines.begin, first - 1
            yield record

    def position_of(self, record: int, *, last: bool) -> Position:
        """The position of the record given last if ``last``, else of the one after it."""
        block, line = self._begin if last else (self._lines.newest, self._lines.given)
        return Position(block.offset_of(line), line, record)

    def _read_header(self, reader: Iterator[list[str]], lines: _CsvLines) -> None:
        must = "the first line, which must name the columns, is"
        try:
            columns = tuple(next(reader))
        except StopIteration:
            raise CorpusError("empty", where=self.file.name, remedy="the first line must name the columns") from None
        except _csv.Error as error:
            raise CorpusError(f"{must} not sound: {error}", where=self.file.name) from None
        if lines.bad is not None:
            raise CorpusError(f"{must} {lines.bad.reason}", where=self.file.name)
        repeated = tuple(column for column, count in Counter(columns).items() if count > 1)
        if repeated:
            raise CorpusError(
                f"more than one column is called {quote_names(repeated)}",
                where=self.file.name,
                remedy="rename them in the first line",
            )
        if self._columns not in ((), columns):
            raise CorpusError(
                "the first line has changed since the file was opened", where=self.file.name, remedy="start again"
            )
        self._columns = columns

    def _make_record(self, cells: list[str], lines: _CsvLines, first: int) -> Record:
        columns = self._columns
        if lines.bad is None:
            if len(cells) == len(columns):
                return dict(zip(columns, cells, strict=True))
            if not cells:
                return None
        return self._bad_record(lines, first, f"{len(cells)} cells under {len(columns)} columns")

    def _bad_record(self, lines: _CsvLines, first: int, reason: str) -> BadRecord:
        where = f"line {first}" if first == lines.number else f"lines {first} to {lines.number}"
        if lines.bad is not None:
            return BadRecord(where, lines.bad.reason, lines.bad.text)
        remedy = "a cell with a separator, a quotation mark or a line end stands in quotation marks, doubled inside"
        return BadRecord(where, f"{reason}; {remedy}", lines.last)


class TsvReader(CsvReader):
    """Reads a TSV file: as CSV, with tabs."""

    delimiter = "\t"

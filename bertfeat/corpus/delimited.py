"""CSV and TSV files, with a header, quoted as in the csv module's dialects excel and excel-tab."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec, module_from_spec
from typing import ClassVar, Protocol, cast

from bertfeat.corpus.columns import sample_columns
from bertfeat.corpus.compression import Meter
from bertfeat.corpus.document import MAX_LINE
from bertfeat.corpus.input_file import InputFile
from bertfeat.corpus.lines import BadLine
from bertfeat.corpus.records import BadRecord, Record
from bertfeat.errors import CorpusError
from bertfeat.io import quote_names


class _CsvModule(Protocol):
    """The part of Python's csv module that is used here."""

    Error: type[Exception]

    def field_size_limit(self, limit: int, /) -> int: ...
    def reader(self, lines: Iterable[str], /, *, delimiter: str, strict: bool) -> Iterator[list[str]]: ...


def _own_csv_module() -> _CsvModule:
    """Load the csv parser a second time, with a limit of its own.

    ``csv.field_size_limit`` is one for the whole process: raised there, it would change the program that calls us.
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
    """The lines that a csv reader asks for; remembers those that could not be read."""

    def __init__(self, lines: Iterator[Sequence[str | BadLine]]) -> None:
        self._lines = (line for some in lines for line in some)
        self.number = 0  # of the newest line
        self.last = ""
        self.bad: BadLine | None = None  # the newest that was bad

    def start_record(self) -> int:
        """Forget bad lines of the record before; returns the number of the next line."""
        self.bad = None
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


class CsvFile:
    """A CSV file; its first line names the columns."""

    delimiter: ClassVar[str] = ","
    complete = True
    cells = True

    def __init__(self, file: InputFile) -> None:
        self.name = file.name
        self._file = file
        self.columns = self._header(self._reader(lines := self._lines(Meter())), lines)
        sample = sample_columns(self.records(Meter(), self.columns), file.sample_size, cells=True)
        self.sampled = sample.count
        self.types: Mapping[str, str] = sample.types

    def records(self, meter: Meter, names: Sequence[str]) -> Iterator[Record]:
        """Read all records after the header; an empty line is None."""
        lines = self._lines(meter)
        reader = self._reader(lines)
        columns = self._header(reader, lines)
        if columns != self.columns:
            raise CorpusError(
                "the first line has changed since the file was opened", where=self.name, remedy="start again"
            )
        while True:
            first = lines.start_record()
            try:
                cells = next(reader)
            except StopIteration:
                return
            except _csv.Error as error:
                yield self._bad_record(lines, first, str(error))
                continue
            if lines.bad is not None:
                yield self._bad_record(lines, first, "")
            elif len(cells) == len(columns):
                yield dict(zip(columns, cells, strict=True))
            elif not cells:
                yield None
            else:
                yield self._bad_record(lines, first, f"{len(cells)} cells under {len(columns)} columns")

    def _lines(self, meter: Meter) -> _CsvLines:
        return _CsvLines(self._file.lines(meter, keep_returns=True))

    def _reader(self, lines: _CsvLines) -> Iterator[list[str]]:
        return _csv.reader(lines, delimiter=self.delimiter, strict=True)

    def _header(self, reader: Iterator[list[str]], lines: _CsvLines) -> tuple[str, ...]:
        must = "the first line, which must name the columns, is"
        try:
            columns = tuple(next(reader))
        except StopIteration:
            raise CorpusError("empty", where=self.name, remedy="the first line must name the columns") from None
        except _csv.Error as error:
            raise CorpusError(f"{must} not sound: {error}", where=self.name) from None
        if lines.bad is not None:
            raise CorpusError(f"{must} {lines.bad.reason}", where=self.name)
        repeated = tuple(column for column, count in Counter(columns).items() if count > 1)
        if repeated:
            raise CorpusError(
                f"more than one column is called {quote_names(repeated)}",
                where=self.name,
                remedy="rename them in the first line",
            )
        return columns

    def _bad_record(self, lines: _CsvLines, first: int, reason: str) -> BadRecord:
        where = f"line {first}" if first == lines.number else f"lines {first} to {lines.number}"
        if lines.bad is not None:
            return BadRecord(where, lines.bad.reason, lines.bad.text)
        remedy = "a cell with a separator, a quotation mark or a line end stands in quotation marks, doubled inside"
        return BadRecord(where, f"{reason}; {remedy}", lines.last)


class TsvFile(CsvFile):
    """A TSV file: as CSV, with tabs."""

    delimiter = "\t"

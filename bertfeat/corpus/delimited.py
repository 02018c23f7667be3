"""CSV and TSV files, with a header, quoted as in the csv module's dialects excel and excel-tab."""

import csv
from collections import Counter
from collections.abc import Iterator, Sequence

from bertfeat.corpus.columns import sample_columns
from bertfeat.corpus.compression import Meter, read_blocks
from bertfeat.corpus.document import MAX_LINE, quote_names
from bertfeat.corpus.lines import BadLine, TextEncoding, read_lines
from bertfeat.corpus.records import BadRecord, Record
from bertfeat.corpus.sources import Source
from bertfeat.errors import CorpusError

_DELIMITERS = {"csv": ",", "tsv": "\t"}


class _Lines:
    """The lines that a csv reader asks for, remembering what it was given that could not be read."""

    def __init__(self, lines: Iterator[Sequence[str | BadLine]]) -> None:
        self._lines = (line for some in lines for line in some)
        self.number = 0  # of the newest line
        self.last = ""
        self.bad: BadLine | None = None  # the newest that was bad

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


class Separated:
    """A CSV or TSV file; its first line names the columns."""

    complete = True
    cells = True

    def __init__(self, source: Source, encoding: TextEncoding, sample_size: int) -> None:
        self.name = source.name
        self._source = source
        self._encoding = encoding
        self.columns = self._header(self._reader(lines := self._lines(Meter())), lines)
        sample = sample_columns(self.records(Meter(), self.columns), sample_size, cells=True)
        self.sampled = sample.count
        self.types = sample.types

    def records(self, meter: Meter, names: Sequence[str]) -> Iterator[Record]:
        """Read all records after the header, an empty line as nothing."""
        lines = self._lines(meter)
        reader = self._reader(lines)
        columns = self._header(reader, lines)
        if columns != self.columns:
            raise CorpusError(f"{self.name}: the first line has changed since the file was opened; start again")
        while True:
            lines.bad = None
            first = lines.number + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield self._unreadable(lines, first, str(error))
                continue
            if lines.bad is not None:
                yield self._unreadable(lines, first, "")
            elif len(cells) == len(columns):
                yield dict(zip(columns, cells, strict=True))
            elif not cells:
                yield None
            else:
                yield self._unreadable(lines, first, f"{len(cells)} cells under {len(columns)} columns")

    def _lines(self, meter: Meter) -> _Lines:
        source = self._source
        some = read_blocks(source.path, source.name, source.compression, meter)
        return _Lines(read_lines(some, self._encoding, keep_returns=True))

    def _reader(self, lines: _Lines) -> Iterator[list[str]]:
        # the limit is the csv module's own and of the whole process: only ever raised
        csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE))
        return csv.reader(lines, delimiter=_DELIMITERS[self._source.format], strict=True)

    def _header(self, reader: Iterator[list[str]], lines: _Lines) -> tuple[str, ...]:
        name = self.name
        try:
            columns = tuple(next(reader))
        except StopIteration:
            raise CorpusError(f"{name}: empty; the first line must name the columns") from None
        except csv.Error as error:
            raise CorpusError(f"{name}: the first line, which must name the columns, is not sound: {error}") from None
        if lines.bad is not None:
            raise CorpusError(f"{name}: the first line, which must name the columns, is {lines.bad.reason}")
        twice = tuple(column for column, count in Counter(columns).items() if count > 1)
        if twice:
            raise CorpusError(
                f"{name}: more than one column is called {quote_names(twice)}; rename them in the first line"
            )
        return columns

    def _unreadable(self, lines: _Lines, first: int, reason: str) -> BadRecord:
        where = f"line {first}" if first == lines.number else f"lines {first} to {lines.number}"
        if lines.bad is not None:
            return BadRecord(where, lines.bad.reason, lines.bad.text)
        remedy = "a cell with a separator, a quotation mark or a line end stands in quotation marks, doubled inside"
        return BadRecord(where, f"{reason}; {remedy}", lines.last)

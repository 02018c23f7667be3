"""A file of a corpus, the reading of its rows from any position on, and the interface of readers."""

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import chain, islice
from typing import Protocol, cast

from bertfeat.core.corpus.blocks import Meter, read_blocks
from bertfeat.core.corpus.document import START, Document, KeptColumn, Position, Row, Value
from bertfeat.core.corpus.formats import Format
from bertfeat.core.corpus.lines import LineReader, TextEncoding
from bertfeat.core.corpus.settings import CorpusSettings
from bertfeat.core.corpus.sources import Source
from bertfeat.core.corpus.splitting import SplitReader, Splitting
from bertfeat.errors import BertfeatError, UsageError
from bertfeat.io import CORRECT_EXTENSION


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a file, as far as they are known before it is read."""

    name: str  # of the file, for messages
    columns: tuple[str, ...] = ()  # names of the fields that records have, in order of appearance
    types: Mapping[str, str] = field(default_factory=dict)  # as kept columns: declared, or inferred from first records
    complete: bool = False  # whether ``columns`` are all that there can be
    seen: int = 0  # how many of its first records were looked at for ``types``
    sampled: int = 0  # those of them that could be read


@dataclass(frozen=True, slots=True)
class CorpusFile:
    """A file of a corpus with all that is needed to read it, in another process too; it is not open."""

    source: Source
    encoding: TextEncoding  # of no meaning for a binary format
    settings: CorpusSettings
    id_prefix: str  # stands before the number of a line or record in an id
    columns: tuple[str, ...] = ()
    kept: tuple[KeptColumn, ...] = ()  # of the columns that its records have
    splitting: Splitting | None = None  # of its texts into spans, whose columns come after those of ``kept``
    metadata: tuple[Value, ...] = ()  # values that are kept beside each of its documents, after all others

    @property
    def name(self) -> str:
        """Name of the file, for messages."""
        return self.source.name

    def read(
        self, row: int, *, start: Position = START, rows: int | None = None, meter: Meter | None = None
    ) -> "FileReading":
        """Read the rows from a position on, numbered from ``row``; nothing is opened before the first one is asked for.

        ``rows`` is the most rows to read, by default all. ``meter`` counts the bytes that are read.

        Raises:
            CorpusError: later, the file cannot be read on; the rows before that place have been given.
            StorageError: later, object storage that cannot be reached.
        """
        meter = Meter() if meter is None else meter
        texts = reader_of(self.source.format)(self, replace(start, span=0), meter)
        reader = texts if self.splitting is None else SplitReader(texts, self.splitting, start, self.name)
        all_rows = reader.rows(row)
        return FileReading(reader, _with_kept(all_rows, self.metadata) if self.metadata else all_rows, rows)

    def lines(self, start: Position, meter: Meter, *, keep_returns: bool = False) -> LineReader:
        """The lines from a position on."""
        return LineReader(
            lambda: read_blocks(self.source, meter, start.offset), self.encoding, start, keep_returns=keep_returns
        )


class FileReading:
    """The rows of a file from a position on: an iterator that says where in the file they are."""

    def __init__(
        self, reader: "RowReader | SplitReader", all_rows: Generator[Row, None, None], rows: int | None
    ) -> None:
        self._reader = reader
        self._all = all_rows
        self._rows = self._all if rows is None else chain(islice(self._all, rows), self._close())

    def __iter__(self) -> Iterator[Row]:
        return self._rows  # itself would do, but slower

    def __next__(self) -> Row:
        return next(self._rows)

    @property
    def position(self) -> Position:
        """Right after the row that was given last: reading from there gives the rows that follow it."""
        return self._reader.position(last=False)

    @property
    def row_position(self) -> Position:
        """Right before the row that was given last: reading from there gives it again, and those that follow it."""
        return self._reader.position(last=True)

    def _close(self) -> Iterator[Row]:
        """Close the file when the last row that was asked for has been given; gives none itself."""
        self._all.close()
        yield from ()


def _with_kept(rows: Generator[Row, None, None], values: tuple[Value, ...]) -> Generator[Row, None, None]:
    """Add values to those that are kept beside each document."""
    with closing(rows):
        for row in rows:
            yield replace(row, kept=(*row.kept, *values)) if isinstance(row, Document) else row


class RowReader(Protocol):
    """Reads one file, from a position on, as rows."""

    def __init__(self, file: CorpusFile, start: Position, meter: Meter) -> None: ...

    @classmethod
    def look(cls, file: CorpusFile, sample_size: int) -> Columns:
        """Find the columns of a file, and their types in its first ``sample_size`` records.

        Raises:
            CorpusError: it cannot be read as its format at all.
        """

    def rows(self, row: int) -> Generator[Row, None, None]:
        """Read the rows, numbered from ``row``."""

    def position(self, *, last: bool) -> Position:
        """The position of the row given last if ``last``, else of the one after it; the start, before any was given."""


def reader_of(file_format: Format) -> type[RowReader]:
    """The reader of a format.

    Raises:
        UsageError: another package's reader cannot be loaded, or lacks a method.
    """
    module, _, name = file_format.reader.partition(":")
    try:
        reader = cast("type[RowReader]", getattr(import_module(module), name))
        for method in ("look", "rows", "position"):
            getattr(reader, method)
    except BertfeatError:  # such as that of a library which is missing
        raise
    except Exception as cause:
        problem = f"the reader of the format {file_format.name} cannot be loaded ({type(cause).__name__}: {cause})"
        raise UsageError(problem, where=file_format.reader, remedy=CORRECT_EXTENSION) from cause
    return reader

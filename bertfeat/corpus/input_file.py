"""A file of a corpus as a reader gets it, and what a reader is."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from bertfeat.corpus.compression import Meter, read_blocks
from bertfeat.corpus.document import Row
from bertfeat.corpus.lines import Line, TextEncoding, read_lines
from bertfeat.corpus.records import Record
from bertfeat.corpus.settings import CorpusSettings
from bertfeat.corpus.sources import Source


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file of a corpus, with all that its reader needs to know."""

    source: Source
    encoding: TextEncoding  # of no meaning for a binary format
    settings: CorpusSettings
    id_prefix: str  # stands before the number of a line or record in an id
    sample_size: int  # number of first records from which columns and types are inferred

    @property
    def name(self) -> str:
        """Name of the file, for messages."""
        return self.source.name

    def blocks(self, meter: Meter) -> Iterator[bytes]:
        """Read the file's bytes, decompressed.

        Raises:
            CorpusError: it cannot be read.
        """
        return read_blocks(self.source.path, self.source.name, self.source.compression, meter)

    def lines(self, meter: Meter, *, keep_returns: bool = False) -> Iterator[Sequence[Line]]:
        """Read the file's lines, some at a time.

        Raises:
            CorpusError: it cannot be read.
        """
        return read_lines(self.blocks(meter), self.encoding, keep_returns=keep_returns)


class RowReader(Protocol):
    """Reads a file as rows."""

    def rows(self, row: int, meter: Meter) -> Generator[Row, None, int]:
        """Read the rows of the file, numbered from ``row``; returns the number after the last."""


class Columns(Protocol):
    """The columns of a file, as far as they are known before it is read."""

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
        """Types of the columns as kept columns, declared by the file or inferred from its first records."""


@runtime_checkable
class RecordFile(Columns, Protocol):
    """Reads a file as records with named fields."""

    @property
    def cells(self) -> bool:
        """Whether all fields are strings that stand for values."""

    @property
    def sampled(self) -> int:
        """How many of its first records were read for ``types``."""

    def records(self, meter: Meter, names: Sequence[str]) -> Iterator[Record]:
        """Read all records; the fields ``names`` are needed."""

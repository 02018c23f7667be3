"""A corpus of files: opened, looked into, and read one after the other."""

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from bertfeat.corpus.compression import Meter, read_blocks
from bertfeat.corpus.conll import ConllReader
from bertfeat.corpus.delimited import Separated
from bertfeat.corpus.document import KeptColumn, Row
from bertfeat.corpus.encodings import detect_encoding
from bertfeat.corpus.jsonl import JsonLines
from bertfeat.corpus.lines import TextEncoding
from bertfeat.corpus.parquet import ParquetTable
from bertfeat.corpus.settings import CorpusSettings
from bertfeat.corpus.sources import Source, find_sources
from bertfeat.corpus.tables import SAMPLE, RecordFile, RecordReader, find_kept_columns, require_columns
from bertfeat.corpus.text import TextReader
from bertfeat.errors import CorpusError

_HEAD = 2**17  # bytes of a file that are looked into
_LEAST_SAMPLE = 20  # records of every file, to see its columns
_DEFAULT_SETTINGS = CorpusSettings()


class _Reader(Protocol):
    def rows(self, row: int, meter: Meter) -> Generator[Row, None, int]: ...


class FileCorpus:
    """The documents of one or more files, in the order of the files."""

    def __init__(
        self,
        sources: Sequence[Source],
        readers: Sequence[_Reader],
        columns: tuple[str, ...],
        kept: tuple[KeptColumn, ...],
        settings: CorpusSettings,
    ) -> None:
        self.sources = tuple(source.name for source in sources)
        self.columns = columns
        self.kept = kept
        self.has_pairs = settings.has_pairs
        self.has_words = settings.has_words(sources[0].format)
        self.has_tags = settings.has_tags(sources[0].format)
        self._readers = readers
        self._bytes = sum(source.size for source in sources)
        self._meter = Meter()

    @property
    def fraction(self) -> float:
        """How much of the files' bytes the newest ``rows()`` has read, 0 to 1."""
        return min(1.0, self._meter.read / self._bytes) if self._bytes else 1.0

    def rows(self) -> Iterator[Row]:
        """Read all rows from the start.

        Raises:
            CorpusError: a file cannot be read on; the rows before that point have been given.
        """
        meter = self._meter = Meter()
        row = 0
        for reader in self._readers:
            row = yield from reader.rows(row, meter)


def open_corpus(sources: Sequence[str | Path], settings: CorpusSettings = _DEFAULT_SETTINGS) -> FileCorpus:
    """Open files, globs and folders as one corpus and look at the beginning of each file.

    Raises:
        CorpusError: a file that is not there, or that cannot be read as its format at all.
        WrongColumns: a CSV or Parquet file without a column that the settings name.
        UsageError: settings that do not fit the files, or an unknown column to keep.
    """
    found = find_sources(sources, settings.format)
    _check_settings(found, settings)
    opened = _open_all(found, settings)
    tables = tuple(one for one in opened if not isinstance(one, TextReader | ConllReader))
    for table in tables:
        require_columns(table, settings)
    kept = find_kept_columns(tables, settings)
    readers: list[_Reader] = [
        one if isinstance(one, TextReader | ConllReader) else RecordReader(one, settings, kept, _prefix(source, found))
        for one, source in zip(opened, found, strict=True)
    ]
    columns = tuple(dict.fromkeys(name for table in tables for name in table.columns))
    return FileCorpus(found, readers, columns, kept, settings)


def _check_settings(found: Sequence[Source], settings: CorpusSettings) -> None:
    first = found[0]
    for source in found:
        settings.check_for(source.format, source.name)
        for what, has in (("words", settings.has_words), ("tags", settings.has_tags)):
            if has(source.format) != has(first.format):
                one, other = (source, first) if has(source.format) else (first, source)
                raise CorpusError(
                    f"{one.name} brings its own {what}, {other.name} does not: read them as two corpora"
                    + (", or give --pretokenized" if what == "words" else "")
                )


def _open_all(found: Sequence[Source], settings: CorpusSettings) -> list[TextReader | ConllReader | RecordFile]:
    opened: list[TextReader | ConllReader | RecordFile] = []
    wanted = SAMPLE  # records still to be sampled
    for source in found:
        if source.format == "parquet":
            opened.append(ParquetTable(source))
            continue
        encoding = _look_into(source, settings)
        if source.format == "text":
            opened.append(TextReader(source, encoding, settings, _prefix(source, found)))
        elif source.format in ("conll", "conllu"):
            opened.append(ConllReader(source, encoding, settings, _prefix(source, found)))
        else:
            table = (JsonLines if source.format == "jsonl" else Separated)(source, encoding, max(wanted, _LEAST_SAMPLE))
            wanted -= table.sampled
            opened.append(table)
    return opened


def _look_into(source: Source, settings: CorpusSettings) -> TextEncoding:
    """The encoding by the first bytes of a file; damage further on is for the reading to meet."""
    head = b""
    try:
        for block in read_blocks(source.path, source.name, source.compression, Meter()):
            head += block
            if len(head) >= _HEAD:
                break
    except CorpusError:
        if not head:
            raise
    return detect_encoding(head[:_HEAD], settings.encoding, source.name)


def _prefix(source: Source, found: Sequence[Source]) -> str:
    """What stands before the number of a line or record in an id."""
    return f"{source.name}:" if len(found) > 1 else ""

"""A corpus of files: opened, looked into, and read one after the other."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from bertfeat.corpus.compression import Meter, read_blocks
from bertfeat.corpus.document import Corpus, Document, Failure, KeptColumn, Row
from bertfeat.corpus.encodings import detect_encoding
from bertfeat.corpus.input_file import InputFile, RecordFile, RowReader
from bertfeat.corpus.lines import TextEncoding
from bertfeat.corpus.settings import CorpusSettings
from bertfeat.corpus.sources import Source, find_sources
from bertfeat.corpus.tables import SAMPLE, RecordReader, find_kept_columns, require_columns
from bertfeat.errors import CorpusError, WrongColumnsError, parameter
from bertfeat.io import quote_names

HOPELESS = 100
"""If so many rows at the beginning of a corpus all fail, its format or columns are wrong."""

_MOST_HELD = 10_000  # rows held back at most, where blank lines hide what the corpus is like
_HEAD = 2**17  # bytes of a file that are looked into
_LEAST_SAMPLE = 20  # records of every file, to see its columns
_DEFAULT_SETTINGS = CorpusSettings()


class FileCorpus:
    """The documents of one or more files, in the order of the files."""

    def __init__(
        self,
        sources: Sequence[Source],
        readers: Sequence[RowReader],
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


def open_corpus(
    sources: Sequence[str | Path], settings: CorpusSettings = _DEFAULT_SETTINGS, *, name: str | None = None
) -> FileCorpus:
    """Open files, globs and folders as one corpus and look at the beginning of each file.

    ``name`` is what messages call a file that stands for something else, such as a copy of standard input.

    Raises:
        CorpusError: a file that does not exist, or that cannot be read as its format at all.
        WrongColumnsError: a CSV or Parquet file without a column that the settings name.
        UsageError: settings that do not fit the files, or an unknown column to keep.
    """
    files = find_sources(sources, settings.format)
    if name is not None:
        files = tuple(replace(source, name=name) for source in files)
    _check_formats(files, settings)
    readers = _open_readers(files, settings)
    tables = tuple(reader for reader, _ in readers if isinstance(reader, RecordFile))
    for table in tables:
        require_columns(table, settings)
    kept = find_kept_columns(tables, settings)
    row_readers = [
        RecordReader(reader, settings, kept, prefix) if isinstance(reader, RecordFile) else reader
        for reader, prefix in readers
    ]
    columns = tuple(dict.fromkeys(name for table in tables for name in table.columns))
    return FileCorpus(files, row_readers, columns, kept, settings)


def check_readable(rows: Iterable[Row], corpus: Corpus) -> Iterator[Row]:
    """Pass the rows of a corpus on, unless the first 100 (of fewer: all), blank lines aside, are failures.

    Raises:
        WrongColumnsError: before any row is given; shows the first failure and the columns that there are.
    """
    rest = iter(rows)
    held: list[Row] = []
    failures: list[Failure] = []
    for row in rest:
        held.append(row)
        if isinstance(row, Failure):
            failures.append(row)
        if len(failures) == HOPELESS:
            raise _unreadable_error(failures, corpus)
        if isinstance(row, Document) or len(held) == _MOST_HELD:
            break
    else:
        if failures:
            raise _unreadable_error(failures, corpus)
    yield from held
    yield from rest


def _unreadable_error(failures: list[Failure], corpus: Corpus) -> WrongColumnsError:
    count = f"the first {len(failures)} rows" if len(failures) == HOPELESS else f"all rows ({len(failures)})"
    columns = f"the columns that there are: {quote_names(corpus.columns)}" if corpus.columns else ""
    return WrongColumnsError(f"{count} cannot be read, the first because: {failures[0].reason}", remedy=columns)


def _check_formats(sources: Sequence[Source], settings: CorpusSettings) -> None:
    first = sources[0]
    for source in sources:
        settings.check_for(source.format, source.name)
        for what, has in (("words", settings.has_words), ("tags", settings.has_tags)):
            if has(source.format) != has(first.format):
                one, other = (source, first) if has(source.format) else (first, source)
                remedy = f", or give {parameter('pretokenized', True)}" if what == "words" else ""
                raise CorpusError(
                    f"{one.name} brings its own {what}, {other.name} does not: read them as two corpora{remedy}"
                )


def _open_readers(sources: Sequence[Source], settings: CorpusSettings) -> list[tuple[RowReader | RecordFile, str]]:
    """The reader of each file, and what stands before the ids of its rows."""
    readers = []
    left = SAMPLE  # records still to be sampled
    for source in sources:
        prefix = f"{source.name}:" if len(sources) > 1 else ""
        encoding = TextEncoding("utf-8") if source.format.binary else _find_encoding(source, settings)
        reader = _open_reader(InputFile(source, encoding, settings, prefix, max(left, _LEAST_SAMPLE)))
        if isinstance(reader, RecordFile):
            left -= reader.sampled
        readers.append((reader, prefix))
    return readers


def _open_reader(file: InputFile) -> RowReader | RecordFile:
    module, _, name = file.source.format.reader.partition(":")
    reader: Callable[[InputFile], RowReader | RecordFile] = getattr(import_module(f"bertfeat.corpus.{module}"), name)
    return reader(file)


def _find_encoding(source: Source, settings: CorpusSettings) -> TextEncoding:
    """The encoding by the first bytes of a file; damage further on is met when the file is read."""
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

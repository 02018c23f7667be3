"""A corpus of one or more files: the beginning of each is inspected first, then they are read one after the other."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from bertfeat.arguments import checked
from bertfeat.core.corpus.blocks import Meter
from bertfeat.core.corpus.columns import find_kept_columns, find_list_of_spans, require_columns
from bertfeat.core.corpus.document import Corpus, Document, Failure, KeptColumn, Row
from bertfeat.core.corpus.input_file import CorpusFile, FileReading
from bertfeat.core.corpus.inspection import Look, look_into
from bertfeat.core.corpus.metadata import FILE, FileMetadata, describe_files
from bertfeat.core.corpus.settings import CorpusSettings
from bertfeat.core.corpus.sources import Source, find_sources
from bertfeat.core.corpus.splitting import Splitting
from bertfeat.errors import CorpusError, UsageError, WrongColumnsError, did_you_mean, parameter, quote_names
from bertfeat.io import Location

_HOPELESS = 100
"""If so many rows at the beginning of a corpus all fail, its format or columns are wrong."""

_MOST_HELD = 10_000  # most rows to hold back while there are only failures and blank lines
_DEFAULT_SETTINGS = CorpusSettings()


class FileCorpus:
    """The documents of one or more files, in the order of the files."""

    def __init__(
        self,
        files: tuple[CorpusFile, ...],
        columns: tuple[str, ...],
        kept: tuple[KeptColumn, ...],
        settings: CorpusSettings,
    ) -> None:
        self.files = files
        self.sources = tuple(file.name for file in files)
        self.columns = columns
        self.kept = kept
        self.has_pairs = settings.has_pairs
        self.has_words = settings.has_words(files[0].source.format)
        self.has_tags = settings.has_tags(files[0].source.format)
        self.split = settings.split
        self._bytes = sum(file.source.size for file in files)
        self._meter = Meter()

    @property
    def fraction(self) -> float:
        """The share of the files' bytes that the newest ``rows()`` or ``readings()`` has read, 0 to 1."""
        return min(1.0, self._meter.read / self._bytes) if self._bytes else 1.0

    def rows(self) -> Iterator[Row]:
        """Read all rows from the start.

        Raises:
            CorpusError: a file cannot be read any further; the rows before have been yielded.
            StorageError: object storage cannot be reached.
        """
        row = 0
        for read in self.readings():
            for each in read(row):
                yield each
                row = each.row + 1

    def readings(self) -> Iterator[Callable[[int], FileReading]]:
        """Yield one function per file, in order, which reads the file when called with the number of its first row."""
        meter = self._meter = Meter()
        for file in self.files:
            yield partial(file.read, meter=meter)


@checked
def open_corpus(
    sources: str | Location | Sequence[str | Location],
    settings: CorpusSettings = _DEFAULT_SETTINGS,
    *,
    name: str | None = None,
) -> FileCorpus:
    """Open one or more files, globs and folders as one corpus and look at the beginning of each file.

    ``name`` is what messages call a file that stands for something else, such as a copy of standard input.

    Raises:
        CorpusError: a file that does not exist, or that cannot be read as its format at all.
        WrongColumnsError: a CSV or Parquet file without a column that the settings name.
        UsageError: settings that do not fit the files, or an unknown column to keep.
    """
    found = find_sources(sources, settings.format)
    if name is not None:
        found = tuple(replace(source, name=name) for source in found)
    metadata = describe_files(found, settings)
    found = metadata.sources
    _check_formats(found, settings)
    looks = look_into(found, settings)
    _check_formats([file.source for file, _ in looks], settings)  # now with the formats that only the beginning tells
    settings = settings.with_defaults(looks[0][0].source.format)
    tables = tuple(table for _, table in looks)
    for table in tables:
        require_columns(table, settings, several=len(tables) > 1)
    columns = tuple(dict.fromkeys(name for table in tables for name in table.columns))
    of_files, keep = metadata.share_out(settings.keep, columns)
    settings = replace(settings, keep=keep)
    _check_keep(looks, settings, metadata)
    kept = find_kept_columns(tables, settings)
    splitting = Splitting.of(settings.split, kept, find_list_of_spans(settings.split, tables, kept), of_files)
    files = tuple(
        replace(
            file,
            settings=settings,
            columns=table.columns,
            kept=splitting.read if splitting else kept,
            splitting=splitting,
            metadata=metadata.values_of(file.source, of_files),
        )
        for file, table in looks
    )
    return FileCorpus(files, columns, (*(splitting.columns if splitting else kept), *of_files), settings)


def _check_formats(sources: Sequence[Source], settings: CorpusSettings) -> None:
    """Refuse settings that do not fit the formats, and formats that cannot be read as one corpus."""
    first = sources[0]
    for source in sources:
        settings.check_for(source.format, source.name)
        # some formats have columns of their own for texts, such as SQuAD
        if settings.with_defaults(source.format) != settings.with_defaults(first.format):
            one, other = (source, first) if source.format.texts else (first, source)
            columns = quote_names([*one.format.texts, *filter(None, [one.format.pair])])
            raise CorpusError(
                f"{one.name} is read by its columns {columns}, {other.name} is not: read them as two corpora"
            )
        for what, has in (("words", settings.has_words), ("tags", settings.has_tags)):
            if has(source.format) != has(first.format):
                one, other = (source, first) if has(source.format) else (first, source)
                remedy = f", or give {parameter('pretokenized', True)}" if what == "words" else ""
                raise CorpusError(
                    f"{one.name} brings its own {what}, {other.name} does not: read them as two corpora{remedy}"
                )


def _check_keep(looks: Sequence[Look], settings: CorpusSettings, metadata: FileMetadata) -> None:
    """Refuse columns to keep of files whose format has none."""
    for file, _ in looks:
        if settings.keep and "keep" not in file.source.format.options:
            columns = metadata.table.columns
            if settings.keep == ("all",) and columns:
                continue
            known = tuple(dict.fromkeys([FILE, *columns]))
            problem = f"{file.source.format.name} files have no columns to keep; there are {quote_names(known)}"
            table = f"{parameter('metadata', 'TABLE')} gives the columns of a table with a row for each file"
            remedy = did_you_mean(settings.keep[0], known).rstrip() if columns else table
            raise UsageError(problem, where=f"{file.name}: {parameter('keep', settings.keep)}", remedy=remedy)


def check_readable(rows: Iterable[Row], corpus: Corpus) -> Iterator[Row]:
    """Pass on the rows of a corpus, unless the first 100 (or all of fewer rows) are failures; blank lines do not count.

    Raises:
        WrongColumnsError: before any row is yielded; shows the first failure and the columns that there are.
    """
    rest = iter(rows)
    held: list[Row] = []
    failures: list[Failure] = []
    for row in rest:
        held.append(row)
        if isinstance(row, Failure):
            failures.append(row)
        if len(failures) == _HOPELESS:
            raise _unreadable_error(failures, corpus)
        if isinstance(row, Document) or len(held) == _MOST_HELD:
            break
    else:
        if failures:
            raise _unreadable_error(failures, corpus)
    yield from held
    yield from rest


def _unreadable_error(failures: list[Failure], corpus: Corpus) -> WrongColumnsError:
    count = f"the first {len(failures)} rows" if len(failures) == _HOPELESS else f"all rows ({len(failures)})"
    columns = f"the columns that there are: {quote_names(corpus.columns)}" if corpus.columns else ""
    return WrongColumnsError(f"{count} cannot be read, the first because: {failures[0].reason}", remedy=columns)

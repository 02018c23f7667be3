"""The metadata of the files of a corpus: the name of each, and its row in a table, kept beside each of its texts."""

import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bertfeat.core.corpus.blocks import Meter
from bertfeat.core.corpus.columns import (
    ConversionError,
    convert_values,
    sample_columns,
    select_kept_names,
    separator_hint,
    split_type,
)
from bertfeat.core.corpus.document import START, KeptColumn, Value
from bertfeat.core.corpus.input_file import Columns, reader_of
from bertfeat.core.corpus.inspection import look_into
from bertfeat.core.corpus.records import BadRecord, Fields, RecordReader
from bertfeat.core.corpus.settings import CorpusSettings
from bertfeat.core.corpus.sources import Source, bare_names, find_sources
from bertfeat.errors import CorpusError, UsageError, parameter, quote_names
from bertfeat.io import Location, real_path

FILE = "file"
"""The column with the names of the files, which every corpus has, unless its files or its table have one so named."""

_SHOWN = 3  # names in a message


@dataclass(frozen=True, slots=True)
class FileMetadata:
    """The columns that describe whole files, and their values of each file of a corpus."""

    sources: tuple[Source, ...]  # the files that are described
    table: Columns  # without columns where there is no table
    rows: Mapping[str, Fields] = field(default_factory=dict)  # of the table, by the name of the source

    def share_out(self, keep: tuple[str, ...], own: Collection[str]) -> tuple[tuple[KeptColumn, ...], tuple[str, ...]]:
        """The columns of files that are kept, and those of ``keep`` that must be columns of the records.

        ``own`` are the columns of the records. If ``keep`` is empty, all columns of the table are kept.

        Raises:
            UsageError: a column is in the records and in the table.
        """
        names = self.table.columns
        taken, rest = names, keep
        if keep not in ((), ("all",)):
            columns = {*names, *({FILE} - set(own))}
            taken = tuple(item for item in keep if split_type(item, columns)[0] in columns)
            rest = tuple(item for item in keep if item not in taken)
        types = select_kept_names(taken, names, ())
        both = [name for name in types if keep and name in own]
        if both:
            problem = f"{quote_names(both)} is a column of the files, and of {self.table.name}"
            raise UsageError(problem, where=parameter("keep", keep), remedy="rename it in one of them")
        kept = (KeptColumn(name, type_ or self.table.types.get(name, "string")) for name, type_ in types.items())
        return tuple(kept), rest

    def values_of(self, source: Source, columns: Sequence[KeptColumn]) -> tuple[Value, ...]:
        """The values of columns that are the same for every text of a file."""
        try:
            return convert_values(columns, {FILE: source.name, **self.rows.get(source.name, {})})
        except ConversionError as error:
            raise CorpusError(f"the row of {source.name}: {error}", where=self.table.name) from None


def describe_files(sources: tuple[Source, ...], settings: CorpusSettings) -> FileMetadata:
    """Read the metadata of the files; the table of the settings is not one of them, though it may lie among them.

    Raises:
        CorpusError: the table cannot be read, a file has no row in it, or several.
    """
    if settings.metadata is None:
        return FileMetadata(sources, Columns(""))
    table, records = _rows_of_table(settings.metadata)
    own = _storage_place(table.path)
    described = tuple(source for source in sources if _storage_place(source.path) != own)
    if not described:
        raise CorpusError("the table of metadata is the only file of the corpus", where=table.name)
    columns = sample_columns((fields for _, fields in records), len(records), cells=table.format.cells)
    if not columns.columns:
        raise CorpusError("a table without rows", where=table.name, remedy="write a row for each file")
    rows = _match(described, records, columns.columns[0], table.name)
    return FileMetadata(described, Columns(table.name, columns.columns, columns.types), rows)


def _rows_of_table(path: str) -> tuple[Source, list[tuple[str, Fields]]]:
    """The rows of a table, each with the place where it stands."""
    sources = find_sources(path, None)
    if len(sources) > 1 or not sources[0].format.records:
        problem = "metadata are one table with a header: CSV, TSV, JSON or Parquet"
        raise UsageError(problem, where=parameter("metadata", path))
    file, columns = look_into(sources, CorpusSettings())[0]
    reader = reader_of(file.source.format)(replace(file, columns=columns.columns), START, Meter())
    assert isinstance(reader, RecordReader)
    records: list[tuple[str, Fields]] = []
    for number, record in enumerate(reader.records(columns.columns), 1):
        if isinstance(record, BadRecord):
            raise CorpusError(record.reason, where=f"{file.name}, {record.where}")
        if record is not None:
            records.append((f"record {number}", record))
    return file.source, records


def _match(
    sources: Sequence[Source], records: Sequence[tuple[str, Fields]], column: str, table: str
) -> Mapping[str, Fields]:
    """The rows of a table by the names of the files that they describe, which stand in one of its columns."""
    by_name: dict[str, list[Source]] = {}
    for source in sources:
        for name in dict.fromkeys(_names(source)):
            by_name.setdefault(name, []).append(source)
    found: dict[str, tuple[str, Fields]] = {}
    for place, fields in records:
        cell = str(fields.get(column) or "").strip()
        files = by_name.get(_normal(cell), [])
        if len(files) > 1:
            problem = f"'{cell}' stands for {len(files)} files, {_some(files)}"
            raise CorpusError(problem, where=f"{table}, {place}", remedy="write more of the path")
        for file in files:
            if file.name in found:
                problem = f"a second row of {file.name}, which has one in {found[file.name][0]}"
                raise CorpusError(problem, where=f"{table}, {place}", remedy="leave one of them out")
            found[file.name] = place, fields
    without = [source for source in sources if source.name not in found]
    if without:
        if not found:
            problem = f"its first column, '{column}', names none of the files, such as {without[0].name}"
            hint = separator_hint((column,)) or "let the first column hold the files' names"
            raise CorpusError(problem, where=table, remedy=hint)
        count = "a file has no row" if len(without) == 1 else f"{len(without):,} files have no row"
        remedy = f"write their names into its first column, '{column}', or leave them out of the corpus"
        raise CorpusError(f"{count}: {_some(without)}", where=table, remedy=remedy)
    return {name: fields for name, (_, fields) in found.items()}


def _names(source: Source) -> Iterator[str]:
    """All that a table may call a file: its path or an end of it, with or without the endings of its name."""
    steps = _normal(source.name).split("/")
    for last in bare_names(steps[-1]):
        for first in range(len(steps)):
            yield "/".join([*steps[first:-1], last])


def _normal(name: str) -> str:
    """A path as it is compared: composed letters (file systems may take accents apart), and slashes."""
    return unicodedata.normalize("NFC", name).replace("\\", "/")


def _storage_place(path: Location) -> str:
    """The one name of a file that may be reached by several."""
    return str(real_path(path) if isinstance(path, Path) else path)


def _some(files: Sequence[Source]) -> str:
    more = ", …" if len(files) > _SHOWN else ""
    return ", ".join(source.name for source in files[:_SHOWN]) + more

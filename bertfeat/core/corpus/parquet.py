"""A reader of Parquet files, one batch at a time and only the columns that are needed."""

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate

import pyarrow as pa
import pyarrow.parquet as pq

from bertfeat.core.corpus.blocks import changed_error
from bertfeat.core.corpus.document import Position
from bertfeat.core.corpus.input_file import Columns, CorpusFile
from bertfeat.core.corpus.records import BadRecord, Record, RecordReader
from bertfeat.core.corpus.sources import Source
from bertfeat.errors import CorpusError, UsageError, quote_names
from bertfeat.io import Address, open_file

_BATCH_BYTES = 32 * 2**20  # of uncompressed values
_BATCH_ROWS = 4096
_BUFFER = 2**20  # bytes of a column that are read at once
_REQUESTED = 2**23  # the same in object storage, where each request takes time
_NOT_UTF8 = object()  # stands for a string that does not decode


class ParquetReader(RecordReader):
    """Reads a Parquet file, from any of its row groups on."""

    _firsts: tuple[int, ...] = ()  # records before each row group, and the number of all records

    @classmethod
    def look(cls, file: CorpusFile, sample_size: int) -> Columns:
        """The columns and types that the file declares."""
        name = file.name
        try:
            with _open_parquet(file.source) as parquet:
                schema: pa.Schema = parquet.schema_arrow
        except UsageError:  # wrong settings of the object storage
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise CorpusError(f"not a sound Parquet file: {error}", where=name) from error
        columns = tuple(schema.names)
        if len(set(columns)) < len(columns):
            repeated = tuple({name for name in columns if columns.count(name) > 1})
            problem = f"more than one column is called {quote_names(repeated)}"
            raise CorpusError(problem, where=name, remedy="rename them")
        return Columns(name, columns, {field.name: _kept_type(field.type) for field in schema}, complete=True)

    def records(self, names: Sequence[str]) -> Iterator[Record]:
        """Read the records, with the fields ``names`` only."""
        needed = set(names)
        columns = [name for name in self.file.columns if name in needed]
        number = self.start.record
        try:
            with _open_parquet(self.file.source) as file:
                rows = max(1, file.metadata.num_rows)
                for batch in self._batches(file, columns):
                    for record in _records(batch, number):
                        number += 1
                        yield record
                    self.meter.read += self.file.source.size * batch.num_rows // rows
        except UsageError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise CorpusError(f"cannot be read on after record {number:,}: {error}", where=self.file.name) from error

    def position_of(self, record: int, *, last: bool) -> Position:
        """The position of a record in its row group."""
        first = self._firsts[bisect_right(self._firsts, record) - 1]
        return Position(first, 0, record, record - first)

    def _batches(self, file: pq.ParquetFile, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """The records from the start on, in batches."""
        metadata = file.metadata
        self._firsts = tuple(accumulate((metadata.row_group(group).num_rows for group in _groups(metadata)), initial=0))
        offset, skip = self.start.offset, self.start.skip
        if offset not in self._firsts or offset + skip > metadata.num_rows:
            raise changed_error(self.file.name)
        groups = list(_groups(metadata))[self._firsts.index(offset) :]
        for batch in file.iter_batches(_batch_rows(metadata), row_groups=groups, columns=columns):
            if skip < batch.num_rows:
                yield batch.slice(skip)
            skip = max(0, skip - batch.num_rows)


@contextmanager
def _open_parquet(source: Source) -> Iterator[pq.ParquetFile]:
    """Open a file to read it piece by piece: with ``pre_buffer`` all of its row groups would be read at once."""
    options = {"page_checksum_verification": True, "pre_buffer": False}
    if not isinstance(source.path, Address):
        name = os.fsencode(source.path)  # pyarrow takes no names that are no UTF-8, but their bytes
        with pa.OSFile(name) as local, pq.ParquetFile(local, buffer_size=_BUFFER, **options) as parquet:
            yield parquet
        return
    with open_file(source.path) as file, pq.ParquetFile(file, buffer_size=_REQUESTED, **options) as parquet:
        yield parquet


def _kept_type(kind: pa.DataType) -> str:
    """The type of a kept column: int64, float64 or bool for such values, string for all others."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind):
        return "int64"
    if pa.types.is_floating(kind):
        return "float64"
    return "bool" if pa.types.is_boolean(kind) else "string"


def _groups(metadata: pq.FileMetaData) -> range:
    return range(metadata.num_row_groups)


def _batch_rows(metadata: pq.FileMetaData) -> int:
    size = sum(metadata.row_group(group).total_byte_size for group in _groups(metadata))
    return int(max(1, min(_BATCH_ROWS, _BATCH_BYTES * metadata.num_rows // max(1, size))))


def _records(batch: pa.RecordBatch, before: int) -> Iterator[Record]:
    names = batch.schema.names
    for number, values in enumerate(zip(*map(_python_values, batch.columns), strict=True), before + 1):
        if _NOT_UTF8 in values:
            name = names[values.index(_NOT_UTF8)]
            yield BadRecord(f"record {number}", f"field '{name}' is not UTF-8; write it as UTF-8", "")
        else:
            yield dict(zip(names, values, strict=True))


def _python_values(column: pa.Array) -> list[object]:
    """Python values of a column; dates, times, decimals, and bytes (as which some files store text) become strings."""
    kind = column.type
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        column = column.cast(pa.string())
    try:
        values: list[object] = column.to_pylist()
    except UnicodeDecodeError:
        values = [_python_value(value) for value in column]
    return [_decoded(value) for value in values] if "binary" in str(kind) else values


def _decoded(value: object) -> object:
    """A value with strings in place of bytes, in lists too."""
    if isinstance(value, list):
        items = [_decoded(item) for item in value]
        return _NOT_UTF8 if _NOT_UTF8 in items else items
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return _NOT_UTF8


def _python_value(value: pa.Scalar) -> object:
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return _NOT_UTF8

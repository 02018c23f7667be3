"""Parquet files, read a batch at a time and only the columns needed."""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from bertfeat.corpus.compression import Meter
from bertfeat.corpus.input_file import InputFile
from bertfeat.corpus.records import BadRecord, Record
from bertfeat.errors import CorpusError
from bertfeat.io import quote_names

_BATCH_BYTES = 32 * 2**20  # of uncompressed values
_BATCH_ROWS = 4096
_STREAMING: Final = {"buffer_size": 2**20, "pre_buffer": False}  # else a whole row group is read at once
_NOT_UTF8 = object()  # a string that does not decode


class ParquetFile:
    """A Parquet file."""

    complete = True
    cells = False
    sampled = 0  # the file itself says the types

    def __init__(self, file: InputFile) -> None:
        source = file.source
        self.name = source.name
        self._source = source
        try:
            schema: pa.Schema = pq.read_schema(source.path)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise CorpusError(f"not a sound Parquet file: {error}", where=source.name) from error
        self.columns = tuple(schema.names)
        self.types = {field.name: _kept_type(field.type) for field in schema}
        if len(set(self.columns)) < len(self.columns):
            repeated = tuple({name for name in self.columns if self.columns.count(name) > 1})
            problem = f"more than one column is called {quote_names(repeated)}"
            raise CorpusError(problem, where=source.name, remedy="rename them")

    def records(self, meter: Meter, names: Sequence[str]) -> Iterator[Record]:
        """Read all records, their fields ``names`` only."""
        needed = set(names)
        columns = [name for name in self.columns if name in needed]
        number = 0
        try:
            with pq.ParquetFile(self._source.path, page_checksum_verification=True, **_STREAMING) as file:
                rows = max(1, file.metadata.num_rows)
                for batch in file.iter_batches(_batch_rows(file.metadata), columns=columns):
                    for record in _records(batch, number):
                        number += 1
                        yield record
                    meter.read += self._source.size * batch.num_rows // rows
        except (pa.ArrowException, OSError, ValueError) as error:
            raise CorpusError(f"cannot be read on after record {number:,}: {error}", where=self.name) from error


def _kept_type(kind: pa.DataType) -> str:
    """Whole numbers, floats and truth values as such, all else as string."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind):
        return "int64"
    if pa.types.is_floating(kind):
        return "float64"
    return "bool" if pa.types.is_boolean(kind) else "string"


def _batch_rows(metadata: pq.FileMetaData) -> int:
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    size = sum(group.total_byte_size for group in groups)
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
    """Python values of a column: dates, times and decimals as strings, bytes as hexadecimal digits."""
    kind = column.type
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        column = column.cast(pa.string())
    try:
        values: list[object] = column.to_pylist()
    except UnicodeDecodeError:
        values = [_python_value(value) for value in column]
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        values = [value.hex() if isinstance(value, bytes) else value for value in values]
    return values


def _python_value(value: pa.Scalar) -> object:
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return _NOT_UTF8

"""Feature sets for other libraries: tables for Arrow, pandas and polars, with derived columns, and ``.npy`` files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from bertfeat.core.features.columns import ReadableColumn
from bertfeat.core.features.record_batches import VectorBatch, vector_batch
from bertfeat.errors import needed_library

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from bertfeat.core.features.reader import FeatureSet


@dataclass(frozen=True, slots=True)
class ExportBatch:
    """A record batch, and the vectors of the exported columns in it."""

    records: pa.RecordBatch
    vectors: tuple[VectorBatch, ...]  # one for each exported column

    def group_by_document(self, at: int, items: Sequence[str]) -> list[list[str]]:
        """Group items by document; there is one item for each vector of the exported column ``at``."""
        numbers = np.searchsorted(self.vectors[at].rows, self.records.column("row").to_numpy())
        ends = [*numbers.tolist(), len(items)]
        return [list(items[start:stop]) for start, stop in pairwise(ends)]


def export_batches(
    features: "FeatureSet", columns: Sequence[ReadableColumn], names: Sequence[str]
) -> Iterator[ExportBatch]:
    """Stream the columns ``names``, and the vectors of the feature columns ``columns``."""
    read = list(
        dict.fromkeys(["row", "id", *names, *(name for column in columns for name in column.derivation.columns)])
    )
    stored = [column.derivation.inputs(features.columns) for column in columns]
    for records in features.stream(read):
        vectors = (vector_batch(records, column, inputs) for column, inputs in zip(columns, stored, strict=True))
        yield ExportBatch(records, tuple(vectors))


def arrow_reader(features: "FeatureSet", columns: Sequence[str] | None) -> pa.RecordBatchReader:
    """A stream of the columns of those names, in this order; None: all that are stored.

    A document's vector is a list of float32 of fixed size; those of its tokens or words are a list of such lists.
    """
    chosen = {}  # name -> the feature column; None for others
    for name in features.names if columns is None else columns:
        feature = features.find_vectors(name)
        chosen[feature.name if feature else name] = feature
    vectors = [feature for feature in chosen.values() if feature is not None]
    plain = [name for name, feature in chosen.items() if feature is None]
    stored = features.stored_schema
    schema = pa.schema([_field(feature) if feature else stored.field(name) for name, feature in chosen.items()])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in export_batches(features, vectors, plain):
            arrays = {name: batch.records.column(name) for name in plain}
            for feature, made in zip(vectors, batch.vectors, strict=True):
                arrays[feature.name] = _nested_array(feature, made, batch.records)
            yield pa.record_batch([arrays[name] for name in chosen], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def pandas_frame(features: "FeatureSet", columns: Sequence[str] | None) -> "pd.DataFrame":
    """The columns of those names as a pandas data frame, whose vectors are arrays ``[width]`` or ``[n, width]``."""
    with needed_library("frames of pandas need pandas", "pandas"):
        import pandas as pd
    table = arrow_reader(features, columns).read_all()
    # by NumPy's types, integers with missing values would be rounded to float64, and truth values be objects
    nullable = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    return pd.DataFrame({name: _pandas_column(table.column(name), nullable) for name in table.column_names})


def polars_frame(features: "FeatureSet", columns: Sequence[str] | None) -> "pl.DataFrame":
    """The columns of those names as a polars data frame."""
    with needed_library("frames of polars need polars", "polars"):
        import polars as pl
    return pl.DataFrame(arrow_reader(features, columns).read_all())


def _field(feature: ReadableColumn) -> pa.Field:
    vector = pa.list_(pa.float32(), feature.width)
    return pa.field(feature.name, vector if feature.pooling.per_document else pa.large_list(vector), nullable=False)


def _nested_array(feature: ReadableColumn, made: VectorBatch, records: pa.RecordBatch) -> pa.Array:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(made.matrix.reshape(-1), pa.float32()), feature.width)
    if feature.pooling.per_document:
        return vectors
    begins = np.searchsorted(made.rows, records.column("row").to_numpy())
    return pa.LargeListArray.from_arrays(pa.array([*begins, len(made)], pa.int64()), vectors)


def _pandas_column(column: pa.ChunkedArray, nullable: Mapping[pa.DataType, object]) -> "pd.Series | list[np.ndarray]":
    if not pa.types.is_large_list(column.type):
        return column.to_pandas(types_mapper=nullable.get if column.null_count else None)
    width = column.type.value_type.list_size
    return [cell.values.flatten().to_numpy().reshape(-1, width) for cell in column]


class NpyWriter:
    """Writes matrices of one width, one below the other, as one array ``[n, width]``; without a width, one ``[n]``.

    The number of rows is filled in at the end. It uses plain writes rather than a memory map: they do not count as the
    process's memory, and a full disk is an error rather than a crash.
    """

    def __init__(self, path: Path, width: int | None, dtype: str = "float32"):
        self._width, self._dtype = width, np.dtype(dtype).newbyteorder("<")
        self._rows = 0
        self._file = path.open("wb")
        self._write_header()

    def write(self, matrix: NDArray[np.generic]) -> None:
        """Add ``[n, width]`` vectors, or ``[n]`` numbers."""
        self._rows += len(matrix)
        self._file.write(np.ascontiguousarray(matrix, self._dtype).data)  # tofile() hides the reason of an error

    def __enter__(self) -> "NpyWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._file:
            if kind is None:
                self._file.seek(0)
                self._write_header()

    def _write_header(self) -> None:
        # NumPy pads a header for a shape that grows, so the final one takes as many bytes as the first
        shape = (self._rows,) if self._width is None else (self._rows, self._width)
        header = {"descr": npy_format.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape}
        npy_format.write_array_header_1_0(self._file, header)

"""Feature sets as tables of Arrow, pandas and polars: vectors are lists of float32, derived where not stored."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from bertfeat.errors import needed_library
from bertfeat.features.columns import ReadableColumn
from bertfeat.features.export_batches import export_batches
from bertfeat.features.vectors import VectorBatch

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from bertfeat.features.reader import FeatureSet


def arrow_reader(features: "FeatureSet", columns: Sequence[str] | None) -> pa.RecordBatchReader:
    """A stream of the columns of those names, in this order; None: all that are stored.

    A document's vector is a list of float32 of fixed size; those of its tokens or words are a list of such lists.

    Raises:
        FeatureSetError: there is no such column.
        NotDerivableError: nor can it be derived.
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
    """The columns of those names as a frame of pandas, whose vectors are arrays ``[width]`` or ``[n, width]``.

    Raises:
        FeatureSetError, NotDerivableError: see :func:`arrow_reader`.
        MissingLibraryError: pandas is not installed.
    """
    with needed_library("frames of pandas need pandas", "pandas"):
        import pandas as pd
    table = arrow_reader(features, columns).read_all()
    return pd.DataFrame({name: _pandas_column(table.column(name)) for name in table.column_names})


def polars_frame(features: "FeatureSet", columns: Sequence[str] | None) -> "pl.DataFrame":
    """The columns of those names as a frame of polars.

    Raises:
        FeatureSetError, NotDerivableError: see :func:`arrow_reader`.
        MissingLibraryError: polars is not installed.
    """
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


def _pandas_column(column: pa.ChunkedArray) -> "pd.Series | list[np.ndarray]":
    if not pa.types.is_large_list(column.type):
        return column.to_pandas()
    width = column.type.value_type.list_size
    return [cell.values.flatten().to_numpy().reshape(-1, width) for cell in column]

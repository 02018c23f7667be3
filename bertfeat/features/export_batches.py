"""The parts that all portable formats share: batches with their vectors, the owner of each vector, numbers as text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bertfeat.features.columns import ReadableColumn
from bertfeat.features.vectors import VectorBatch, vector_batch

if TYPE_CHECKING:
    from bertfeat.features.reader import FeatureSet


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
    stored = [[known for known in features.columns if known.name in column.derivation.columns] for column in columns]
    for records in features.stream(read):
        vectors = (vector_batch(records, column, inputs) for column, inputs in zip(columns, stored, strict=True))
        yield ExportBatch(records, tuple(vectors))


@dataclass(frozen=True, slots=True)
class VectorOwners:
    """The owners of a column's vectors: row and id, and for tokens and words number, string and character offsets."""

    schema: pa.Schema
    position_columns: tuple[str, ...]  # the columns of the set that hold strings and offsets

    @classmethod
    def of(cls, features: "FeatureSet", exported: ReadableColumn) -> "VectorOwners":
        """The owners of that column's vectors."""
        kind = exported.pooling
        fields = [("row", pa.int64()), ("id", pa.string())]
        known = {"string": f"{kind}s", "start": f"{kind}_start", "end": f"{kind}_end"}
        places = {name: column for name, column in known.items() if column in features.names}
        if not kind.per_document:
            fields.append(("position", pa.int64()))
            fields.extend((name, pa.string() if name == "string" else pa.int32()) for name in places)
        return cls(pa.schema(fields), tuple(places.values()))

    def table(self, batch: ExportBatch) -> pa.Table:
        """One line for each vector of the batch's first exported column."""
        vectors = batch.vectors[0]
        arrays = [
            vectors.rows,
            vectors.ids,
            vectors.positions,
            *(batch.records[name].flatten() for name in self.position_columns),
        ]
        return pa.table(arrays[: len(self.schema)], schema=self.schema)


def number_lines(matrix: NDArray[np.floating]) -> list[str]:
    """Each vector's values separated by commas, in the fewest digits that give back the very same number.

    JSON has no infinite numbers and no NaN: they become ``null``.
    """
    values = pa.array(matrix.reshape(-1))
    text = pc.cast(values, pa.string())
    if not np.isfinite(matrix).all():
        text = pc.if_else(pc.is_finite(values), text, "null")
    ends = pa.array(np.arange(len(matrix) + 1, dtype=np.int32) * matrix.shape[1])
    lines: list[str] = pc.binary_join(pa.ListArray.from_arrays(ends, text), ", ").to_pylist()
    return lines

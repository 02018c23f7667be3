"""Feature columns of a record batch as NumPy matrices, without copying."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.derivation import Derivation
from bertfeat.display import displayed
from bertfeat.features.columns import ReadableColumn
from bertfeat.features.pieces import Matrix, number_pieces, piece_owners
from bertfeat.recipe import FeatureColumn

RecordBatch = pa.RecordBatch
"""Rows of a feature set, as :meth:`FeatureSet.stream` reads them."""


@displayed
@dataclass(frozen=True, slots=True)
class VectorBatch:
    """Vectors of one column with their owners: one vector a document, or one a token or word."""

    rows: NDArray[np.int64]  # [n] row of the document
    ids: Sequence[str]  # [n] its id
    matrix: NDArray[np.float32]  # [n, width]
    positions: NDArray[np.int64]  # [n] number of the token or word in its document; 0 for document vectors

    def __len__(self) -> int:
        return len(self.rows)


def stored_matrices(batch: pa.RecordBatch, columns: Iterable[FeatureColumn]) -> dict[str, Matrix]:
    """The matrix of each column in the batch, by name: ``[D, width]``, or ``[N, width]`` over all its pieces."""
    return {column.name: _matrix(batch.column(column.name), column) for column in columns}


def piece_offsets(batch: pa.RecordBatch, column: FeatureColumn) -> NDArray[np.int64]:
    """Return the offsets at which each document's pieces begin in a token or word matrix: ``[D+1]``."""
    ends = _cell_ends(batch.column(column.name))
    offsets: NDArray[np.int64] = (ends - ends[0]) // (column.width * np.dtype(column.dtype).itemsize)
    return offsets


def vector_batch(batch: pa.RecordBatch, column: ReadableColumn, stored: Sequence[FeatureColumn]) -> VectorBatch:
    """The vectors of a column, computed from the stored columns in the batch."""
    matrix = column.derivation.apply(stored_matrices(batch, stored))
    rows, ids = batch.column("row").to_numpy(), batch.column("id").to_pylist()
    if column.pooling.per_document:
        return VectorBatch(rows, ids, matrix, np.zeros(len(rows), np.int64))
    offsets = piece_offsets(batch, stored[0])
    owners = piece_owners(offsets)
    return VectorBatch(rows[owners], [ids[owner] for owner in owners], matrix, number_pieces(offsets))


def join_batches(batches: Sequence[VectorBatch], width: int) -> VectorBatch:
    """Batches of vectors of that width, of which there may be none, as one."""
    return VectorBatch(
        np.concatenate([np.empty(0, np.int64), *(batch.rows for batch in batches)]),
        [owner for batch in batches for owner in batch.ids],
        np.concatenate([np.empty((0, width), np.float32), *(batch.matrix for batch in batches)]),
        np.concatenate([np.empty(0, np.int64), *(batch.positions for batch in batches)]),
    )


def derived_dtype(derivation: Derivation, stored: Sequence[FeatureColumn]) -> np.dtype[np.floating]:
    """float16 where that is what is stored and nothing is computed with it, else float32."""
    copied = not derivation.computes and all(column.dtype == "float16" for column in stored)
    return np.dtype(np.float16 if copied else np.float32)


def unit_vectors(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    """Vectors scaled to length 1, ``[..., W]``; zero vectors stay zero, as in every cosine of bertfeat."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    units: NDArray[np.float32] = np.divide(vectors, np.where(length > 0, length, 1), dtype=np.float32)
    return units


def _matrix(array: pa.Array, column: FeatureColumn) -> Matrix:
    if column.pooling.per_document:
        flat: Matrix = array.flatten().to_numpy()
        return flat.reshape(-1, column.width)
    ends = _cell_ends(array)
    dtype = np.dtype(column.dtype).newbyteorder("<")
    count = int(ends[-1] - ends[0]) // dtype.itemsize
    data = array.buffers()[2]
    if not count:
        return np.empty((0, column.width), dtype)
    return np.frombuffer(data, dtype, count, int(ends[0])).reshape(-1, column.width)


def _cell_ends(array: pa.Array) -> NDArray[np.int64]:
    if not len(array):
        return np.zeros(1, np.int64)
    return np.frombuffer(array.buffers()[1], np.int64, len(array) + 1, array.offset * 8)

"""The bytes of token and word matrices in the cells of a part: float32, float16, or int8 with scales.

With a basis, a vector is stored by its coordinates in the basis's directions, and read as the vector that these give.

In int8 a vector is stored as its scales, then its values. Each 64 values in a row share a float32 scale, their largest
absolute value divided by 127; a value is stored as the whole number next to it divided by its scale. An error is at
most half a scale, so that of 64 values is at most ``sqrt(64) / 254`` of their length, and the cosine of a vector
with what is read again is at least :data:`INT8_COSINE`, however its values are distributed.

Shapes: n vectors of width W, stored by S values: by K coordinates with a basis, else by all W. They are in B blocks
of 64 values, the last one of fewer where S is no multiple of 64.
"""

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.core.recipe import Basis, FeatureColumn

INT8_BLOCK = 64
"""The number of values that share a scale."""
INT8_COSINE = math.sqrt(1 - INT8_BLOCK / 254**2)
"""The least cosine of a vector with what int8 holds of it: 0.9995."""

_LEAST_SCALE = np.finfo(np.float32).tiny  # 1.2e-38: below it, division is no longer exact to the last digits
_CHUNK = 4096  # vectors that are encoded at a time, so that they stay in the cache


def vector_bytes(column: FeatureColumn) -> int:
    """The number of bytes of one stored vector."""
    size = stored_values(column)
    return size + 4 * _count_scales(size) if column.dtype == "int8" else size * np.dtype(column.dtype).itemsize


def stored_values(column: FeatureColumn) -> int:
    """The number of values that are stored of a vector."""
    return column.width if column.basis is None else column.basis.width


@lru_cache(maxsize=64)
def directions(basis: Basis) -> NDArray[np.float32]:
    """The directions of a basis, one in each column: ``[W, K]``."""
    values: NDArray[np.float32] = np.frombuffer(basis.values, "<f2").reshape(-1, basis.width).astype(np.float32)
    return values


def encode_vectors(matrix: NDArray[np.floating], column: FeatureColumn) -> NDArray[np.generic]:
    """The vectors ``[n, W]`` as they are stored, row by row and little-endian; copied only if they have another form.

    Float vectors become ``[n, S]``; in int8 they become bytes, ``[n, vector_bytes(column)]``.
    """
    if matrix.ndim != 2 or matrix.shape[1] != column.width:
        raise ValueError(f"{column.name} must be [n, {column.width}], not {list(matrix.shape)}")
    if column.basis is not None:
        coordinates = np.empty((len(matrix), column.basis.width), np.float32)
        for cut in _chunks(len(matrix)):
            np.matmul(matrix[cut].astype(np.float32, copy=False), directions(column.basis), out=coordinates[cut])
        matrix = coordinates
    return _encode_int8(matrix, column) if column.dtype == "int8" else _as_stored(matrix, column)


def _as_stored(matrix: NDArray[np.floating], column: FeatureColumn) -> NDArray[np.floating]:
    return np.ascontiguousarray(matrix, np.dtype(column.dtype).newbyteorder("<"))


def _encode_int8(matrix: NDArray[np.floating], column: FeatureColumn) -> NDArray[np.uint8]:
    encoded = np.empty((len(matrix), vector_bytes(column)), np.uint8)
    scales, values = _views(encoded, matrix.shape[1])
    for cut in _chunks(len(matrix)):
        for block, part in _scale_blocks(matrix.shape[1]):
            given = matrix[cut, part].astype(np.float32, copy=False)
            scale = np.maximum(np.abs(given).max(axis=1, initial=0) / np.float32(127), _LEAST_SCALE)
            scales[cut, block] = scale
            np.rint(given / scale[:, None], out=values[cut, part], casting="unsafe")
    return encoded


def _chunks(vectors: int) -> Iterator[slice]:
    for at in range(0, vectors, _CHUNK):
        yield slice(at, min(at + _CHUNK, vectors))


def decode_vectors(stored: pa.Buffer, first: int, stop: int, column: FeatureColumn) -> NDArray[np.floating]:
    """The vectors ``[n, W]`` that the bytes from ``first`` up to ``stop`` of a column's cells hold.

    Float vectors are not copied; int8 is decoded to float32, and so are vectors with a basis.
    """
    size = stop - first
    encoded = np.frombuffer(stored, np.uint8, size, first) if size else np.empty(0, np.uint8)
    if column.dtype == "int8":
        matrix: NDArray[np.floating] = _decode_int8(encoded.reshape(-1, vector_bytes(column)), stored_values(column))
    else:
        matrix = encoded.view(np.dtype(column.dtype).newbyteorder("<")).reshape(-1, stored_values(column))
    if column.basis is None:
        return matrix
    vectors: NDArray[np.float32] = matrix.astype(np.float32, copy=False) @ directions(column.basis).T
    return vectors


def _decode_int8(encoded: NDArray[np.uint8], size: int) -> NDArray[np.float32]:
    scales, values = _views(encoded, size)
    matrix = np.empty(values.shape, np.float32)
    for block, part in _scale_blocks(size):
        np.multiply(values[:, part], scales[:, block, None], out=matrix[:, part], dtype=np.float32)
    return matrix


def _views(encoded: NDArray[np.uint8], width: int) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """The scales ``[n, B]`` and the values ``[n, S]`` in encoded vectors, not copied."""
    layout = np.dtype([("scales", "<f4", (_count_scales(width),)), ("values", "i1", (width,))])
    vectors = encoded.view(layout)[:, 0]
    return vectors["scales"], vectors["values"]


def _scale_blocks(width: int) -> Iterator[tuple[int, slice]]:
    """The number of each block, and its values."""
    for number in range(_count_scales(width)):
        yield number, slice(number * INT8_BLOCK, min((number + 1) * INT8_BLOCK, width))


def _count_scales(width: int) -> int:
    return -(-width // INT8_BLOCK)

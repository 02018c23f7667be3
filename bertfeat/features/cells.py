"""The bytes of token and word matrices in the cells of a part: float32, float16, or int8 with scales.

In int8 a vector is stored as its scales, then its values. Each 64 values in a row share a float32 scale, their largest
absolute value divided by 127; a value is stored as the whole number next to it divided by its scale. An error is at
most half a scale, so that of 64 values is at most ``sqrt(64) / 254`` of their length, and the cosine of a vector
with what is read again is at least :data:`INT8_COSINE`, however its values are distributed.

Shapes: n vectors of width W, in B blocks of 64 values, the last one of fewer where W is no multiple of 64.
"""

import math
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.recipe import FeatureColumn

INT8_BLOCK = 64
"""The number of values that share a scale."""
INT8_COSINE = math.sqrt(1 - INT8_BLOCK / 254**2)
"""The least cosine of a vector with what int8 holds of it: 0.9995."""

_LEAST_SCALE = np.finfo(np.float32).tiny  # 1.2e-38: below it, division is no longer exact to the last digits
_CHUNK = 4096  # vectors that are encoded at a time, so that they stay in the cache


def vector_bytes(column: FeatureColumn) -> int:
    """The number of bytes of one stored vector."""
    if column.dtype == "int8":
        return column.width + 4 * _count_scales(column.width)
    return column.width * np.dtype(column.dtype).itemsize


def encode_vectors(matrix: NDArray[np.floating], column: FeatureColumn) -> NDArray[np.generic]:
    """The vectors ``[n, W]`` as they are stored, row by row and little-endian; copied only if they have another form.

    Float vectors stay ``[n, W]``; in int8 they become bytes, ``[n, vector_bytes(column)]``.
    """
    if matrix.ndim != 2 or matrix.shape[1] != column.width:
        raise ValueError(f"{column.name} must be [n, {column.width}], not {list(matrix.shape)}")
    if column.dtype != "int8":
        return np.ascontiguousarray(matrix, np.dtype(column.dtype).newbyteorder("<"))
    encoded = np.empty((len(matrix), vector_bytes(column)), np.uint8)
    scales, values = _views(encoded, column.width)
    for at in range(0, len(matrix), _CHUNK):
        cut = slice(at, at + _CHUNK)
        for block, part in _scale_blocks(column.width):
            given = matrix[cut, part].astype(np.float32, copy=False)
            scale = np.maximum(np.abs(given).max(axis=1, initial=0) / np.float32(127), _LEAST_SCALE)
            scales[cut, block] = scale
            np.rint(given / scale[:, None], out=values[cut, part], casting="unsafe")
    return encoded


def decode_vectors(stored: pa.Buffer, first: int, stop: int, column: FeatureColumn) -> NDArray[np.floating]:
    """The vectors ``[n, W]`` that the bytes from ``first`` up to ``stop`` of a column's cells hold.

    Float vectors are not copied; int8 is decoded to float32.
    """
    size = stop - first
    encoded = np.frombuffer(stored, np.uint8, size, first) if size else np.empty(0, np.uint8)
    if column.dtype != "int8":
        floats: NDArray[np.floating] = encoded.view(np.dtype(column.dtype).newbyteorder("<"))
        return floats.reshape(-1, column.width)
    scales, values = _views(encoded.reshape(-1, vector_bytes(column)), column.width)
    matrix = np.empty(values.shape, np.float32)
    for block, part in _scale_blocks(column.width):
        np.multiply(values[:, part], scales[:, block, None], out=matrix[:, part], dtype=np.float32)
    return matrix


def _views(encoded: NDArray[np.uint8], width: int) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """The scales ``[n, B]`` and the values ``[n, W]`` in encoded vectors, not copied."""
    layout = np.dtype([("scales", "<f4", (_count_scales(width),)), ("values", "i1", (width,))])
    vectors = encoded.view(layout)[:, 0]
    return vectors["scales"], vectors["values"]


def _scale_blocks(width: int) -> Iterator[tuple[int, slice]]:
    """The number of each block, and its values."""
    for number in range(_count_scales(width)):
        yield number, slice(number * INT8_BLOCK, min((number + 1) * INT8_BLOCK, width))


def _count_scales(width: int) -> int:
    return -(-width // INT8_BLOCK)

"""Vectors in int8: what is read again is what NumPy computes from the documented bytes, within the stated cosine."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from bertfeat.core.features import INT8_COSINE, FeatureSet, vector_bytes
from bertfeat.core.features.cells import decode_vectors, encode_vectors
from bertfeat.core.grammar import feature_columns
from bertfeat.core.recipe import FeatureColumn, Pooling
from bertfeat.errors import DamagedError
from tests.hostile.forge import forge_part
from tests.support.features_toy import H, toy_part, toy_parts, toy_set

(LAST,) = feature_columns("last", [Pooling.TOKEN], num_layers=6, hidden_size=8, dtype="int8")


def column(width: int) -> FeatureColumn:
    return replace(LAST, width=width)


def plain_decode(cell: bytes, width: int) -> NDArray[np.float32]:
    """The vectors of a cell as docs/storage-format.md describes it, value by value."""
    blocks = (width + 63) // 64
    size = 4 * blocks + width
    vectors = []
    for at in range(0, len(cell), size):
        scales = np.frombuffer(cell[at : at + 4 * blocks], "<f4")
        values = np.frombuffer(cell[at + 4 * blocks : at + size], np.int8)
        vectors.append([np.float32(values[number]) * scales[number // 64] for number in range(width)])
    return np.array(vectors, np.float32).reshape(-1, width)


def hard_vectors(width: int) -> NDArray[np.float32]:
    """Vectors of all sizes, with and without values that are far larger than the others."""
    random = np.random.default_rng(width)
    plain = random.standard_normal((40, width))
    peaks = np.where(random.random((40, width)) < 0.02, 1e3, 1) * random.standard_normal((40, width))
    worst = np.full((40, width), 0.5 / 127)  # every value half a step from a whole number
    worst[:, ::64] = 1
    sized = np.concatenate([plain, peaks, worst]) * np.exp(random.standard_normal((120, 1)) * 9)
    return np.concatenate([sized, np.zeros((1, width))]).astype(np.float32)


@pytest.mark.parametrize("width", [1, 5, 63, 64, 65, 312, 384, 1536])
def test_vectors_come_back_as_numpy_computes_them(width: int) -> None:
    given = hard_vectors(width)
    cell = encode_vectors(given, column(width)).tobytes()
    assert len(cell) == len(given) * vector_bytes(column(width))
    read = decode_vectors(pa.py_buffer(cell), 0, len(cell), column(width))
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read, plain_decode(cell, width))
    begin = 2 * vector_bytes(column(width))
    np.testing.assert_array_equal(decode_vectors(pa.py_buffer(cell), begin, len(cell), column(width)), read[2:])
    exact, rounded = given[:-1].astype(np.float64), read[:-1].astype(np.float64)
    cosines = (exact * rounded).sum(1) / np.linalg.norm(exact, axis=1) / np.linalg.norm(rounded, axis=1)
    assert cosines.min() >= INT8_COSINE
    assert not read[-1].any()
    np.testing.assert_array_equal(encode_vectors(read, column(width)).tobytes(), cell)  # nothing is lost twice


def test_the_bound_is_met_by_the_worst_vector() -> None:
    """One value of each 64 is the largest, the others are just below half a step: all of them become 0."""
    worst = np.full((1, 64), 0.4999 / 127, np.float32)
    worst[0, 0] = 1
    read = decode_vectors(pa.py_buffer(encode_vectors(worst, column(64)).tobytes()), 0, 68, column(64))
    cosine = float((worst @ read.T)[0, 0] / np.linalg.norm(worst) / np.linalg.norm(read))
    assert INT8_COSINE <= cosine < INT8_COSINE + 1e-5


def test_the_smallest_numbers_become_zeros_and_nothing_else() -> None:
    tiny = np.repeat(np.array([[3e-45], [2e-43], [-1e-40], [1e-37], [0]], np.float32), 64, axis=1)
    read = decode_vectors(pa.py_buffer(encode_vectors(tiny, column(64)).tobytes()), 0, 5 * 68, column(64))
    np.testing.assert_allclose(read, tiny, rtol=0, atol=6e-39)


def test_no_vectors() -> None:
    assert encode_vectors(np.empty((0, 100), np.float32), column(100)).shape == (0, 108)
    assert decode_vectors(pa.py_buffer(b""), 0, 0, column(100)).shape == (0, 100)


def test_a_set_in_int8_reads_as_one_in_float32(tmp_path: Path) -> None:
    """Documents, streams and derived layers: the stored vectors, decoded."""
    exact = FeatureSet(toy_set(tmp_path / "exact", *toy_parts(dtype="float32")))
    small = FeatureSet(toy_set(tmp_path / "small", *toy_parts(dtype="int8")))
    assert list(small.check())
    cells = [cell for path in sorted((tmp_path / "small").glob("*.parquet")) for cell in _cells(path)]
    for cell, one, other in zip(cells, small, exact, strict=True):
        read = one.matrix("concat4", "token")
        np.testing.assert_array_equal(read, plain_decode(cell, 4 * H))
        np.testing.assert_allclose(read, other.matrix("concat4", "token"), atol=0.02)
        np.testing.assert_array_equal(one.matrix("sum4", "token"), read.reshape(-1, 4, H).sum(1))
        np.testing.assert_array_equal(one.vector("concat4", "mean"), other.vector("concat4", "mean"))
    stream = small.vectors("concat4_token", shuffle=False)
    assert stream.dtype == np.float32
    read = np.concatenate([document.matrix("concat4", "token") for document in small])
    np.testing.assert_array_equal(np.concatenate([batch.matrix for batch in stream]), read)
    half = np.concatenate([batch.matrix for batch in small.vectors("concat4_token", shuffle=False, dtype="float16")])
    np.testing.assert_array_equal(half, read.astype(np.float16))


def test_cells_of_another_type_than_the_header_says_are_refused(tmp_path: Path) -> None:
    folder = toy_set(tmp_path / "f", toy_part(dtype="float16", poolings=["token"]))
    forge_part(folder / "part-00000.parquet", _in_int8)
    with pytest.raises(DamagedError, match="holds a matrix whose rows are not whole"):
        list(FeatureSet(folder).check())


def _in_int8(table: pa.Table, header: dict[str, Any]) -> tuple[pa.Table, dict[str, Any]]:
    return table, {**header, "columns": [{**each, "dtype": "int8"} for each in header["columns"]]}


def _cells(path: Path) -> list[bytes]:
    cells: list[bytes] = pq.read_table(path).column("concat4_token").to_pylist()
    return cells

"""The vectors of row groups, read side by side into batches.

Shapes: n vectors; W values of all columns side by side.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.arguments import checked_methods
from bertfeat.core.features.columns import ReadableColumn
from bertfeat.core.features.open_parts import OpenParts
from bertfeat.core.features.record_batches import Matrix, number_pieces, piece_offsets, piece_owners, stored_matrices
from bertfeat.core.features.vector_blocks import BlockCut, VectorBlocks, VectorChoice, reading_threads
from bertfeat.core.recipe import FeatureColumn, Unit
from bertfeat.display import displayed
from bertfeat.errors import DamagedError, FeatureSetError, UsageError, did_you_mean, parameter
from bertfeat.io import ContextPool


@displayed
@checked_methods
@dataclass(frozen=True, slots=True)
class StreamBatch:
    """A batch of vectors of a stream and, if asked for, their origins.

    ``batch["attn7_token"]`` are the vectors of one of several columns.
    """

    matrix: Matrix  # [n, width]; of several columns side by side
    rows: NDArray[np.int64] | None = None  # [n] row of the document
    positions: NDArray[np.int64] | None = None  # [n] number of the token or word in it; 0 for document vectors
    strings: NDArray[np.object_] | None = None  # [n] the token or word; None for documents, and where no text is stored
    columns: Mapping[str, slice] = field(default_factory=dict, repr=False, kw_only=True)  # their places in the matrix

    def __getitem__(self, column: str) -> Matrix:
        """The vectors of a column, in the same memory. Shape: ``[n, its width]``.

        Raises:
            UsageError: the stream does not have it.
        """
        if column not in self.columns:
            remedy = f"{did_you_mean(column, self.columns)}there are {', '.join(self.columns)}"
            raise UsageError(f"the stream has no column {column!r}", remedy=remedy)
        return self.matrix[:, self.columns[column]]

    def __len__(self) -> int:
        return len(self.matrix)

    @property
    def arrays(self) -> list[NDArray[np.generic]]:
        """The matrix, and the arrays of origins that are present."""
        return [array for array in (self.matrix, self.rows, self.positions, self.strings) if array is not None]

    def take(self, numbers: NDArray[np.int64]) -> "StreamBatch":
        """A copy of the vectors with these numbers, in their order."""
        matrix = _pooled_array(len(numbers), self.matrix.shape[1], self.matrix.dtype)
        # all numbers are in range; the mode "raise" would buffer the output in another copy
        np.take(self.matrix, numbers, axis=0, out=matrix, mode="clip")
        origins = (array.take(numbers) for array in self.arrays[1:])
        return StreamBatch(matrix, *origins, columns=self.columns)  # type: ignore[arg-type]

    @classmethod
    def join(cls, batches: Sequence["StreamBatch"]) -> "StreamBatch":
        """Several batches as one.

        Raises:
            UsageError: there is none.
        """
        if not batches:
            raise UsageError("there is no batch to join")
        if len(batches) == 1:
            return batches[0]
        arrays = map(np.concatenate, zip(*(batch.arrays for batch in batches), strict=True))
        return cls(*arrays, columns=batches[0].columns)


class _Group(NamedTuple):
    """A row group that was read."""

    records: pa.RecordBatch
    matrices: Mapping[str, Matrix]  # of the stored columns
    given: NDArray[np.bool_] | None  # whether each vector is given by where it stands; None for all
    where: str

    @property
    def size(self) -> int:
        """Number of its vectors."""
        return len(next(iter(self.matrices.values())))

    def numbers(self, first: int, stop: int) -> slice | NDArray[np.int64]:
        """The numbers, in the group, of some of the vectors that are given by where they stand."""
        return slice(first, stop) if self.given is None else np.flatnonzero(self.given)[first:stop]


@dataclass(frozen=True, slots=True)
class BlockReader:
    """Reads the vectors of columns of one unit, side by side, into arrays that are already allocated."""

    parts: OpenParts
    columns: tuple[ReadableColumn, ...]
    stored: tuple[FeatureColumn, ...]  # the columns that they are derived from
    dtype: np.dtype[np.floating]
    choice: VectorChoice
    origins: bool = False
    bounds: Mapping[str, float] = field(default_factory=dict)  # by column the largest norm of a vector that is given

    @property
    def places(self) -> dict[str, slice]:
        """The places of the columns in a row of the matrix."""
        ends = np.cumsum([column.width for column in self.columns]).tolist()
        return {column.name: slice(end - column.width, end) for column, end in zip(self.columns, ends, strict=True)}

    @property
    def width(self) -> int:
        """Number of values in a row of the matrix."""
        return sum(column.width for column in self.columns)

    def make_room(self, number: int) -> StreamBatch:
        """An uninitialized batch of ``number`` vectors, which :meth:`read` fills."""
        matrix = _pooled_array(number, self.width, self.dtype)
        if not self.origins:
            return StreamBatch(matrix, columns=self.places)
        strings = np.empty(number, np.object_) if self._string_names else None
        return StreamBatch(matrix, np.empty(number, np.int64), np.empty(number, np.int64), strings, columns=self.places)

    def read(self, cut: BlockCut, into: StreamBatch, at: int) -> None:
        """Read some vectors of a row group into a batch, from number ``at`` on."""
        origins = ["row", *self._string_names] if self.origins else []
        group, own = self._open(cut.part, cut.group, cut.of, origins), slice(at, at + len(cut))
        if self.bounds:
            whole = self._whole(group)
            inside = np.flatnonzero(self._within_bounds(whole))[cut.first : cut.stop]
            if len(inside) != len(cut):
                raise self._damaged(group.where)
            chosen: slice | NDArray[np.int64] = np.arange(group.size)[group.numbers(0, cut.of)][inside]
            with self._held(group.where):
                into.matrix[own] = whole[inside]
        else:
            chosen = group.numbers(cut.first, cut.stop)
            with self._held(group.where):
                self._derive(into.matrix[own], group, chosen)
        for array, values in zip(into.arrays[1:], self._origins(group.records), strict=True):
            array[own] = values[chosen]

    def norms_in(self, part: int, group: int, placed: int) -> NDArray[np.float32]:
        """The norms of the vectors that a row group gives by where they stand. Shape: ``[n, columns]``."""
        whole = self._whole(self._open(part, group, placed, []))
        return np.stack([row_norms(whole[:, place]) for place in self.places.values()], axis=1)

    def _open(self, part_number: int, number: int, placed: int, more: Sequence[str]) -> _Group:
        """Read a row group, of which so many vectors are given by where they stand.

        Raises:
            DamagedError: it does not have a vector for each token or word.
        """
        part = self.parts.open(self.parts.entries[part_number])
        where = f"{part.footer.path}: row group {number}"
        names = [*(column.name for column in self.stored), *more, *self.choice.names]
        (records,) = part.read_group(number, names).combine_chunks().to_batches()
        matrices, given = stored_matrices(records, self.stored), self.choice.given(records)
        wanted = placed if given is None else len(given)
        if {len(matrix) for matrix in matrices.values()} != {wanted} or (
            given is not None and np.count_nonzero(given) != placed
        ):
            raise self._damaged(where)
        return _Group(records, matrices, given, where)

    def _damaged(self, where: str) -> DamagedError:
        names = " and ".join(column.name for column in self.columns)
        problem = f"the matrices of {names} do not have a vector for each {self.choice.unit}"
        return DamagedError(problem, where=where, remedy="extract it again")

    def _whole(self, group: _Group) -> Matrix:
        """All vectors that are given by where they stand, in the columns' own type, which holds them."""
        chosen = group.numbers(0, group.size)
        count = group.size if isinstance(chosen, slice) else len(chosen)
        room = _pooled_array(count, self.width, own_dtype(self.columns, self.stored))
        self._derive(room, group, chosen)
        return room

    def _derive(self, into: Matrix, group: _Group, chosen: slice | NDArray[np.int64]) -> None:
        """Derive the chosen vectors of all columns."""
        read = {name: matrix[chosen] for name, matrix in group.matrices.items()}
        for column, place in zip(self.columns, self.places.values(), strict=True):
            column.derivation.fill(into[:, place], read)

    @contextmanager
    def _held(self, where: str) -> Iterator[None]:
        """Refuse values that the type of the batches does not hold."""
        try:
            with np.errstate(over="raise"):
                yield
        except FloatingPointError:
            remedy = parameter("dtype", "float32")
            raise FeatureSetError(f"a value is too large for {self.dtype}", where=where, remedy=remedy) from None

    def _within_bounds(self, matrix: Matrix) -> NDArray[np.bool_]:
        """Whether no column's vector of a row is longer than its bound. Shape: ``[n, W]`` → ``[n]``."""
        inside = np.ones(len(matrix), bool)
        for name, bound in self.bounds.items():
            inside &= row_norms(matrix[:, self.places[name]]) <= bound
        return inside

    @property
    def _string_names(self) -> list[str]:
        """The name of the column with the tokens or words themselves, as a list; empty if there is none."""
        name = f"{self.choice.unit}s"
        return [name] if name in self.parts.first.schema.names else []

    def _origins(self, records: pa.RecordBatch) -> list[NDArray[np.generic]]:
        """Rows, positions and strings of all vectors of the row group."""
        if not self.origins:
            return []
        rows = records.column("row").to_numpy()
        if self.choice.unit is Unit.DOCUMENT:
            return [rows, np.zeros(len(rows), np.int64)]
        offsets = piece_offsets(records, self.stored[0])
        strings = [records.column(name).flatten().to_numpy(zero_copy_only=False) for name in self._string_names]
        return [rows[piece_owners(offsets)], number_pieces(offsets), *strings]


def own_dtype(columns: Sequence[ReadableColumn], stored: Sequence[FeatureColumn]) -> np.dtype[np.floating]:
    """The type of the values as they are stored, or as they are computed from what is."""
    own = [column.derivation.dtype(column.derivation.inputs(stored)) for column in columns]
    return np.dtype(np.result_type(*own))


def bound_norms(reader: BlockReader, blocks: VectorBlocks, times: float) -> tuple[VectorBlocks, dict[str, float]]:
    """Leave out vectors longer than so many times the median norm of their column; the bounds, by column.

    All vectors are read once; their norms are held, four bytes each.
    """
    groups = zip(blocks.parts.tolist(), blocks.groups.tolist(), blocks.placed.tolist(), strict=True)
    with ContextPool(reading_threads(reader.parts), "bertfeat-norms") as pool:
        found = list(pool.map(lambda group: reader.norms_in(*group), groups))
    bounds: dict[str, float] = {}
    for number, name in enumerate(reader.places):
        norms = np.concatenate([np.empty(0, np.float32), *(each[:, number] for each in found)])
        bounds[name] = norm_bound(norms, times)
    limits = np.array(list(bounds.values()), np.float32)
    vectors = np.array([np.count_nonzero((each <= limits).all(axis=1)) for each in found], np.int64)
    left_out = blocks.left_out + int(blocks.vectors.sum() - vectors.sum())
    return VectorBlocks(blocks.parts, blocks.groups, blocks.placed, vectors, left_out), bounds


def norm_bound(norms: NDArray[np.float32], times: float) -> float:
    """So many times the median norm; zero vectors, which words have that were cut off, do not count in the median."""
    norms = norms[norms > 0]
    return float(np.float32(times * np.median(norms, overwrite_input=True))) if len(norms) else np.inf


def row_norms(matrix: Matrix) -> NDArray[np.float32]:
    """The Euclidean norm of each row, in float32. Shape: ``[n, W]`` → ``[n]``."""
    squares: NDArray[np.float64] = np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64)
    return np.sqrt(squares).astype(np.float32)


def _pooled_array(number: int, width: int, dtype: np.dtype[np.floating]) -> Matrix:
    """An array ``[number, width]`` in Arrow's memory pool, which reuses freed memory.

    Getting fresh memory from the system takes more time than filling it.
    """
    return np.ndarray((number, width), dtype, pa.allocate_buffer(number * width * dtype.itemsize))

"""The vectors in a feature set's row groups: count them, order them for an epoch of training, and read them.

Shapes: B row groups. A *place* is the number of a vector in the order of an epoch, which goes through the row groups
one after the other, shuffled or not.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.arguments import checked_methods
from bertfeat.core.features.columns import ReadableColumn
from bertfeat.core.features.open_parts import OpenParts
from bertfeat.core.features.parts import PartEntry
from bertfeat.core.features.record_batches import Matrix, number_pieces, piece_offsets, piece_owners, stored_matrices
from bertfeat.core.recipe import FeatureColumn, Unit
from bertfeat.display import displayed
from bertfeat.errors import DamagedError, FeatureSetError, UsageError, did_you_mean, parameter
from bertfeat.io import ContextPool

READERS = 4
"""Threads that read row groups at the same time."""


@dataclass(frozen=True, slots=True)
class VectorBlocks:
    """The row groups of a feature set in stored order, and how many vectors of a pooling each has."""

    parts: NDArray[np.int64]  # [B] number of the row group's part in the set
    groups: NDArray[np.int64]  # [B] number of the row group in its part
    vectors: NDArray[np.int64]  # [B] number of vectors in the row group
    left_out: int  # words without a vector of their own, which are not counted in ``vectors``

    def __len__(self) -> int:
        return int(self.vectors.sum())


@dataclass(frozen=True, order=True, slots=True)
class BlockCut:
    """The vectors of a row group from ``first`` up to ``stop``; it has ``of`` vectors in all."""

    part: int
    group: int
    first: int
    stop: int
    of: int

    def __len__(self) -> int:
        return self.stop - self.first


class BlockOrder:
    """The vectors of all row groups one after the other: in stored order, or in an order that a seed decides.

    With a seed, the row groups are shuffled, and the order begins at a random vector and wraps around, so that each
    vector is equally likely in every place, whatever the number and sizes of the row groups.
    """

    def __init__(self, blocks: VectorBlocks, seed: Sequence[int] | None) -> None:
        self._blocks = blocks
        self._order, self._begin = np.arange(len(blocks.vectors)), 0
        if seed is not None:
            random = np.random.default_rng(seed)
            random.shuffle(self._order)
            self._begin = int(random.integers(max(1, len(blocks))))
        self._ends = np.cumsum(blocks.vectors[self._order])

    def cuts(self, first: int, stop: int) -> list[BlockCut]:
        """Return the cuts to read for the places from ``first`` up to ``stop``, sorted by part and row group."""
        first, stop, size = first + self._begin, stop + self._begin, len(self._blocks)
        ranges = ((first, min(stop, size)), (max(first, size) - size, stop - size))
        return sorted(cut for begin, end in ranges if begin < end for cut in self._cuts(begin, end))

    def _cuts(self, first: int, stop: int) -> Iterator[BlockCut]:
        begin, end = np.searchsorted(self._ends, [first, stop - 1], side="right")
        cuts = (self._cut(number, first, stop) for number in range(begin, end + 1))
        return (cut for cut in cuts if len(cut))

    def _cut(self, number: int, first: int, stop: int) -> BlockCut:
        block = self._order[number]
        vectors, end = int(self._blocks.vectors[block]), int(self._ends[number])
        begin = end - vectors
        return BlockCut(
            int(self._blocks.parts[block]),
            int(self._blocks.groups[block]),
            max(first, begin) - begin,
            min(stop, end) - begin,
            vectors,
        )


def count_blocks(parts: OpenParts, choice: "VectorChoice") -> VectorBlocks:
    """Count the vectors of each row group: for documents by the footers, for tokens and words by their positions."""
    with ContextPool(READERS, "bertfeat-counts") as pool:
        counted = list(pool.map(partial(_count_groups, parts, choice), parts.entries))
    numbers = [len(part) for part in counted]
    vectors, left_out = np.concatenate([np.empty((0, 2), np.int64), *counted]).T
    return VectorBlocks(
        np.repeat(np.arange(len(counted)), numbers),
        np.concatenate([np.empty(0, np.int64), *map(np.arange, numbers)]),
        vectors,
        int(left_out.sum()),
    )


def _count_groups(parts: OpenParts, choice: "VectorChoice", entry: PartEntry) -> NDArray[np.int64]:
    """The numbers of vectors that are given and that are left out, of each row group of a part: ``[groups, 2]``."""
    part = parts.open(entry)
    counts = np.zeros((part.footer.metadata.num_row_groups, 2), np.int64)
    for group, count in enumerate(counts):
        if choice.unit is Unit.DOCUMENT:
            count[0] = part.footer.metadata.row_group(group).num_rows
            continue
        names = choice.names or ["aligned" if choice.unit is Unit.WORD else "token_start"]
        (records,) = part.read_group(group, names).combine_chunks().to_batches()
        given, number = choice.given(records), len(records.column(names[0]).flatten())
        count[0] = number if given is None else np.count_nonzero(given)
        count[1] = number - count[0]
    return counts


def bound_lengths(reader: "BlockReader", blocks: VectorBlocks, times: float) -> tuple[VectorBlocks, dict[str, float]]:
    """Leave out vectors longer than so many times the median length of their column; the bounds, by column.

    All vectors are read once, for their lengths.
    """
    groups = zip(blocks.parts.tolist(), blocks.groups.tolist(), strict=True)
    with ContextPool(READERS, "bertfeat-lengths") as pool:
        found = list(pool.map(lambda group: reader.lengths_in(*group), groups))
    if not found:
        return blocks, {}
    limits = times * np.median(np.concatenate(found), axis=0)
    vectors = np.array([np.count_nonzero((each <= limits.astype(np.float32)).all(axis=1)) for each in found], np.int64)
    left_out = blocks.left_out + int(blocks.vectors.sum() - vectors.sum())
    bounds = dict(zip(reader.places, limits.astype(np.float32).tolist(), strict=True))
    return VectorBlocks(blocks.parts, blocks.groups, vectors, left_out), bounds


@dataclass(frozen=True, slots=True)
class VectorChoice:
    """The vectors of a unit that a stream gives, by where they stand in the text."""

    unit: Unit
    unaligned: bool = False  # also words without a vector of their own
    special: bool = True  # also tokens without a place in the text

    @property
    def names(self) -> list[str]:
        """The columns that decide it; none where all vectors are given."""
        if self.unit is Unit.WORD and not self.unaligned:
            return ["aligned"]
        return ["token_start", "token_end"] if self.unit is Unit.TOKEN and not self.special else []

    def given(self, records: pa.RecordBatch) -> NDArray[np.bool_] | None:
        """Whether each vector of a row group is given; None for all of them."""
        values = [records.column(name).flatten().to_numpy(zero_copy_only=False) for name in self.names]
        if not values:
            return None
        given: NDArray[np.bool_] = values[0] if len(values) == 1 else values[1] > values[0]
        return None if given.all() else given


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────


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
        part = self.parts.open(self.parts.entries[cut.part])
        where = f"{part.footer.path}: row group {cut.group}"
        (records,) = part.read_group(cut.group, self._names).combine_chunks().to_batches()
        matrices, given = stored_matrices(records, self.stored), self.choice.given(records)
        self._check_lengths(matrices, len(given) if given is not None else None if self.bounds else cut.of, where)
        own = slice(at, at + len(cut))
        chosen: slice | NDArray[np.int64] = slice(cut.first, cut.stop)
        if self.bounds:
            room, numbers = self._whole_group(matrices, given, where)
            inside = np.flatnonzero(self._within_bounds(room))[chosen]
            into.matrix[own], chosen = room[inside], numbers[inside]
        else:
            chosen = chosen if given is None else np.flatnonzero(given)[chosen]
            self._fill(into.matrix[own], matrices, chosen, where)
        for array, values in zip(into.arrays[1:], self._origins(records), strict=True):
            array[own] = values[chosen]

    def lengths_in(self, part_number: int, group: int) -> NDArray[np.float32]:
        """The lengths of the vectors of each column that positions let a row group give. Shape: ``[n, columns]``."""
        part = self.parts.open(self.parts.entries[part_number])
        where = f"{part.footer.path}: row group {group}"
        (records,) = part.read_group(group, self._names).combine_chunks().to_batches()
        matrices, given = stored_matrices(records, self.stored), self.choice.given(records)
        self._check_lengths(matrices, None if given is None else len(given), where)
        room, _ = self._whole_group(matrices, given, where)
        return np.stack([row_lengths(room[:, place]) for place in self.places.values()], axis=1)

    def _whole_group(
        self, matrices: Mapping[str, Matrix], given: NDArray[np.bool_] | None, where: str
    ) -> tuple[Matrix, NDArray[np.int64]]:
        """The vectors that positions let a row group give, side by side, and their numbers in it."""
        number = len(next(iter(matrices.values())))
        numbers = np.arange(number) if given is None else np.flatnonzero(given)
        room = self.make_room(len(numbers)).matrix
        self._fill(room, matrices, numbers, where)
        return room, numbers

    def _check_lengths(self, matrices: Mapping[str, Matrix], number: int | None, where: str) -> None:
        """Refuse matrices that do not have this number of vectors; for None, that differ in it."""
        found = {len(matrix) for matrix in matrices.values()}
        if found != ({number} if number is not None else set(sorted(found)[:1])):
            names = " and ".join(column.name for column in self.columns)
            problem = f"the matrices of {names} do not have a vector for each {self.choice.unit}"
            raise DamagedError(problem, where=where, remedy="extract it again")

    def _fill(
        self,
        into: Matrix,
        matrices: Mapping[str, Matrix],
        chosen: slice | NDArray[np.int64],
        where: str,
    ) -> None:
        """Derive the chosen vectors of all columns."""
        try:
            with np.errstate(over="raise"):
                read = {name: matrix[chosen] for name, matrix in matrices.items()}
                for column, place in zip(self.columns, self.places.values(), strict=True):
                    column.derivation.fill(into[:, place], read)
        except FloatingPointError:
            remedy = parameter("dtype", "float32")
            raise FeatureSetError(f"a value is too large for {self.dtype}", where=where, remedy=remedy) from None

    def _within_bounds(self, matrix: Matrix) -> NDArray[np.bool_]:
        """Whether no column's vector of a row is longer than its bound. Shape: ``[n, width]`` → ``[n]``."""
        inside = np.ones(len(matrix), bool)
        for name, bound in self.bounds.items():
            inside &= row_lengths(matrix[:, self.places[name]]) <= bound
        return inside

    @property
    def _string_names(self) -> list[str]:
        """The name of the column with the tokens or words themselves, as a list; empty if there is none."""
        name = f"{self.choice.unit}s"
        return [name] if name in self.parts.first.schema.names else []

    @property
    def _names(self) -> list[str]:
        origins = ["row", *self._string_names] if self.origins else []
        return [*(column.name for column in self.stored), *origins, *self.choice.names]

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


def row_lengths(matrix: Matrix) -> NDArray[np.float32]:
    """The Euclidean length of each row, in float32. Shape: ``[n, width]`` → ``[n]``."""
    squares: NDArray[np.float64] = np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64)
    return np.sqrt(squares).astype(np.float32)


def _pooled_array(number: int, width: int, dtype: np.dtype[np.floating]) -> Matrix:
    """An array ``[number, width]`` in Arrow's memory pool, which reuses freed memory.

    Getting fresh memory from the system takes more time than filling it.
    """
    return np.ndarray((number, width), dtype, pa.allocate_buffer(number * width * dtype.itemsize))

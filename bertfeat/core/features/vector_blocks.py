"""The vectors in a feature set's row groups: count them, order them for an epoch of training, and read them.

Shapes: B row groups. A *place* is the number of a vector in the order of an epoch, which goes through the row groups
one after the other, shuffled or not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.arguments import checked_methods
from bertfeat.core.features.columns import ReadableColumn
from bertfeat.core.features.open_parts import OpenParts
from bertfeat.core.features.parts import PartEntry
from bertfeat.core.features.record_batches import Matrix, number_pieces, piece_offsets, piece_owners, stored_matrices
from bertfeat.core.recipe import FeatureColumn, Pooling
from bertfeat.display import displayed
from bertfeat.errors import DamagedError, FeatureSetError, UsageError, parameter
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


def count_blocks(parts: OpenParts, pooling: Pooling, keep_unaligned: bool) -> VectorBlocks:
    """Count the vectors of each row group: for documents by the footers, for tokens and words by a list column."""
    with ContextPool(READERS, "bertfeat-counts") as pool:
        counted = list(pool.map(partial(_count_groups, parts, pooling, keep_unaligned), parts.entries))
    numbers = [len(part) for part in counted]
    vectors, left_out = np.concatenate([np.empty((0, 2), np.int64), *counted]).T
    return VectorBlocks(
        np.repeat(np.arange(len(counted)), numbers),
        np.concatenate([np.empty(0, np.int64), *map(np.arange, numbers)]),
        vectors,
        int(left_out.sum()),
    )


def _count_groups(parts: OpenParts, pooling: Pooling, keep_unaligned: bool, entry: PartEntry) -> NDArray[np.int64]:
    """The numbers of vectors and of left-out words in each row group of a part: ``[groups, 2]``."""
    part = parts.open(entry)
    counts = np.zeros((part.footer.metadata.num_row_groups, 2), np.int64)
    for group, count in enumerate(counts):
        if pooling.per_document:
            count[0] = part.footer.metadata.row_group(group).num_rows
            continue
        name = "aligned" if pooling is Pooling.WORD else "token_start"
        values = part.read_group(group, [name]).column(name).combine_chunks().flatten()
        count[0] = len(values)
        if pooling is Pooling.WORD and not keep_unaligned:
            count[:] = values.true_count, values.false_count
    return counts


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────


@displayed
@checked_methods
@dataclass(frozen=True, slots=True)
class StreamBatch:
    """A batch of vectors of a stream and, if asked for, their origins."""

    matrix: Matrix  # [n, width]
    rows: NDArray[np.int64] | None = None  # [n] row of the document
    positions: NDArray[np.int64] | None = None  # [n] number of the token or word in it; 0 for document vectors
    strings: NDArray[np.object_] | None = None  # [n] the token or word; None for documents, and where no text is stored

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
        return StreamBatch(matrix, *(array.take(numbers) for array in self.arrays[1:]))  # type: ignore[arg-type]

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
        return cls(*map(np.concatenate, zip(*(batch.arrays for batch in batches), strict=True)))


@dataclass(frozen=True, slots=True)
class BlockReader:
    """Reads the vectors of one column into arrays that are already allocated.

    Words without a vector of their own are read only if ``unaligned``.
    """

    parts: OpenParts
    column: ReadableColumn
    stored: tuple[FeatureColumn, ...]  # the columns that it is derived from
    dtype: np.dtype[np.floating]
    origins: bool
    unaligned: bool

    def make_room(self, number: int) -> StreamBatch:
        """An uninitialized batch of ``number`` vectors, which :meth:`read` fills."""
        matrix = _pooled_array(number, self.column.width, self.dtype)
        if not self.origins:
            return StreamBatch(matrix)
        strings = np.empty(number, np.object_) if self._string_names else None
        return StreamBatch(matrix, np.empty(number, np.int64), np.empty(number, np.int64), strings)

    def read(self, cut: BlockCut, into: StreamBatch, at: int) -> None:
        """Read some vectors of a row group into a batch, from number ``at`` on."""
        part = self.parts.open(self.parts.entries[cut.part])
        where = f"{part.footer.path}: row group {cut.group}"
        (records,) = part.read_group(cut.group, self._names).combine_chunks().to_batches()
        matrices = stored_matrices(records, self.stored)
        chosen, number = self._choose(records, cut)
        if any(len(matrix) != number for matrix in matrices.values()):
            problem = f"the matrices of {self.column.name} do not have a vector for each {self.column.pooling}"
            raise DamagedError(problem, where=where, remedy="extract it again")
        own = slice(at, at + len(cut))
        try:
            with np.errstate(over="raise"):
                chosen_matrices = {name: matrix[chosen] for name, matrix in matrices.items()}
                self.column.derivation.fill(into.matrix[own], chosen_matrices)
        except FloatingPointError:
            remedy = parameter("dtype", "float32")
            raise FeatureSetError(f"a value is too large for {self.dtype}", where=where, remedy=remedy) from None
        for array, values in zip(into.arrays[1:], self._origins(records), strict=True):
            array[own] = values[chosen]

    @property
    def _string_names(self) -> list[str]:
        """The name of the column with the tokens or words themselves, as a list; empty if there is none."""
        name = f"{self.column.pooling.unit}s"
        return [name] if name in self.parts.first.schema.names else []

    @property
    def _leaves_out(self) -> bool:
        return self.column.pooling is Pooling.WORD and not self.unaligned

    @property
    def _names(self) -> list[str]:
        origins = ["row", *self._string_names] if self.origins else []
        return [*self.column.derivation.columns, *origins, *(["aligned"] if self._leaves_out else [])]

    def _choose(self, records: pa.RecordBatch, cut: BlockCut) -> tuple[slice | NDArray[np.int64], int]:
        """The numbers, in the row group, of the vectors to read, and how many vectors its matrices must have."""
        if not self._leaves_out:
            return slice(cut.first, cut.stop), cut.of
        aligned = records.column("aligned").flatten().to_numpy(zero_copy_only=False)
        if aligned.all():
            return slice(cut.first, cut.stop), len(aligned)
        return np.flatnonzero(aligned)[cut.first : cut.stop], len(aligned)

    def _origins(self, records: pa.RecordBatch) -> list[NDArray[np.generic]]:
        """Rows, positions and strings of all vectors of the row group."""
        if not self.origins:
            return []
        rows = records.column("row").to_numpy()
        if self.column.pooling.per_document:
            return [rows, np.zeros(len(rows), np.int64)]
        offsets = piece_offsets(records, self.stored[0])
        strings = [records.column(name).flatten().to_numpy(zero_copy_only=False) for name in self._string_names]
        return [rows[piece_owners(offsets)], number_pieces(offsets), *strings]


def _pooled_array(number: int, width: int, dtype: np.dtype[np.floating]) -> Matrix:
    """An array ``[number, width]`` in Arrow's memory pool, which reuses freed memory.

    Getting fresh memory from the system takes more time than filling it.
    """
    return np.ndarray((number, width), dtype, pa.allocate_buffer(number * width * dtype.itemsize))

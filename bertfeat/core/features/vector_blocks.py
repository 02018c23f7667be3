"""The row groups of a feature set, from which a stream takes its vectors: their counts, and their order in an epoch.

Shapes: B row groups. A *place* is the number of a vector in the order of an epoch, which goes through the row groups
one after the other, shuffled or not.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.core.features.open_parts import OpenParts
from bertfeat.core.features.parts import PartEntry
from bertfeat.core.features.record_batches import PiecePositions
from bertfeat.core.recipe import Unit
from bertfeat.io import Address, ContextPool

_READERS = 4


def reading_threads(parts: OpenParts) -> int:
    """The number of threads that read row groups at the same time.

    Of local files more threads than cores only take turns; requests to object storage wait.
    """
    stored_away = isinstance(parts.first.path, Address)
    return _READERS if stored_away else min(_READERS, len(os.sched_getaffinity(0)))


@dataclass(frozen=True, slots=True)
class VectorBlocks:
    """The row groups of a feature set in stored order, and how many vectors of a unit each gives."""

    parts: NDArray[np.int64]  # [B] number of the row group's part in the set
    groups: NDArray[np.int64]  # [B] number of the row group in its part
    placed: NDArray[np.int64]  # [B] number of vectors in the row group that are given by where they stand
    vectors: NDArray[np.int64]  # [B] of these, the number that are given at all
    left_out: int  # vectors that are not given

    def __len__(self) -> int:
        return int(self.vectors.sum())


@dataclass(frozen=True, order=True, slots=True)
class BlockCut:
    """The vectors that a row group gives, from ``first`` up to ``stop``; ``of`` are given by where they stand."""

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
            int(self._blocks.placed[block]),
        )


def count_blocks(parts: OpenParts, choice: "VectorChoice") -> VectorBlocks:
    """Count the vectors of each row group: for documents by the footers, for tokens and words by their positions."""
    with ContextPool(reading_threads(parts), "bertfeat-counts") as pool:
        counted = list(pool.map(partial(_count_groups, parts, choice), parts.entries))
    numbers = [len(part) for part in counted]
    vectors, left_out = np.concatenate([np.empty((0, 2), np.int64), *counted]).T
    return VectorBlocks(
        np.repeat(np.arange(len(counted)), numbers),
        np.concatenate([np.empty(0, np.int64), *map(np.arange, numbers)]),
        vectors,
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
        if not self.names:
            return None
        if self.unit is Unit.TOKEN:
            given = PiecePositions.read(records, "token").usable
        else:
            given = records.column("aligned").flatten().to_numpy(zero_copy_only=False)
        return None if given.all() else given

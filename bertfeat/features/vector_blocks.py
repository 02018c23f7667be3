"""The places of a set's vectors: how many each row group has, and the order in which an epoch takes them.

Shapes: B row groups. A *place* is the number of a vector in the order of an epoch, in which the row groups stand one
after the other, shuffled or not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bertfeat.features.open_parts import OpenParts
from bertfeat.features.parts import PartEntry
from bertfeat.io import ContextPool
from bertfeat.recipe import Pooling

READERS = 4
"""Threads that read row groups at the same time."""


@dataclass(frozen=True, slots=True)
class VectorBlocks:
    """The row groups of a feature set in stored order, and how many vectors of a pooling each has."""

    parts: NDArray[np.int64]  # [B] number of its part among the parts of the set
    groups: NDArray[np.int64]  # [B] its number in the part
    vectors: NDArray[np.int64]  # [B]
    left_out: int  # words without a vector of their own, which are not counted in ``vectors``

    def __len__(self) -> int:
        return int(self.vectors.sum())


@dataclass(frozen=True, order=True, slots=True)
class BlockCut:
    """The vectors of a row group from ``first`` up to ``stop``, of as many as it has."""

    part: int
    group: int
    first: int
    stop: int
    of: int

    def __len__(self) -> int:
        return self.stop - self.first


class BlockOrder:
    """The vectors of all row groups in a row: in stored order, or in one that a seed decides.

    The row groups are shuffled, and the order begins at any of their vectors, so that each vector is equally likely in
    every place, however few row groups there are, and of whatever sizes.
    """

    def __init__(self, blocks: VectorBlocks, seed: Sequence[int] | None) -> None:
        self._blocks = blocks
        self._order, self._turn = np.arange(len(blocks.vectors)), 0
        if seed is not None:
            random = np.random.default_rng(seed)
            random.shuffle(self._order)
            self._turn = int(random.integers(max(1, len(blocks))))
        self._ends = np.cumsum(blocks.vectors[self._order])

    def cuts(self, first: int, stop: int) -> list[BlockCut]:
        """Return the cuts to read for the places from ``first`` up to ``stop``, sorted by part and row group."""
        first, stop, size = first + self._turn, stop + self._turn, len(self._blocks)
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
    """Count the vectors of each row group: of documents by the footers, of tokens and words by a list column.

    Raises:
        DamagedError: a part is damaged.
    """
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
    """The vectors of each row group of a part, and the words that are left out: ``[groups, 2]``."""
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

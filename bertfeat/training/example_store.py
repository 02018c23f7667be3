"""The vectors of examples from feature sets: in memory where they fit a budget, else in chunks read anew each time."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bertfeat.derivation import Derivation
from bertfeat.errors import BertfeatError, TrainingError
from bertfeat.features import FeatureSet, MemoryFeatures, derived_dtype, piece_offsets, stored_matrices
from bertfeat.io import prefetched
from bertfeat.training.batches import ExampleChunk, PackedExamples
from bertfeat.training.feature_digests import parts_digest

_BLOCKS = 16  # that a chunk is put together from, so that each epoch's chunks are other ones


@dataclass(frozen=True, slots=True)
class ExampleRows:
    """The rows of a feature set that make up each of E examples, in order: ``first`` up to ``stop``."""

    first: NDArray[np.int64]  # [E]
    stop: NDArray[np.int64]  # [E]
    lengths: NDArray[np.int32]  # [E] vectors of each


class ExampleStore:
    """The examples of one feature set, or of several of the same rows, whose vectors are then side by side.

    At most ``budget`` bytes of features are held. Sets that fit are read once and kept; of larger ones each pass
    reads chunks of half the budget, the next while one is used. A chunk is made of blocks from all over the set, in
    an order that ``seed`` decides, so that training sees them shuffled.
    """

    def __init__(
        self,
        sets: Sequence[FeatureSet | MemoryFeatures],
        derivations: Sequence[Derivation],
        rows: ExampleRows,
        budget: int,
    ) -> None:
        self.lengths = rows.lengths
        self._rows = rows
        self._sets = [_SetReader(features, derivation) for features, derivation in zip(sets, derivations, strict=True)]
        self.dtype = np.result_type(*(reader.dtype for reader in self._sets))
        self.width = sum(reader.derivation.width for reader in self._sets)
        self._budget = budget
        self._kept: ExampleChunk | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def vectors(self) -> int:
        """Number of vectors."""
        return int(self.lengths.sum())

    @property
    def bytes(self) -> int:
        """Size of all features in memory."""
        return self.vectors * self.width * self.dtype.itemsize

    @property
    def fits(self) -> bool:
        """Whether all features are kept in memory."""
        return self.bytes <= self._budget

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where each example's vectors begin among all of them, ``[E+1]``."""
        return np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])

    def vectors_of(self, chunk: ExampleChunk, packed: PackedExamples) -> NDArray[np.int64]:
        """The numbers that the vectors of a packed batch of a chunk have in the whole store, ``[N]``."""
        begins = self.offsets[chunk.examples[packed.examples]] - chunk.offsets[packed.examples]
        return packed.vectors + begins[packed.owners]

    def check_unchanged(self) -> None:
        """Check that the sets did not change since they were opened.

        Raises:
            TrainingError: one was changed since, or is being changed.
        """
        for reader in self._sets:
            reader.check_unchanged()

    def chunks(self, seed: Sequence[int] | None = None) -> Generator[ExampleChunk]:
        """All examples, a chunk at a time: in order, or in chunks of blocks that ``seed`` shuffles."""
        if self.fits:
            if self._kept is None:
                self._kept = self._read(self._blocks)
            yield self._kept
            return
        order = np.arange(len(self._blocks))
        if seed is not None:
            np.random.default_rng(seed).shuffle(order)
        most = self._budget // 2  # one is used while the next is read
        yield from prefetched(self._read(blocks) for blocks in self._portions(order, most))

    @cached_property
    def _blocks(self) -> list[tuple[int, int]]:
        """Ranges of examples, each a small share of what is held at once (or one example that is larger)."""
        size = max(1, self._budget // (2 * _BLOCKS) // (self.width * self.dtype.itemsize))  # vectors
        ends = self.offsets[1:]
        bounds = [0]
        while bounds[-1] < len(self):
            before = self.offsets[bounds[-1]]
            bounds.append(max(bounds[-1] + 1, int(np.searchsorted(ends, before + size, side="right"))))
        return list(pairwise(bounds))

    def _portions(self, order: NDArray[np.int64], most: int) -> Iterator[list[tuple[int, int]]]:
        portion: list[tuple[int, int]] = []
        held = 0
        for number in order:
            first, last = self._blocks[number]
            size = int(self.offsets[last] - self.offsets[first]) * self.width * self.dtype.itemsize
            if portion and held + size > most:
                yield portion
                portion, held = [], 0
            portion.append((first, last))
            held += size
        if portion:
            yield portion

    def _read(self, blocks: Sequence[tuple[int, int]]) -> ExampleChunk:
        examples = np.concatenate([np.arange(first, last) for first, last in blocks])
        offsets = np.concatenate([[0], np.cumsum(self.lengths[examples], dtype=np.int64)])
        features = np.empty((int(offsets[-1]), self.width), self.dtype)
        at = 0
        for first, last in _merge_blocks(blocks):
            count = int(self.offsets[last] - self.offsets[first])
            column = 0
            for reader in self._sets:
                width = reader.derivation.width
                into = features[at : at + count, column : column + width]
                reader.read(int(self._rows.first[first]), int(self._rows.stop[last - 1]), into)
                column += width
            at += count
        return ExampleChunk(offsets, features, examples)


class _SetReader:
    """Reads what is derived from the columns of one feature set."""

    def __init__(self, features: FeatureSet | MemoryFeatures, derivation: Derivation) -> None:
        self.derivation = derivation
        self._features = features
        self._digest = parts_digest(features) if isinstance(features, FeatureSet) else ""
        self._stored = [column for column in features.columns if column.name in derivation.columns]
        self.dtype = derived_dtype(derivation, self._stored)

    def read(self, start: int, stop: int, into: NDArray[np.floating]) -> None:
        """Fill ``into [n, W]`` with the vectors of the rows from ``start`` up to ``stop``."""
        at = 0
        for batch in self._features.stream(["row", *self.derivation.columns], start=start, stop=stop):
            matrices = stored_matrices(batch, self._stored)
            per_document = self._stored[0].pooling.per_document
            count = len(batch) if per_document else int(piece_offsets(batch, self._stored[0])[-1])
            self.derivation.fill(into[at : at + count], matrices)
            at += count

    def check_unchanged(self) -> None:
        """Check that the set did not change since it was opened."""
        if not isinstance(self._features, FeatureSet):
            return
        folder = self._features.folder
        try:
            now = FeatureSet(folder, allow_unfinished=self._features.manifest is None)
        except BertfeatError as error:
            raise TrainingError(f"{folder} was changed while it was read: {error}") from error
        if parts_digest(now) != self._digest:
            raise TrainingError(f"{folder} was changed while it was read", remedy="run the same command again")


def describe_source(features: FeatureSet | MemoryFeatures) -> str:
    """A feature set and the corpus that it was made from, for messages."""
    return f"{features.folder} (of {', '.join(features.sources[:3])})" if features.sources else str(features.folder)


def _merge_blocks(blocks: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Neighbouring blocks as one."""
    first, last = blocks[0]
    for start, stop in blocks[1:]:
        if start != last:
            yield first, last
            first = start
        last = stop
    yield first, last

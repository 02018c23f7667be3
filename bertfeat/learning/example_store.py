"""The features of examples to learn from, in memory or read in chunks, and batches of them.

An example is what has a label or a sequence of labels of its own: the words of a sentence, the tokens of a question and
its passage, the choices of a question, or one text. Shapes: B examples of a batch, longest first; T vectors of the
longest example; N vectors of all examples.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.core import Derivation, FeatureSet, MemoryFeatures, piece_offsets, stored_matrices
from bertfeat.errors import BertfeatError, TrainingError
from bertfeat.io import prefetched
from bertfeat.ragged import offsets_of

# ── batches ───────────────────────────────────────────────────────────────────────────────────────────────


_POOL = 32  # batches whose examples are sorted by length together


@dataclass(frozen=True, slots=True)
class ExampleChunk:
    """Examples with their vectors, flat: S examples, N vectors, W width."""

    offsets: NDArray[np.int64]  # [S+1] where each example's vectors begin
    features: NDArray[np.floating]  # [N, W] float16 or float32
    examples: NDArray[np.int64]  # [S] their numbers in the store

    def __len__(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True, slots=True)
class PackedExamples:
    """The places of a batch's vectors by time step: the first ones of all examples, then the second ones, and so on."""

    sizes: tuple[int, ...]  # [T] how many examples have a vector at each time step
    vectors: NDArray[np.int64]  # [N] number of each vector in the chunk
    examples: NDArray[np.int64]  # [B] numbers of the examples in the chunk, longest first
    owners: NDArray[np.int64]  # [N] the example in the batch that each vector belongs to, 0..B-1


@dataclass(frozen=True, slots=True)
class ExampleBatch:
    """A batch as the input of a network: packed step by step, the longest example first, as PyTorch packs sequences."""

    features: Tensor  # [N, W] packed, float16 or float32
    example: Tensor  # [N] the example in the batch that each vector belongs to, 0..B-1
    sizes: tuple[int, ...]  # [T] how many examples have a vector at each time step

    @property
    def count(self) -> int:
        """Number B of examples."""
        return self.sizes[0]


def pack_examples(offsets: NDArray[np.int64], examples: NDArray[np.int64]) -> PackedExamples:
    """Order the vectors of some examples time step by time step, the longest example first."""
    lengths = offsets[examples + 1] - offsets[examples]
    order = np.argsort(-lengths, kind="stable")
    examples, lengths = examples[order], lengths[order]
    times = np.arange(lengths[0])
    exists = times[:, None] < lengths[None, :]  # [T, B]
    vectors = (offsets[examples][None, :] + times[:, None])[exists]
    owners = np.broadcast_to(np.arange(len(examples)), exists.shape)[exists]
    return PackedExamples(tuple(exists.sum(1).tolist()), vectors, examples, owners)


def gather_batch(features: NDArray[np.floating], packed: PackedExamples, device: torch.device) -> ExampleBatch:
    """Gather the features of a packed batch."""
    gathered = torch.from_numpy(features[packed.vectors])
    return ExampleBatch(gathered.to(device), torch.from_numpy(packed.owners).to(device), packed.sizes)


def shuffled_batches(offsets: NDArray[np.int64], size: int, seed: Sequence[int]) -> Iterator[PackedExamples]:
    """Batches of ``size`` examples of similar length, each example once, in an order that depends on ``seed``."""
    draw = np.random.default_rng(seed)
    lengths = np.diff(offsets)
    order = draw.permutation(len(lengths))
    pools = [order[at : at + size * _POOL] for at in range(0, len(order), size * _POOL)]
    pools = [pool[np.argsort(lengths[pool], kind="stable")] for pool in pools]
    batches = [pool[at : at + size] for pool in pools for at in range(0, len(pool), size)]
    for number in draw.permutation(len(batches)):
        yield pack_examples(offsets, batches[number])


def batches_by_length(offsets: NDArray[np.int64], size: int) -> Iterator[PackedExamples]:
    """Batches of ``size`` examples, the longest first; the fastest order to process all of them in."""
    order = np.argsort(-np.diff(offsets), kind="stable")
    for at in range(0, len(order), size):
        yield pack_examples(offsets, order[at : at + size])


# ── digests ───────────────────────────────────────────────────────────────────────────────────────────────


def parts_digest(features: FeatureSet) -> str:
    """The digest of a feature set's parts, which changes with any value in them."""
    return sha256("".join(entry.sha256 for entry in features.entries).encode()).hexdigest()


# ── stores ────────────────────────────────────────────────────────────────────────────────────────────────


_BLOCKS = 16  # blocks that a chunk is made of, so that each epoch has different chunks


@dataclass(frozen=True, slots=True)
class ExampleRows:
    """The rows of a feature set that make up each of E examples, in order: ``first`` up to ``stop``."""

    first: NDArray[np.int64]  # [E]
    stop: NDArray[np.int64]  # [E]
    lengths: NDArray[np.int32]  # [E] number of vectors of each example


class ExampleStore:
    """The examples of one feature set, or of several with the same rows, whose vectors are then concatenated.

    At most ``budget`` bytes of features are held. Sets that fit are read once and kept. Larger sets are read in each
    pass, in chunks of half the budget, the next while one is used. A chunk is made of blocks from all over the set, in
    an order that the ``seed`` of :meth:`chunks` decides, so that training sees them shuffled.
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
        """The place among all vectors at which those of each example begin, ``[E+1]``."""
        return offsets_of(self.lengths)

    def vectors_of(self, chunk: ExampleChunk, packed: PackedExamples) -> NDArray[np.int64]:
        """The numbers that the vectors of a packed batch of a chunk have in the whole store, ``[N]``."""
        begins = self.offsets[chunk.examples[packed.examples]] - chunk.offsets[packed.examples]
        return packed.vectors + begins[packed.owners]

    def check_unchanged(self) -> None:
        """Check that the sets did not change since they were opened."""
        for reader in self._sets:
            reader.check_unchanged()

    def chunks(self, seed: Sequence[int] | None = None) -> Generator[ExampleChunk]:
        """All examples, a chunk at a time; ``seed`` shuffles the blocks of the chunks, unless all fit in memory."""
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
        """Ranges of examples, each a sixteenth of a chunk's size (or one example that is larger)."""
        size = max(1, self._budget // (2 * _BLOCKS) // (self.width * self.dtype.itemsize))  # vectors of a block
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
        offsets = offsets_of(self.lengths[examples])
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
    """Reads the vectors that are derived from the stored columns of one feature set."""

    def __init__(self, features: FeatureSet | MemoryFeatures, derivation: Derivation) -> None:
        self.derivation = derivation
        self._features = features
        self._digest = parts_digest(features) if isinstance(features, FeatureSet) else ""
        self._stored = derivation.inputs(features.columns)
        self.dtype = derivation.dtype(self._stored)

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
    """Merge blocks that follow one another into longer ranges, so that each is read at once."""
    first, last = blocks[0]
    for start, stop in blocks[1:]:
        if start != last:
            yield first, last
            first = start
        last = stop
    yield first, last

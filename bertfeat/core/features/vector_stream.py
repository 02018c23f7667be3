"""A stream of vectors to train on: epochs in an order that a seed decides, in bounded memory, from any batch on.

Row groups are shuffled. A chunk of as many vectors as the memory holds is read at a time, and its vectors are shuffled.
Shards, chunks and batches are ranges of that order, so that each can be found without reading what comes before it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import cycle, pairwise
from typing import Literal, Self, TypedDict

import numpy as np
from numpy.typing import NDArray

from bertfeat.arguments import checked
from bertfeat.core.features.columns import ReadableColumn
from bertfeat.core.features.open_parts import OpenParts
from bertfeat.core.features.vector_blocks import BlockOrder, VectorBlocks, VectorChoice, reading_threads
from bertfeat.core.features.vector_reader import BlockReader, StreamBatch, bound_norms, norm_bound, own_dtype, row_norms
from bertfeat.core.recipe import FeatureColumn, Unit
from bertfeat.display import Cells, displayed
from bertfeat.errors import UsageError, parameter
from bertfeat.io import ContextPool


@checked
@dataclass(frozen=True, kw_only=True, slots=True)
class StreamSettings:
    """The settings for streaming the vectors of columns: the keywords of :meth:`FeatureSet.vectors`.

    The order depends only on the set, the columns, ``shuffle``, ``seed``, ``epoch``, ``shard``, ``memory``, and on the
    settings ``dtype``, ``unaligned``, ``drop_special`` and ``drop_norms``, which decide how many and which vectors a
    chunk has.

    Raises:
        UsageError: a number that cannot be right, or an unknown dtype.
    """

    batch: int = 65_536
    """Vectors in a batch; the last batch may have fewer."""
    shuffle: bool = True
    """Whether the order is one that ``seed`` and ``epoch`` decide, or the stored one."""
    seed: int = 0
    epoch: int = 0
    start: int = 0
    """Number of the batch to begin with; what comes before it is not read."""
    shard: tuple[int, int] = (0, 1)
    """The number of the shard, and how many shards there are; together they give each vector once."""
    drop_last: bool = False
    """Whether a last batch that is not full is left out; then all shards have the same number of batches."""
    dtype: Literal["float16", "float32"] | None = None
    """Type of the values; None: as they are stored, and float32 where something is computed with them."""
    memory: int = 1 << 30
    """Bytes of vectors that are held: half of them are shuffled among each other while the other half is read."""
    origins: bool = False
    """Whether a batch records, for each vector, the row and the token or word that it belongs to."""
    unaligned: bool = False
    """Whether words without a vector of their own are given, as zeros, and not left out."""
    drop_special: bool = False
    """Whether tokens without a place in the text are left out: [CLS], [SEP], and white space that is a token."""
    drop_norms: float | None = None
    """Leave out vectors longer than this many times the median length of their column, in any of the columns, such as
    the attention sinks of decoders; they are read once before, for their lengths."""

    def __post_init__(self) -> None:
        for name, least in {"batch": 1, "seed": 0, "epoch": 0, "start": 0, "memory": 1}.items():
            if getattr(self, name) < least:
                raise UsageError(parameter(name, getattr(self, name)), remedy=f"give a whole number from {least} on")
        if self.drop_norms is not None and not self.drop_norms > 0:
            raise UsageError(
                parameter("drop_norms", self.drop_norms), remedy="give how many times the median, such as 10"
            )
        index, count = self.shard
        if not 0 <= index < count:
            remedy = "give which one, counted from 0, and of how many: (0, 4) to (3, 4)"
            raise UsageError(parameter("shard", self.shard), remedy=remedy)


class StreamOptions(TypedDict, total=False):
    """The fields of :class:`StreamSettings` as keywords."""

    batch: int
    shuffle: bool
    seed: int
    epoch: int
    start: int
    shard: tuple[int, int]
    drop_last: bool
    dtype: Literal["float16", "float32"] | None
    memory: int
    origins: bool
    unaligned: bool
    drop_special: bool
    drop_norms: float | None


_GATHERERS = 2  # threads that gather batches ahead of the one in use; each holds one batch in memory
_SINK = 10.0  # times the median norm, from which on a vector counts as a sink
_BLOCKS, _VECTORS = 0, 1  # first numbers of the seeds: row groups and vectors are shuffled by different random numbers


@displayed
@dataclass(frozen=True, slots=True, eq=False)
class VectorStatistics:
    """The mean and the mean norm of a column's vectors, which training subtracts and divides by, and its sinks."""

    count: int
    mean: NDArray[np.float32]  # [W]; zero where there are none
    norm: float  # the mean of their Euclidean norms
    sinks: int  # vectors that drop_norms=10 leaves out, as of the tokens of a decoder at which all others look


@checked
@displayed
@dataclass(frozen=True)
class VectorStream:
    """The vectors of one or several columns, a batch at a time, as :meth:`FeatureSet.vectors` gives them.

    It may be iterated any number of times, and gives the same batches each time. It can be pickled, for processes that
    see the same feature set.

    Raises:
        UsageError: ``start`` is larger than the number of batches.
    """

    parts: OpenParts
    columns: tuple[ReadableColumn, ...]  # of one unit
    stored: tuple[FeatureColumn, ...]  # the columns that they are derived from
    blocks: VectorBlocks
    settings: StreamSettings
    bounds: Mapping[str, float] = field(default_factory=dict)  # by column the largest norm of a vector that is given

    def __post_init__(self) -> None:
        if self.settings.start > self._batches_of_shard:
            remedy = f"there are {self._batches_of_shard} batches"
            raise UsageError(parameter("start", self.settings.start), remedy=remedy)

    def cells(self) -> Cells:
        """The facts that a line or a table shows of the stream."""
        names = ", ".join(column.name for column in self.columns)
        return {"columns": names, "vectors": self.vectors, "batches": len(self)}

    def __len__(self) -> int:
        """Number of batches from ``start`` on; with ``drop_last`` the same in every shard."""
        return self._batches_of_shard - self.settings.start

    @property
    def vectors(self) -> int:
        """Number of vectors in all shards together."""
        return len(self.blocks)

    @property
    def left_out(self) -> int:
        """Number of vectors that are left out: words without one of their own, and what the settings drop."""
        return self.blocks.left_out

    @property
    def width(self) -> int:
        """Number of values in one vector, those of all columns together."""
        return sum(column.width for column in self.columns)

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The type of the values: the one that was asked for, else as they are stored."""
        return np.dtype(self.settings.dtype) if self.settings.dtype else own_dtype(self.columns, self.stored)

    @property
    def capacity(self) -> int:
        """The largest number of vectors in a chunk; those of a chunk are shuffled among each other.

        One chunk is in use while the next is read, so each may take half of the memory, or that of the largest row
        group if it is more.
        """
        fitting = self.settings.memory // (2 * self.width * self.dtype.itemsize)
        return max(fitting, int(self.blocks.vectors.max(initial=1)))

    def at_epoch(self, epoch: int, start: int = 0) -> Self:
        """The same stream in another epoch."""
        return replace(self, settings=replace(self.settings, epoch=epoch, start=start))

    def divide(self, index: int, count: int, start: int = 0) -> Self:
        """Shard ``index`` of ``count`` of this stream, which may be a shard itself."""
        own_index, own_count = self.settings.shard
        shard = (own_index * count + index, own_count * count)
        return replace(self, settings=replace(self.settings, shard=shard, start=start))

    def statistics(self) -> dict[str, VectorStatistics]:
        """Count, mean, mean norm and sinks of the vectors of each column, in all shards, by reading them once.

        Meanwhile the norms are held, four bytes for each vector and column.
        """
        every = replace(self.settings, shuffle=False, start=0, shard=(0, 1), drop_last=False, origins=False)
        total, read = np.zeros(self.width), {name: list[NDArray[np.float32]]() for name in self.reader.places}
        for batch in replace(self, settings=every):
            total += batch.matrix.sum(axis=0, dtype=np.float64)
            for name, some in read.items():
                some.append(row_norms(batch[name]))
        found = {}
        for name, place in self.reader.places.items():
            norms, mean = (
                np.concatenate([np.zeros(0, np.float32), *read.pop(name)]),
                total[place] / max(1, self.vectors),
            )
            sinks = int((norms > norm_bound(norms, _SINK)).sum())
            norm = float(norms.mean(dtype=np.float64)) if len(norms) else 0.0
            found[name] = VectorStatistics(self.vectors, mean.astype(np.float32), norm, sinks)
        return found

    def __iter__(self) -> Iterator[StreamBatch]:
        return self.turns(0, 1)

    def turns(self, index: int, count: int) -> Iterator[StreamBatch]:
        """Every ``count``-th batch, from the ``index``-th on: those of one worker of several that take turns.

        Raises:
            UsageError: there is no such worker.
        """
        if not 0 <= index < count:
            raise UsageError(f"worker {index} of {count}", remedy="give which one, counted from 0, and of how many")
        return self._turn(index, count)

    def _turn(self, index: int, count: int) -> Iterator[StreamBatch]:
        numbers = reading_threads(self.parts), _GATHERERS
        readers, gatherers = (ContextPool(number, "bertfeat-vectors") for number in numbers)
        try:
            yield from self._batches(readers, gatherers, index, count)
        finally:
            for pool in (readers, gatherers):
                pool.shutdown(wait=False, cancel_futures=True)

    # ── ranges of the order ─────────────────────────────────────────────────────────────────────────────────

    @property
    def _shard(self) -> tuple[int, int]:
        """The range of places of this shard's vectors, as first and stop."""
        index, count = self.settings.shard
        return self.vectors * index // count, self.vectors * (index + 1) // count

    @property
    def _batches_of_shard(self) -> int:
        if self.settings.drop_last:
            return self.vectors // self.settings.shard[1] // self.settings.batch
        first, stop = self._shard
        return -(-(stop - first) // self.settings.batch)

    @property
    def _given(self) -> tuple[int, int]:
        """The range of places whose vectors this stream yields: those of the shard, from the batch ``start`` on."""
        (first, stop), size = self._shard, self.settings.batch
        return first + self.settings.start * size, min(stop, first + self._batches_of_shard * size)

    def _chunks(self, index: int = 0, count: int = 1) -> list[tuple[int, int]]:
        """The ranges of places of the chunks, about equal in size, that hold vectors of the batches of a turn."""
        (first, stop), (begin, end) = self._shard, self._given
        number = max(1, -(-(stop - first) // self.capacity))
        bounds = [first + (stop - first) * chunk // number for chunk in range(number + 1)]
        inside = ((at, to) for at, to in pairwise(bounds) if max(at, begin) < min(to, end))
        return [(at, to) for at, to in inside if any(each % count == index for each in self._batches_in(at, to))]

    def _batches_in(self, first: int, stop: int) -> range:
        """The numbers, from ``start`` on, of the batches that have vectors in a range of places."""
        (begin, end), size = self._given, self.settings.batch
        return range((max(first, begin) - begin) // size, -(-(min(stop, end) - begin) // size))

    def _shuffled_numbers(self, first: int, stop: int) -> NDArray[np.int64]:
        """The numbers, within a chunk, of its vectors to yield, in the order in which they are yielded."""
        begin, end = self._given
        seed = self._seed(_VECTORS, first)
        numbers = np.arange(stop - first) if seed is None else np.random.default_rng(seed).permutation(stop - first)
        return numbers[max(begin - first, 0) : end - first]

    def _seed(self, *purpose: int) -> list[int] | None:
        return [*purpose, self.settings.seed, self.settings.epoch] if self.settings.shuffle else None

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────

    def _batches(self, readers: ContextPool, gatherers: ContextPool, index: int, count: int) -> Iterator[StreamBatch]:
        """Shuffle each chunk, cut the chunks into batches, and give those of a turn."""
        (begin, end), size = self._given, self.settings.batch
        begun: list[StreamBatch] = []  # pieces of the next batch, which may come from several chunks
        for (first, stop), chunk in self._read_chunks(readers, self._chunks(index, count)):
            numbers, passed = self._shuffled_numbers(first, stop), max(first, begin) - begin
            pieces = np.split(numbers, range(-passed % size or size, len(numbers), size))
            turn = [
                (batch, piece)
                for batch, piece in zip(self._batches_in(first, stop), pieces, strict=True)
                if batch % count == index
            ]
            for (batch, _), piece in zip(turn, _gather(gatherers, chunk, [piece for _, piece in turn]), strict=True):
                begun.append(piece)
                if sum(map(len, begun)) == min(size, end - begin - batch * size):
                    yield StreamBatch.join(begun)
                    begun = []

    def _read_chunks(
        self, readers: ContextPool, chunks: list[tuple[int, int]]
    ) -> Iterator[tuple[tuple[int, int], StreamBatch]]:
        """Yield each chunk after its range of places; the next is read meanwhile, into the other of two rooms.

        A chunk is overwritten when the one after the next is read: what is taken of it is a copy.
        """
        order = BlockOrder(self.blocks, self._seed(_BLOCKS))
        largest = max((stop - first for first, stop in chunks), default=0)
        rooms = cycle([self.reader.make_room(largest) for _ in chunks[:2]])
        ahead: deque[tuple[tuple[int, int], _ReadAhead]] = deque()
        for places in chunks:
            ahead.append((places, self._start_chunk(readers, order, places, next(rooms))))
            if len(ahead) == 2:
                done, chunk = ahead.popleft()
                yield done, chunk.wait()
        for done, chunk in ahead:
            yield done, chunk.wait()

    def _start_chunk(
        self, pool: ContextPool, order: BlockOrder, places: tuple[int, int], room: StreamBatch
    ) -> "_ReadAhead":
        reads, at = [], 0
        for cut in order.cuts(*places):
            reads.append(pool.submit(self.reader.read, cut, room, at))
            at += len(cut)
        return _ReadAhead(room, reads)

    @cached_property
    def reader(self) -> BlockReader:
        """The reader of its vectors."""
        choice = _vectors_given(self.columns, self.settings)
        return BlockReader(
            self.parts, self.columns, self.stored, self.dtype, choice, self.settings.origins, self.bounds
        )


def open_stream(
    parts: OpenParts,
    columns: Sequence[ReadableColumn],
    stored: Sequence[FeatureColumn],
    settings: StreamSettings,
    count: Callable[[VectorChoice], VectorBlocks],
) -> VectorStream:
    """The stream of columns that are derived from ``stored``; ``count`` counts the vectors of a choice.

    Raises:
        UsageError: the columns are of different units, or the settings do not fit theirs.
    """
    if len({column.pooling.unit for column in columns}) != 1:
        names = " and ".join(f"{column.name} of {column.pooling.unit}s" for column in columns)
        raise UsageError(f"a stream has columns of one unit, and not {names}", remedy="make a stream of each")
    if settings.drop_special and columns[0].pooling.unit is not Unit.TOKEN:
        raise UsageError(parameter("drop_special", True), remedy="it is for tokens")
    read = {each.name: each for column in columns for each in column.derivation.inputs(stored)}
    stream = VectorStream(
        parts, tuple(columns), tuple(read.values()), count(_vectors_given(columns, settings)), settings
    )
    if settings.drop_norms is None:
        return stream
    blocks, bounds = bound_norms(stream.reader, stream.blocks, settings.drop_norms)
    return replace(stream, blocks=blocks, bounds=bounds)


def _vectors_given(columns: Sequence[ReadableColumn], settings: StreamSettings) -> VectorChoice:
    """The vectors that are given by where they stand."""
    return VectorChoice(columns[0].pooling.unit, settings.unaligned, special=not settings.drop_special)


def _gather(pool: ContextPool, chunk: StreamBatch, batches: Iterable[NDArray[np.int64]]) -> Iterator[StreamBatch]:
    """Yield the vectors of a chunk with the numbers of each batch; threads gather them ahead of the consumer."""
    gathered: deque[Future[StreamBatch]] = deque()
    for numbers in batches:
        gathered.append(pool.submit(chunk.take, numbers))
        if len(gathered) > _GATHERERS:
            yield gathered.popleft().result()
    while gathered:
        yield gathered.popleft().result()


@dataclass(frozen=True, slots=True)
class _ReadAhead:
    """A chunk that is being read."""

    content: StreamBatch
    reads: list[Future[None]]

    def wait(self) -> StreamBatch:
        """The chunk, once it is full."""
        for read in self.reads:
            read.result()
        return self.content

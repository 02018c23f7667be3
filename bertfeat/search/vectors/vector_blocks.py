"""The vectors that an index is built from, block by block, and the sample of them that is read before it is filled.

The index is trained on the sample, and some vectors of the sample are queries that tune and evaluate it.

Shapes: n vectors of a block or a sample, Q queries, W values in a vector.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.errors import IndexFolderError
from bertfeat.io import prefetched
from bertfeat.search.options import BuildOptions
from bertfeat.search.vectors.faiss_import import FaissIndex
from bertfeat.search.vectors.faiss_index import flat_storage
from bertfeat.search.vectors.index_types import POINTS_PER_CLUSTER, IndexChoice
from bertfeat.search.vectors.metric import Metric

BLOCK_BYTES = 48 << 20  # large enough for FAISS to work at full speed
QUERIES = 1000  # half of them tune, the other half measures recall
_BLOCKS_ALIVE = 3  # one in use, one waiting, one being read
_SAMPLE_WITHOUT_CLUSTERS = 65_536  # vectors to train codes on
_SEED = 4171


@dataclass(frozen=True, slots=True)
class PieceColumns:
    """The token, word or span of each vector in a block."""

    document: NDArray[np.int64]  # [n] number of its document in the index
    number: NDArray[np.int32]  # [n] which token, word or span of the document
    start: NDArray[np.int32]  # [n] character offsets in the document's text
    end: NDArray[np.int32]  # [n]
    segment: NDArray[np.int8]  # [n] 0 first text, 1 pair


@dataclass(frozen=True, slots=True)
class VectorBlock:
    """A block of consecutive vectors, and their documents."""

    vectors: NDArray[np.float32]  # [n, W] the consumer may change them
    documents: tuple[pa.Table, ...] = ()  # columns that the document store keeps
    pieces: PieceColumns | None = None  # None where there is one vector per document


class VectorSource(Protocol):
    """Vectors that can be read more than once."""

    width: int

    @property
    def count(self) -> int:
        """The number of vectors."""
        ...

    def blocks(self, *, documents: bool) -> Iterator[VectorBlock]:
        """All vectors in order; with ``documents``, also the columns that the document store keeps."""
        ...


class BlockBuilder:
    """Collects the vectors of small batches until they make a block.

    Blocks reuse a few arrays, because new memory costs as much as reading: the third block after a block overwrites
    its vectors.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._arrays: deque[NDArray[np.float32]] = deque(maxlen=_BLOCKS_ALIVE)
        self._vectors: list[NDArray[np.float32]] = []
        self._documents: list[pa.Table] = []
        self._pieces: list[PieceColumns] = []
        self.count = 0

    @property
    def has_documents(self) -> bool:
        """Whether there are documents, though perhaps without any vectors."""
        return bool(self._documents)

    def add(self, vectors: NDArray[np.float32], documents: pa.Table | None, pieces: PieceColumns | None) -> None:
        """Take a batch; its vectors may be views."""
        self._vectors.append(vectors)
        self.count += len(vectors)
        if documents is not None:
            self._documents.append(documents)
        if pieces is not None:
            self._pieces.append(pieces)

    def take(self) -> VectorBlock:
        """Return everything that was added since the last call, as one block."""
        vectors = self._array(self.count)
        np.concatenate(self._vectors, out=vectors)
        pieces = None
        if self._pieces:
            names = ("document", "number", "start", "end", "segment")
            pieces = PieceColumns(*(np.concatenate([getattr(part, name) for part in self._pieces]) for name in names))
        block = VectorBlock(vectors, tuple(self._documents), pieces)
        self._vectors, self._documents, self._pieces, self.count = [], [], [], 0
        return block

    def _array(self, count: int) -> NDArray[np.float32]:
        """An array for ``count`` vectors: the one used longest ago, if it is large enough."""
        oldest = self._arrays.popleft() if len(self._arrays) == _BLOCKS_ALIVE else None
        if oldest is None or len(oldest) < count:
            oldest = np.empty((count + count // 4, self._width), np.float32)
        self._arrays.append(oldest)
        return oldest[:count]


def block_rows(width: int) -> int:
    """The number of vectors in a block, for vectors of ``width`` values."""
    return max(1024, BLOCK_BYTES // (4 * width))


@dataclass(slots=True)
class TrainingSample:
    """The sampled vectors that a first pass has read, prepared for FAISS."""

    training: NDArray[np.float32]  # [n, W]
    queries: NDArray[np.float32]  # [Q, W] for exact search; none where the index itself can do it
    own: NDArray[np.int64]  # [Q] the queries' numbers in the source


def sample_vectors(
    source: VectorSource,
    index: FaissIndex,
    choice: IndexChoice,
    options: BuildOptions,
    done: Callable[[int], None],
    *,
    judged: bool,
) -> TrainingSample:
    """Read the vectors that are needed before the index is filled, in one pass; none are read where none are needed.

    If the index is ``judged`` by its own vectors, some of them are queries, unless it stores them all uncompressed.
    """
    training_size = 0 if index.is_trained else choice.clusters * POINTS_PER_CLUSTER or _SAMPLE_WITHOUT_CLUSTERS
    judged = judged and flat_storage(index) is None
    numbers = sample_numbers(source.count, training_size + (QUERIES if judged else 0))
    if not len(numbers):
        empty = np.empty((0, source.width), np.float32)
        return TrainingSample(empty, empty, numbers)
    vectors, start = np.empty((len(numbers), source.width), np.float32), 0
    for block in prefetched(source.blocks(documents=False), join=True):
        first, last = np.searchsorted(numbers, (start, start + len(block.vectors)))
        vectors[first:last] = block.vectors[numbers[first:last] - start]
        start += len(block.vectors)
        done(start)
    prepare_vectors(options.preparation, vectors, numbers)
    if not judged:
        return TrainingSample(vectors, vectors[:0], numbers[:0])
    # the queries are left out of the training where there are enough others
    chosen = np.sort(np.random.default_rng(_SEED).permutation(len(numbers))[:QUERIES])
    queries, own = vectors[chosen], numbers[chosen]
    if len(numbers) < source.count:
        vectors = _drop_rows(vectors, chosen)
    return TrainingSample(vectors[:training_size], queries, own)


def raw_vectors(source: VectorSource, done: Callable[[int], None]) -> Iterator[NDArray[np.float32]]:
    """All vectors of a source as they are, block by block, each checked to be finite."""
    start = 0
    for block in prefetched(source.blocks(documents=False), join=True):
        prepare_vectors(Metric.IP, block.vectors, start)
        yield block.vectors
        start += len(block.vectors)
        done(start)


def sample_numbers(count: int, size: int) -> NDArray[np.int64]:
    """Draw the numbers of a random sample of ``size``, ascending; all ``count`` numbers if there are no more."""
    if size >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng(_SEED).choice(count, size, replace=False, shuffle=False))


def prepare_vectors(
    metric: Metric, vectors: NDArray[np.float32], numbers: NDArray[np.int64] | int
) -> NDArray[np.bool_]:
    """Prepare vectors ``[n, W]`` for FAISS in place, and say which are zero vectors, ``[n]``; each must be finite.

    ``numbers`` are the numbers of the vectors, or the number of the first one.
    """
    try:
        return metric.prepare(vectors)
    except ValueError as error:
        at = int(error.args[0])
        number = numbers + at if isinstance(numbers, int) else int(numbers[at])
        raise IndexFolderError(
            f"vector {number} is not finite (NaN, infinite, or too large to square)",
            remedy="bertfeat verify finds the cause",
        ) from error


def _drop_rows(vectors: NDArray[np.float32], dropped: NDArray[np.int64]) -> NDArray[np.float32]:
    """Drop rows in place, and return the others: rows from the end fill the gaps."""
    rest = len(vectors) - len(dropped)
    tail = np.setdiff1d(np.arange(rest, len(vectors)), dropped)
    vectors[dropped[dropped < rest]] = vectors[tail]
    return vectors[:rest]

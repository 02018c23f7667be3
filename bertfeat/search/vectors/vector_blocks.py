"""Blocks of vectors, of which an index is built.

Shapes: n vectors of a block, D documents whose vectors they are, W values in a vector.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

BLOCK_BYTES = 48 << 20  # large enough for FAISS to work at full speed
BLOCKS_ALIVE = 3  # one in work, one waiting, one being read


@dataclass(frozen=True, slots=True)
class PieceColumns:
    """The token or word of each vector in a block."""

    document: NDArray[np.int64]  # [n] number of its document in the index
    number: NDArray[np.int32]  # [n] which token or word of the document
    start: NDArray[np.int32]  # [n] character offsets in the document's text
    end: NDArray[np.int32]  # [n]
    segment: NDArray[np.int8]  # [n] 0 first text, 1 pair


@dataclass(frozen=True, slots=True)
class VectorBlock:
    """A block of consecutive vectors, and their documents."""

    vectors: NDArray[np.float32]  # [n, W] the consumer may change them
    documents: tuple[pa.Table, ...] = ()  # columns that the document store keeps
    pieces: PieceColumns | None = None  # None where there is one vector a document


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
        self._arrays: deque[NDArray[np.float32]] = deque(maxlen=BLOCKS_ALIVE)
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
        pieces = _concatenate_pieces(self._pieces) if self._pieces else None
        block = VectorBlock(vectors, tuple(self._documents), pieces)
        self._vectors, self._documents, self._pieces, self.count = [], [], [], 0
        return block

    def _array(self, count: int) -> NDArray[np.float32]:
        """An array for so many vectors: the one used longest ago, if it is large enough."""
        oldest = self._arrays.popleft() if len(self._arrays) == BLOCKS_ALIVE else None
        if oldest is None or len(oldest) < count:
            oldest = np.empty((count + count // 4, self._width), np.float32)
        self._arrays.append(oldest)
        return oldest[:count]


def _concatenate_pieces(pieces: list[PieceColumns]) -> PieceColumns:
    names = ("document", "number", "start", "end", "segment")
    return PieceColumns(*(np.concatenate([getattr(part, name) for part in pieces]) for name in names))


def block_rows(width: int) -> int:
    """The number of vectors in a block, for vectors of ``width`` values."""
    return max(1024, BLOCK_BYTES // (4 * width))

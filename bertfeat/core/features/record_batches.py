"""Record batches of a feature set as NumPy arrays: positions of tokens and words, and matrices without copying.

Shapes: D documents; N tokens or words of all documents, flat; n vectors; W width of a feature column.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.core.features.cells import decode_vectors, vector_bytes
from bertfeat.core.features.columns import ReadableColumn
from bertfeat.core.recipe import FeatureColumn, Recipe
from bertfeat.display import displayed
from bertfeat.errors import DamagedError
from bertfeat.ragged import offsets_of, ranges

RecordBatch = pa.RecordBatch
"""Rows of a feature set, as :meth:`FeatureSet.stream` reads them."""

Table = pa.Table
"""Rows of a part, before it is written."""

Matrix: TypeAlias = NDArray[np.floating]
"""A feature matrix as it is read: float16 or float32 as stored, or float32 where int8 is stored."""

# ── tokens and words ────────────────────────────────────────────────────────────────────────────────────────


class _Placed:
    """The tokens or words that a class places in their texts."""

    __slots__ = ()

    start: NDArray[np.int32]
    end: NDArray[np.int32]
    aligned: NDArray[np.bool_] | None

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Whether a piece has characters in the text and a vector of its own, ``[n]``."""
        has_characters = self.end > self.start
        return has_characters if self.aligned is None else has_characters & self.aligned

    def compared(self, recipe: Recipe) -> NDArray[np.bool_]:
        """Whether a piece counts where two texts are compared piece by piece, ``[n]``: in a projection each does."""
        return np.ones(len(self.start), bool) if recipe.projected else self.usable


@displayed
@dataclass(frozen=True, slots=True)
class DocumentPieces(_Placed):
    """The n tokens or words of one document."""

    strings: Sequence[str] | None  # [n]; None where the set holds no texts
    start: NDArray[np.int32]  # [n] character offsets in the text; special tokens have zero width
    end: NDArray[np.int32]  # [n]
    segment: NDArray[np.int8] | None  # [n] 0 first text, 1 pair: the text that the offsets count in
    aligned: NDArray[np.bool_] | None  # [n] words only: False where the word has no vector of its own
    ids: NDArray[np.int32] | None = (
        None  # [n] tokens only: numbers in the vocabulary; None where the set holds no texts
    )

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True)
class PieceRanges:
    """The tokens or words of some texts that have a vector of their own; those of two texts may be the same ones."""

    rows: NDArray[np.int64]  # [n] their numbers among all N
    first: NDArray[np.int64]  # [S] where those of each of S texts begin in ``rows``
    stop: NDArray[np.int64]  # [S]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of tokens or words of each text, ``[S]``."""
        return self.stop - self.first

    def expand(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The tokens or words of all texts, one text after the other: their places in ``rows``, and their texts."""
        sizes = self.sizes
        return ranges(self.first, sizes), np.repeat(np.arange(len(sizes)), sizes)


@dataclass(frozen=True, slots=True)
class PiecePositions(_Placed):
    """The positions of the tokens or the words of some documents, flat."""

    offsets: NDArray[np.int64]  # [D+1] where each document's pieces begin
    start: NDArray[np.int32]  # [N] character offsets in the text; special tokens have zero width
    end: NDArray[np.int32]  # [N]
    segment: NDArray[np.int8] | None  # [N] 0 first text, 1 pair; None where there are no pairs
    aligned: NDArray[np.bool_] | None  # [N] words only: whether the word has tokens that were embedded

    @staticmethod
    def columns(kind: str, names: Collection[str]) -> list[str]:
        """The columns among ``names`` that hold the positions of tokens or words (``kind``)."""
        own = [f"{kind}_start", f"{kind}_end", f"{kind}_segment", *(["aligned"] if kind == "word" else [])]
        return [name for name in own if name in names]

    @classmethod
    def read(cls, batch: pa.RecordBatch, kind: str) -> "PiecePositions":
        """Read the positions of the tokens or words of a record batch, which holds :meth:`columns`.

        Raises:
            DamagedError: the columns do not have one value for each token or word.
        """
        names = cls.columns(kind, batch.schema.names)
        flat = {name: batch.column(name).flatten().to_numpy(zero_copy_only=False) for name in names}
        if len({len(values) for values in flat.values()}) > 1:
            counts = ", ".join(f"{name} {len(values):,}" for name, values in flat.items())
            raise DamagedError(
                f"the positions of {kind}s are of different numbers of them ({counts})",
                remedy="extract them again: the file was not written like this",
            )
        return PiecePositions(
            list_offsets(batch, f"{kind}_start"),
            flat[f"{kind}_start"],
            flat[f"{kind}_end"],
            flat.get(f"{kind}_segment"),
            flat.get("aligned"),
        )

    @property
    def owners(self) -> NDArray[np.int64]:
        """The number of the document that each piece belongs to, ``[N]``."""
        return piece_owners(self.offsets)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The number of each piece in its document, ``[N]``."""
        return number_pieces(self.offsets)

    def ranges(self, recipe: Recipe) -> PieceRanges:
        """The pieces of each document that count in a comparison."""
        rows = np.flatnonzero(self.compared(recipe))
        ends = np.searchsorted(rows, self.offsets)
        return PieceRanges(rows, ends[:-1], ends[1:])

    def of_document(
        self, number: int, strings: Sequence[str] | None = None, ids: NDArray[np.int32] | None = None
    ) -> DocumentPieces:
        """The pieces of one document; ``strings`` and ``ids`` are those of the pieces of all documents, ``[N]``."""
        cut = slice(int(self.offsets[number]), int(self.offsets[number + 1]))
        return DocumentPieces(
            None if strings is None else strings[cut],
            self.start[cut],
            self.end[cut],
            None if self.segment is None else self.segment[cut],
            None if self.aligned is None else self.aligned[cut],
            None if ids is None else ids[cut],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Pieces(PiecePositions):
    """The tokens or the words of a part's documents, with their strings and feature matrices, to be written."""

    strings: Sequence[str] | None  # [N]; None: texts are not stored
    matrices: Mapping[str, Matrix]  # name of the feature column -> [N, W]
    ids: NDArray[np.int32] | None = None  # [N] of tokens, where texts are stored: their numbers in the vocabulary


def list_offsets(batch: pa.RecordBatch, name: str) -> NDArray[np.int64]:
    """Return the offsets at which each document's values begin in a flat list column, ``[D+1]``."""
    lengths = batch.column(name).value_lengths().to_numpy()
    return offsets_of(lengths)


def piece_owners(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of the document that each piece belongs to, from offsets: ``[D+1]`` → ``[N]``."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def number_pieces(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of each piece in its document, from offsets: ``[D+1]`` → ``[N]``."""
    numbers: NDArray[np.int64] = np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))
    return numbers


# ── vectors ─────────────────────────────────────────────────────────────────────────────────────────────────


@displayed
@dataclass(frozen=True, slots=True)
class VectorBatch:
    """Vectors of one column with their owners: one vector per document, or one per token or word."""

    rows: NDArray[np.int64]  # [n] row of the document
    ids: Sequence[str]  # [n] its id
    matrix: NDArray[np.float32]  # [n, width]
    positions: NDArray[np.int64]  # [n] number of the token or word in its document; 0 for document vectors

    def __len__(self) -> int:
        return len(self.rows)


def stored_matrices(batch: pa.RecordBatch, columns: Iterable[FeatureColumn]) -> dict[str, Matrix]:
    """The matrix of each column in the batch, by name: ``[D, width]``, or ``[N, width]`` over all its pieces."""
    return {column.name: _matrix(batch.column(column.name), column) for column in columns}


def piece_offsets(batch: pa.RecordBatch, column: FeatureColumn) -> NDArray[np.int64]:
    """Return the offsets at which each document's pieces begin in a token or word matrix: ``[D+1]``."""
    ends = _cell_ends(batch.column(column.name))
    offsets: NDArray[np.int64] = (ends - ends[0]) // vector_bytes(column)
    return offsets


def vector_batch(batch: pa.RecordBatch, column: ReadableColumn, stored: Sequence[FeatureColumn]) -> VectorBatch:
    """The vectors of a column, computed from the stored columns in the batch."""
    matrix = column.derivation.apply(stored_matrices(batch, stored))
    rows, ids = batch.column("row").to_numpy(), batch.column("id").to_pylist()
    if column.pooling.per_document:
        return VectorBatch(rows, ids, matrix, np.zeros(len(rows), np.int64))
    offsets = piece_offsets(batch, stored[0])
    owners = piece_owners(offsets)
    return VectorBatch(rows[owners], [ids[owner] for owner in owners], matrix, number_pieces(offsets))


def join_batches(batches: Sequence[VectorBatch], width: int) -> VectorBatch:
    """Join batches of vectors of that width; none give an empty batch."""
    return VectorBatch(
        np.concatenate([np.empty(0, np.int64), *(batch.rows for batch in batches)]),
        [owner for batch in batches for owner in batch.ids],
        np.concatenate([np.empty((0, width), np.float32), *(batch.matrix for batch in batches)]),
        np.concatenate([np.empty(0, np.int64), *(batch.positions for batch in batches)]),
    )


def unit_vectors(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    """Vectors scaled to length 1, ``[..., W]``; zero vectors stay zero, as in every cosine of bertfeat."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    units: NDArray[np.float32] = np.divide(vectors, np.where(length > 0, length, 1), dtype=np.float32)
    return units


def _matrix(array: pa.Array, column: FeatureColumn) -> Matrix:
    if column.pooling.per_document:
        flat: Matrix = array.flatten().to_numpy()
        return flat.reshape(-1, column.width)
    ends = _cell_ends(array)
    return decode_vectors(array.buffers()[2], int(ends[0]), int(ends[-1]), column)


def _cell_ends(array: pa.Array) -> NDArray[np.int64]:
    if not len(array):
        return np.zeros(1, np.int64)
    return np.frombuffer(array.buffers()[1], np.int64, len(array) + 1, array.offset * 8)

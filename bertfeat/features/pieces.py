"""The tokens or words of many documents as flat arrays: how a part stores their positions, and the one reader of them.

Shapes: D documents; N tokens or words of all of them; W width of a feature column.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.display import displayed
from bertfeat.errors import DamagedError

Matrix: TypeAlias = NDArray[np.floating]
"""A feature matrix as it is stored, float16 or float32."""


@displayed
@dataclass(frozen=True, slots=True)
class DocumentPieces:
    """The tokens or the words of one document, n in number."""

    strings: Sequence[str] | None  # [n]; None where the set holds no texts
    start: NDArray[np.int32]  # [n] character offsets in the text; special tokens have zero width
    end: NDArray[np.int32]  # [n]
    segment: NDArray[np.int8] | None  # [n] 0 first text, 1 pair: the text that the offsets count in
    aligned: NDArray[np.bool_] | None  # [n] words only: False where the word has no vector of its own

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True)
class PiecePositions:
    """The positions of the tokens or the words of some documents, flat."""

    offsets: NDArray[np.int64]  # [D+1] where each document's pieces begin
    start: NDArray[np.int32]  # [N] character offsets in the text; special tokens have zero width
    end: NDArray[np.int32]  # [N]
    segment: NDArray[np.int8] | None  # [N] 0 first text, 1 pair; None where there are no pairs
    aligned: NDArray[np.bool_] | None  # [N] words only: whether the word has tokens that were embedded

    @property
    def owners(self) -> NDArray[np.int64]:
        """The number of the document that each piece is of, ``[N]``."""
        return piece_owners(self.offsets)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The number of each piece in its document, ``[N]``."""
        return number_pieces(self.offsets)

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Whether a piece has characters in the text and a vector of its own, ``[N]``."""
        has_characters = self.end > self.start
        return has_characters if self.aligned is None else has_characters & self.aligned

    def of_document(self, number: int, strings: Sequence[str] | None = None) -> DocumentPieces:
        """The pieces of one document; ``strings`` are those of all documents."""
        cut = slice(int(self.offsets[number]), int(self.offsets[number + 1]))
        return DocumentPieces(
            None if strings is None else strings[cut],
            self.start[cut],
            self.end[cut],
            None if self.segment is None else self.segment[cut],
            None if self.aligned is None else self.aligned[cut],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Pieces(PiecePositions):
    """The tokens or the words of a part's documents, with their strings and feature matrices, to be written."""

    strings: Sequence[str] | None  # [N]; None: texts are not stored
    matrices: Mapping[str, Matrix]  # name of the feature column -> [N, W]


def position_columns(kind: str, names: Collection[str]) -> list[str]:
    """The columns of a part, of those in ``names``, that hold the positions of tokens or words (``kind``)."""
    own = [f"{kind}_start", f"{kind}_end", f"{kind}_segment", *(["aligned"] if kind == "word" else [])]
    return [name for name in own if name in names]


def read_positions(batch: pa.RecordBatch, kind: str) -> PiecePositions:
    """Read the positions of the tokens or words of a record batch, which holds :func:`position_columns`.

    Raises:
        DamagedError: the columns do not have one value for each token or word.
    """
    names = position_columns(kind, batch.schema.names)
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


def list_offsets(batch: pa.RecordBatch, name: str) -> NDArray[np.int64]:
    """Return the offsets at which each document's values begin in a flat list column, ``[D+1]``."""
    lengths = batch.column(name).value_lengths().to_numpy()
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def piece_owners(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of the document that each piece is of: ``[D+1]`` → ``[N]``."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def number_pieces(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of each piece in its document: ``[D+1]`` → ``[N]``."""
    numbers: NDArray[np.int64] = np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))
    return numbers

"""Documents with their features: text, tokens and words with their positions, and vectors.

They come from the record batches of a feature set, or from computed rows in memory that were never written.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.arguments import checked_methods
from bertfeat.core.corpus import RESERVED_COLUMNS, Failure, KeptColumn, Value
from bertfeat.core.features.columns import column_names, find_column
from bertfeat.core.features.record_batches import DocumentPieces, Matrix, PiecePositions, piece_offsets, stored_matrices
from bertfeat.core.features.schema import PartContent, content_table
from bertfeat.core.recipe import FeatureColumn, LayerSpec, Unit
from bertfeat.display import Cells, displayed
from bertfeat.errors import NotDerivableError


@displayed
@checked_methods
@dataclass(frozen=True, slots=True)
class DocumentFeatures:
    """One document with its features."""

    row: int
    id: str
    text: str | None
    pair: str | None
    values: Mapping[str, Value]  # kept columns
    n_tokens: int
    n_unk: int  # tokens that the model does not know
    n_truncated: int  # tokens that were cut off
    tokens: DocumentPieces | None
    words: DocumentPieces | None
    tags: Sequence[str] | None
    columns: tuple[FeatureColumn, ...]  # the stored columns that were read
    stored: Mapping[str, Matrix]  # name of the column -> [width] or [n, width], as stored
    num_layers: int

    def cells(self) -> Cells:
        """The row of a table that shows the document, with the shapes of its vectors."""
        known = {"row": self.row, "id": self.id, "text": self.text, "pair": self.pair, **self.values}
        return {**known, "n_tokens": self.n_tokens, **{name: matrix.shape for name, matrix in self.stored.items()}}

    def vector(
        self, column: LayerSpec | None = None, pooling: str | None = None, *, weights: Sequence[float] | None = None
    ) -> NDArray[np.float32]:
        """A document vector ``[width]`` by column name or recipe, derived where it is not stored.

        Raises:
            NotDerivableError: the stored document columns do not contain it.
        """
        vector: NDArray[np.float32] = self._compute(column, pooling, weights, per_document=True)[0]
        return vector

    def matrix(
        self, column: LayerSpec | None = None, pooling: str | None = None, *, weights: Sequence[float] | None = None
    ) -> NDArray[np.float32]:
        """The vectors ``[n, width]`` of the document's tokens or words, derived where they are not stored.

        Raises:
            NotDerivableError: the stored token and word columns do not contain them.
        """
        return self._compute(column, pooling, weights, per_document=False)

    def pieces_of(self, column: FeatureColumn) -> DocumentPieces | None:
        """The tokens or words whose vectors a column has, as :meth:`matrix` orders them; None for a document column."""
        return {Unit.TOKEN: self.tokens, Unit.WORD: self.words}.get(column.pooling.unit)

    def _compute(
        self, column: LayerSpec | None, pooling: str | None, weights: Sequence[float] | None, per_document: bool
    ) -> NDArray[np.float32]:
        stored = [known for known in self.columns if known.pooling.per_document is per_document]
        if column and column not in {known.name for known in stored} and column in self.stored:
            other = "matrix" if per_document else "vector"
            raise NotDerivableError(
                f"{column} is read by {other}()", remedy=f"of this kind there are: {column_names(stored)}"
            )
        derivation = find_column(stored, self.num_layers, column, pooling, weights=weights).derivation
        return derivation.apply({name: np.atleast_2d(self.stored[name]) for name in derivation.columns})


def batch_documents(
    batch: pa.RecordBatch, columns: Sequence[FeatureColumn], num_layers: int
) -> Iterator[DocumentFeatures]:
    """The documents of a record batch, with those of the ``columns`` that the batch has."""
    columns = tuple(column for column in columns if column.name in batch.schema.names)
    matrices = stored_matrices(batch, columns)
    offsets = {column.name: None if column.pooling.per_document else piece_offsets(batch, column) for column in columns}
    features = {column.name for column in columns}
    kept = [name for name in batch.schema.names if name not in features and name not in RESERVED_COLUMNS]
    own = ("row", "id", "text", "pair", "n_tokens", "n_unk", "n_truncated", "tags")
    plain = batch.select([*(name for name in own if name in batch.schema.names), *kept]).to_pylist()
    pieces = {kind: _document_pieces(batch, kind) for kind in ("token", "word")}
    for at, values in enumerate(plain):
        yield DocumentFeatures(
            row=values["row"],
            id=values["id"],
            text=values.get("text"),
            pair=values.get("pair"),
            values={name: values[name] for name in kept},
            n_tokens=values["n_tokens"],
            n_unk=values["n_unk"],
            n_truncated=values["n_truncated"],
            tokens=pieces["token"][at] if pieces["token"] else None,
            words=pieces["word"][at] if pieces["word"] else None,
            tags=values.get("tags"),
            columns=columns,
            # copied, so that one document kept does not keep its whole batch in memory
            stored={
                name: (matrix[at] if (ends := offsets[name]) is None else matrix[ends[at] : ends[at + 1]]).copy()
                for name, matrix in matrices.items()
            },
            num_layers=num_layers,
        )


def content_documents(
    content: PartContent, columns: Sequence[FeatureColumn], num_layers: int
) -> Iterator[DocumentFeatures]:
    """The documents of a part that was never written."""
    for batch in content_table(content, columns).to_batches():
        yield from batch_documents(batch, columns, num_layers)


def _document_pieces(batch: pa.RecordBatch, kind: str) -> list[DocumentPieces] | None:
    """The tokens or words of each document; None where the batch has no columns for them."""
    if f"{kind}_start" not in batch.schema.names:
        return None
    positions = PiecePositions.read(batch, kind)
    strings = tuple(batch.column(f"{kind}s").flatten().to_pylist()) if f"{kind}s" in batch.schema.names else None
    numbered = f"{kind}_ids" in batch.schema.names
    ids = batch.column(f"{kind}_ids").flatten().to_numpy() if numbered else None
    return [positions.of_document(number, strings, ids) for number in range(len(batch))]


class MemoryFeatures:
    """The documents of some rows of a corpus with their features, in memory, with the attributes of a feature set."""

    def __init__(self, content: PartContent, columns: Sequence[FeatureColumn], origin: str) -> None:
        self._table = content_table(content, columns)
        self._failed = content.failures
        self.rows = content.rows
        """The numbers of these rows in the corpus, ``[D]``."""
        self.folder = origin
        """The name of the corpus, for messages; a feature set has its folder here."""
        self.sources: tuple[str, ...] = ()
        self.columns = tuple(columns)
        self.kept: tuple[KeptColumn, ...] = tuple(content.kept)
        self.names: tuple[str, ...] = tuple(self._table.schema.names)

    def __len__(self) -> int:
        return len(self.rows)

    def failures(self) -> Iterator[Failure]:
        """The rows of the corpus that failed."""
        yield from self._failed

    def stream(
        self, names: Sequence[str] | None = None, *, batch_rows: int = 1024, start: int = 0, stop: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The columns of those names in row order, of the rows from ``start`` up to ``stop``."""
        first = int(np.searchsorted(self.rows, start))
        last = len(self.rows) if stop is None else int(np.searchsorted(self.rows, stop))
        table = self._table.select(list(self.names if names is None else names)).slice(first, last - first)
        yield from table.to_batches(max_chunksize=min(batch_rows, max(1, len(table))))

    def without(self, rows: Sequence[int]) -> "MemoryFeatures":
        """The same without some rows."""
        other = object.__new__(MemoryFeatures)  # without building the table again
        other.__dict__.update(self.__dict__)
        kept = ~np.isin(self.rows, list(rows))
        other.rows, other._table = self.rows[kept], self._table.filter(pa.array(kept))
        return other

"""The vectors of feature sets as blocks, with the columns that an index keeps of documents, tokens and words.

Shapes: n vectors of a batch, D documents whose vectors they are.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.errors import IndexFolderError, UsageError, parameter
from bertfeat.features import (
    KEPT_TYPES,
    FeatureSet,
    FeatureSettings,
    ModelIdentity,
    PartHeader,
    PiecePositions,
    ReadableColumn,
    position_columns,
    read_positions,
    stored_matrices,
)
from bertfeat.recipe import FeatureColumn
from bertfeat.search.document_store import SOURCE, document_schema
from bertfeat.search.vector_blocks import BlockBuilder, PieceColumns, VectorBlock, block_rows

_READ_ROWS = 8192


class FeatureSource:
    """One column of one or several feature sets."""

    def __init__(
        self, sets: Sequence[FeatureSet], column: str | None, *, keep_text: bool, source_numbers: Sequence[int] = ()
    ) -> None:
        self.sets = tuple(sets)
        self.column = _one_column(self.sets, column)
        self.width = self.column.width
        self.skipped = 0  # tokens and words without a vector of their own, known when everything was read
        self.per_document = self.column.pooling.per_document
        self.schemas = [(features.folder, document_fields(features, keep_text)) for features in self.sets]
        self.schema = document_schema(self.schemas)
        self.first_document = 0  # number of the first document in the index
        self._numbers = tuple(source_numbers) or tuple(range(len(self.sets)))
        self._kept = tuple(name for name in self.schema.names if name != SOURCE)
        self._count: int | None = sum(map(len, self.sets)) if self.per_document else None

    @property
    def count(self) -> int:
        """How many vectors there are; for tokens and words their positions are read to count them."""
        if self._count is None:
            self._count = sum(
                int(read_positions(batch, self.column.pooling).usable.sum())
                for features in self.sets
                for batch in features.stream(self._position_names(features), batch_rows=_READ_ROWS)
            )
        return self._count

    def blocks(self, *, documents: bool, rows: int | None = None) -> Iterator[VectorBlock]:
        """The vectors in order of the sets and their rows; a block ends where it has ``rows`` vectors or more.

        With ``rows=1`` it is not larger than a row group of about 8 MiB, texts included.
        """
        rows, builder = rows or block_rows(self.width), BlockBuilder(self.width)
        self.skipped, document = 0, self.first_document
        for number, features in zip(self._numbers, self.sets, strict=True):
            kept = [name for name in self._kept if name in features.names] if documents else []
            names = dict.fromkeys([*self.column.derivation.columns, *self._position_names(features), *kept])
            for batch in features.stream(list(names), batch_rows=_READ_ROWS):
                vectors, pieces = self._vectors(batch, features, document)
                document += len(batch)
                builder.add(vectors, _document_table(batch, kept, number) if documents else None, pieces)
                if builder.count >= rows:
                    yield builder.take()
        if builder.count or builder.has_documents:
            yield builder.take()

    def _vectors(
        self, batch: pa.RecordBatch, features: FeatureSet, document: int
    ) -> tuple[NDArray[np.float32], PieceColumns | None]:
        """The vectors of a batch whose first document has that number, and which tokens or words they are."""
        stored = [column for column in features.columns if column.name in self.column.derivation.columns]
        vectors = self.column.derivation.apply(stored_matrices(batch, stored))
        if self.per_document:
            return vectors, None
        pieces = read_positions(batch, self.column.pooling)
        usable = pieces.usable
        self.skipped += len(usable) - int(usable.sum())
        return vectors[usable], _piece_columns(pieces, document)

    def _position_names(self, features: FeatureSet) -> list[str]:
        if self.per_document:
            return []
        return position_columns(self.column.pooling, features.names)


def _document_table(batch: pa.RecordBatch, names: Sequence[str], source: int) -> pa.Table:
    """The columns of a batch that the document store keeps."""
    table = pa.Table.from_batches([batch.select(names)])
    return table.append_column(SOURCE, pa.array(np.full(len(table), source, np.int32)))


def _piece_columns(pieces: PiecePositions, first: int) -> PieceColumns:
    """The usable pieces of documents of which the first has that number."""
    usable = pieces.usable
    segment = np.zeros(len(usable), np.int8) if pieces.segment is None else pieces.segment
    return PieceColumns(
        pieces.owners[usable] + first,
        pieces.numbers[usable].astype(np.int32),
        pieces.start[usable],
        pieces.end[usable],
        segment[usable],
    )


def _one_column(sets: Sequence[FeatureSet], column: str | None) -> ReadableColumn:
    """The column, in all sets, whose vectors must be comparable."""
    if not sets:
        raise UsageError("name at least one feature set")
    first = sets[0]
    shared = first.find(column)
    for other in sets[1:]:
        theirs = other.find(shared.name)
        problem = find_incomparability(first.header.model, first.header.settings, shared, other.header, theirs)
        if problem:
            raise IndexFolderError(f"{other.folder} cannot share an index with {first.folder}: {problem}")
    return shared


def find_incomparability(
    model: ModelIdentity,
    settings: FeatureSettings,
    column: ReadableColumn | FeatureColumn,
    header: PartHeader,
    other: ReadableColumn | FeatureColumn,
) -> str | None:
    """Why vectors of a model, settings and column cannot be compared with those of another feature set.

    None if they can.
    """
    ours, theirs = model.fingerprint, header.model.fingerprint
    if ours != theirs:
        return f"they come from different models (fingerprints {ours[:12]} and {theirs[:12]})"
    if (column.recipe, column.pooling) != (other.recipe, other.pooling):
        return f"{column.name} and {other.name} are different things"
    if column.width != other.width:
        return f"vectors of {column.width} and of {other.width} values"
    if differences := settings.incomparable_with(header.settings, column.pooling):
        differ = ", ".join(map(str, differences))
        return f"they were extracted with {differ}; extract one of them again like the other"
    return None


def document_fields(features: FeatureSet, keep_text: bool) -> pa.Schema:
    """The columns of a set that the document store keeps.

    Raises:
        IndexFolderError: one has the name of the store's own column.
    """
    if any(column.name == SOURCE for column in features.kept):
        raise IndexFolderError(
            f"it keeps a column {SOURCE!r}, and an index has one of that name: the feature set of a document",
            where=features.folder,
            remedy=f"leave it out of {parameter('keep')}, or rename it, and extract again",
        )
    texts = [(name, pa.string()) for name in ("text", "pair") if keep_text and name in features.names]
    kept = [(column.name, KEPT_TYPES[column.type]) for column in features.kept]
    return pa.schema([("row", pa.int64()), ("id", pa.string()), *texts, *kept])

"""The vectors of feature sets as blocks, and what an index remembers of their documents, tokens and words.

Shapes: n vectors of a batch, D documents whose vectors they are.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.errors import IndexFolderError, UsageError
from bertfeat.features import FeatureSet, FoundColumn
from bertfeat.features.schema import KEPT_TYPES
from bertfeat.features.vectors import piece_offsets, stored_matrices
from bertfeat.search.comparable import incomparable
from bertfeat.search.document_store import SOURCE, document_schema
from bertfeat.search.vector_blocks import BlockBuilder, PieceColumns, VectorBlock, block_rows

_READ_ROWS = 8192


class FeatureSource:
    """One column of one or several feature sets."""

    def __init__(
        self, sets: Sequence[FeatureSet], column: str | None, *, keep_text: bool, source_numbers: Sequence[int] = ()
    ) -> None:
        self.sets = tuple(sets)
        self.found = _one_column(self.sets, column)
        self.width = self.found.width
        self.skipped = 0  # tokens and words without a vector of their own, known when everything was read
        self.per_document = self.found.pooling.per_document
        self.schemas = [(features.folder, document_fields(features, keep_text)) for features in self.sets]
        self.schema = document_schema(self.schemas)
        self.first_document = 0  # number of the first document in the index
        self._numbers = tuple(source_numbers) or tuple(range(len(self.sets)))
        self._kept = tuple(name for name in self.schema.names if name != SOURCE)
        self._count: int | None = sum(map(len, self.sets)) if self.per_document else None

    @property
    def count(self) -> int:
        """How many vectors there are; for tokens and words their places are read to know it."""
        if self._count is None:
            self._count = sum(
                int(_usable(batch, self.found.pooling).sum())
                for features in self.sets
                for batch in features.stream(self._place_names(features), batch_rows=_READ_ROWS)
            )
        return self._count

    def blocks(self, *, documents: bool) -> Iterator[VectorBlock]:
        """The vectors in order of the sets and their rows."""
        rows, made = block_rows(self.width), BlockBuilder(self.width)
        self.skipped, document = 0, self.first_document
        for number, features in zip(self._numbers, self.sets, strict=True):
            there = set(features.names)
            kept = [name for name in self._kept if name in there] if documents else []
            names = dict.fromkeys([*self.found.derivation.columns, *self._place_names(features), *kept])
            for batch in features.stream(list(names), batch_rows=_READ_ROWS):
                vectors, pieces = self._vectors(batch, features, document)
                document += len(batch)
                made.add(vectors, _documents(batch, kept, number) if documents else None, pieces)
                if made.count >= rows:
                    yield made.take()
        if made.count or made.has_documents:
            yield made.take()

    def _vectors(
        self, batch: pa.RecordBatch, features: FeatureSet, document: int
    ) -> tuple[NDArray[np.float32], PieceColumns | None]:
        """The vectors of a batch whose first document has that number, and which tokens or words they are."""
        stored = [column for column in features.columns if column.name in self.found.derivation.columns]
        vectors = self.found.derivation.apply(stored_matrices(batch, stored))
        if self.per_document:
            return vectors, None
        usable = _usable(batch, self.found.pooling)
        self.skipped += len(usable) - int(usable.sum())
        return vectors[usable], _places(batch, self.found.pooling, piece_offsets(batch, stored[0]), usable, document)

    def _place_names(self, features: FeatureSet) -> list[str]:
        if self.per_document:
            return []
        kind = self.found.pooling.value
        wanted = (f"{kind}_start", f"{kind}_end", f"{kind}_segment", *(("aligned",) if kind == "word" else ()))
        return [name for name in wanted if name in features.names]


def _documents(batch: pa.RecordBatch, names: Sequence[str], source: int) -> pa.Table:
    """What the text store keeps of a batch's documents."""
    table = pa.Table.from_batches([batch.select(names)])
    return table.append_column(SOURCE, pa.array(np.full(len(table), source, np.int32)))


def _usable(batch: pa.RecordBatch, kind: str) -> NDArray[np.bool_]:
    """Which tokens or words of a batch have characters of the text and a vector of their own."""
    start, end = (batch.column(f"{kind}_{side}").flatten().to_numpy() for side in ("start", "end"))
    usable: NDArray[np.bool_] = end > start
    if "aligned" in batch.schema.names:
        usable &= batch.column("aligned").flatten().to_numpy(zero_copy_only=False)
    return usable


def _places(
    batch: pa.RecordBatch, kind: str, offsets: NDArray[np.int64], usable: NDArray[np.bool_], first: int
) -> PieceColumns:
    counts = np.diff(offsets)
    number = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
    owner = np.repeat(np.arange(len(counts)), counts)
    start, end = (batch.column(f"{kind}_{side}").flatten().to_numpy() for side in ("start", "end"))
    segment = np.zeros(len(usable), np.int8)
    if f"{kind}_segment" in batch.schema.names:
        segment = batch.column(f"{kind}_segment").flatten().to_numpy()
    return PieceColumns(
        owner[usable] + first, number[usable].astype(np.int32), start[usable], end[usable], segment[usable]
    )


def _one_column(sets: Sequence[FeatureSet], column: str | None) -> FoundColumn:
    """The column of all the sets, whose vectors must be comparable."""
    if not sets:
        raise UsageError("name at least one feature set")
    first = sets[0]
    found = first.find(column)
    for other in sets[1:]:
        model, settings = first.header.model.fingerprint, first.header.settings
        problem = incomparable(model, settings, found, other.header, other.find(found.name))
        if problem:
            raise IndexFolderError(f"{other.folder} cannot share an index with {first.folder}: {problem}")
    return found


def document_fields(features: FeatureSet, keep_text: bool) -> pa.Schema:
    """The columns of a set that the text store keeps.

    Raises:
        IndexFolderError: one bears the name of the store's own column.
    """
    if any(column.name == SOURCE for column in features.kept):
        raise IndexFolderError(
            f"{features.folder}: it keeps a column {SOURCE!r}, and an index has one of that name that says which "
            f"feature set a document is from; leave it out of --keep, or rename it, and extract again"
        )
    texts = [(name, pa.string()) for name in ("text", "pair") if keep_text and name in features.names]
    kept = [(column.name, KEPT_TYPES[column.type]) for column in features.kept]
    return pa.schema([("row", pa.int64()), ("id", pa.string()), *texts, *kept])

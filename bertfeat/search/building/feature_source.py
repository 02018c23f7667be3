"""Access to the feature sets that an index is built from: its record of them, and their vectors in blocks.

With the vectors come the columns that an index keeps of documents, tokens, words and spans.

Shapes: n vectors of a batch, D documents whose vectors they are, W values in a vector.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.core import (
    FeatureSet,
    FeatureSettings,
    PiecePositions,
    ReadableColumn,
    SpanPositions,
    SpanReader,
    SpanRule,
    find_incomparability,
    find_pieces,
    stored_matrices,
)
from bertfeat.errors import IndexFolderError, UsageError, parameter
from bertfeat.search.building.listing import last_of_each_id
from bertfeat.search.document_store import DIGEST, SOURCE, document_schema
from bertfeat.search.settings import SourceSet
from bertfeat.search.vectors.token_encoding import TokenEncoding
from bertfeat.search.vectors.vector_blocks import BlockBuilder, PieceColumns, VectorBlock, block_rows

_READ_ROWS = 8192
_FEW = 8  # where fewer rows than one in so many are read, whole row groups are passed over
_SAMPLED_PLACES = 64
_SAMPLED_BYTES = 128 << 20


def describe_source_set(features: FeatureSet) -> SourceSet:
    """The record of a feature set in an index."""
    digest = hashlib.sha256()
    for entry in features.entries:
        digest.update(f"{entry.name} {entry.sha256}\n".encode())
    return SourceSet(str(features.folder.absolute()), len(features), digest.hexdigest())


def merge_sources(
    known: Sequence[SourceSet], sets: Sequence[FeatureSet]
) -> tuple[tuple[SourceSet, ...], tuple[int, ...]]:
    """All sources, and the number that each of the sets has among them; the record of a known source is updated."""
    sources = list(known)
    number_of = {source.path: number for number, source in enumerate(sources)}
    numbers = []
    for features in sets:
        new = describe_source_set(features)
        number = number_of.setdefault(new.path, len(sources))
        sources[number : number + 1] = [new]
        numbers.append(number)
    return tuple(sources), tuple(numbers)


@dataclass(frozen=True, slots=True)
class SourceRows:
    """Rows of one of the feature sets."""

    features: int  # which of the sets
    start: int
    stop: int


class FeatureSource:
    """One column of one or several feature sets; with ``spans``, the spans of their texts that are pooled from it.

    Of each set the given ``rows`` are taken; by default all, but of documents of one id the last set's, where its ids
    are more than the numbers of its records. With an ``encoding``, the vector of a document or span is that of all its
    tokens or words together.
    """

    def __init__(
        self,
        sets: Sequence[FeatureSet],
        column: str | None,
        spans: SpanRule | None = None,
        encoding: TokenEncoding | None = None,
        *,
        keep_text: bool,
        source_numbers: Sequence[int] = (),
        rows: Sequence[NDArray[np.int64] | None] | None = None,
    ) -> None:
        self.sets = tuple(sets)
        self.spans, self.encoding = spans, encoding
        self.column = _one_column(self.sets, column, spans, is_encoded=encoding is not None)
        self._readers = [] if spans is None else [SpanReader(each, spans, self.column.name) for each in self.sets]
        self.width = self.column.width if encoding is None else encoding.shape.width
        self.skipped = 0  # tokens, words and spans without a vector of their own, known when everything was read
        self.per_document = spans is None and (encoding is not None or self.column.pooling.per_document)
        self.schemas = [(features.folder, _document_fields(features, keep_text)) for features in self.sets]
        self.schema = document_schema(self.schemas)
        self.rows = last_of_each_id(self.sets) if rows is None else tuple(rows)
        """The rows of each set that are taken, ascending; None for all of them."""
        self.first_document = 0  # number of the first document in the index
        self._numbers = tuple(source_numbers) or tuple(range(len(self.sets)))
        self._kept = tuple(name for name in self.schema.names if name != SOURCE)

    @cached_property
    def count(self) -> int:
        """The number of vectors; tokens, words and spans are counted by reading their positions, or their texts."""
        return self.documents if self.per_document else sum(map(self._count_pieces, range(len(self.sets))))

    @property
    def documents(self) -> int:
        """The number of documents that are taken."""
        return sum(len(each if rows is None else rows) for each, rows in zip(self.sets, self.rows, strict=True))

    def blocks(self, *, documents: bool, rows: int | None = None) -> Iterator[VectorBlock]:
        """The vectors in order of the sets and their rows; a block ends as soon as it has at least ``rows`` vectors.

        With ``rows=1`` a block is not larger than a row group of about 8 MiB, texts included.
        """
        builder, size = BlockBuilder(self.width), rows or block_rows(self.width)
        self.skipped = 0
        for batch, number, document in self._read(documents=documents):
            vectors, positions = self._stored_vectors(batch, number), self._positions(batch, number)
            if self.encoding is not None and positions is not None:
                vectors = self.encoding.encode_texts(vectors, positions.ranges(self.column.recipe))
            elif isinstance(positions, SpanPositions):
                vectors = positions.pool(vectors)
            usable, pieces = self._pieces(positions, document)
            table = self._document_table(batch, number) if documents else None
            builder.add(vectors if usable is None else vectors[usable], table, pieces)
            if builder.count >= size:
                yield builder.take()
        if builder.count or builder.has_documents:
            yield builder.take()

    def document_tables(self, rows: Sequence[NDArray[np.int64]]) -> Iterator[pa.Table]:
        """The columns that the document store keeps, of the documents in some rows of each set."""
        for number, (features, chosen) in enumerate(zip(self.sets, rows, strict=True)):
            for batch in stream_chosen(features, self._kept_names(features), chosen):
                yield self._document_table(batch, number)

    def sample_pieces(self) -> NDArray[np.float32]:
        """A sample of the vectors of tokens or words, ``[n, W]``: those of documents at places evenly apart."""
        places = list(self._places_evenly_apart())
        most = max(1, _SAMPLED_BYTES // (4 * self.column.width * max(1, len(places))))
        sampled = [np.empty((0, self.column.width), np.float32)]
        for rows in places:
            names = dict.fromkeys([*self.column.derivation.columns, *self._position_names(rows.features)])
            stream = self.sets[rows.features].stream(
                list(names), batch_rows=_READ_ROWS, start=rows.start, stop=rows.stop
            )
            for batch in islice(stream, 1):
                positions = PiecePositions.read(batch, self.column.pooling)
                compared = np.flatnonzero(positions.compared(self.column.recipe))
                apart = np.linspace(0, len(compared), min(most, len(compared)), endpoint=False, dtype=np.int64)
                chosen = compared[apart]
                sampled.append(self._stored_vectors(batch, rows.features)[chosen])
        return np.concatenate(sampled)

    def _places_evenly_apart(self) -> Iterator[SourceRows]:
        """The rows from each of some places in the parts of all sets to the next place, or to the end of the part."""
        step = max(1, sum(map(len, self.sets)) // _SAMPLED_PLACES)
        offset = 0  # of the next place, in the documents from the beginning of a part
        for number, features in enumerate(self.sets):
            for entry in features.entries:
                for start in range(entry.first_row + offset, entry.first_row + entry.documents, step):
                    yield SourceRows(number, start, min(start + step, entry.last_row))
                offset = (offset - entry.documents) % step

    def _stored_vectors(self, batch: pa.RecordBatch, number: int) -> NDArray[np.float32]:
        """The vectors of the column in a batch of a set: of documents, or of all tokens or words."""
        stored = self.column.derivation.inputs(self.sets[number].columns)
        return self.column.derivation.apply(stored_matrices(batch, stored))

    def _read(self, *, documents: bool) -> Iterator[tuple[pa.RecordBatch, int, int]]:
        """Yield batches of the needed columns, each with the number of its set and of its first document."""
        document = self.first_document
        most = _READ_ROWS if self.encoding is None else min(_READ_ROWS, block_rows(self.width))
        for number, features in enumerate(self.sets):
            names = dict.fromkeys(
                [
                    *self.column.derivation.columns,
                    *self._position_names(number),
                    *(self._kept_names(features) if documents else ()),
                ]
            )
            for batch in stream_chosen(features, list(names), self.rows[number], most):
                yield batch, number, document
                document += len(batch)

    def _positions(self, batch: pa.RecordBatch, number: int) -> PiecePositions | None:
        """The positions of the tokens, words or spans of a batch of a set; None where a document has one vector."""
        if self._readers:
            return self._readers[number].find(batch)
        return None if self.column.pooling.per_document else PiecePositions.read(batch, self.column.pooling)

    def _pieces(
        self, pieces: PiecePositions | None, document: int
    ) -> tuple[NDArray[np.bool_] | None, PieceColumns | None]:
        """Return a mask of the usable pieces of a batch, and their columns; two None where a vector is a document's.

        ``document`` is the number of the batch's first document. Pieces that are left out are counted as ``skipped``.
        """
        if pieces is None or self.per_document:
            return None, None
        usable = pieces.usable
        self.skipped += len(usable) - int(usable.sum())
        segment = np.zeros(len(usable), np.int8) if pieces.segment is None else pieces.segment
        return usable, PieceColumns(
            pieces.owners[usable] + document,
            pieces.numbers[usable].astype(np.int32),
            pieces.start[usable],
            pieces.end[usable],
            segment[usable],
        )

    def _document_table(self, batch: pa.RecordBatch, number: int) -> pa.Table:
        """The columns of a batch that the document store keeps."""
        table = pa.Table.from_batches([batch.select(self._kept_names(self.sets[number]))])
        return table.append_column(SOURCE, pa.array(np.full(len(table), self._numbers[number], np.int32)))

    def _kept_names(self, features: FeatureSet) -> list[str]:
        return [name for name in (*self._kept, DIGEST) if name in features.names]

    def _count_pieces(self, number: int) -> int:
        """Count the usable tokens, words or spans of a set."""
        names = dict.fromkeys(["row", *self._position_names(number)])
        batches = stream_chosen(self.sets[number], list(names), self.rows[number])
        found = (self._positions(batch, number) for batch in batches)
        return sum(int(positions.usable.sum()) for positions in found if positions is not None)

    def _position_names(self, number: int) -> Sequence[str]:
        if self._readers:
            return self._readers[number].names
        pooling = self.column.pooling
        return [] if pooling.per_document else PiecePositions.columns(pooling, self.sets[number].names)


def stream_chosen(
    features: FeatureSet, names: Sequence[str], rows: NDArray[np.int64] | None, batch_rows: int = _READ_ROWS
) -> Iterator[pa.RecordBatch]:
    """Some columns of a set in the given ascending rows, or of the whole set; of few rows only their row groups."""
    if rows is None:
        yield from features.stream(names, batch_rows=batch_rows)
    elif len(rows) < len(features) // _FEW:
        for batch in features.stream_rows(rows.tolist(), names):
            yield from (batch.slice(start, batch_rows) for start in range(0, len(batch), batch_rows))
    else:
        for batch in features.stream(["row", *(name for name in names if name != "row")], batch_rows=batch_rows):
            chosen = np.isin(batch["row"].to_numpy(), rows, assume_unique=True)
            yield batch.filter(pa.array(chosen)).select(names)


def _document_fields(features: FeatureSet, keep_text: bool) -> pa.Schema:
    """The columns of a set that the document store keeps; none may have the name of the store's own column."""
    if any(column.name == SOURCE for column in features.kept):
        raise IndexFolderError(
            f"it keeps a column {SOURCE!r}, and an index has one of that name: the feature set of a document",
            where=features.folder,
            remedy=f"leave it out of {parameter('keep')}, or rename it, and extract again",
        )
    texts = [(name, pa.string()) for name in ("text", "pair") if keep_text and name in features.names]
    kept = [(column.name, features.stored_schema.field(column.name).type) for column in features.kept]
    return pa.schema([("row", pa.int64()), ("id", pa.string()), *texts, *kept])


def _one_column(
    sets: Sequence[FeatureSet], column: str | None, spans: SpanRule | None, *, is_encoded: bool
) -> ReadableColumn:
    """The column to index, as the first set has it; the vectors of the other sets must be comparable with it."""
    if not sets:
        raise UsageError("name at least one feature set")
    first = sets[0]
    shared = column_to_index(first, column, spans, is_encoded=is_encoded)
    for other in sets[1:]:
        theirs = column_to_index(other, shared.name, spans, is_encoded=is_encoded)
        ours = first.header.settings
        problem = find_incomparability(first.header.model, ours, shared, other.header, theirs, spans)
        if problem := problem or find_other_units(ours, other.header.settings):
            raise IndexFolderError(f"{other.folder} cannot share an index with {first.folder}: {problem}")
    return shared


def find_other_units(ours: FeatureSettings, theirs: FeatureSettings) -> str | None:
    """The reason why documents of two sets are not found together: some were split off texts, others are texts."""
    if (ours.split is None) == (theirs.split is None):
        return None
    return f"one has whole texts and the other was split; extract both with {parameter('split')}, or none"


def column_to_index(
    features: FeatureSet, column: str | None, spans: SpanRule | None, *, is_encoded: bool
) -> ReadableColumn:
    """The column of a set that an index is made of; by default what the model was trained to give for search."""
    if spans is not None:
        return SpanReader(features, spans, column).column
    return find_encoded_column(features, column) if is_encoded else features.find(column, task="search")


def find_encoded_column(features: FeatureSet, column: str | None) -> ReadableColumn:
    """The column of tokens or words of a set that are encoded as one vector."""
    return find_pieces(features, column, use="an encoding is made of")

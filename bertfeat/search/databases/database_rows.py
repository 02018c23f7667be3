"""The vectors of a feature column as rows of a vector database: of length 1, with ids, texts and kept columns.

Blocks are as large as the row groups of the feature set (about 8 MiB), so memory does not depend on the set's size.
Shapes: n vectors of a block, D documents whose vectors they are, W values in a vector.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.core import FeatureSet, SpanRule, describe_vectors, unit_vectors
from bertfeat.errors import UsageError, errors_within, parameter
from bertfeat.io import prefetched
from bertfeat.search.building.feature_source import FeatureSource, describe_source_set
from bertfeat.search.document_store import SOURCE
from bertfeat.search.vectors.metric import Metric
from bertfeat.search.vectors.vector_blocks import VectorBlock, prepare_vectors

_PIECE_FIELDS = {
    "number": pa.int64(),
    "position": pa.int32(),
    "string": pa.large_string(),
    "start": pa.int32(),
    "end": pa.int32(),
    "segment": pa.int8(),
}
"""The fields that are stored for a token, word or span, besides the row, id and kept columns of its document."""


@dataclass(frozen=True, slots=True)
class RowBlock:
    """A block of consecutive rows."""

    start: int  # number of the first one
    vectors: NDArray[np.float32]  # [n, W] of length 1; zero vectors stay zero
    columns: pa.Table | None  # n rows; None where only vectors were asked for


class DatabaseRows:
    """One column of a feature set, or spans of it, which can be read from the beginning any number of times."""

    def __init__(self, features: FeatureSet, column: str | None, spans: SpanRule | None = None) -> None:
        self.folder, self.documents = features.folder, len(features)
        self._source = FeatureSource([features], column, spans, keep_text=True)
        self.contents, self.width = describe_vectors(self._source.column.name, spans), self._source.width
        self.key = "row" if self._source.per_document else "number"
        """The column that identifies a row: ``row`` for documents, ``number`` for tokens, words or spans."""
        stored = pa.schema([field for field in self._source.schema if field.name != SOURCE])
        has_pairs = spans is None and "pair" in features.names
        self.schema = stored if self._source.per_document else _piece_schema(stored, has_pairs=has_pairs)
        self.zero_vectors = 0  # this and the next are known once all blocks with columns were read
        self.skipped = 0  # tokens, words and spans without a vector of their own
        if not self._source.count:
            raise UsageError(f"there are no vectors of {self.contents} in it", where=self.folder)
        self.count = self._source.count
        model = features.header.model
        self.origin = {
            "features": describe_source_set(features).digest,
            "column": self.contents,
            "vectors": self.count,
            "width": self.width,
            "model": model.name,
            "model_fingerprint": model.fingerprint,
        }
        """The description and origin of the vectors; recorded in the database."""

    def blocks(self, *, columns: bool) -> Iterator[RowBlock]:
        """All rows; without ``columns`` the vectors alone."""
        start = document = zero = 0
        with closing(prefetched(self._source.blocks(documents=columns, rows=1), join=True)) as blocks:
            for block in blocks:
                with errors_within(self.folder):
                    # a check only, hence IP: for cosine it would scale the vectors too, and load FAISS for that
                    zero += int(prepare_vectors(Metric.IP, block.vectors, start).sum())
                table = self._table(block, start, document) if columns else None
                yield RowBlock(start, unit_vectors(block.vectors), table)
                start += len(block.vectors)
                document += sum(map(len, block.documents))
        if columns:
            self.zero_vectors, self.skipped = zero, self._source.skipped

    def _table(self, block: VectorBlock, start: int, first_document: int) -> pa.Table:
        documents = pa.concat_tables(block.documents)
        if block.pieces is None:
            return documents.select(self.schema.names).cast(self.schema)
        owners = block.pieces.document - first_document
        columns = {
            "number": np.arange(start, start + len(owners)),
            "position": block.pieces.number,
            "start": block.pieces.start,
            "end": block.pieces.end,
            "segment": block.pieces.segment,
        }
        if "string" in self.schema.names:
            pieces = block.pieces
            texts = [documents[name].to_pylist() for name in ("text", "pair") if name in documents.column_names]
            places = (pieces.segment.tolist(), owners.tolist(), pieces.start.tolist(), pieces.end.tolist())
            strings = [texts[each][owner][first:last] for each, owner, first, last in zip(*places, strict=True)]
            columns["string"] = pa.array(strings, pa.large_string())
        of_document = [name for name in self.schema.names if name not in _PIECE_FIELDS]
        repeated = documents.select(of_document).take(pa.array(owners))
        columns |= dict(zip(of_document, repeated.columns, strict=True))
        return pa.table([columns[name] for name in self.schema.names], names=self.schema.names).cast(self.schema)


def _piece_schema(stored: pa.Schema, *, has_pairs: bool) -> pa.Schema:
    """The columns of rows of tokens, words or spans; ``stored`` are those of documents."""
    left_out = set() if has_pairs else {"segment"}
    left_out |= {"string"} if "text" not in stored.names else set()
    own = [pa.field(name, kind) for name, kind in _PIECE_FIELDS.items() if name not in left_out]
    # the text of a document, repeated for each of its words, would take its length squared
    kept = [field for field in stored if field.name not in ("row", "id", "text", "pair")]
    refuse_kept_names({field.name for field in kept} & set(_PIECE_FIELDS))
    return pa.schema([own[0], stored.field("row"), stored.field("id"), *own[1:], *kept])


def refuse_kept_names(taken: set[str]) -> None:
    """Refuse kept columns whose names the database needs."""
    if taken:
        raise UsageError(
            f"the kept column {min(taken)!r} has the name of a column that is written",
            remedy=f"leave it out of {parameter('keep')} or rename it, and extract again",
        )

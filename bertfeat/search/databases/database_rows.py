"""The vectors of a feature column as rows of a vector database: of length 1, with ids, texts and kept columns.

A row's key is made of its content (content addressing). So two lists of keys say what a database lacks of a feature
set, and what it has beyond it. Blocks are as large as the row groups of the feature set (about 8 MiB), so memory does
not depend on the set's size.

Shapes: n vectors of a block, W values in a vector.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bertfeat.core import FeatureSet, SpanRule, describe_vectors, unit_vectors
from bertfeat.errors import DatabaseError, UsageError, errors_within, parameter, pluralize, shorten
from bertfeat.io import prefetched
from bertfeat.search.building.feature_source import FeatureSource, describe_source_set
from bertfeat.search.building.listing import DocumentList
from bertfeat.search.document_store import SOURCE
from bertfeat.search.vectors.metric import Metric
from bertfeat.search.vectors.vector_blocks import VectorBlock, prepare_vectors

_PIECE_FIELDS = {
    "position": pa.int32(),
    "string": pa.large_string(),
    "start": pa.int32(),
    "end": pa.int32(),
    "segment": pa.int8(),
}
"""The fields that are stored for a token, word or span, besides the id and kept columns of its document."""


_CONTENT_VERSION = 8  # of a UUID whose bits are its maker's own (RFC 9562, section 5.8)


@dataclass(frozen=True, slots=True)
class RowBlock:
    """A block of consecutive rows."""

    start: int  # number of the first one
    vectors: NDArray[np.float32]  # [n, W] of length 1; zero vectors stay zero
    keys: pa.Array  # [n] UUIDs; none where only vectors were asked for
    columns: pa.Table  # n rows; no columns where only vectors were asked for

    def __len__(self) -> int:
        return len(self.vectors)

    def rows(self, chosen: NDArray[np.bool_]) -> "RowBlock":
        """The rows that a mask ``[n]`` chooses."""
        mask = pa.array(chosen)
        return RowBlock(self.start, self.vectors[chosen], self.keys.filter(mask), self.columns.filter(mask))


@dataclass(frozen=True, slots=True)
class RowChange:
    """The difference between a database and a feature column."""

    missing: NDArray[np.bool_]  # a mask of the rows of the column that the database does not have
    gone: pa.Array  # keys of the database's rows that the column does not have

    @property
    def is_empty(self) -> bool:
        """Whether the database has the rows of the column, and no others."""
        return not self.missing.any() and not len(self.gone)


class DatabaseRows:
    """One column of a feature set, or spans of it, which can be read from the beginning any number of times."""

    def __init__(self, features: FeatureSet, column: str | None, spans: SpanRule | None = None) -> None:
        self.folder, self.documents = features.folder, len(features)
        self._source = FeatureSource([features], column, spans, keep_text=True)
        self.contents, self.width = describe_vectors(self._source.column.name, spans), self._source.width
        stored = pa.schema([field for field in self._source.schema if field.name not in ("row", SOURCE)])
        has_pairs = spans is None and "pair" in features.names
        self.schema = stored if self._source.per_document else _piece_schema(stored, has_pairs=has_pairs)
        self.zero_vectors = 0  # this and the next are known once all blocks with columns were read
        self.skipped = 0  # tokens, words and spans without a vector of their own
        if not self._source.count:
            raise UsageError(f"there are no vectors of {self.contents} in it", where=self.folder)
        self.count = self._source.count
        self._repeated_ids = _find_repeated(DocumentList.of_set(features).ids)
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
        """All rows; without ``columns`` the vectors alone.

        Raises:
            DatabaseError: other vectors come than were counted, for the feature set is being changed.
        """
        start = document = zero = 0
        repeated: Counter[str] = Counter()
        with closing(prefetched(self._source.blocks(documents=columns, rows=1), join=True)) as blocks:
            for block in blocks:
                with errors_within(self.folder):
                    # a check only, hence IP: for cosine it would scale the vectors too, and load FAISS for that
                    zero += int(prepare_vectors(Metric.IP, block.vectors, start).sum())
                documents = pa.concat_tables(block.documents) if columns else pa.table({})
                owners = None if block.pieces is None else block.pieces.document - document
                table = self._columns(block, documents, owners) if columns else documents
                nth = self._occurrences(documents, owners, repeated) if columns else np.empty(0, np.int64)
                keys = pa.array(map(_content_key, nth.tolist(), table.to_pylist(), block.vectors), pa.string())
                yield RowBlock(start, unit_vectors(block.vectors), keys, table)
                start += len(block.vectors)
                document += len(documents)
        if start != self.count:
            raise DatabaseError(
                f"{self.count:,} vectors were announced, but {start:,} came: the features are being changed",
                where=self.folder,
                remedy="export them when that is over",
            )
        if columns:
            self.zero_vectors, self.skipped = zero, self._source.skipped

    def compare(self, blocks: Iterable[RowBlock], present: pa.Array) -> RowChange:
        """Compare all blocks, read with their columns, with the keys of the rows that a database has."""
        keys = pa.chunked_array([block.keys for block in blocks], pa.string())
        missing = pc.invert(pc.is_in(keys, value_set=present)).to_numpy()
        return RowChange(missing, present.filter(pc.invert(pc.is_in(present, value_set=keys))))

    def refuse_others(self, recorded: object, where: str) -> None:
        """Refuse to update a database whose record ``recorded`` tells of other vectors than these."""
        origin = recorded if isinstance(recorded, dict) else {}
        if all(origin.get(name) == self.origin[name] for name in ("column", "width", "model_fingerprint")):
            return
        theirs = f"of {origin.get('column')} by {origin.get('model')}" if origin else "of no export"
        raise DatabaseError(
            f"it has vectors {theirs}, and these are of {self.contents} by {self.origin['model']}",
            where=where,
            remedy=f"name another one or replace it ({parameter('overwrite', True)})",
        )

    def _occurrences(
        self, documents: pa.Table, owners: NDArray[np.integer] | None, seen: Counter[str]
    ) -> NDArray[np.int64]:
        """How many documents with the same id come before that of each row of a block, ``[n]``."""
        found = np.zeros(len(documents), np.int64)
        if self._repeated_ids:
            for at, name in enumerate(documents["id"].to_pylist()):
                if name in self._repeated_ids:
                    found[at] = seen[name]
                    seen[name] += 1
        return found if owners is None else found[owners]

    def _columns(self, block: VectorBlock, documents: pa.Table, owners: NDArray[np.integer] | None) -> pa.Table:
        """The columns of the rows of a block, whose documents are those numbers in a table, ``[n]``."""
        if block.pieces is None or owners is None:
            return documents.select(self.schema.names).cast(self.schema)
        columns = {
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


def _find_repeated(ids: pa.Array) -> frozenset[str]:
    counted = ids.value_counts()
    return frozenset(counted.field("values").filter(pc.greater(counted.field("counts"), 1)).to_pylist())


def _content_key(occurrence: int, row: dict[str, object], vector: NDArray[np.float32]) -> str:
    """The key of a row: a UUID made of its content, as it is stored in the feature set."""
    content = json.dumps([occurrence, row], ensure_ascii=False, default=str).encode()
    digest = blake2b(content, digest_size=16)
    digest.update(vector.tobytes())
    number = int.from_bytes(digest.digest(), "big")
    number = number & ~(0xF << 76) | _CONTENT_VERSION << 76
    return str(UUID(int=number & ~(3 << 62) | 2 << 62))  # the variant


def number_keys(keys: Iterable[str]) -> NDArray[np.int64]:
    """Numbers that tell keys apart, by their last 48 bits: enough among the few rows whose recall is measured."""
    return np.array([int(key[-12:], 16) for key in keys], np.int64)


def refuse_foreign_keys(keys: Iterable[str | None], where: str) -> None:
    """Refuse to update a database that has rows with other keys than an export writes."""
    foreign = [key for key in keys if not _is_content_key(key)]
    if foreign:
        first = "without a key" if foreign[0] is None else f"such as {shorten(foreign[0])!r}"
        raise DatabaseError(
            f"it has {pluralize(len(foreign), 'row')} that no export wrote ({first}), which an update would remove",
            where=where,
            remedy=f"take them out of it, name another one or replace it ({parameter('overwrite', True)})",
        )


def _is_content_key(key: str | None) -> bool:
    try:
        return key is not None and UUID(key).version == _CONTENT_VERSION
    except ValueError:
        return False


def _piece_schema(stored: pa.Schema, *, has_pairs: bool) -> pa.Schema:
    """The columns of rows of tokens, words or spans; ``stored`` are those of documents."""
    left_out = set() if has_pairs else {"segment"}
    left_out |= {"string"} if "text" not in stored.names else set()
    own = [pa.field(name, kind) for name, kind in _PIECE_FIELDS.items() if name not in left_out]
    # the text of a document, repeated for each of its words, would take its length squared
    kept = [field for field in stored if field.name not in ("id", "text", "pair")]
    refuse_kept_names({field.name for field in kept} & set(_PIECE_FIELDS))
    return pa.schema([stored.field("id"), *own, *kept])


def refuse_kept_names(taken: set[str]) -> None:
    """Refuse kept columns whose names the database needs."""
    if taken:
        raise UsageError(
            f"the kept column {min(taken)!r} has the name of a column that is written",
            remedy=f"leave it out of {parameter('keep')} or rename it, and extract again",
        )

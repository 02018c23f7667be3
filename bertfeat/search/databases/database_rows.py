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


_CONTENT_KEY = "^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"
"""A UUID of version 8, whose bits are its maker's own (RFC 9562, section 5.8)."""

_as_json = json.JSONEncoder(ensure_ascii=False, default=str).encode


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

    @classmethod
    def between(cls, blocks: Iterable[RowBlock], present: pa.Array) -> "RowChange":
        """The difference between all blocks, read with their columns, and the keys of the rows that a database has."""
        keys = pa.chunked_array([block.keys for block in blocks], pa.string())
        missing = pc.invert(pc.is_in(keys, value_set=present)).to_numpy()
        return cls(missing, present.filter(pc.invert(pc.is_in(present, value_set=keys))))

    @property
    def is_empty(self) -> bool:
        """Whether the database has the rows of the column, and no others."""
        return not self.missing.any() and not len(self.gone)


_NOTHING = (pa.array([], pa.string()), pa.table({}))  # the keys and columns of a block of vectors alone


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
                keys, table = self._keyed(block, document, repeated) if columns else _NOTHING
                yield RowBlock(start, unit_vectors(block.vectors), keys, table)
                start += len(block.vectors)
                document += sum(map(len, block.documents))
        if start != self.count:
            raise DatabaseError(
                f"{self.count:,} vectors were announced, but {start:,} came: the features are being changed",
                where=self.folder,
                remedy="export them when that is over",
            )
        if columns:
            self.zero_vectors, self.skipped = zero, self._source.skipped

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

    def _keyed(self, block: VectorBlock, first_document: int, seen: Counter[str]) -> tuple[pa.Array, pa.Table]:
        """The keys and columns of the rows of a block, whose documents are counted from that number on."""
        documents = pa.concat_tables(block.documents)
        owners = None if block.pieces is None else block.pieces.document - first_document
        table = self._columns(block, documents, owners)
        keys = _content_keys(table, self._occurrences(documents, owners, seen), block.vectors)
        return pa.array(keys, pa.string()), table

    def _occurrences(
        self, documents: pa.Table, owners: NDArray[np.integer] | None, seen: Counter[str]
    ) -> NDArray[np.int64]:
        """The number of documents with the same id before that of each row of a block, ``[n]``."""
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


def _content_keys(rows: pa.Table, occurrences: NDArray[np.int64], vectors: NDArray[np.float32]) -> Iterator[str]:
    """The keys of some rows: UUIDs made of their contents, the vectors as they are stored in the feature set."""
    named = blake2b(_as_json(rows.column_names).encode(), digest_size=16)
    contents = zip(occurrences.tolist(), *(column.to_pylist() for column in rows.columns), strict=True)
    for content, vector in zip(contents, vectors, strict=True):
        digest = named.copy()
        digest.update(_as_json(content).encode())
        digest.update(vector.tobytes())
        found = digest.hexdigest()
        variant = "89ab"[int(found[16], 16) % 4]
        yield f"{found[:8]}-{found[8:12]}-8{found[13:16]}-{variant}{found[17:20]}-{found[20:]}"


def number_keys(keys: Iterable[str]) -> NDArray[np.int64]:
    """Numbers that tell keys apart, by their last 48 bits: enough among the few rows whose recall is measured."""
    return np.array([int(key[-12:], 16) for key in keys], np.int64)


def refuse_foreign_keys(keys: pa.Array, where: str) -> None:
    """Refuse to update a database that has rows with other keys than an export writes."""
    own = pc.fill_null(pc.match_substring_regex(keys, _CONTENT_KEY), fill_value=False)
    foreign = keys.filter(pc.invert(own))
    if len(foreign):
        first = "without a key" if foreign[0].as_py() is None else f"such as {shorten(foreign[0].as_py())!r}"
        raise DatabaseError(
            f"it has {pluralize(len(foreign), 'row')} that no export wrote ({first}), which an update would remove",
            where=where,
            remedy=f"take them out of it, name another one or replace it ({parameter('overwrite', True)})",
        )


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

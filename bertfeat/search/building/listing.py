"""The documents of feature sets and of an index by row, id and text: which of one id is taken, which are in both.

Shapes: n documents of a list.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bertfeat.core import FeatureSet, FeatureSettings, SpanRule
from bertfeat.search.document_store import DIGEST, DIGEST_BYTES, read_digests
from bertfeat.search.vector_index import VectorIndex

_READ_ROWS = 65_536
_KEY = np.dtype(f"S{DIGEST_BYTES}")


@dataclass(frozen=True, slots=True)
class DocumentList:
    """The documents of a feature set, or those of an index that are from it."""

    rows: NDArray[np.int64]  # [n] in the corpus
    ids: pa.Array  # [n] large_string
    text_ids: pa.Array  # [n] large_string, of the texts that they were split off; else their own

    @classmethod
    def of_set(cls, features: FeatureSet) -> "DocumentList":
        """All documents of a feature set."""
        settings = features.header.settings
        return cls._of_batches(features.stream(_listed_columns(settings), batch_rows=_READ_ROWS), settings)

    @classmethod
    def of_index(cls, index: VectorIndex) -> "DocumentList":
        """All documents of an index, tombstones too."""
        settings = index.settings.extraction
        return cls._of_batches(index.documents.batches(_listed_columns(settings)), settings)

    @classmethod
    def _of_batches(cls, batches: Iterable[pa.RecordBatch], settings: FeatureSettings) -> "DocumentList":
        read = list(batches)
        rows = np.concatenate([np.empty(0, np.int64), *(batch["row"].to_numpy() for batch in read)])
        ids = _join_strings(batch["id"] for batch in read)
        text_ids = ids if settings.split is None else _join_strings(batch[settings.text_ids] for batch in read)
        return cls(rows, ids, text_ids)

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, numbers: NDArray[np.integer]) -> "DocumentList":
        """The documents of those numbers in the list."""
        places = pa.array(numbers)
        ids = self.ids.take(places)
        return DocumentList(self.rows[numbers], ids, self.text_ids.take(places) if self.are_spans else ids)

    @property
    def are_spans(self) -> bool:
        """Whether they were split off texts, whose ids are others."""
        return self.text_ids is not self.ids

    def with_ids(self, ids: pa.Array) -> NDArray[np.bool_]:
        """A mask of the documents that have one of these ids, or are of a text that has."""
        of_texts = self.of_texts(ids)
        return of_texts | pc.is_in(self.ids, value_set=ids).to_numpy(False) if self.are_spans else of_texts

    def of_texts(self, ids: pa.Array) -> NDArray[np.bool_]:
        """A mask of the documents that are of a text with one of these ids."""
        having: NDArray[np.bool_] = pc.is_in(self.text_ids, value_set=ids).to_numpy(False)
        return having

    @property
    def numbers_records(self) -> bool:
        """Whether the ids of the texts are merely the numbers of the records."""
        if not self.are_spans:
            return bool(pa.array(self.rows + 1).cast(self.ids.type) == self.ids)
        try:
            numbers = self.text_ids.cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid:
            return False
        steps, rows = np.diff(numbers, prepend=0), np.diff(self.rows, prepend=-1)  # a record has one row at least
        return bool(((steps >= 0) & (steps <= rows)).all())


def _listed_columns(settings: FeatureSettings) -> list[str]:
    """The columns of a list of documents."""
    return list(dict.fromkeys(["row", "id", settings.text_ids]))


def _join_strings(columns: Iterable[pa.Array]) -> pa.Array:
    """Columns of strings, one after the other."""
    strings = [column.cast(pa.large_string()) for column in columns]
    return pa.chunked_array(strings, pa.large_string()).combine_chunks()


def find_replaced(lists: Sequence[DocumentList]) -> list[NDArray[np.bool_]]:
    """Masks of the documents of each list whose texts have the id of one in a later list.

    Not in a later list whose ids are the numbers of its records: two corpora without ids both have a document 1.
    """
    found, later = [], pa.array([], pa.large_string())
    for documents in reversed(lists):
        found.append(documents.of_texts(later))
        if not documents.numbers_records:
            later = pc.unique(pa.concat_arrays([later, documents.text_ids]))
    return found[::-1]


def last_of_each_id(sets: Sequence[FeatureSet]) -> tuple[NDArray[np.int64] | None, ...]:
    """The rows of each set without documents that a later one has anew; None where these are all its rows."""
    if len(sets) == 1:
        return (None,)
    lists = [DocumentList.of_set(features) for features in sets]
    masks = find_replaced(lists)
    return tuple(each.rows[~mask] if mask.any() else None for each, mask in zip(lists, masks, strict=True))


def text_keys(features: FeatureSet, spans: SpanRule | None) -> NDArray[np.bytes_]:
    """Keys of 16 bytes for the documents of a set, ``[n]``; two are equal where the documents have equal vectors.

    They are zero where the set stores no texts.
    """
    listed = [] if spans is None or spans.kind != "column" else [spans.column]
    names = [name for name in (DIGEST, *listed) if name in features.names]
    batches = features.stream(["row", *names], batch_rows=_READ_ROWS)
    return join_keys(span_keys(read_digests(batch), [batch[name] for name in listed]) for batch in batches)


def join_keys(keys: Iterable[NDArray[np.bytes_]]) -> NDArray[np.bytes_]:
    """Keys, one array after the other."""
    return np.concatenate([np.empty(0, _KEY), *keys])


def span_keys(digests: NDArray[np.uint8], listed: Sequence[pa.Array]) -> NDArray[np.bytes_]:
    """The keys of documents by the digests of their texts, ``[n, 16]``, and the spans that kept columns list."""
    keys: NDArray[np.bytes_] = np.ascontiguousarray(digests).view(_KEY).reshape(len(digests))
    for column in listed:
        pairs = zip(keys.tolist(), column.to_pylist(), strict=True)
        joined = [key and blake2b(key + str(value).encode(), digest_size=DIGEST_BYTES).digest() for key, value in pairs]
        keys = np.array(joined, _KEY)
    return keys


def pair_equal(first: NDArray[np.bytes_], second: NDArray[np.bytes_]) -> NDArray[np.int64]:
    """For each key of ``second`` the place of an equal one in ``first``, each used once, or -1; zero equals nothing."""
    order, others = np.argsort(first, kind="stable"), np.argsort(second, kind="stable")
    sought, known = second[others], first[order]
    rank = np.arange(len(sought)) - np.searchsorted(sought, sought)  # among equal ones
    at = np.searchsorted(known, sought) + rank
    partner = np.full(len(second), -1)
    inside = np.flatnonzero(at < len(known))
    equal = inside[(known[at[inside]] == sought[inside]) & (sought[inside] != b"")]
    partner[others[equal]] = order[at[equal]]
    return partner

"""The comparison of an index with its feature sets: which documents stay, which go, and which rows are put in.

Shapes: D documents of the index, n documents of a set.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.core import FeatureSet
from bertfeat.errors import IndexFolderError, parameter
from bertfeat.ragged import lengths_of, offsets_of
from bertfeat.search.building.listing import DocumentList, find_replaced, join_keys, pair_equal, span_keys, text_keys
from bertfeat.search.document_store import SOURCE
from bertfeat.search.vector_index import VectorIndex


@dataclass(frozen=True, slots=True)
class IndexChange:
    """The difference between an index and what its feature sets are now."""

    gone: NDArray[np.bool_]  # [D] documents that go; tombstones are not among them
    places: NDArray[np.int64]  # [D] the place among all rows of ``stay`` of a document that stays; -1: none
    stay: tuple[NDArray[np.int64], ...]  # of each set the rows of documents whose vectors the index has, ascending
    new: tuple[NDArray[np.int64], ...]  # of each set the other rows, ascending
    kept: int  # documents of the index that stay, of sets that were not read too
    unknown: tuple[str, ...]  # ids to be removed that no document has

    @property
    def removed(self) -> int:
        """The number of documents that go."""
        return int(self.gone.sum())

    @property
    def is_empty(self) -> bool:
        """Whether no document goes or is put in."""
        return not self.removed and not sum(map(len, self.new))


def compare_with_sets(
    index: VectorIndex, sets: Sequence[FeatureSet], numbers: Sequence[int], remove: Collection[str] = ()
) -> IndexChange:
    """Compare an index with feature sets, which have those numbers among its sources; ``remove`` are ids to leave out.

    Texts are compared by their digests, so vectors are not read. Documents of other sets stay, but for those whose ids
    a later set has.
    """
    living = _living(index)
    own = DocumentList.of_index(index)
    source = index.documents.numbers(SOURCE)
    lists = {number: DocumentList.of_set(features) for features, number in zip(sets, numbers, strict=True)}
    unread = sorted(set(range(len(index.settings.sources))) - lists.keys())
    places = {number: np.flatnonzero(living & (source == number)) for number in unread}
    lists |= {number: own.part(places[number]) for number in unread}
    replaced = dict(zip(sorted(lists), find_replaced([lists[number] for number in sorted(lists)]), strict=True))
    listed = pa.array(_storable(remove), pa.large_string())
    left_out = {number: replaced[number] | lists[number].with_ids(listed) for number in lists}

    compared = np.flatnonzero(living & np.isin(source, numbers))
    keys = join_keys(
        text_keys(each, index.settings.span_rule)[~left_out[at]] for each, at in zip(sets, numbers, strict=True)
    )
    partner = pair_equal(_keys_of_index(index)[compared], keys)
    gone = np.zeros(len(own), bool)
    gone[compared] = True
    gone[compared[partner[partner >= 0]]] = False
    for number in unread:
        gone[places[number][left_out[number]]] = True
    at = np.full(len(own), -1)
    at[compared[partner[partner >= 0]]] = np.arange(np.count_nonzero(partner >= 0))

    rows = [lists[number].rows[~left_out[number]] for number in numbers]
    has_vector = np.split(partner >= 0, offsets_of(lengths_of(rows))[1:-1])
    return IndexChange(
        gone=gone,
        places=at,
        stay=tuple(each[known] for each, known in zip(rows, has_vector, strict=True)),
        new=tuple(each[~known] for each, known in zip(rows, has_vector, strict=True)),
        kept=int((living & ~gone).sum()),
        unknown=_ids_of_none(remove, [own.part(np.flatnonzero(living)), *(lists[number] for number in numbers)]),
    )


def find_ids(index: VectorIndex, ids: Collection[str]) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
    """A mask of the documents of an index with some ids, ``[D]``, and the ids that no document has."""
    living = _living(index)
    own = DocumentList.of_index(index)
    having = own.with_ids(pa.array(_storable(ids), pa.large_string())) & living
    return having, _ids_of_none(ids, [own.part(np.flatnonzero(living))])


def _living(index: VectorIndex) -> NDArray[np.bool_]:
    """The mask of the documents that are not tombstones."""
    removed = index.removed_documents
    return np.ones(index.settings.documents, bool) if removed is None else ~removed


def _keys_of_index(index: VectorIndex) -> NDArray[np.bytes_]:
    """The key of each document of an index, ``[D]``, as :func:`text_keys` gives them for a set."""
    spans = index.settings.span_rule
    if spans is None or spans.kind != "column":
        return span_keys(index.text_digests, [])
    start, keys = 0, []
    for batch in index.documents.batches([spans.column]):
        keys.append(span_keys(index.text_digests[start : start + len(batch)], batch.columns))
        start += len(batch)
    return join_keys(keys)


def _storable(ids: Collection[str]) -> list[str]:
    """The ids that a document can have: those without half surrogate pairs."""
    return [each for each in ids if each.isascii() or each == each.encode("utf-8", "replace").decode()]


def _ids_of_none(ids: Collection[str], lists: Sequence[DocumentList]) -> tuple[str, ...]:
    """The ids that no document of some lists has."""
    sought = pa.array(_storable(ids), pa.large_string())
    masked = [(each, pa.array(each.with_ids(sought))) for each in lists]
    found = {
        name
        for each, mask in masked
        for column in (each.ids, each.text_ids)
        for name in column.filter(mask).to_pylist()
    }
    return tuple(name for name in dict.fromkeys(ids) if name not in found)


def refuse_numbers_as_ids(index: VectorIndex, features: FeatureSet) -> None:
    """Refuse a set, new to the index, whose ids are the numbers of its records, if the index has some of these ids.

    Raises:
        IndexFolderError: it is such a set.
    """
    new = DocumentList.of_set(features)
    if not new.numbers_records:
        return
    own = DocumentList.of_index(index)
    if number := int((own.of_texts(new.text_ids) & _living(index)).sum()):
        raise IndexFolderError(
            f"its ids are the numbers of its records, and those of {number:,} other documents in the index",
            where=features.folder,
            remedy=f"extract it with ids of its own ({parameter('id_column')}), build one index over both sets, or "
            "remove what it is to replace first",
        )

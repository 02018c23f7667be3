"""Updates of an index: documents are appended, replaced by those of the same id, and removed."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bertfeat.arguments import checked
from bertfeat.core import FeatureSet, FeatureSets, find_incomparability, open_feature_sets
from bertfeat.display import displayed
from bertfeat.errors import IndexFolderError, parameter
from bertfeat.io import Address
from bertfeat.progress import OnStep, ProgressOption, StepProgress, telling
from bertfeat.search.building.feature_source import (
    FeatureSource,
    merge_sources,
    numbers_records,
)
from bertfeat.search.building.filling import check_complete, fill_index, kept_blocks
from bertfeat.search.building.token_writer import KeptTokensWriter, check_token_sets
from bertfeat.search.document_store import IndexStoresWriter, document_schema
from bertfeat.search.settings import ENCODING_NAME, FAISS_NAME, REMOVED_NAME, IndexSettings, StoredTokens
from bertfeat.search.vector_index import VectorIndex
from bertfeat.search.vectors.faiss_import import FaissIndex
from bertfeat.search.vectors.faiss_index import can_remove, has_lists_on_disk, remove_vectors, write_faiss_index
from bertfeat.search.vectors.lists_on_disk import DiskListsBuilder
from bertfeat.search.versions import HeldFolder, hold_index_folder

_RECONSTRUCTED = 16_384  # vectors at once, to count the zero vectors among them


@displayed
@dataclass(frozen=True, slots=True)
class UpdateReport:
    """The result of an update: the new settings, and the numbers of documents added and removed."""

    settings: IndexSettings
    added: int
    removed: int  # replaced ones among them
    unknown: tuple[str, ...] = ()  # ids to be removed that are not in the index


@checked
def append_features(
    features: FeatureSets,
    folder: str | Path | Address,
    *,
    remove: Collection[str] = (),
    progress: ProgressOption[StepProgress] = None,
) -> UpdateReport:
    """Append feature sets to an index; a document with the same id as a new one is replaced.

    The documents with the ids in ``remove`` go in the same new version, so that no reader sees one without the other.
    A set that is new to the index, and whose ids are merely the numbers of its records, must not share an id with the
    index: two corpora without ids both have a document 1. The type of the index and its tuning stay. Index types that
    cannot remove vectors keep replaced ones as tombstones.

    Raises:
        IndexFolderError: the features come from another model, recipe or width, or other settings, than the index; or
            a new set without ids of its own shares some with the index.
        FeatureSetError: a set holds no texts that could be cut into the index's spans.
        FolderLockedError: another run is at work on the folder.
        StorageError: the folder cannot be written.
    """
    with hold_index_folder(folder) as held:
        index = VectorIndex(held.folder, in_memory=True)
        sets = open_feature_sets(features)
        sources, numbers = merge_sources(index.settings.sources, sets)
        source = FeatureSource(
            sets,
            index.settings.column.name,
            index.settings.span_rule,
            index.encoding,
            keep_text=index.settings.has_text,
            source_numbers=numbers,
        )
        _check_comparable(index, source)
        if (tokens := index.settings.tokens) is not None:
            check_token_sets(sets, tokens.column, tokens.pooled, index.settings.model, index.settings.extraction)
        removed, unknown = _find_ids(index, remove)
        replaced = _with_ids(index, _stored_ids(sets)) | removed
        for features, number in zip(sets, numbers, strict=True):
            if number >= len(index.settings.sources):
                _refuse_numbers_as_ids(index, features)
        with held.new_version() as fresh:
            remaining = _RemainingIndex(index, replaced)
            source.first_document = remaining.documents
            schema = document_schema([(index.folder, index.documents.schema), *source.schemas])
            with (
                IndexStoresWriter(fresh, schema, per_document=source.per_document) as stores,
                telling(progress) as tell,
            ):
                remaining.copy(stores)
                grown, zero = _extend_index(remaining.faiss_index, source, index.settings, stores, fresh, tell)
            settings = replace(
                remaining.settings(fresh, added=source.count),
                sources=sources,
                skipped=index.settings.skipped + source.skipped,
                tokens=remaining.copy_tokens(fresh, source),
            )
            finished = _finish_update(held, settings, grown, stores, zero, fresh)
            return UpdateReport(finished, source.documents, int(replaced.sum()), unknown)


@checked
def remove_documents(folder: str | Path | Address, ids: Collection[str]) -> UpdateReport:
    """Remove the documents with the given ids from an index; types that cannot remove vectors keep tombstones.

    Raises:
        IndexFolderError: the folder is not an intact index.
        FolderLockedError: another run is at work on the folder.
        StorageError: the folder cannot be written.
    """
    with hold_index_folder(folder) as held:
        index = VectorIndex(held.folder, in_memory=True)
        removed, unknown = _find_ids(index, ids)
        if not removed.any():
            return UpdateReport(index.settings, 0, 0, unknown)
        with held.new_version() as fresh:
            remaining = _RemainingIndex(index, removed)
            with IndexStoresWriter(fresh, index.documents.schema, per_document=index.pieces is None) as stores:
                remaining.copy(stores)
            grown = remaining.faiss_index
            if has_lists_on_disk(grown):
                grown = DiskListsBuilder(grown, fresh, None).merged()
            changed = replace(remaining.settings(fresh, added=0), tokens=remaining.copy_tokens(fresh, None))
            settings = _finish_update(held, changed, grown, stores, 0, fresh)
            return UpdateReport(settings, 0, int(removed.sum()), unknown)


def _finish_update(
    held: HeldFolder, settings: IndexSettings, grown: FaissIndex, stores: IndexStoresWriter, zero: int, folder: Path
) -> IndexSettings:
    """Write the FAISS index, and publish the version, of an update that added ``zero`` zero vectors."""
    write_faiss_index(grown, folder / FAISS_NAME)
    settings = replace(
        settings,
        count=int(grown.ntotal),
        documents=stores.documents,
        zero_vectors=settings.zero_vectors + zero,
        updates=settings.updates + 1,
    )
    return held.publish(settings, folder)


class _RemainingIndex:
    """An index without its ``removed`` documents, a mask ``[D]``; changes the FAISS index in memory."""

    def __init__(self, index: VectorIndex, removed: NDArray[np.bool_]) -> None:
        self._index = index
        self.faiss_index = index.faiss_index
        vectors = removed if index.pieces is None else removed[index.owners]
        self._zero_vectors = index.settings.zero_vectors - _count_zero_vectors(index, vectors)
        self._removes = can_remove(self.faiss_index) and not index.settings.tombstones
        # a tombstone is a mark on a vector, so a document without one cannot be marked, and goes
        self._documents = ~removed if self._removes else ~removed | _have_vectors(index)
        self._vectors = ~vectors if self._removes else np.ones_like(vectors)
        self._tombstones = np.zeros_like(vectors) if index.removed is None else index.removed.copy()
        if self._removes:
            remove_vectors(self.faiss_index, vectors)
        else:
            self._tombstones |= vectors

    @property
    def documents(self) -> int:
        """The number of documents that the stores keep, including tombstones."""
        return int(self._documents.sum())

    def copy(self, stores: IndexStoresWriter) -> None:
        """Copy the remaining rows of the old stores to new ones."""
        stores.copy(self._index.documents, self._index.pieces, self._documents, self._vectors)

    def copy_tokens(self, folder: Path, source: FeatureSource | None) -> StoredTokens | None:
        """Write the token vectors of the remaining documents, and of new ones after them, where the index keeps any."""
        store = self._index.tokens
        if store is None:
            return None
        stored = store.stored
        with KeptTokensWriter(folder, stored.column, stored.pooled, with_strings=store.ids is not None) as writer:
            writer.copy(store, self._documents, ~self._tombstones)
            if source is not None:
                writer.add_sets(source.sets, source.replaced)
        return writer.stored

    def settings(self, folder: Path, *, added: int) -> IndexSettings:
        """The settings of the remaining index; writes its encoding, and its tombstones, also for ``added`` vectors."""
        if self._index.encoding is not None:
            self._index.encoding.write(folder / ENCODING_NAME)
        count = 0 if self._removes else int(self._tombstones.sum())
        if count:
            np.save(folder / REMOVED_NAME, np.concatenate([self._tombstones, np.zeros(added, bool)]))
        return replace(self._index.settings, tombstones=count, zero_vectors=self._zero_vectors)


def _extend_index(
    index: FaissIndex,
    source: FeatureSource,
    settings: IndexSettings,
    stores: IndexStoresWriter,
    folder: Path,
    progress: OnStep,
) -> tuple[FaissIndex, int]:
    """Add the vectors of a source; returns the index, and the number of zero vectors among those added."""
    before = int(index.ntotal)
    on_disk = DiskListsBuilder(index, folder, None) if has_lists_on_disk(index) else None

    def report(done: int) -> None:
        progress(StepProgress("add", done, source.count, "vectors"))

    zero = fill_index(on_disk or index, kept_blocks(source, stores.write), settings.preparation, report)
    index = on_disk.merged() if on_disk else index
    check_complete(index.ntotal, before + source.count)
    return index, 0 if settings.transform else zero  # whitening gives them a direction


def _check_comparable(index: VectorIndex, source: FeatureSource) -> None:
    """Check that the new vectors can be compared with those of the index."""
    settings, first = index.settings, source.sets[0]
    problem = find_incomparability(
        settings.model, settings.extraction, settings.column, first.header, source.column, source.spans
    )
    if problem:
        raise IndexFolderError(f"{first.folder} cannot be appended to {index.folder}: {problem}")


def _stored_ids(sets: Sequence[FeatureSet]) -> pa.Array:
    batches = [batch.column("id") for features in sets for batch in features.stream(["id"], batch_rows=65_536)]
    return pc.unique(pa.chunked_array(batches, pa.string()))


def _refuse_numbers_as_ids(index: VectorIndex, features: FeatureSet) -> None:
    """Refuse a set, new to the index, whose ids are the numbers of its records, if the index has some of these ids."""
    if not numbers_records(features):
        return
    if number := int(_with_ids(index, _stored_ids([features])).sum()):
        raise IndexFolderError(
            f"its ids are the numbers of its records, and those of {number:,} other documents in the index",
            where=features.folder,
            remedy=f"extract it with ids of its own ({parameter('id_column')}), build one index over both sets, or "
            "remove what it is to replace first",
        )


def _find_ids(index: VectorIndex, ids: Collection[str]) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
    """A mask of the documents with some ids, and the ids that no document has."""
    unique = list(dict.fromkeys(ids))
    storable = [id_ for id_ in unique if id_.isascii() or id_ == id_.encode("utf-8", "replace").decode()]
    having = _with_ids(index, pa.array(storable, pa.string()))
    known = set(index.documents.take(np.flatnonzero(having), ["id"])["id"].to_pylist())
    return having, tuple(id_ for id_ in unique if id_ not in known)


def _with_ids(index: VectorIndex, ids: pa.Array) -> NDArray[np.bool_]:
    """Return a mask of the documents that have one of the ids and are not tombstones yet."""
    ids = ids.cast(pa.large_string())
    matches = [pc.is_in(batch.column("id"), value_set=ids).to_numpy(False) for batch in index.documents.batches(["id"])]
    having: NDArray[np.bool_] = np.concatenate(matches) if matches else np.zeros(0, bool)
    removed = index.removed_documents
    return having if removed is None else having & ~removed


def _have_vectors(index: VectorIndex) -> NDArray[np.bool_]:
    """Return a mask of the documents that have a vector at least."""
    having = np.zeros(index.settings.documents, bool)
    having[index.owners] = True
    return having


def _count_zero_vectors(index: VectorIndex, vectors: NDArray[np.bool_]) -> int:
    """Count the zero vectors among the selected ones."""
    if not index.settings.zero_vectors:
        return 0
    numbers = np.flatnonzero(vectors)
    parts = (numbers[start : start + _RECONSTRUCTED] for start in range(0, len(numbers), _RECONSTRUCTED))
    return sum(int((~index.reconstruct(part).any(axis=1)).sum()) for part in parts)

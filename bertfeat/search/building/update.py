"""Updates of an index: it becomes what its feature sets are now, or loses documents, in one new version.

Shapes: D documents of the index, n vectors.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.arguments import checked
from bertfeat.core import FeatureSet, FeatureSets, find_incomparability, open_feature_sets
from bertfeat.display import displayed
from bertfeat.errors import FeatureSetError, IndexFolderError, UsageError, pluralize
from bertfeat.io import Address, as_location
from bertfeat.progress import OnStep, ProgressOption, StepProgress, telling
from bertfeat.search.building.feature_source import FeatureSource, find_other_units, merge_sources
from bertfeat.search.building.filling import check_complete, fill_index, kept_blocks
from bertfeat.search.building.index_change import IndexChange, compare_with_sets, find_ids, refuse_numbers_as_ids
from bertfeat.search.building.token_writer import KeptTokensWriter, check_token_sets
from bertfeat.search.document_store import (
    ArrowStore,
    ArrowStoreWriter,
    IndexStoresWriter,
    RenewedDocuments,
    document_schema,
)
from bertfeat.search.evaluation.recall import judge_again
from bertfeat.search.options import BuildOptions
from bertfeat.search.settings import (
    ENCODING_NAME,
    FAISS_NAME,
    REMOVED_NAME,
    RENEWED_NAME,
    IndexSettings,
    SourceSet,
    StoredTokens,
)
from bertfeat.search.vector_index import VectorIndex
from bertfeat.search.vectors.faiss_import import FaissIndex
from bertfeat.search.vectors.faiss_index import (
    can_remove,
    has_lists_on_disk,
    remove_vectors,
    set_search_parameter,
    write_faiss_index,
)
from bertfeat.search.vectors.index_types import IndexType, choose_index, clusters_named
from bertfeat.search.vectors.lists_on_disk import DiskListsBuilder
from bertfeat.search.versions import HeldFolder, hold_index_folder

_MORE_CLUSTERS = 4  # where an index would have so many times more, it has become 16 times as large
_RECONSTRUCTED = 16_384  # vectors at once, to count the zero vectors among them


@displayed
@dataclass(frozen=True, slots=True)
class UpdateReport:
    """The result of an update: the new settings, and the numbers of documents added, removed and kept."""

    settings: IndexSettings
    added: int
    removed: int  # changed ones among them
    kept: int
    unknown: tuple[str, ...] = ()  # ids to be removed that no document has

    @property
    def advice(self) -> str:
        """Advice to build the index again, where it has tombstones or has outgrown its type; else empty."""
        settings, living = self.settings, self.settings.count - self.settings.tombstones
        if settings.tombstones:
            return (
                f"an index of type {settings.factory} cannot remove: {settings.tombstones:,} vectors stay in it as "
                "tombstones, never found, until it is built again"
            )
        if settings.type != IndexType.AUTO or not living:
            return ""
        wanted = BuildOptions().target_recall if settings.evaluation is None else settings.evaluation.wanted
        choice = choose_index(settings.type, count=living, width=settings.stored_width, memory=None, recall=wanted)
        if choice.clusters <= _MORE_CLUSTERS * max(1, clusters_named(settings.factory)):
            return ""
        return f"built again it would be {choice.factory}, which answers sooner from {pluralize(living, 'vector')}"


@checked
def update_index(
    folder: str | Path | Address,
    features: FeatureSets | None = None,
    *,
    remove: Collection[str] = (),
    progress: ProgressOption[StepProgress] = None,
) -> UpdateReport:
    """Make an index what its feature sets are now, in one new version; only what has changed is put in or taken out.

    A document stays if its set still has its text: its row, id and kept columns become those of now. Without
    ``features`` all sets are read that the index records. Else only the given ones are: the documents of others stay as
    they are, and a set that the index does not know yet joins it. Of documents of one id the last set's is taken, as by
    :func:`bertfeat.build_index`; those with an id in ``remove`` are left out. A set without texts is put in anew as a
    whole.

    Type, metric, transform and tuning stay; after the number of vectors has doubled, the search parameter is tuned
    again. Recall is measured anew, on stored vectors, where the index keeps these whole. Index types that cannot remove
    vectors keep those of removed documents as tombstones.

    Raises:
        IndexFolderError: the features come from another model, recipe or width, or other settings, than the index; or
            a new set without ids of its own shares some with the index.
        FeatureSetError: a set is not there, or holds no texts that could be cut into the index's spans.
        FolderLockedError: another run is at work on the folder.
        StorageError: the folder cannot be written.
    """
    with hold_index_folder(folder) as held:
        index = VectorIndex(held.folder, in_memory=True)
        sets = _recorded_sets(index) if features is None else open_feature_sets(features)
        if not sets:
            raise UsageError("name at least one feature set, or none for all that the index records")
        sources, sets, numbers = _number_sets(index, sets)
        change = compare_with_sets(index, sets, numbers, remove)
        source = FeatureSource(
            sets,
            index.settings.column.name,
            index.settings.span_rule,
            index.encoding,
            keep_text=index.settings.has_text,
            source_numbers=numbers,
            rows=change.new,
        )
        _check_comparable(index, source)
        for one, number in zip(sets, numbers, strict=True):
            if number >= len(index.settings.sources):
                refuse_numbers_as_ids(index, one)
        if change.is_empty and sources == index.settings.sources:
            held.clear_room()
            return UpdateReport(index.settings, 0, 0, change.kept, change.unknown)
        with held.new_version() as fresh, telling(progress) as tell:
            settings = _write_update(held, index, source, change, sources, fresh, tell)
            return UpdateReport(settings, source.documents, change.removed, change.kept, change.unknown)


@checked
def remove_documents(folder: str | Path | Address, ids: Collection[str]) -> UpdateReport:
    """Remove the documents with the given ids from an index; types that cannot remove vectors keep tombstones.

    A later :func:`update_index` puts them in again, if their feature set still has them.

    Raises:
        IndexFolderError: the folder is not an intact index.
        FolderLockedError: another run is at work on the folder.
        StorageError: the folder cannot be written.
    """
    with hold_index_folder(folder) as held:
        index = VectorIndex(held.folder, in_memory=True)
        removed, unknown = find_ids(index, ids)
        kept = index.settings.documents - int(removed.sum())
        if (former := index.removed_documents) is not None:
            kept -= int(former.sum())
        if not removed.any():
            return UpdateReport(index.settings, 0, 0, kept, unknown)
        with held.new_version() as fresh:
            remaining = _RemainingIndex(index, removed)
            with IndexStoresWriter(fresh, index.documents.schema, per_document=index.pieces is None) as stores:
                remaining.copy(stores, None)
            grown = remaining.faiss_index
            if has_lists_on_disk(grown):
                grown = DiskListsBuilder(grown, fresh, None).merged()
            changed = replace(remaining.settings(fresh, added=0), tokens=remaining.copy_tokens(fresh, None))
            settings = _finish_update(held, changed, grown, stores, remaining.tombstones, 0, fresh)
            return UpdateReport(settings, 0, int(removed.sum()), kept, unknown)


def _recorded_sets(index: VectorIndex) -> list[FeatureSet]:
    """Open the feature sets that an index records."""
    sets = []
    for source in index.settings.sources:
        try:
            sets.append(FeatureSet(as_location(source.path)))
        except FeatureSetError as error:
            named = f"name the sets that are to be read: the documents of {source.path} then stay as they are"
            raise FeatureSetError(error.problem, where=error.where, remedy=named) from error
    return sets


def _number_sets(
    index: VectorIndex, sets: list[FeatureSet]
) -> tuple[tuple[SourceSet, ...], list[FeatureSet], list[int]]:
    """The sources that the index will have, and the given sets in their order, each once, with its number in them."""
    sources, numbers = merge_sources(index.settings.sources, sets)
    by_number = dict(zip(numbers, sets, strict=True))
    return sources, [by_number[number] for number in sorted(by_number)], sorted(by_number)


def _write_update(
    held: HeldFolder,
    index: VectorIndex,
    source: FeatureSource,
    change: IndexChange,
    sources: tuple[SourceSet, ...],
    fresh: Path,
    tell: OnStep,
) -> IndexSettings:
    """Write the new version of an index into its folder, and publish it."""
    remaining = _RemainingIndex(index, change.gone)
    source.first_document = remaining.documents
    schemas = [] if remaining.all_within(change.places >= 0) else [(index.folder, index.documents.schema)]
    schema = document_schema([*schemas, *source.schemas])
    renewed = _read_again(source, change, schema, fresh)
    with IndexStoresWriter(fresh, schema, per_document=source.per_document) as stores:
        remaining.copy(stores, renewed)
        grown, zero = _extend_index(remaining.faiss_index, source, index.settings, stores, fresh, tell)
    (fresh / RENEWED_NAME).unlink()
    settings = replace(
        remaining.settings(fresh, added=source.count),
        sources=sources,
        skipped=index.settings.skipped + source.skipped,
        tokens=remaining.copy_tokens(fresh, source),
    )
    return _finish_update(held, settings, grown, stores, remaining.tombstones, zero, fresh)


def _read_again(source: FeatureSource, change: IndexChange, schema: pa.Schema, folder: Path) -> RenewedDocuments:
    """Read the rows, ids, texts and kept columns of the documents that stay; they are put down in a file first.

    For in the index they have another order, and there may be more of them than memory holds.
    """
    path = folder / RENEWED_NAME
    with ArrowStoreWriter(path, schema) as file:
        for table in source.document_tables(change.stay):
            file.write(table)
    return RenewedDocuments(ArrowStore(path, schema, below={}, gaps=schema.names), change.places)


def _finish_update(
    held: HeldFolder,
    settings: IndexSettings,
    grown: FaissIndex,
    stores: IndexStoresWriter,
    tombstones: NDArray[np.bool_],
    zero: int,
    folder: Path,
) -> IndexSettings:
    """Measure recall, write the FAISS index, and publish the version, of an update that added ``zero`` zero vectors."""
    settings = replace(
        settings,
        count=int(grown.ntotal),
        documents=stores.documents,
        zero_vectors=settings.zero_vectors + zero,
        updates=settings.updates + 1,
    )
    settings = judge_again(grown, settings, tombstones)
    if settings.effort is not None:
        set_search_parameter(grown, settings.effort.value)
    write_faiss_index(grown, folder / FAISS_NAME)
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

    @property
    def tombstones(self) -> NDArray[np.bool_]:
        """The mask of the vectors that stay as tombstones, ``[n]``; empty where the type removes vectors."""
        return np.zeros(0, bool) if self._removes else self._tombstones

    def all_within(self, documents: NDArray[np.bool_]) -> bool:
        """Whether every document that the stores keep is true in a mask ``[D]``."""
        return bool(documents[self._documents].all())

    def copy(self, stores: IndexStoresWriter, renewed: RenewedDocuments | None) -> None:
        """Copy the remaining rows of the old stores to new ones, as they are now where they are renewed."""
        index = self._index
        stores.copy_documents(index.documents, index.text_digests, self._documents, renewed)
        if index.pieces is not None:
            stores.copy_pieces(index.pieces, self._vectors, self._documents)

    def copy_tokens(self, folder: Path, source: FeatureSource | None) -> StoredTokens | None:
        """Write the token vectors of the remaining documents, and of new ones after them, where the index keeps any."""
        store = self._index.tokens
        if store is None:
            return None
        stored = store.stored
        with KeptTokensWriter(folder, stored.column, stored.pooled, with_strings=store.ids is not None) as writer:
            writer.copy(store, self._documents, ~self._tombstones)
            if source is not None:
                writer.add_sets(source.sets, source.rows)
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
    """Check that the new vectors, and the tokens that are kept, can be compared with those of the index."""
    settings, first, tokens = index.settings, source.sets[0], index.settings.tokens
    problem = find_incomparability(
        settings.model, settings.extraction, settings.column, first.header, source.column, source.spans
    )
    if problem := problem or find_other_units(settings.extraction, first.header.settings):
        raise IndexFolderError(f"{first.folder} cannot be in {index.folder}: {problem}")
    if tokens is not None:
        check_token_sets(source.sets, tokens.column, tokens.pooled, settings.model, settings.extraction)


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

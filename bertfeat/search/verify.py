"""Verification of an index: every byte against its digest, what a search reads, and its feature sets."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bertfeat.arguments import checked
from bertfeat.core import FeatureSet
from bertfeat.display import displayed
from bertfeat.errors import BertfeatError, IndexFolderError, StorageError, UsageError
from bertfeat.io import Address, Location, ResultKind, as_location, result_kind
from bertfeat.search.building.feature_source import describe_source_set
from bertfeat.search.index_copy import index_on_disk
from bertfeat.search.index_files import check_files, read_current
from bertfeat.search.settings import IndexSettings, SourceSet
from bertfeat.search.vector_index import VectorIndex


@displayed
@dataclass(frozen=True, slots=True)
class IndexReport:
    """The report on a sound index: how much of it was read, and which of its feature sets have changed."""

    settings: IndexSettings
    files: int  # beside the record
    bytes: int
    documents: int
    vectors: int
    changed_sources: tuple[str, ...]  # feature sets that exist but changed; the error of one that is not sound
    update_command: str  # what brings it in step with its feature sets


@checked
def verify_index(folder: str | Path | Address) -> IndexReport:
    """Check every byte of an index against the digests in its record; then open it, and read all but its vectors.

    The digests come first, so nothing that was changed is handed to FAISS. For an index at an address, the copy on this
    machine that a search would open is checked.

    Raises:
        IndexFolderError: the first check that fails; or the folder is no index.
    """
    place = index_on_disk(folder)

    def read_all(settings: IndexSettings, version: Path) -> VectorIndex:
        check_files(version, settings, digest_up_to=1 << 62)
        return VectorIndex(place)

    index = read_current(place, read_all)
    for store in (index.documents, index.pieces):
        for _ in () if store is None else store.batches():
            pass  # reading checks the values of a batch
    settings, changed = index.settings, []
    try:
        for source, _ in _changed_sources(settings):
            changed.append(source.path)
    except BertfeatError as error:  # the folder is no sound feature set any more
        changed.append(str(error))
    return IndexReport(
        settings,
        files=len(settings.files),
        bytes=sum(file.bytes for file in settings.files.values()),
        documents=settings.documents,
        vectors=settings.count,
        changed_sources=tuple(changed),
        update_command=update_command(settings, as_location(folder)),
    )


def check_sources(settings: IndexSettings, folder: Location) -> None:
    """Check that the feature sets on this machine, where they still exist, are those that the index was made from."""
    for then, now in _changed_sources(settings, local=True):
        raise IndexFolderError(
            f"{then.path} changed since the index {folder} was made from it ({then.documents:,} documents "
            f"then, {now.documents:,} now)",
            remedy=f"bring it up to date: {update_command(settings, folder)}",
        )


def _changed_sources(settings: IndexSettings, *, local: bool = False) -> Iterator[tuple[SourceSet, SourceSet]]:
    """The feature sets that still exist but changed: the recorded one and the present one.

    With ``local`` those at addresses are left out. A folder that is no sound feature set any more raises its error.
    """
    for source in settings.sources:
        place = as_location(source.path)
        if not (local and isinstance(place, Address)) and _is_there(place):
            now = describe_source_set(FeatureSet(place))
            if now.digest != source.digest:
                yield source, now


def _is_there(place: Location) -> bool:
    """Whether the folder exists; one at an address that cannot be reached from here counts as missing."""
    if not isinstance(place, Address):
        return place.is_dir()
    try:
        return result_kind(place) is ResultKind.FEATURES
    except (StorageError, UsageError):  # no rights, no network, or no library for addresses
        return False


def update_command(settings: IndexSettings, folder: Location) -> str:
    """The command that brings an index in step with its feature sets: with all, or with those that are still there."""
    there = [source.path for source in settings.sources if _is_there(as_location(source.path))]
    named = there if len(there) < len(settings.sources) else []
    return shlex.join(["bertfeat", "index", *named, "-o", str(folder), "--update"])

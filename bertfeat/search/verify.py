"""Verification of an index: every byte against its digest, and what a search would read."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bertfeat.arguments import checked
from bertfeat.display import displayed
from bertfeat.errors import BertfeatError
from bertfeat.io import Address
from bertfeat.search.folder import check_files, read_current
from bertfeat.search.index_copy import index_on_disk
from bertfeat.search.settings import IndexSettings
from bertfeat.search.source_sets import changed_sources
from bertfeat.search.vector_index import VectorIndex


@displayed
@dataclass(frozen=True, slots=True)
class IndexReport:
    """A sound index, and how much of it was read."""

    settings: IndexSettings
    files: int  # beside the record
    bytes: int
    documents: int
    vectors: int
    changed_sources: tuple[str, ...]  # feature sets that exist, but changed


@checked
def verify_index(folder: str | Path | Address) -> IndexReport:
    """Check every byte of an index against the digests in its record; then open it, and read all that is no vector.

    The digests come first, so nothing that was changed is handed to FAISS. Of an index at an address, the copy on this
    machine is checked that a search would open.

    Raises:
        IndexFolderError: the first thing that does not hold; or it is no index.
    """
    place = index_on_disk(folder)

    def read_all(settings: IndexSettings, version: Path) -> VectorIndex:
        check_files(version, settings, digest_up_to=1 << 62)
        return VectorIndex(place)

    index = read_current(place, read_all)
    for store in (index.documents, index.pieces):
        for _ in () if store is None else store.batches():
            pass  # reading checks the values of a batch
    settings = index.settings
    return IndexReport(
        settings,
        files=len(settings.files),
        bytes=sum(file.bytes for file in settings.files.values()),
        documents=settings.documents,
        vectors=settings.count,
        changed_sources=tuple(_list_changed_sources(settings)),
    )


def _list_changed_sources(settings: IndexSettings) -> Iterator[str]:
    try:
        for source, _ in changed_sources(settings):
            yield source.path
    except BertfeatError as error:  # the folder is no sound feature set any more
        yield str(error)

"""The folder of an index as it is read: all files of one version, though a run may publish another one meanwhile.

The record names the subfolder of the current version, whose files are never changed (:mod:`.versions`). A reader opens
all of them at once, and begins again where the record was replaced meanwhile; what it has opened stays readable when
the version is removed. Files are open or mapped from then on, none is opened later.

Sizes are checked at every opening, digests of files up to 16 MiB as well (5 ms). The whole of a larger index, which a
search reads only in part, takes 0.4 s per 1.5 GB (a million vectors of 384 values) from memory and 1.8 s from disk:
that is left to :func:`bertfeat.search.verify_index`. FAISS checks what it reads, except the places of inverted lists in
a file of their own, so an ``index.faiss`` that has them is digested in any size. Arrow files are validated as they are
read (:mod:`.document_store`).
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from bertfeat.errors import BertfeatError, IndexFolderError
from bertfeat.io import Stamp, file_stamp
from bertfeat.search.settings import (
    FAISS_NAME,
    INDEX_FORMAT,
    LISTS_NAME,
    SETTINGS_NAME,
    IndexSettings,
    read_index_settings,
)

T = TypeVar("T")

DIGESTED_AT_OPENING = 16 << 20  # bytes
_MOST_TRIES = 100


def read_current(folder: Path, read: Callable[[IndexSettings, Path], T]) -> T:
    """Call ``read`` with the record of an index and the folder of its version, again if that is replaced meanwhile.

    Raises:
        IndexFolderError: there is no index, or ``read`` says so.
    """
    for _ in range(_MOST_TRIES):
        stamp = _record_stamp(folder)
        try:
            settings = read_index_settings(folder)
            result = read(settings, folder / settings.version)
            if _record_stamp(folder) == stamp:
                return result
        except (BertfeatError, OSError):
            if _record_stamp(folder) == stamp:
                raise
    raise IndexFolderError("other runs replace it without a pause", where=folder, remedy="try again when they are done")


def _record_stamp(folder: Path) -> Stamp | None:
    """The mark that tells the record from another one in its place; None where there is none."""
    try:
        return file_stamp(folder / SETTINGS_NAME)
    except OSError:  # of which reading the record tells
        return None


def check_files(version: Path, settings: IndexSettings, *, digest_up_to: int = DIGESTED_AT_OPENING) -> None:
    """Check the size of every file of a version, and the digest of those of up to that many bytes.

    Raises:
        IndexFolderError: a file is missing, of another size, changed, or no regular file.
    """
    unread = {name for name, file in settings.files.items() if file.bytes > digest_up_to}
    if LISTS_NAME in settings.files:
        unread.discard(FAISS_NAME)
    INDEX_FORMAT.check_files(version, settings.files, "this is not the index that was written", unread=unread)

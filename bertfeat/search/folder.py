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

import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import xxhash

from bertfeat.errors import BertfeatError, IndexFolderError
from bertfeat.io import Stamp, file_stamp, open_regular
from bertfeat.search.settings import (
    COPY_OR_REBUILD,
    FAISS_NAME,
    LISTS_NAME,
    REBUILD,
    SETTINGS_NAME,
    FileState,
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


def check_files(version: Path, settings: IndexSettings, *, digest_up_to: int = DIGESTED_AT_OPENING) -> int:
    """Check the size of every file of a version, and the digest of those of up to that many bytes.

    Returns:
        How many bytes they have together.

    Raises:
        IndexFolderError: a file is missing, of another size, changed, or no regular file.
    """
    for name, state in settings.files.items():
        path = version / name
        digested = state.bytes <= digest_up_to or (name == FAISS_NAME and LISTS_NAME in settings.files)
        try:
            size = _file_size(path)  # first, so that a huge file in its place is not read
            now = measure_file(path) if digested and size == state.bytes else replace(state, bytes=size)
        except FileNotFoundError as error:
            raise IndexFolderError(f"{path} is missing", remedy=COPY_OR_REBUILD) from error
        except OSError as error:
            raise IndexFolderError(f"{path} cannot be read ({error.strerror or error})", remedy=REBUILD) from error
        if now.bytes != state.bytes:
            raise IndexFolderError(
                f"{path} has {now.bytes:,} bytes, but {state.bytes:,} were written: it was cut off or replaced",
                remedy=REBUILD,
            )
        if now != state:
            raise IndexFolderError(f"{path} was changed after it was written", remedy=REBUILD)
    return sum(state.bytes for state in settings.files.values())


def measure_file(path: Path) -> FileState:
    """The size and the digest of a file.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        return FileState(size, hashlib.file_digest(file, xxhash.xxh3_128).hexdigest())


def _file_size(path: Path) -> int:
    """The size of a regular file; it is not opened, because a pipe would block."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(f"not a regular file: {path}")
    return status.st_size

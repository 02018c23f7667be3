"""The folder of an index as it is read: all files from one index, though another may take its place meanwhile.

No file of an index is ever changed: an update builds a second folder and exchanges the two (:mod:`.replacement`). A
reader opens all files at once, then checks that the path still leads to the folder of the beginning, and begins again
where it does not. It holds that folder open meanwhile, so that no later one can get its inode. Open files stay readable
when the folder is removed. Two other ways were considered: to open files through the folder's handle, but FAISS takes
only a path, and ``/proc/self/fd`` is Linux's alone; and a digest over all files together, but it would have to be
computed at every opening.

Sizes are checked at every opening, digests of files up to 16 MiB as well (5 ms). The whole of a larger index, which a
search reads only in part, takes 0.4 s per 1.5 GB (a million vectors of 384 values) from memory and 1.8 s from disk:
that is left to :func:`bertfeat.search.verify_index`. FAISS checks what it reads, except the places of inverted lists in
a file of their own, so an ``index.faiss`` that has them is digested in any size. Arrow files are validated as they are
read (:mod:`.document_store`).
"""

import hashlib
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import xxhash

from bertfeat.errors import BertfeatError, IndexFolderError
from bertfeat.io import open_regular
from bertfeat.search.replacement import is_being_exchanged, recover_index
from bertfeat.search.settings import FAISS_NAME, LISTS_NAME, REBUILD, FileState, IndexSettings, no_index_error

T = TypeVar("T")

DIGESTED_AT_OPENING = 16 << 20  # bytes
PATIENCE = 5.0  # seconds for which a reader waits for a folder that is being exchanged
_PAUSE = 0.02
_MOST_TRIES = 100


def read_consistently(folder: Path, read: Callable[[Path], T]) -> T:
    """Call ``read``, again if need be, so that everything it read comes from one index.

    Raises:
        IndexFolderError: there is no index, or ``read`` says so.
        FolderLockedError: the index was moved away by a run that does not go on.
    """
    for _ in range(_MOST_TRIES):
        handle = _open_folder(folder)
        try:
            result = read(folder)
            if _is_at(folder, handle):
                return result
        except (BertfeatError, OSError):
            if _is_at(folder, handle):
                raise
        finally:
            os.close(handle)
    raise IndexFolderError("other runs replace it without a pause", where=folder, remedy="try again when they are done")


def check_files(folder: Path, settings: IndexSettings, *, digest_up_to: int = DIGESTED_AT_OPENING) -> int:
    """Check the size of every file, and the digest of those of up to that many bytes.

    Returns:
        How many bytes they have together.

    Raises:
        IndexFolderError: a file is missing, of another size, changed, or no regular file.
    """
    for name, state in settings.files.items():
        path = folder / name
        digested = state.bytes <= digest_up_to or (name == FAISS_NAME and LISTS_NAME in settings.files)
        try:
            now = measure_file(path, state) if digested else FileState(_file_size(path))
        except FileNotFoundError as error:
            raise IndexFolderError(f"{path} is missing", remedy=f"copy the whole folder, or {REBUILD}") from error
        except OSError as error:
            raise IndexFolderError(f"{path} cannot be read ({error.strerror or error})", remedy=REBUILD) from error
        if now.bytes != state.bytes:
            raise IndexFolderError(
                f"{path} has {now.bytes:,} bytes, but {state.bytes:,} were written: it was cut off or replaced",
                remedy=REBUILD,
            )
        if digested and now != state:
            raise IndexFolderError(f"{path} was changed after it was written", remedy=REBUILD)
    return sum(state.bytes for state in settings.files.values())


def measure_file(path: Path, like: FileState | None = None) -> FileState:
    """The size and the digest of a file, of the same kind as that of ``like`` (default: XXH3).

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    old = like is not None and like.xxh3 is None
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        digest = hashlib.file_digest(file, hashlib.sha256 if old else xxhash.xxh3_128).hexdigest()
    return FileState(size, sha256=digest) if old else FileState(size, xxh3=digest)


def _file_size(path: Path) -> int:
    """The size of a regular file; it is not opened, because a pipe would block."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(f"not a regular file: {path}")
    return status.st_size


def _open_folder(folder: Path) -> int:
    """A handle of the folder; waits while a run exchanges it, and puts back what a dead run moved away."""
    deadline, missing = time.monotonic() + PATIENCE, False
    while True:
        try:
            return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            if is_being_exchanged(folder):
                if not recover_index(folder, insist=time.monotonic() > deadline):
                    time.sleep(_PAUSE)
            elif missing:
                raise no_index_error(folder) from error
            missing = True  # try once more: the new one may have come between the two checks
        except NotADirectoryError as error:
            raise no_index_error(folder) from error
        except OSError as error:
            raise IndexFolderError(f"{folder} cannot be read: {error.strerror or error}") from error


def _is_at(folder: Path, handle: int) -> bool:
    """Whether the folder of the handle is still the one at that path."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(folder))
    except OSError:
        return False

"""Files that are written whole or not at all: temporary name, fsync, rename, fsync of the folder."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bertfeat.errors import StorageError, parameter

_REMEDIES = {
    errno.ENOSPC: "free some space, or move the folder to a larger disk",
    errno.EDQUOT: "free some space, or move the folder elsewhere",
    errno.EFBIG: "raise the limit on file sizes, or write smaller parts",
    errno.EROFS: "choose another folder",
    errno.EACCES: "change its permissions or choose another folder",
    errno.EPERM: "change its permissions or choose another folder",
    errno.ENOENT: "create it or choose another one",
    errno.ENOTDIR: "choose another folder",
    errno.EEXIST: "choose another folder",
    errno.EISDIR: "choose another name",
    errno.ELOOP: "remove the symbolic link or choose another folder",
    errno.ENAMETOOLONG: "choose a shorter name",
}

NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF)
"""The errors of ``flock`` where there are no locks; NFS gives EBADF for files open for reading only."""

_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; at the end of the block the file is on the disk under its final name.

    When the block fails, the temporary file is removed and ``path`` is as it was before.

    Raises:
        StorageError: the folder cannot be written, or ``path`` is a folder; the message names it and the remedy.
    """
    refuse_folder_path(path)
    temporary = path.with_name(f".{path.name}.tmp")
    with storage_errors(path.parent):
        # a file or link of that name was left by a run that was killed: nothing is written through a link
        temporary.unlink(missing_ok=True)
        try:
            yield temporary
            put_in_place(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def put_in_place(temporary: Path, path: Path, *, if_absent: bool = False) -> bool:
    """Sync a finished file to disk, and atomically rename it within its folder.

    With ``if_absent`` a file at ``path`` stays, and False is returned.
    """
    sync(temporary)
    if if_absent:
        if not _link_if_absent(temporary, path):
            return False
    else:
        os.replace(temporary, path)
    sync(path.parent)
    return True


def _link_if_absent(temporary: Path, path: Path) -> bool:
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # a file system without links: processes of this machine come one after the other
        handle = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            lock_file(handle)
            if os.path.lexists(path):
                return False
            os.replace(temporary, path)
        finally:
            os.close(handle)
    else:
        temporary.unlink()
    return True


def lock_file(handle: int) -> None:
    """Wait for the exclusive lock on an open file or folder; closing the handle releases it.

    Where the file system has no locks, do nothing.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise


@contextmanager
def storage_errors(folder: Path) -> Iterator[None]:
    """Turn the operating system's errors in the block into a :class:`StorageError` that names the remedy."""
    try:
        yield
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0, "check that the disk is sound and the folder can be written")
        if error.errno == errno.EFBIG:
            remedy += f" ({parameter('part_rows')})"
        what = os.strerror(error.errno) if error.errno else str(error)
        raise StorageError(f"cannot write to {folder}: {what}", remedy=f"{remedy}, then run it again") from error


def refuse_folder_path(path: Path) -> None:
    """Refuse a path that cannot name a file.

    Raises:
        StorageError: it is a folder, or no name at all.
    """
    if not path.name or path.is_dir():
        raise StorageError(f"{path} is a folder, and a file is to be written", remedy="name the file in it")


def remove_file(path: Path) -> None:
    """Remove a file, if it exists, and sync its folder."""
    with storage_errors(path.parent):
        try:
            path.unlink()
        except (FileNotFoundError, NotADirectoryError):
            return
        sync(path.parent)


def sync(path: Path) -> None:
    """Sync a file, or the names in a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

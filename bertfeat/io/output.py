"""Files and folders that are written whole or not at all: temporary name, fsync, rename, fsync of the folder.

An output that a user names is replaced in this way if it is a regular file; the content is copied into anything else,
such as a device or a pipe.
"""

import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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

_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)  # errors of hard links
_STANDARD = {"stdin": 0, "stdout": 1, "stderr": 2}
_FORMER = "former"  # in the temporary folder beside a folder: what the new one takes the place of
_MOST_LINKS = 40  # symbolic links that are followed, as on Linux


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
        # a killed run may have left a file or link of that name; nothing must be written through a link
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
        # a file system without hard links: the lock lets processes of this machine do it one after the other
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


# ── outputs that a user names ─────────────────────────────────────────────────────────────────────────────────


@contextmanager
def output_file(path: str | Path) -> Iterator[Path]:
    """Yield a path to write to; at the end of the block the output has the content.

    A regular file is replaced atomically by a finished one that is on the disk, and a link to it stays. A device, a
    pipe, and an open file of this process (``/dev/stdout``, ``/dev/fd/3``) get the content once it is complete, and
    are never replaced. When the block fails, the output is as it was before.

    Raises:
        StorageError: the output is a folder, or cannot be written.
    """
    target = output_target(path)
    if isinstance(target, int) or _is_special(target):
        with tempfile.TemporaryDirectory(prefix="bertfeat-") as folder:
            temporary = Path(folder) / (Path(path).name or "output")
            yield temporary
            _write_through(temporary, target, Path(path))
        return
    with storage_errors(target.parent):
        _remove_unfinished(target)
        refuse_folder_path(target)  # one may have gone back
        temporary, handle = _locked_sibling(target, _new_file)
        try:
            if target.exists():
                os.fchmod(handle, stat.S_IMODE(target.stat().st_mode))
            yield temporary
            put_in_place(temporary, target)
        finally:
            try:
                _remove_temporary(temporary, target)
            finally:
                os.close(handle)


@contextmanager
def output_folder(path: Path, check: Callable[[], None]) -> Iterator[Path]:
    """Yield a new folder to fill; at the end of the block it stands at ``path``, a link to which stays.

    ``check`` raises if what is there is not to be replaced; it is called before the block and, because another may
    have been faster, after it. When the block fails, what was there stays.

    Raises:
        StorageError: the folder cannot be written.
    """
    target = Path(os.path.realpath(path))
    with storage_errors(target.parent):
        _remove_unfinished(target)
        check()
        temporary, handle = _locked_sibling(target, _new_folder)
        new, former = temporary / "new", temporary / _FORMER
        try:
            new.mkdir()
            yield new
            for written in (*new.rglob("*"), new):
                sync(written)
            check()
            if target.exists():
                target.rename(former)
            new.rename(target)
            sync(target.parent)
        finally:
            try:
                _remove_temporary(temporary, target)
            finally:
                os.close(handle)


def check_output(path: str | Path, *, overwrite: bool = True) -> None:
    """Check that an output can be written there, before anything is computed for it.

    Raises:
        StorageError: it is a folder, or in a folder that is not there or cannot be written; or, without ``overwrite``,
            a file that is there already.
    """
    refuse_folder_path(Path(path))
    target = output_target(path)
    if isinstance(target, int) or _is_special(target):
        return
    if target.exists() and not overwrite:
        raise output_exists(path, "file")
    with storage_errors(target.parent):
        os.close(os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY))
        if not os.access(target.parent, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")


def output_target(path: str | Path) -> Path | int:
    """The file that an output path leads to through links, or the number of an open file of this process.

    Raises:
        StorageError: it is a folder, a link that leads in a circle, or the number of a file that is not open.
    """
    place = Path(path)
    for _ in range(_MOST_LINKS):
        if (handle := _own_handle(place)) is not None:
            with storage_errors(place):
                os.fstat(handle)
            return handle
        if not place.is_symlink():
            refuse_folder_path(place)
            return place
        place = place.parent / os.readlink(place)
    raise StorageError(f"{path} is a link that leads in a circle", remedy="remove it, or name another file")


def _own_handle(place: Path) -> int | None:
    """The number of the open file of this process that a path names; None for any other path."""
    folder = os.path.realpath(place.parent)
    if folder == "/dev":
        return _STANDARD.get(place.name)
    return int(place.name) if folder in (f"/proc/{os.getpid()}/fd", "/dev/fd") and place.name.isdecimal() else None


def is_special_output(path: str | Path) -> bool:
    """Whether an output is a device, a pipe or an open file of this process, which is never replaced."""
    target = output_target(path)
    return isinstance(target, int) or _is_special(target)


def _is_special(path: Path) -> bool:
    """Whether a path exists and is not a regular file, such as a device, a pipe or a socket."""
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def output_exists(path: str | Path, kind: str) -> StorageError:
    """The error of an output that is there already, and that nobody said to replace."""
    remedy = f"choose another name or overwrite it ({parameter('overwrite', True)})"
    return StorageError(f"this {kind} is there already", where=path, remedy=remedy)


def unfinished_outputs(target: Path) -> Iterator[Path]:
    """Files and folders that killed writers left beside an output, each locked while it is yielded; none in use."""
    pattern = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{8}}\.tmp")
    names = [name for name in os.listdir(target.parent) if pattern.fullmatch(name)]
    for path in map(target.parent.joinpath, names):
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield path
            finally:
                os.close(handle)


def _remove_unfinished(target: Path) -> None:
    """Remove what killed writers left beside an output."""
    for left in unfinished_outputs(target):
        _remove_temporary(left, target)


def _remove_temporary(temporary: Path, target: Path) -> None:
    """Remove a temporary file or folder; what was moved out of the way of one that did not come goes back first."""
    if not temporary.is_dir():
        temporary.unlink(missing_ok=True)
        return
    if (former := temporary / _FORMER).exists():
        former.rename(temporary / "old" if target.exists() else target)  # what is half removed never goes back
    shutil.rmtree(temporary, ignore_errors=True)


def _new_file(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)


def _new_folder(path: Path) -> int:
    while True:
        path.mkdir()
        with suppress(FileNotFoundError):  # another writer took it for an abandoned one
            return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _locked_sibling(target: Path, create: Callable[[Path], int]) -> tuple[Path, int]:
    """A new temporary file or folder beside an output, locked as long as its handle is open."""
    while True:
        temporary = unique_sibling(target)
        handle = create(temporary)
        lock_file(handle)
        if temporary.exists():  # else another writer took it for an abandoned one, before it was locked
            return temporary, handle
        os.close(handle)


def _write_through(temporary: Path, target: Path | int, path: Path) -> None:
    with storage_errors(path):
        if isinstance(target, int):
            for stream in (sys.stdout, sys.stderr):  # earlier prints must come before the content
                with suppress(AttributeError, ValueError):
                    stream.flush()
        handle = os.dup(target) if isinstance(target, int) else os.open(target, os.O_WRONLY | os.O_CLOEXEC)
        with open(handle, "wb") as file, temporary.open("rb") as content:
            shutil.copyfileobj(content, file, 1 << 20)


# ── what both are made of ─────────────────────────────────────────────────────────────────────────────────────


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


def lock_file(handle: int) -> None:
    """Wait for the exclusive lock on an open file or folder; closing the handle releases it.

    Where the file system has no locks, do nothing.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise


def unique_sibling(path: Path) -> Path:
    """A hidden path in the folder of a file, with a random name that no other writer uses."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")

"""Files that a user names for a result: regular files appear whole or not at all, anything else is written through."""

import fcntl
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bertfeat.errors import StorageError
from bertfeat.io.atomic import lock_file, put_in_place, refuse_folder_path, storage_errors
from bertfeat.io.storage.local import unique_sibling

_STANDARD = {"stdin": 0, "stdout": 1, "stderr": 2}
_MOST_LINKS = 40


@contextmanager
def output_file(path: str | Path) -> Iterator[Path]:
    """Yield a path to write to; at the end of the block the output has the content.

    A regular file is replaced at once, by a finished one that is on the disk, and a link keeps leading to it. A
    device, a pipe, and an open file of this process (``/dev/stdout``, ``/dev/fd/3``) get the content once it is
    complete, and are never replaced. When the block fails, the output is as it was before.

    Raises:
        StorageError: the output is a folder, or cannot be written.
    """
    target = output_target(path)
    if isinstance(target, int) or is_special(target):
        with tempfile.TemporaryDirectory(prefix="bertfeat-") as folder:
            temporary = Path(folder) / (Path(path).name or "output")
            yield temporary
            _write_through(temporary, target, Path(path))
        return
    with storage_errors(target.parent):
        for left in unfinished_outputs(target):
            left.unlink(missing_ok=True)
        temporary, handle = _locked_sibling(target)
        try:
            if target.exists():
                os.fchmod(handle, stat.S_IMODE(target.stat().st_mode))
            yield temporary
            put_in_place(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
            os.close(handle)


def output_target(path: str | Path) -> Path | int:
    """The file that an output stands for, behind links; or the number of an open file of this process.

    Raises:
        StorageError: it is a folder, a link that leads in a circle, or an open file of this process that there is not.
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


def is_special(path: Path) -> bool:
    """Whether a path is there and no regular file: a device, a pipe, a socket."""
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def replaces_nothing(path: str | Path) -> bool:
    """Whether writing an output loses nothing: there is no such file yet, or it is written through."""
    target = output_target(path)
    return isinstance(target, int) or is_special(target) or not target.exists()


def unfinished_outputs(target: Path) -> Iterator[Path]:
    """The temporary files that writers who were killed left beside a file; those in use are locked."""
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


def _locked_sibling(target: Path) -> tuple[Path, int]:
    """A new temporary file beside a file, locked as long as its handle is open."""
    while True:
        temporary = unique_sibling(target)
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        lock_file(handle)
        if temporary.exists():  # else another writer took it for an abandoned one, before it was locked
            return temporary, handle
        os.close(handle)


def _write_through(temporary: Path, target: Path | int, path: Path) -> None:
    with storage_errors(path):
        if isinstance(target, int):
            for stream in (sys.stdout, sys.stderr):  # what was printed before comes before
                with suppress(AttributeError, ValueError):
                    stream.flush()
        handle = os.dup(target) if isinstance(target, int) else os.open(target, os.O_WRONLY | os.O_CLOEXEC)
        with open(handle, "wb") as file, temporary.open("rb") as content:
            shutil.copyfileobj(content, file, 1 << 20)

"""The file system of this machine as a store; only regular files are opened.

Reading from a pipe in the place of a regular file could block forever.
"""

import filecmp
import os
import shutil
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from bertfeat.io.output import lock_file, put_in_place, remove_file, storage_errors, sync, unique_sibling
from bertfeat.io.storage.store import MOST_BYTES, Stamp, StoredFile

_ATTEMPTS = 5  # to write into a folder that others clear and remove


class LocalStore:
    """The file system of this machine; names are paths."""

    def open(self, name: str) -> BufferedReader:
        """Open a regular file."""
        return open_regular(Path(name))

    def read(self, name: str) -> bytes:
        """Read a regular file."""
        return read_regular(Path(name))

    def stamp(self, name: str) -> Stamp:
        """Size and time of change of a regular file."""
        status = os.stat(name)
        if not stat.S_ISREG(status.st_mode):
            raise FileNotFoundError(2, "not a regular file", name)
        return _status_stamp(status)

    def list(self, folder: str, prefix: str = "") -> Iterator[StoredFile]:
        """The files below a folder; none where there is no folder. Links to folders are not followed."""
        head, slash, start = prefix.rpartition("/")
        yield from _walk(os.path.join(folder, head) if head else folder, head + slash, start)

    def put(self, name: str, content: bytes | Path, *, if_absent: bool = False) -> Stamp | None:
        """Write a temporary file beside the place, sync it to disk, and rename it."""
        path = Path(name)
        temporary = unique_sibling(path)
        with storage_errors(path.parent):
            attempts = _ATTEMPTS
            while True:
                path.parent.mkdir(parents=True, exist_ok=True)
                try:
                    _write_content(temporary, content)
                    return self.take(temporary, path, if_absent=if_absent)
                except FileNotFoundError:  # another process has just cleared and removed the folder
                    attempts -= 1
                    if not attempts:
                        raise
                finally:
                    temporary.unlink(missing_ok=True)

    def take(self, temporary: Path, path: Path, *, if_absent: bool) -> Stamp | None:
        """Rename a finished temporary file of the same folder to ``path``; ``if_absent`` as in :meth:`put`."""
        if put_in_place(temporary, path, if_absent=if_absent) or _is_equal(temporary, path):
            return self.stamp(str(path))
        return None

    def replace(self, name: str, content: bytes, stamp: Stamp) -> Stamp | None:
        """Replace a file's content while holding a lock on it against others who do the same."""
        path = Path(name)
        with storage_errors(path.parent):
            try:
                # opened for writing, since NFS locks no other files
                handle = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            except (FileNotFoundError, NotADirectoryError):
                return None
            try:
                lock_file(handle)
                if self._stamp_if_there(name) == stamp == _status_stamp(os.fstat(handle)):
                    return self.put(name, content)
                there = self._stamp_if_there(name)
                return there if there and there.size == len(content) and path.read_bytes() == content else None
            finally:
                os.close(handle)

    def move(self, name: str, target: str) -> None:
        """Rename a file, and sync its new folder."""
        with storage_errors(Path(target).parent):
            os.replace(name, target)
            sync(Path(target).parent)

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        remove_file(Path(name))

    def _stamp_if_there(self, name: str) -> Stamp | None:
        try:
            return self.stamp(name)
        except FileNotFoundError:
            return None


def real_path(path: str | Path) -> Path:
    """The absolute path with all links resolved; if links lead in a circle, they are left in the path.

    ``Path.resolve`` raises an error in that case.
    """
    return Path(os.path.realpath(path))


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe is opened without waiting for a writer
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(f"not a regular file: {path}")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_regular(path: Path) -> bytes:
    """Read a whole regular file.

    Raises:
        OSError: it cannot be opened, is no regular file, or has more than :data:`MOST_BYTES` bytes.
    """
    with open_regular(path) as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(f"{path} has more than {MOST_BYTES:,} bytes, which is no file of this kind")
    return data


def _status_stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_size, f"{status.st_mtime_ns:x}-{status.st_ino:x}")


def _walk(folder: str, above: str, start: str = "") -> Iterator[StoredFile]:
    try:
        with os.scandir(folder) as scanned:
            entries = [entry for entry in scanned if entry.name.startswith(start)]
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path, f"{above}{entry.name}/")
            continue
        try:
            status = entry.stat()
        except FileNotFoundError:
            continue  # removed since, or a link that leads nowhere
        if stat.S_ISREG(status.st_mode):
            yield StoredFile(above + entry.name, _status_stamp(status))


def _write_content(path: Path, content: bytes | Path) -> None:
    with path.open("xb") as file:
        if isinstance(content, bytes):
            file.write(content)
        else:
            with content.open("rb") as source:
                shutil.copyfileobj(source, file, 1 << 20)


def _is_equal(one: Path, other: Path) -> bool:
    try:
        return filecmp.cmp(one, other, shallow=False)
    except OSError:  # the other one is removed by now, or no file
        return False

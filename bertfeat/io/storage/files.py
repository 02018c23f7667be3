"""Files on this machine or in object storage: find the store of each, and read, write, list or remove it."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from io import BufferedReader, IOBase
from pathlib import Path

from bertfeat.errors import errors_within, needed_library
from bertfeat.io.output import atomic, refuse_folder_path, storage_errors, unique_sibling
from bertfeat.io.storage.address import Address, Location
from bertfeat.io.storage.local import LocalStore
from bertfeat.io.storage.object_file import ObjectFile
from bertfeat.io.storage.store import Stamp, Store, StoredFile

_LOCAL = LocalStore()
_SETTINGS = ("AWS_", "AZURE_", "BERTFEAT_STORAGE_", "GOOGLE_")  # beginnings of environment variables of stores
_TEMPORARY = "bertfeat-upload-"  # beginning of the names of temporary files that are uploaded to object storage


def store_of(place: Location) -> tuple[Store, str]:
    """The store that a place belongs to, and the place's name in it."""
    if isinstance(place, Address):
        settings = tuple((name, value) for name, value in os.environ.items() if name.startswith(_SETTINGS))
        return _bucket(place.scheme, place.bucket, settings), place.key
    return _LOCAL, str(place)


@lru_cache(maxsize=64)
def _bucket(scheme: str, bucket: str, settings: tuple[tuple[str, str], ...]) -> Store:
    del settings  # only a key of the cache: a corrected credential in a notebook opens another store, without a restart
    with errors_within(f"{scheme}://{bucket}"), needed_library("object storage needs obstore", "bertfeat[cloud]"):
        from bertfeat.io.storage.bucket import Bucket  # here, because obstore is an extra
    return Bucket.open_bucket(scheme, bucket)


class NewFile:
    """A file that is being written."""

    def __init__(self, path: Path) -> None:
        self.path = path  # local path to write to
        self.stamp: Stamp | None = None  # set once it is in its place; stays None if a different file was there first


def open_file(place: Location) -> BufferedReader:
    """Open a file for reading; the stream can seek.

    The last 64 KiB of an object are fetched at once, with its size, and the rest by ranges as it is read.

    Raises:
        OSError: there is no such file, or it is not a regular one.
        StorageError: object storage that cannot be reached.
    """
    store, name = store_of(place)
    return store.open(name)


def file_identity(file: IOBase) -> tuple[object, ...]:
    """The identity of an open file, to detect a replacement: device, inode, size and time of change, or an e-tag."""
    raw = file.raw if isinstance(file, BufferedReader) else file
    if isinstance(raw, ObjectFile):
        return (raw.tag,)
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def read_file(place: Location) -> bytes:
    """Read a whole file, as :func:`open_file` opens it."""
    store, name = store_of(place)
    return store.read(name)


def file_stamp(place: Location) -> Stamp | None:
    """Size and tag of a file; None where there is no regular file."""
    store, name = store_of(place)
    try:
        return store.stamp(name)
    except (FileNotFoundError, NotADirectoryError):
        return None


def list_files(folder: Location, prefix: str = "") -> list[StoredFile]:
    """The files at any depth below a folder whose names, below it, begin with ``prefix``, sorted by name.

    ``prefix`` may contain slashes. Hidden files are listed too. For a missing folder, nothing is listed.

    Raises:
        OSError: a folder that cannot be read.
        StorageError: object storage that cannot be reached.
    """
    store, name = store_of(folder)
    return sorted(store.list(name, prefix), key=lambda file: file.name)


def put_file(place: Location, content: bytes | Path, *, if_absent: bool = False) -> Stamp | None:
    """Write a file, whole or not at all, and make its folder if need be; ``content`` is bytes or a local file to copy.

    Returns the file's stamp. With ``if_absent`` an existing file stays, and None is returned if its content differs.

    Raises:
        StorageError: the place cannot be written.
    """
    store, name = store_of(place)
    return store.put(name, content, if_absent=if_absent)


def replace_file(place: Location, content: bytes, stamp: Stamp) -> Stamp | None:
    """Replace a small file only if it still has that stamp, or already has this content; else return None.

    Raises:
        StorageError: the place cannot be written.
    """
    store, name = store_of(place)
    return store.replace(name, content, stamp)


def move_stored(place: Location, target: Location) -> None:
    """Move a file to another place of the same store; a file there is replaced.

    Raises:
        StorageError: it cannot be moved.
    """
    store, name = store_of(place)
    store.move(name, store_of(target)[1])


def remove_stored(place: Location) -> None:
    """Remove a file, if it exists.

    Raises:
        StorageError: it cannot be removed.
    """
    store, name = store_of(place)
    store.remove(name)


def remove_stored_folder(folder: Location) -> None:
    """Remove a folder with all files in it, if it exists.

    Raises:
        StorageError: a file cannot be removed.
    """
    for file in list_files(folder):
        remove_stored(folder / file.name)
    if isinstance(folder, Path):
        for above, _, _ in os.walk(folder, topdown=False):
            with suppress(OSError):  # another process has just written into it
                os.rmdir(above)


@contextmanager
def create_file(place: Location, *, if_absent: bool = False) -> Iterator[NewFile]:
    """Yield a local path to write to; at the end of the block the file is at its place, whole.

    With ``if_absent`` an existing file stays, and ``NewFile.stamp`` is None if its content differs. When the block
    fails, nothing is changed.

    Raises:
        StorageError: the place cannot be written.
    """
    if isinstance(place, Address):
        with _upload_file() as path:
            new = NewFile(path)
            yield new
            store, key = store_of(place)
            new.stamp = store.put(key, path, if_absent=if_absent)
    elif if_absent:
        refuse_folder_path(place)
        new = NewFile(unique_sibling(place))
        with storage_errors(place.parent):
            try:
                yield new
                new.stamp = LocalStore().take(new.path, place, if_absent=True)
            finally:
                new.path.unlink(missing_ok=True)
    else:
        with atomic(place) as path:
            new = NewFile(path)
            yield new
        new.stamp = file_stamp(place)


@contextmanager
def _upload_file() -> Iterator[Path]:
    """Yield a temporary file that is locked while it is used, so that files left by killed runs can be recognized."""
    folder = Path(tempfile.gettempdir())
    with storage_errors(folder):
        _remove_abandoned(folder)
        while True:
            handle, name = tempfile.mkstemp(prefix=_TEMPORARY, dir=folder)
            fcntl.flock(handle, fcntl.LOCK_EX)
            if os.path.exists(name):  # else another run removed it as abandoned before it was locked
                break
            os.close(handle)
        try:
            yield Path(name)
        finally:
            Path(name).unlink(missing_ok=True)
            os.close(handle)


def _remove_abandoned(folder: Path) -> None:
    for path in folder.glob(f"{_TEMPORARY}*"):
        with suppress(OSError):  # another user's, or one in use
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(handle)

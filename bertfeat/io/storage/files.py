"""Files at any place: the store that each belongs to; read, written whole or not at all, listed, removed."""

import fcntl
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from io import BufferedReader, IOBase
from itertools import islice
from pathlib import Path

from bertfeat.errors import errors_within, needed_library
from bertfeat.io.output import atomic, refuse_folder_path, storage_errors, unique_sibling
from bertfeat.io.storage.address import Address, Location
from bertfeat.io.storage.local import LocalStore
from bertfeat.io.storage.object_file import ObjectFile
from bertfeat.io.storage.store import Stamp, Store, StoredFile
from bertfeat.io.threads import ContextPool

_LOCAL = LocalStore()
_SETTINGS = ("AWS_", "AZURE_", "BERTFEAT_STORAGE_", "GOOGLE_")  # what variables that stores read begin with
_AT_ONCE = 16  # files that are opened at the same time
_TEMPORARY = "bertfeat-upload-"  # how names of files begin that are written to be brought to object storage


def store_of(place: Location) -> tuple[Store, str]:
    """The store that a place belongs to, and the place's name in it."""
    if isinstance(place, Address):
        settings = tuple((name, value) for name, value in os.environ.items() if name.startswith(_SETTINGS))
        return _bucket(place.scheme, place.bucket, settings), place.key
    return _LOCAL, str(place)


@lru_cache(maxsize=64)
def _bucket(scheme: str, bucket: str, settings: tuple[tuple[str, str], ...]) -> Store:
    del settings  # other ones make another store: who corrects a key in a notebook need not start anew
    with errors_within(f"{scheme}://{bucket}"), needed_library("object storage needs obstore", "bertfeat[cloud]"):
        from bertfeat.io.storage.bucket import Bucket  # here, because obstore is an extra
    return Bucket.open_bucket(scheme, bucket)


class NewFile:
    """A file that is being written."""

    def __init__(self, path: Path) -> None:
        self.path = path  # where to write it
        self.stamp: Stamp | None = None  # once it is in its place; None where another one was there first


def open_file(place: Location) -> BufferedReader:
    """Open a file for reading; it can be sought in.

    Of an object the last 64 KiB are fetched at once, with its size, and the rest by ranges as it is read.

    Raises:
        OSError: there is none, or it is no regular file.
        StorageError: object storage that cannot be reached.
    """
    store, name = store_of(place)
    return store.open(name)


def file_identity(file: IOBase) -> tuple[object, ...]:
    """Identify an open file among others in its place: by device, inode, size and time of change, or by an e-tag."""
    raw = file.raw if isinstance(file, BufferedReader) else file
    if isinstance(raw, ObjectFile):
        return (raw.tag,)
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def open_each(places: Iterable[Location]) -> Iterator[BufferedReader | None]:
    """Open files in their order, several ahead of the one that is asked for; None for each that there is not.

    For ends of files, such as the footers of Parquet: in object storage each is one request, and 16 are under way.

    Raises:
        OSError: one is no regular file.
        StorageError: object storage that cannot be reached.
    """
    rest = iter(places)
    with ContextPool(_AT_ONCE, "bertfeat-open") as pool:
        try:
            ahead = [pool.submit(_open_if_there, place) for place in islice(rest, _AT_ONCE)]
            while ahead:
                opened = ahead.pop(0).result()
                ahead += [pool.submit(_open_if_there, place) for place in islice(rest, 1)]
                yield opened
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _open_if_there(place: Location) -> BufferedReader | None:
    try:
        return open_file(place)
    except (FileNotFoundError, NotADirectoryError):
        return None


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

    ``prefix`` may contain slashes. Hidden files are listed too. Of a folder that there is not, nothing is listed.

    Raises:
        OSError: a folder that cannot be read.
        StorageError: object storage that cannot be reached.
    """
    store, name = store_of(folder)
    return sorted(store.list(name, prefix), key=lambda file: file.name)


def put_file(place: Location, content: bytes | Path, *, if_absent: bool = False) -> Stamp | None:
    """Write a file, whole or not at all, and its folder if need be; its content is given, or copied from a local file.

    With ``if_absent`` a file that is there stays, and None is returned if its content is another one.

    Raises:
        StorageError: the place cannot be written.
    """
    store, name = store_of(place)
    return store.put(name, content, if_absent=if_absent)


def replace_file(place: Location, content: bytes, stamp: Stamp) -> Stamp | None:
    """Write a small file only if the one that is there still has that stamp, or has this content already; else None.

    Raises:
        StorageError: the place cannot be written.
    """
    store, name = store_of(place)
    return store.replace(name, content, stamp)


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

    With ``if_absent`` a file that is there already stays, and ``NewFile.stamp`` is None if its content is another
    one. When the block fails, nothing is changed.

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
    """A temporary file. It is locked as long as it is used, so those that killed runs left are recognized."""
    folder = Path(tempfile.gettempdir())
    with storage_errors(folder):
        _remove_abandoned(folder)
        while True:
            handle, name = tempfile.mkstemp(prefix=_TEMPORARY, dir=folder)
            fcntl.flock(handle, fcntl.LOCK_EX)
            if os.path.exists(name):  # else another run took it for an abandoned one, before it was locked
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

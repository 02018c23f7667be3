"""Indexes at addresses: downloaded once into the user's cache folder, and opened from there.

FAISS and Arrow map files into memory, so they need them on this machine. A copy is named after the address and the
stamps of the index's files: as long as those stay, it is used again. ``BERTFEAT_CACHE`` says where; where it is empty,
copies last as long as the process.
"""

import atexit
import fcntl
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from bertfeat.errors import IndexFolderError
from bertfeat.io import (
    Address,
    Stamp,
    as_location,
    list_files,
    open_file,
    storage_errors,
    sync,
    user_cache,
)
from bertfeat.search.settings import FILE_NAMES, SETTINGS_NAME, no_index_error

_FOLDER = "indexes"
_FETCHED = 16 << 20  # bytes of a file that are fetched at once
_MOST_TRIES = 10


def index_on_disk(folder: str | Path | Address) -> Path:
    """The folder of an index on this machine: itself, or a copy of the one at an address, downloaded if need be.

    Raises:
        IndexFolderError: there is no index at the address.
        StorageError: it cannot be fetched, or the copy not be written.
    """
    place = as_location(folder)
    if not isinstance(place, Address):
        return place
    home = (user_cache() or _process_folder()) / _FOLDER / hashlib.sha256(str(place).encode()).hexdigest()[:32]
    with _held(home):
        for _ in range(_MOST_TRIES):
            files = _list_index_files(place)
            copy = home / hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:32]
            if _is_whole(copy, files) or _download(place, files, copy):
                _remove_others(home, copy)
                return copy
    raise IndexFolderError("other runs replace it without a pause", where=place, remedy="try again when they are done")


@cache
def _process_folder() -> Path:
    """A folder that is removed when the process ends."""
    folder = mkdtemp(prefix="bertfeat-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@contextmanager
def _held(home: Path) -> Iterator[None]:
    """Make a folder, and let one process at a time download into it; the others wait."""
    with storage_errors(home.parent):
        home.mkdir(parents=True, exist_ok=True)
        handle = os.open(home, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # a file system without locks: a copy gets its name when it is whole
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _list_index_files(place: Address) -> Mapping[str, Stamp]:
    files = {file.name: file.stamp for file in list_files(place) if file.name in (*FILE_NAMES, SETTINGS_NAME)}
    if SETTINGS_NAME not in files:
        raise no_index_error(place)
    return files


def _is_whole(copy: Path, files: Mapping[str, Stamp]) -> bool:
    try:
        return all((copy / name).stat().st_size == stamp.size for name, stamp in files.items())
    except OSError:
        return False


def _download(place: Address, files: Mapping[str, Stamp], copy: Path) -> bool:
    """Fetch the files of an index; False where they changed meanwhile."""
    fresh = copy.with_name(f".{secrets.token_hex(4)}.tmp")
    with storage_errors(copy.parent):
        fresh.mkdir()
    try:
        try:
            for name in files:
                _fetch_file(place / name, fresh / name)
        except FileNotFoundError:
            return False
        if _list_index_files(place) != files:
            return False
        with storage_errors(copy.parent):
            shutil.rmtree(copy, ignore_errors=True)  # one that is not whole
            os.rename(fresh, copy)
            sync(copy.parent)
        return True
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _fetch_file(place: Address, path: Path) -> None:
    buffer = memoryview(bytearray(_FETCHED))
    with open_file(place) as source, storage_errors(path.parent):
        with path.open("xb") as file:
            while count := source.readinto(buffer):
                file.write(buffer[:count])
        sync(path)


def _remove_others(home: Path, copy: Path) -> None:
    """Remove what was downloaded from the address before; who has it open can go on reading."""
    for path in home.iterdir():
        if path != copy:
            shutil.rmtree(path, ignore_errors=True)

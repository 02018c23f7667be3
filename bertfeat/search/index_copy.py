"""Local copies of indexes in object storage: written in the user's cache, or downloaded once into it, and opened there.

FAISS and Arrow map files into memory, so they need them on this machine. A copy has the index's record and its current
version, and is named after the address and the content of the record: while the record stays the same, the copy is used
again. ``BERTFEAT_CACHE`` names the cache folder; if it is set but empty, copies last as long as the process.
"""

import fcntl
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bertfeat.errors import FolderLockedError, IndexFolderError
from bertfeat.io import (
    Address,
    Location,
    as_location,
    canonical_json,
    make_state_folder,
    open_file,
    storage_errors,
    sync,
    user_cache_folder,
)
from bertfeat.search.settings import (
    COPY_OR_REBUILD,
    SETTINGS_NAME,
    IndexSettings,
    read_index_settings,
    write_index_settings,
)

_FOLDER = "indexes"
_FETCHED = 16 << 20  # bytes of a file that are fetched at once
_MOST_TRIES = 10


def index_on_disk(folder: str | Path | Address) -> Path:
    """The folder of an index on this machine: the given one, or a copy of one at an address, downloaded if needed."""
    place = as_location(folder)
    if not isinstance(place, Address):
        return place
    home = _home(place)
    with _held(home):
        for _ in range(_MOST_TRIES):
            settings = read_index_settings(place)
            copy = home / _digest(canonical_json(settings))
            if _is_whole(copy, settings) or _download(place, settings, copy):
                _remove_others(home, copy)
                return copy
    raise IndexFolderError("other runs replace it without a pause", where=place, remedy="try again when they are done")


@contextmanager
def writing_room(place: Location) -> Iterator[Path]:
    """The folder on this machine in which the next version of an index is made.

    It is the folder of the index itself; for an index at an address it is an empty folder, which is removed at the end.
    The caller must hold the lock of the index. Files that a killed run left there are removed. A FolderLockedError is
    raised if another run on this machine still works there: one that lost the lock while it was suspended.
    """
    if not isinstance(place, Address):
        yield place
        return
    home = _home(place).with_suffix(".new")
    with _held(home, place):
        room = home / "room"
        shutil.rmtree(room, ignore_errors=True)
        with storage_errors(home):
            room.mkdir()
        try:
            yield room
        finally:
            shutil.rmtree(home, ignore_errors=True)


def keep_as_copy(place: Address, settings: IndexSettings, room: Path) -> None:
    """Make the version that was written in ``room``, and then uploaded, the copy that is opened from now on."""
    home = _home(place)
    with _held(home):
        copy = home / _digest(canonical_json(settings))
        with storage_errors(home):
            make_state_folder(room)
            write_index_settings(settings, room)
            os.rename(room, copy)
        _remove_others(home, copy)


def _home(place: Address) -> Path:
    """The folder for the copies of an index."""
    return user_cache_folder(_FOLDER) / _digest(str(place).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


@contextmanager
def _held(home: Path, place: Address | None = None) -> Iterator[None]:
    """Make a folder, and let one process at a time work in it; others wait, or are refused if ``place`` is given."""
    with storage_errors(home.parent):
        home.mkdir(parents=True, exist_ok=True)
        handle = os.open(home, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (fcntl.LOCK_NB if place else 0))
        except BlockingIOError:
            raise FolderLockedError("another run of this machine is at work on it", where=place) from None
        except OSError:  # a file system without locks is safe too: a copy gets its name only when it is whole
            pass
        yield
    finally:
        os.close(handle)


def _is_whole(copy: Path, settings: IndexSettings) -> bool:
    try:
        sizes = [(copy / settings.version / name).stat().st_size for name in settings.files]
        return sizes == [file.bytes for file in settings.files.values()] and (copy / SETTINGS_NAME).is_file()
    except OSError:
        return False


def _download(place: Address, settings: IndexSettings, copy: Path) -> bool:
    """Fetch the record and the files of an index; False where another version took its place meanwhile."""
    fresh = copy.with_name(f".{secrets.token_hex(4)}.tmp")
    try:
        for name in (*(f"{settings.version}/{name}" for name in settings.files), SETTINGS_NAME):
            try:
                _fetch_file(place / name, fresh / name)
            except FileNotFoundError as error:
                if read_index_settings(place) == settings:
                    raise IndexFolderError(f"{place / name} is missing", remedy=COPY_OR_REBUILD) from error
                return False
        if read_index_settings(fresh) != settings:
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
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            while count := source.readinto(buffer):
                file.write(buffer[:count])
        sync(path)


def _remove_others(home: Path, copy: Path) -> None:
    """Remove older copies of the index; a process that has one open can still read it."""
    for path in home.iterdir():
        if path != copy:
            shutil.rmtree(path, ignore_errors=True)

"""The versions of an index: each in a subfolder of its own, and one record that names the current one.

As in Lance and Delta, no file of a version is ever changed. A run locks the index, writes ``version-N`` beside the
version before, and then replaces the record, ``.bertfeat/index.json``, in one step: the index is the old one until then
and the new one from then on, whenever the run is killed. The version before is removed at once, since readers open all
files of a version together and hold them (:mod:`.folder`). What a killed run left, the next run removes: versions that
the record does not name, file by file, and only files that bertfeat gives such names.

At an address, such as ``s3://bucket/corpus.index``, the same goes on: a version is written on this machine and then
uploaded, the lock is a lease (:mod:`bertfeat.io.lock`), and readers hold copies (:mod:`.index_copy`).
"""

import os
import re
import shutil
import stat
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from bertfeat.errors import IndexFolderError, StorageError, UsageError
from bertfeat.io import (
    STATE_FOLDER,
    Address,
    FolderLock,
    Location,
    ResultKind,
    as_location,
    claim_folder,
    file_stamp,
    folder_lock,
    put_file,
    real_path,
    releasing_if_failed,
    remove_stored,
    result_kind,
    storage_errors,
    store_of,
)
from bertfeat.search.index_copy import keep_as_copy, writing_room
from bertfeat.search.index_files import seal_version
from bertfeat.search.settings import (
    FILE_NAMES,
    SETTINGS_NAME,
    VERSION_NAME,
    IndexSettings,
    no_index_error,
    read_index_settings,
    write_index_settings,
)

_STATE_NAMES = re.compile(r"kind|lock|index\.json|\..*\.tmp")
_WORK_NAMES = re.compile(r"shard-\d+|bertfeat-shards-[0-9a-f]+")  # in a version that is being built
_REMOVED_ON_NFS = ".nfs"  # how NFS names a file that was removed while somebody has it open
_LOCK_TRIES = 20
_MOST_FILES = 1000  # that tell what is at an address: those of one request
_ANOTHER = "name another folder"


@dataclass(frozen=True, slots=True)
class HeldFolder:
    """The folder of an index, existing or not, that no other run changes meanwhile."""

    folder: Location  # absolute, links followed
    lock: FolderLock

    @contextmanager
    def new_version(self) -> Iterator[Path]:
        """Make an empty folder of this machine for a version; at the end of the block only the current one is left.

        The block makes it the current one by :meth:`publish`.

        Raises:
            StorageError: the folder cannot be written.
        """
        with writing_room(self.folder) as room, storage_errors(room):
            claim_folder(self.folder, ResultKind.INDEX)
            older = _version_numbers(self.folder)
            fresh = room / f"version-{max(older.values(), default=0) + 1}"
            try:
                fresh.mkdir()
                yield fresh
            finally:
                _remove_unnamed(self.folder, spared=older)

    def publish(self, settings: IndexSettings, version: Path) -> IndexSettings:
        """Make the version that was written into the folder of :meth:`new_version` the current one.

        Returns:
            The settings with the name of the version, and the sizes and digests of its files.

        Raises:
            UsageError: what FAISS wrote it cannot read again, which happens with some types.
            FolderLockedError: another run has taken the lock over, since this one was stopped for longer than a lease.
            StorageError: the folder cannot be written.
        """
        settings = seal_version(settings, version)
        if isinstance(self.folder, Address):
            for name in settings.files:
                put_file(self.folder / version.name / name, version / name)
        self.lock.check()
        write_index_settings(settings, self.folder)
        if isinstance(self.folder, Address):
            keep_as_copy(self.folder, settings, version.parent)
        return settings


@contextmanager
def hold_index_folder(folder: str | Path | Address, *, new: bool = False) -> Iterator[HeldFolder]:
    """Lock the folder of an index, or of a ``new`` one, and remove what killed runs left in it.

    Raises:
        UsageError: no index can be at this path.
        IndexFolderError: ``folder`` holds something that is no index; or it does not exist and is not ``new``.
        FolderLockedError: another run is at work on it.
        StorageError: the folder cannot be written.
    """
    target = _real_place(folder)
    _refuse_foreign_files(target)
    if not new and not _has_record(target):
        raise no_index_error(target)
    with _locked(target) as lock:
        _refuse_foreign_files(target)
        unread = _version_numbers(target) if _has_record(target) else ()
        _remove_unnamed(target, spared=unread)
        yield HeldFolder(target, lock)


@contextmanager
def _locked(folder: Location) -> Iterator[FolderLock]:
    """Lock a folder; another run that fails may remove the folder, which was new, while this one makes it."""
    with ExitStack() as stack:
        stack.enter_context(releasing_if_failed(folder))
        for tries_left in reversed(range(_LOCK_TRIES)):
            try:
                lock = stack.enter_context(folder_lock(folder))
                break
            except StorageError as error:
                if not tries_left or not isinstance(error.__cause__, FileNotFoundError | FileExistsError):
                    raise
        yield lock


def _real_place(folder: str | Path | Address) -> Location:
    """The address; or the folder, where a link to it was named too."""
    path = as_location(folder)
    if isinstance(path, Address):
        return path
    try:
        target = real_path(path)
    except OSError as error:  # the working folder is gone
        raise StorageError(f"{folder} cannot be found: {error}", remedy=_ANOTHER) from error
    try:
        str(target).encode()
    except UnicodeEncodeError:
        raise UsageError(f"{folder} is no UTF-8, and Arrow takes no such names", remedy=_ANOTHER) from None
    return target


def _has_record(folder: Location) -> bool:
    record = folder / SETTINGS_NAME
    return file_stamp(record) is not None if isinstance(record, Address) else os.path.lexists(record)


def _refuse_foreign_files(folder: Location) -> None:
    """Refuse a folder that is neither an index nor empty, and an index in which something else was put."""
    try:
        stranger = min(_strangers(folder), default=None)
    except FileNotFoundError:
        return
    except NotADirectoryError as error:
        raise IndexFolderError("a file is there, and an index is a folder", where=folder, remedy=_ANOTHER) from error
    except OSError as error:
        raise StorageError(f"{folder} cannot be read: {error.strerror}", remedy=_ANOTHER) from error
    kind = result_kind(folder)
    if kind not in (None, ResultKind.INDEX):
        raise IndexFolderError(f"{folder} holds {kind.noun}, no index", remedy=_ANOTHER)
    if stranger is not None:
        raise IndexFolderError(f"{stranger} is no file of an index", where=folder, remedy=_ANOTHER)


def _strangers(folder: Location) -> Iterator[str]:
    """The names in a folder that bertfeat does not give to what it writes into an index."""
    versions = _version_numbers(folder)
    for name in _names_in(folder):
        if name == STATE_FOLDER:
            yield from (f"{name}/{each}" for each in _names_in(folder / name) if not _STATE_NAMES.fullmatch(each))
        elif name in versions:
            yield from (f"{name}/{each}" for each in _names_in(folder / name) if not _is_own_name(each))
        else:
            yield name


def _names_in(folder: Location) -> list[str]:
    """The names of files and folders in a folder; at an address, of its first thousand files."""
    if isinstance(folder, Address):
        store, key = store_of(folder)
        return sorted({file.name.partition("/")[0] for file in islice(store.list(key), _MOST_FILES)})
    return os.listdir(folder)


def _is_own_name(name: str) -> bool:
    """Whether a file in the folder of a version is one that bertfeat wrote, or one that the file system keeps."""
    return name in FILE_NAMES or bool(_WORK_NAMES.fullmatch(name)) or name.startswith(_REMOVED_ON_NFS)


def _version_numbers(folder: Location) -> dict[str, int]:
    """The names and numbers of the versions in the folder of an index; none in any other folder.

    A run says that a folder is an index before it makes the first version.
    """
    if result_kind(folder) is not ResultKind.INDEX:
        return {}
    found = {name: int(match[1]) for name in _names_in(folder) if (match := VERSION_NAME.fullmatch(name))}
    if isinstance(folder, Path):  # nothing goes through a link
        found = {name: number for name, number in found.items() if stat.S_ISDIR(os.lstat(folder / name).st_mode)}
    return found


def _remove_unnamed(folder: Location, *, spared: Collection[str]) -> None:
    """Remove versions that the record does not name; where it cannot be read, those that are not ``spared``."""
    with suppress(IndexFolderError):
        spared = {read_index_settings(folder).version}
    for name in _version_numbers(folder).keys() - set(spared):
        _remove_version(folder / name)
    if isinstance(folder, Path):
        for path in (folder / STATE_FOLDER).glob(".*.tmp"):
            path.unlink(missing_ok=True)


def _remove_version(version: Location) -> None:
    """Remove the files that bertfeat wrote into the folder of a version, and it, unless somebody put others there."""
    if isinstance(version, Address):
        for name in FILE_NAMES.intersection(_names_in(version)):
            remove_stored(version / name)
        return
    for path in version.iterdir():
        with suppress(OSError):  # what stays is not read, and the next run tries again
            if path.name in FILE_NAMES:
                path.unlink()
            elif _WORK_NAMES.fullmatch(path.name):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    with suppress(OSError):
        version.rmdir()

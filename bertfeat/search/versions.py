"""The versions of an index: each in a subfolder of its own, and one record that names the current one.

As in Lance and Delta, no file of a version is ever changed. A run locks the index, writes ``version-N`` beside the
version before, and then replaces the record, ``.bertfeat/index.json``, in one step: the index is the old one until then
and the new one from then on, whenever the run is killed. The version before is removed at once, since readers open all
files of a version together and hold them (:mod:`.index_files`). The next run removes what a killed run left: versions
that the record does not name, file by file, and of their files only those with names that bertfeat gives.

At an address, such as ``s3://bucket/corpus.index``, the same goes on: a version is written on this machine and then
uploaded, and readers hold copies (:mod:`.index_copy`). The lock is a lease (:mod:`bertfeat.io.lock`), which a run that
was stopped loses without knowing. So each run's version has a number that no other draws, the record is replaced only
if it is the one that was there when the run began, and a run that has lost its lock removes no version but its own.
"""

import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bertfeat.errors import FolderLockedError, IndexFolderError, StorageError, UsageError
from bertfeat.io import (
    STATE_FOLDER,
    Address,
    FolderLock,
    Location,
    ResultKind,
    Stamp,
    as_location,
    claim_folder,
    file_stamp,
    first_names,
    folder_lock,
    put_file,
    real_path,
    releasing_if_failed,
    remove_stored,
    result_kind,
    storage_errors,
)
from bertfeat.search.index_copy import keep_as_copy, writing_room
from bertfeat.search.index_files import seal_version
from bertfeat.search.settings import (
    FILE_NAMES,
    RENEWED_NAME,
    SETTINGS_NAME,
    VERSION_NAME,
    IndexSettings,
    no_index_error,
    read_index_settings,
    replace_index_settings,
    write_index_settings,
)

_STATE_NAMES = re.compile(r"kind|lock|index\.json|\..*\.tmp")
_WORK_NAMES = re.compile(rf"chunk-\d+|{re.escape(RENEWED_NAME)}")  # in a version that is being built
_REMOVED_ON_NFS = ".nfs"  # how the name begins that NFS gives to a file removed while it is open
_LOCK_TRIES = 20
_APART = 1 << 32  # how many numbers, above those of the versions before it, a run at an address draws its own from
_ANOTHER = "name another folder"


@dataclass(frozen=True, slots=True)
class HeldFolder:
    """The folder of an index, existing or not, that no other run changes meanwhile."""

    folder: Location  # absolute, links followed
    lock: FolderLock
    record: Stamp | None  # the stamp of the record when the folder was locked; None: there was no record

    @contextmanager
    def new_version(self) -> Iterator[Path]:
        """Make an empty folder on this machine for a version; at the end of the block only the current one is left.

        The block makes the new version the current one by :meth:`publish`.
        """
        with writing_room(self.folder) as room, storage_errors(room):
            claim_folder(self.folder, ResultKind.INDEX)
            older = _version_numbers(self.folder)
            number = max(older.values(), default=0) + 1
            number += secrets.randbelow(_APART) if isinstance(self.folder, Address) else 0
            fresh = room / f"version-{number}"
            try:
                fresh.mkdir()
                yield fresh
            finally:
                unnamed = _unnamed_versions(self.folder, older)
                _remove_versions(self.folder, unnamed & {fresh.name} if self._is_lost() else unnamed)

    def _is_lost(self) -> bool:
        try:
            self.lock.check()
        except (FolderLockedError, StorageError):
            return True
        return False

    def clear_room(self) -> None:
        """Remove what a killed run left on this machine of a version for an address."""
        with writing_room(self.folder):
            pass

    def publish(self, settings: IndexSettings, version: Path) -> IndexSettings:
        """Make the version that was written into the folder of :meth:`new_version` the current one.

        Returns the settings with the name of the version, and the sizes and digests of its files. Refused if another
        run has taken over the lock, because this one was stopped for longer than a lease.
        """
        settings = seal_version(settings, version)
        if not isinstance(self.folder, Address):
            write_index_settings(settings, self.folder)
            return settings
        for name in settings.files:
            self.lock.check()
            put_file(self.folder / version.name / name, version / name)
        self.lock.check()
        if not replace_index_settings(settings, self.folder, self.record):
            problem = "another run replaced the index while this one was stopped or could not reach the storage"
            raise FolderLockedError(problem, where=self.folder, remedy="run it again")
        with suppress(StorageError):  # whoever opens it downloads it then
            keep_as_copy(self.folder, settings, version.parent)
        return settings


@contextmanager
def hold_index_folder(folder: str | Path | Address, *, new: bool = False) -> Iterator[HeldFolder]:
    """Lock the folder of an index, or of a ``new`` one, and remove what killed runs left in it."""
    target = _real_place(folder)
    _refuse_foreign_files(target)
    if not new and not _has_record(target):
        raise no_index_error(target)
    with _locked(target) as lock:
        _refuse_foreign_files(target)
        _remove_versions(target, _unnamed_versions(target, _version_numbers(target) if _has_record(target) else ()))
        yield HeldFolder(target, lock, file_stamp(target / SETTINGS_NAME))


@contextmanager
def _locked(folder: Location) -> Iterator[FolderLock]:
    """Lock a folder; try again if another run, which made the folder and failed, removes it at the same time."""
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
    """The address as it is, or the absolute path of the folder, with links followed."""
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
    entries = _scan_names(folder)
    versions = _versions_among(entries, folder)
    for name in entries:
        if name == STATE_FOLDER:
            yield from (f"{name}/{each}" for each in _scan_names(folder / name) if not _STATE_NAMES.fullmatch(each))
        elif name in versions:
            yield from (f"{name}/{each}" for each in _scan_names(folder / name) if not _is_own_name(each))
        else:
            yield name


def _scan_names(folder: Location) -> dict[str, bool]:
    """The names in a folder, and whether each is a folder (a link is not); at an address, those of its first files."""
    if isinstance(folder, Address):
        return {name.partition("/")[0]: "/" in name for name in sorted(first_names(folder))}
    return {entry.name: entry.is_dir(follow_symlinks=False) for entry in os.scandir(folder)}


def _is_own_name(name: str) -> bool:
    """Whether a file in the folder of a version is one that bertfeat wrote, or one that the file system keeps."""
    return name in FILE_NAMES or bool(_WORK_NAMES.fullmatch(name)) or name.startswith(_REMOVED_ON_NFS)


def _version_numbers(folder: Location) -> dict[str, int]:
    """The names and numbers of the versions in the folder of an index; none in any other folder."""
    return _versions_among(_scan_names(folder), folder)


def _versions_among(entries: Mapping[str, bool], folder: Location) -> dict[str, int]:
    """The versions among a folder's entries; none unless it is marked as an index, as it is before the first one."""
    if result_kind(folder) is not ResultKind.INDEX:
        return {}
    folders = [name for name, is_folder in entries.items() if is_folder]
    return {name: int(match[1]) for name in folders if (match := VERSION_NAME.fullmatch(name))}


def _unnamed_versions(folder: Location, older: Collection[str]) -> set[str]:
    """The versions that the record does not name.

    Where the record cannot be read, or names a version that is not there, the ``older`` ones are not among them: one of
    these may be what it should name.
    """
    versions = _version_numbers(folder).keys()
    with suppress(IndexFolderError):
        named = read_index_settings(folder).version
        if named in versions:
            return versions - {named}
    return versions - set(older)


def _remove_versions(folder: Location, names: Collection[str]) -> None:
    """Remove some versions, and what stopped writes left behind."""
    for name in names:
        _remove_version(folder / name)
    if isinstance(folder, Path):
        for path in (folder / STATE_FOLDER).glob(".*.tmp"):
            path.unlink(missing_ok=True)


def _remove_version(version: Location) -> None:
    """Remove the files that bertfeat wrote into the folder of a version, and it, unless somebody put others there."""
    if isinstance(version, Address):
        for name in FILE_NAMES.intersection(_scan_names(version)):
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

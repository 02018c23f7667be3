"""The versions of an index: each in a subfolder of its own, and one record that names the current one.

As in Lance and Delta, no file of a version is ever changed. A run locks the index, writes ``version-N`` beside the
version before, and then replaces the record, ``.bertfeat/index.json``, in one step: the index is the old one until then
and the new one from then on, whenever the run is killed. The version before is removed at once, since readers open all
files of a version together and hold them (:mod:`.folder`). What a killed run left, the next run removes: versions that
the record does not name, file by file, and only files that bertfeat gives such names.
"""

import os
import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bertfeat.errors import IndexFolderError, StorageError, UsageError
from bertfeat.io import (
    STATE_FOLDER,
    Address,
    ResultKind,
    as_location,
    claim_folder,
    folder_lock,
    real_path,
    releasing_if_failed,
    result_kind,
    storage_errors,
)
from bertfeat.search.settings import (
    FILE_NAMES,
    SETTINGS_NAME,
    VERSION_NAME,
    no_index_error,
    read_index_settings,
)

_STATE_NAMES = re.compile(r"kind|lock|index\.json|\..*\.tmp")
_WORK_NAMES = re.compile(r"shard-\d+|bertfeat-shards-[0-9a-f]+")  # in a version that is being built
_REMOVED_ON_NFS = ".nfs"  # how NFS names a file that was removed while somebody has it open
_LOCK_TRIES = 20
_ANOTHER = "name another folder"


@dataclass(frozen=True, slots=True)
class HeldFolder:
    """The folder of an index, existing or not, that no other run changes meanwhile."""

    folder: Path  # absolute, links followed

    @contextmanager
    def new_version(self) -> Iterator[Path]:
        """Make an empty folder for a version; at the end of the block only the current version is left.

        The block makes it the current one by :func:`bertfeat.search.index_files.publish_version`.

        Raises:
            StorageError: the folder cannot be written.
        """
        with storage_errors(self.folder):
            claim_folder(self.folder, ResultKind.INDEX)
            older = _version_numbers(self.folder)
            fresh = self.folder / f"version-{max(older.values(), default=0) + 1}"
            try:
                fresh.mkdir()
                yield fresh
            finally:
                _remove_unnamed(self.folder, spared=older)


@contextmanager
def hold_index_folder(folder: str | Path | Address, *, new: bool = False) -> Iterator[HeldFolder]:
    """Lock the folder of an index, or of a ``new`` one, and remove what killed runs left in it.

    Raises:
        UsageError: no index can be at this path; or it is an address.
        IndexFolderError: ``folder`` holds something that is no index; or it does not exist and is not ``new``.
        FolderLockedError: another run is at work on it.
        StorageError: the folder cannot be written.
    """
    target = _local_folder(folder)
    _refuse_foreign_files(target)
    if not new and not os.path.lexists(target / SETTINGS_NAME):
        raise no_index_error(target)
    with _locked(target):
        _refuse_foreign_files(target)
        unread = _version_numbers(target) if os.path.lexists(target / SETTINGS_NAME) else ()
        _remove_unnamed(target, spared=unread)
        yield HeldFolder(target)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder; another run that fails may remove the folder, which was new, while this one makes it."""
    with ExitStack() as stack:
        stack.enter_context(releasing_if_failed(folder))
        for tries_left in reversed(range(_LOCK_TRIES)):
            try:
                stack.enter_context(folder_lock(folder))
                break
            except StorageError as error:
                if not tries_left or not isinstance(error.__cause__, FileNotFoundError | FileExistsError):
                    raise
        yield


def _local_folder(folder: str | Path | Address) -> Path:
    """The folder on this machine in which versions are written."""
    path = as_location(folder)
    if isinstance(path, Address):
        remedy = "build or change it in a folder of this machine, and copy that folder to the address"
        raise UsageError("an index is built and changed on this machine only", where=path, remedy=remedy)
    try:
        target = real_path(path)
    except OSError as error:  # the working folder is gone
        raise StorageError(f"{folder} cannot be found: {error}", remedy=_ANOTHER) from error
    try:
        str(target).encode()
    except UnicodeEncodeError:
        raise UsageError(f"{folder} is no UTF-8, and Arrow takes no such names", remedy=_ANOTHER) from None
    return target


def _refuse_foreign_files(folder: Path) -> None:
    """Refuse a folder that is neither an index nor empty, and an index in which something else was put."""
    try:
        strangers = sorted(_strangers(folder))
    except FileNotFoundError:
        return
    except NotADirectoryError as error:
        raise IndexFolderError("a file is there, and an index is a folder", where=folder, remedy=_ANOTHER) from error
    except OSError as error:
        raise StorageError(f"{folder} cannot be read: {error.strerror}", remedy=_ANOTHER) from error
    kind = result_kind(folder)
    if kind not in (None, ResultKind.INDEX):
        raise IndexFolderError(f"{folder} holds {kind.noun}, no index", remedy=_ANOTHER)
    if strangers:
        raise IndexFolderError(f"{strangers[0]} is no file of an index", where=folder, remedy=_ANOTHER)


def _strangers(folder: Path) -> Iterator[str]:
    """The names in a folder that bertfeat does not give to what it writes into an index."""
    entries = list(os.scandir(folder))
    versions = _versions_among(entries, folder)
    for entry in entries:
        if entry.name == STATE_FOLDER:
            yield from (f"{STATE_FOLDER}/{name}" for name in os.listdir(entry) if not _STATE_NAMES.fullmatch(name))
        elif entry.name in versions:
            yield from (f"{entry.name}/{name}" for name in os.listdir(entry) if not _is_own_name(name))
        else:
            yield entry.name


def _is_own_name(name: str) -> bool:
    """Whether a file in the folder of a version is one that bertfeat wrote, or one that the file system keeps."""
    return name in FILE_NAMES or bool(_WORK_NAMES.fullmatch(name)) or name.startswith(_REMOVED_ON_NFS)


def _version_numbers(folder: Path) -> dict[str, int]:
    """The names and numbers of the versions in the folder of an index; none in any other folder."""
    return _versions_among(list(os.scandir(folder)), folder)


def _versions_among(entries: Sequence[os.DirEntry[str]], folder: Path) -> dict[str, int]:
    """The versions among what was found in a folder: a run says that it is an index before it makes the first one."""
    if result_kind(folder) is not ResultKind.INDEX:
        return {}
    folders = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]  # nothing goes through a link
    return {name: int(match[1]) for name in folders if (match := VERSION_NAME.fullmatch(name))}


def _remove_unnamed(folder: Path, *, spared: Collection[str]) -> None:
    """Remove versions that the record does not name; where it cannot be read, those that are not ``spared``."""
    with suppress(IndexFolderError):
        spared = {read_index_settings(folder).version}
    for name in _version_numbers(folder).keys() - set(spared):
        _remove_version(folder / name)
    for path in (folder / STATE_FOLDER).glob(".*.tmp"):
        path.unlink(missing_ok=True)


def _remove_version(version: Path) -> None:
    """Remove the files that bertfeat wrote into the folder of a version, and it, unless somebody put others there."""
    for path in version.iterdir():
        with suppress(OSError):  # what stays is not read, and the next run tries again
            if path.name in FILE_NAMES:
                path.unlink()
            elif _WORK_NAMES.fullmatch(path.name):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    with suppress(OSError):
        version.rmdir()

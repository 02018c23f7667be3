"""The folder of an index as it is written: by one run at a time, and exchanged for the old one in one step.

An update locks ``.NAME.building`` beside the folder from before it reads the index until the new one is in place; the
index itself cannot hold the lock, because it is exchanged. The new index is built in ``.NAME.building/new``. The two
folders then change places by ``renameat2(RENAME_EXCHANGE)``, so there is never a
moment without an index. Where the system or the file system lacks that call (macOS, NFS), the old one is first
renamed to ``.NAME.building/old``: readers wait for the moment in between, and put it back if the run was killed there.
A symbolic link stays: the folder that it leads to is exchanged.
"""

import ctypes
import errno
import os
import shutil
from collections.abc import Iterator
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
    result_kind,
    storage_errors,
    sync,
)
from bertfeat.search.settings import FILE_NAMES, SETTINGS_NAME, no_index_error

_OWN_NAMES = FILE_NAMES | {SETTINGS_NAME, STATE_FOLDER}
_STATE_NAMES = {"kind", "lock"}
_LOCK_TRIES = 20
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_IMMOVABLE = (errno.EBUSY, errno.EXDEV)  # something is mounted there; a lower layer of a container's file system
_ANOTHER = "name another folder"
_INSIDE = "name a folder in it"
_UNKNOWN_CALL = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)


@dataclass(frozen=True, slots=True)
class HeldFolder:
    """The folder of an index, existing or not, that no other run changes meanwhile."""

    folder: Path  # absolute, links followed

    @contextmanager
    def replacement(self) -> Iterator[Path]:
        """Make an empty folder to build in; at the end of the block it takes the place of :attr:`folder`.

        Raises:
            StorageError: the folder cannot be written.
        """
        fresh = _work_folder(self.folder) / "new"
        with storage_errors(self.folder.parent):
            fresh.mkdir()
            try:
                claim_folder(fresh, ResultKind.INDEX)
                yield fresh
                _exchange(self.folder, fresh)
            finally:
                _clear(self.folder)


@contextmanager
def hold_index_folder(folder: str | Path | Address, *, new: bool = False) -> Iterator[HeldFolder]:
    """Lock the folder of an index, or of a ``new`` one; put back or remove what killed runs left.

    Raises:
        UsageError: no index can be at this path; or it is an address.
        IndexFolderError: ``folder`` holds something that is no index; or it does not exist and is not ``new``.
        FolderLockedError: another run is at work on it.
        StorageError: the folder cannot be written.
    """
    target = _target(_local_folder(folder))
    _refuse_foreign_files(target)
    work = _work_folder(target)
    if not new and not target.parent.is_dir():
        raise no_index_error(target)
    with _locked_work_folder(work, new=new):
        with storage_errors(target.parent):
            _put_back(target)
            _clear(target)
        _refuse_foreign_files(target)
        yield HeldFolder(target)


@contextmanager
def _locked_work_folder(work: Path, *, new: bool) -> Iterator[None]:
    """Lock a work folder, and remove it at the end; a run that ends may remove it while this one makes it."""
    with ExitStack() as stack:
        stack.callback(_remove_if_empty, work)
        for tries_left in reversed(range(_LOCK_TRIES)):
            try:
                with storage_errors(work.parent):
                    work.mkdir(parents=new, exist_ok=True)
                    if work.is_symlink():  # nothing is written, or removed, through a link that somebody put there
                        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(work))
                stack.enter_context(folder_lock(work))
                break
            except StorageError as error:
                if not tries_left or not isinstance(error.__cause__, FileNotFoundError | FileExistsError):
                    raise
        yield


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):  # the next run is using it already
        folder.rmdir()


def is_being_exchanged(folder: Path) -> bool:
    """Whether a run has moved the old index away, and not yet put the new one in its place."""
    try:
        return (_work_folder(real_path(folder)) / "old").is_dir()
    except (OSError, RuntimeError):  # a name too long for a work folder, links in a circle
        return False


def recover_index(folder: Path, *, insist: bool) -> bool:
    """Put the old index back where a run was killed between moving it away and moving the new one in.

    Returns:
        False while that run is alive.

    Raises:
        StorageError: with ``insist``, why it could not.
    """
    target = real_path(folder)
    try:
        with _locked_work_folder(_work_folder(target), new=False), storage_errors(target.parent):
            _put_back(target)
    except StorageError:
        if insist:
            raise
        return False
    return True


def _local_folder(folder: str | Path | Address) -> Path:
    path = as_location(folder)
    if isinstance(path, Address):
        remedy = "build or change it in a folder of this machine, and copy that folder to the address"
        raise UsageError("an index is built and changed on this machine only", where=path, remedy=remedy)
    return path


def _target(folder: Path) -> Path:
    """The folder that will be exchanged."""
    try:
        target = real_path(folder)
        here = real_path(Path.cwd())
    except (OSError, RuntimeError) as error:  # links in a circle, a working folder that is gone
        raise StorageError(f"{folder} cannot be found: {error}", remedy=_ANOTHER) from error
    try:
        str(target).encode()
    except UnicodeEncodeError:
        raise UsageError(f"{folder} is no UTF-8, and Arrow takes no such names", remedy=_ANOTHER) from None
    if not target.name:
        raise UsageError(f"{folder} cannot be replaced by an index", remedy=_INSIDE)
    if here.is_relative_to(target) and target.is_dir():
        raise UsageError(
            f"{folder} is the current folder, and a new index takes the place of the whole folder: you would stay in "
            f"the one that is removed",
            remedy=f"{_INSIDE}, or start from elsewhere",
        )
    if os.path.ismount(target):
        raise UsageError(f"a file system is mounted at {folder}, which cannot be exchanged", remedy=_INSIDE)
    return target


def _work_folder(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.building") if folder.name else folder / ".building"


def _refuse_foreign_files(folder: Path) -> None:
    """Refuse to replace what is neither an index nor an empty folder."""
    try:
        names = {entry.name for entry in os.scandir(folder)}
        inside = {entry.name for entry in os.scandir(folder / STATE_FOLDER)} if STATE_FOLDER in names else set()
    except FileNotFoundError:
        return
    except NotADirectoryError as error:
        raise IndexFolderError("a file is there, and an index is a folder", where=folder, remedy=_ANOTHER) from error
    except OSError as error:
        raise StorageError(f"{folder} cannot be read: {error.strerror}", remedy=_ANOTHER) from error
    kind = result_kind(folder)
    if kind not in (None, ResultKind.INDEX):
        raise IndexFolderError(f"{folder} holds {kind.noun}, no index", remedy=_ANOTHER)
    strangers = (names - _OWN_NAMES) | {f"{STATE_FOLDER}/{name}" for name in inside - _STATE_NAMES}
    if strangers:
        raise IndexFolderError(f"{min(strangers)} is no file of an index", where=folder, remedy=_ANOTHER)


def _put_back(folder: Path) -> None:
    old = _work_folder(folder) / "old"
    if not os.path.lexists(folder) and old.is_dir():
        os.rename(old, folder)
        sync(folder.parent)


def _clear(folder: Path) -> None:
    """Remove what was built and not used, and the old index once there is one in its place."""
    work = _work_folder(folder)
    shutil.rmtree(work / "new", ignore_errors=True)
    if os.path.lexists(folder):
        shutil.rmtree(work / "old", ignore_errors=True)


def _exchange(folder: Path, fresh: Path) -> None:
    """Put the new folder in the place of the old one, which is then where the new one was, or in ``old``."""
    try:
        if not os.path.lexists(folder):
            os.rename(fresh, folder)
        elif not _swapped(fresh, folder):
            os.rename(folder, fresh.with_name("old"))
            os.rename(fresh, folder)
    except OSError as error:
        if error.errno not in _IMMOVABLE:
            raise
        reason = os.strerror(error.errno or 0)
        raise StorageError(f"{folder} cannot be moved to another name ({reason})", remedy=_ANOTHER) from error
    sync(folder.parent)


def _swapped(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; False where that cannot be done here."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    if (number := ctypes.get_errno()) in _UNKNOWN_CALL:
        return False
    raise OSError(number, os.strerror(number), str(other))

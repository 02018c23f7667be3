"""Locks that admit one run at a time to a folder: an flock on ``.bertfeat/lock``, a file that names host and process.

In object storage the lock is a claim with a lease (:mod:`bertfeat.io.storage.lease`). A folder that is held for a
result is locked, and marked with the result's kind, from before its first file is written until the run is done.
"""

import contextlib
import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bertfeat.errors import FolderLockedError, StorageError, parameter
from bertfeat.io.json_file import JsonError, canonical_json, decode_json
from bertfeat.io.lock_owner import LockOwner
from bertfeat.io.output import NO_LOCKS, storage_errors
from bertfeat.io.result_folder import (
    STATE_FOLDER,
    ResultKind,
    claim_folder,
    make_state_folder,
    releasing_if_failed,
    result_kind,
)
from bertfeat.io.storage.address import Address, Location
from bertfeat.io.storage.files import read_file
from bertfeat.io.storage.lease import Lease, LeaseWatch, lease_seconds, read_claim
from bertfeat.io.storage.store import Stamp

_LOCK_NAME = "lock"
_LOOKS = 12  # times per lease that a lock of another run is looked at
_FEATURES = "features"  # folder of feature sets in folders of heads and tables; it may exist before the first run

_HALF_WRITTEN = (
    ".head.*.tmp",
    ".checkpoint*.tmp",
    ".curves.*.tmp",
    "._settings.json.tmp",
    ".table7.*.tmp",
    ".pretraining.*.tmp",
    "runs/*/.*.json.tmp",
    f"{STATE_FOLDER}/.kind.*.tmp",
)
"""Temporary files of :func:`bertfeat.io.atomic` in folders of heads, tables and models."""

_log = logging.getLogger("bertfeat")


class FolderLock:
    """The lock that this run holds on a folder."""

    def __init__(self, folder: Location, lease: Lease | None = None) -> None:
        self._folder, self._lease = folder, lease

    def check(self) -> None:
        """Check that the folder is still held; to be called before a step that another run must not interfere with.

        Raises:
            FolderLockedError: another run has taken the lock over, because this one was stopped or cut off from the
                storage for longer than a lease.
            StorageError: the storage cannot be reached, and the lease is over.
        """
        if self._lease and self._lease.is_lost():
            claim = read_claim(self._lease.place)
            by = f" by {claim[0].owner}" if claim and claim[0] else ""
            problem = f"its lock was taken over{by} while this run was stopped or could not reach the storage"
            raise FolderLockedError(problem, where=self._folder, remedy="run it again when the other one has ended")


@contextmanager
def folder_lock(folder: Location) -> Iterator[FolderLock]:
    """Lock the folder, made if need be, against other runs; a lock that a dead run left is taken over.

    The lock is an flock, which the system releases when the process ends, however it ends. If the file system has no
    locks, and for runs on other machines, the file's content decides. In object storage the lock is a claim that its
    holder renews: a claim that is unchanged for a whole lease (``BERTFEAT_LEASE``, 60 seconds) is taken over.

    Raises:
        FolderLockedError: another run holds the folder; the message names its process and host.
        StorageError: the folder cannot be written.
    """
    if isinstance(folder, Address):
        with _take_lease(folder) as lease:
            yield FolderLock(folder, lease)
        return
    with storage_errors(folder):
        handle, path = _acquire(folder)
    try:
        yield FolderLock(folder)
    finally:
        # removed while still held: afterwards it could be the new lock of another run
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
            path.parent.rmdir()  # if there is nothing else in it
        os.close(handle)


def lock_holder(folder: Location) -> LockOwner | None:
    """The process that holds the lock of a folder, according to the lock's file; None if no process holds it.

    Raises:
        StorageError: the storage cannot be reached.
    """
    place = folder / STATE_FOLDER / _LOCK_NAME
    if isinstance(place, Address):
        claim = read_claim(place)
        return claim[0].owner if claim and claim[0] else None
    try:
        owner = decode_json(read_file(place), LockOwner)
    except (FileNotFoundError, NotADirectoryError, JsonError):
        return None
    return None if owner.is_gone else owner


def _take_lease(folder: Address) -> Lease:
    place = folder / STATE_FOLDER / _LOCK_NAME
    watch = LeaseWatch(lease_seconds())
    seen: Stamp | None = None
    while (lease := watch.take(place)) is None:
        found = read_claim(place)
        if found is None:
            continue  # its holder has just released it
        claim, stamp = found
        owner = claim.owner if claim else "just starting"
        if seen is None:
            _log.info("%s is locked (%s); watching whether that run renews its lock", folder, owner)
        elif stamp != seen and not (claim and claim.released):
            raise FolderLockedError(f"another run is at work on it ({owner})", where=folder)
        seen = stamp
        time.sleep(watch.seconds / _LOOKS)
    return lease


def _acquire(folder: Path) -> tuple[int, Path]:
    path = folder / STATE_FOLDER / _LOCK_NAME
    while True:
        make_state_folder(folder)
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
        except FileNotFoundError:
            continue  # the former owner removed the folder in between
        try:
            free = _try_flock(handle)
            owner = _read_owner(handle)
            if not free:
                raise FolderLockedError(f"another run is at work on it ({owner or 'just starting'})", where=folder)
            if _is_same_file(handle, path):
                _refuse_running_owner(owner, path)
                _write_owner(handle)
                return handle, path
            os.close(handle)  # the former owner removed the file between our opening and locking it
        except BaseException:
            os.close(handle)
            raise


def _try_flock(handle: int) -> bool:
    """Whether this process now holds the lock; also true if the file system has no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
    return True


def _is_same_file(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _refuse_running_owner(owner: LockOwner | None, path: Path) -> None:
    if owner is None or owner.is_gone:
        return
    folder = path.parent.parent
    if owner.is_local:
        raise FolderLockedError(f"another run is at work on it ({owner})", where=folder)
    raise FolderLockedError(
        f"locked by {owner}; whether that run is alive cannot be seen from this machine",
        where=folder,
        remedy=f"if it is over, delete {path} and run it again",
    )


def _read_owner(handle: int) -> LockOwner | None:
    try:
        return decode_json(os.pread(handle, 4096, 0), LockOwner)
    except JsonError:
        return None  # empty: its owner is just starting, or died before it wrote its name


def _write_owner(handle: int) -> None:
    os.ftruncate(handle, 0)
    os.pwrite(handle, canonical_json(LockOwner.current()), 0)
    os.fsync(handle)


# ── a folder held for a result ────────────────────────────────────────────────────────────────────────────────


@contextmanager
def hold_result_folder(folder: Path, kind: ResultKind) -> Iterator[None]:
    """Hold a folder, made if need be, for results of that kind while the block reads and writes in it.

    Temporary files of a killed run are removed. When the block fails and nothing was written, the folder is as it was
    before: not there, or without a marker.

    Raises:
        FolderLockedError: another run is at work on the folder.
        StorageError: it holds something else, or cannot be written.
    """
    with releasing_if_failed(folder), folder_lock(folder):
        _refuse_other_files(folder, kind)
        claim_folder(folder, kind)
        _remove_half_written(folder)
        yield


def _refuse_other_files(folder: Path, kind: ResultKind) -> None:
    """Refuse a folder with files of other programs, which a run might take for its own and replace or remove."""
    if result_kind(folder) is None:
        with storage_errors(folder):
            names = sorted(os.listdir(folder))
        allowed = _FEATURES if kind in (ResultKind.HEAD, ResultKind.TABLE7) else None
        foreign = [name for name in names if not name.startswith(".") and name != allowed]
        if foreign:
            remedy = f"name another folder with {parameter('folder')}, or an empty one"
            raise StorageError(f"{folder} holds {foreign[0]!r} and is not {kind.noun}", remedy=remedy)


def _remove_half_written(folder: Path) -> None:
    """Remove the temporary files of :func:`bertfeat.io.atomic`, whose writers are dead."""
    with storage_errors(folder):
        for pattern in _HALF_WRITTEN:
            for path in folder.glob(pattern):
                path.unlink(missing_ok=True)

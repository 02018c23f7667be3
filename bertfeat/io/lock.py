"""One run at a time on a folder: ``.bertfeat/lock`` is held by flock, and its content names host and process.

In object storage the lock is a claim with a lease (:mod:`bertfeat.io.storage.lease`).
"""

import contextlib
import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bertfeat.errors import FolderLockedError
from bertfeat.io.atomic import NO_LOCKS, storage_errors
from bertfeat.io.json_codec import JsonError, canonical_json, decode_json
from bertfeat.io.lock_owner import LockOwner
from bertfeat.io.result_folder import STATE_FOLDER, make_state_folder
from bertfeat.io.storage import Address, Lease, LeaseWatch, Location, Stamp, lease_seconds, read_claim, read_file

LOCK_NAME = "lock"
_LOOKS = 12  # at a foreign lock, in the time of its lease
_log = logging.getLogger("bertfeat")


class FolderLock:
    """The lock that this run holds on a folder."""

    def __init__(self, folder: Location, lease: Lease | None = None) -> None:
        self._folder, self._lease = folder, lease

    def check(self) -> None:
        """See that the folder is still held; to be called before what another run must not see half done.

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

    The lock is an flock, which the system drops when the process ends, however it ends. Where the file system
    has none, and for runs on other machines, the file's content decides. In object storage it is a claim that is
    renewed: one that stays as it is for a whole lease (``BERTFEAT_LEASE``, 60 seconds) is taken over.

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
    """The process that has the lock of a folder, as far as its file tells; None where nobody has it.

    Raises:
        StorageError: the storage cannot be reached.
    """
    place = folder / STATE_FOLDER / LOCK_NAME
    if isinstance(place, Address):
        claim = read_claim(place)
        return claim[0].owner if claim and claim[0] else None
    try:
        owner = decode_json(read_file(place), LockOwner)
    except (FileNotFoundError, NotADirectoryError, JsonError):
        return None
    return None if owner.is_gone else owner


def _take_lease(folder: Address) -> Lease:
    place = folder / STATE_FOLDER / LOCK_NAME
    watch = LeaseWatch(lease_seconds())
    seen: Stamp | None = None
    while (lease := watch.take(place)) is None:
        found = read_claim(place)
        if found is None:
            continue  # given up at this moment
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
    path = folder / STATE_FOLDER / LOCK_NAME
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
    """Whether this process now holds the lock; true as well where the file system has no locks."""
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

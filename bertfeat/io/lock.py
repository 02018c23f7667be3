"""One run at a time on a folder: ``.bertfeat/lock`` is held by flock, and its content names host and process."""

import contextlib
import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bertfeat.errors import FolderLockedError
from bertfeat.io.atomic import storage_errors
from bertfeat.io.json_codec import JsonError, canonical_json, decode_json
from bertfeat.io.result_folder import STATE_FOLDER, make_state_folder

LOCK_NAME = "lock"
_PIDS = range(1, 2**31)


@dataclass(frozen=True, slots=True)
class LockOwner:
    """The process that holds, or held, a folder's lock."""

    host: str
    boot: str  # id of the machine's last start: equal in all containers of one machine
    pid: int
    ticks: int  # when the process started, which distinguishes it from a later one of the same number
    since: str

    @classmethod
    def current(cls) -> "LockOwner":
        """This process."""
        since = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(socket.gethostname(), _boot_id(), os.getpid(), _start_ticks(os.getpid()), since)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since}"

    @property
    def is_local(self) -> bool:
        """Whether the process ran on this machine, so that this process can see it."""
        return self.host == socket.gethostname() or (self.boot == _boot_id() != "")

    @property
    def is_gone(self) -> bool:
        """Whether the process is known to have ended, or its number now belongs to another one."""
        if not self.is_local:
            return False
        if self.pid not in _PIDS:
            return True
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass  # it runs, but belongs to another user
        return self.ticks != _start_ticks(self.pid)


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Lock the folder, made if need be, against other runs; a lock that a dead run left is taken over.

    The lock is an flock, which the system drops when the process ends, however it ends. Where the file system
    has none, and for runs on other machines, the file's content decides.

    Raises:
        FolderLockedError: another run holds the folder; the message names its process and host.
        StorageError: the folder cannot be written.
    """
    with storage_errors(folder):
        handle, path = _acquire(folder)
    try:
        yield
    finally:
        # removed while still held: afterwards it could be the new lock of another run
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
            path.parent.rmdir()  # if there is nothing else in it
        os.close(handle)


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
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
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


def _start_ticks(pid: int) -> int:
    """When the process started, in clock ticks since the machine did; 0 where the system does not say."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""

"""The process that holds a lock or a claim: which one it is, and whether it is known to have ended."""

import os
import socket
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

_PIDS = range(1, 2**31)


@dataclass(frozen=True, slots=True)
class LockOwner:
    """The process that holds, or held, a folder's lock."""

    host: str
    boot: str  # id of the machine's last start: equal in all containers of one machine
    pid: int
    ticks: int  # when the process started, which distinguishes it from a later process with the same pid
    since: str  # UTC time at which it took the lock
    space: str = ""  # the pid namespace of the process: each container has its own

    @classmethod
    def current(cls) -> "LockOwner":
        """This process."""
        since = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(socket.gethostname(), _boot_id(), os.getpid(), _start_ticks(os.getpid()), since, _pid_space())

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since}"

    def is_process_of(self, other: "LockOwner") -> bool:
        """Whether both are the same process; the times since when they hold something may differ."""
        return replace(self, since=other.since) == other

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

    @property
    def is_surely_gone(self) -> bool:
        """Whether the process is known to have ended, and is of the same host, boot and pid namespace as this one.

        For use where no flock confirms it: a process of another container cannot be seen from here, and may be alive.
        """
        here = (socket.gethostname(), _boot_id(), _pid_space())
        return (self.host, self.boot, self.space) == here and "" not in here and self.is_gone


def _start_ticks(pid: int) -> int:
    """Return the start time of the process, in clock ticks since the machine's start; 0 if the system does not tell."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _pid_space() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""

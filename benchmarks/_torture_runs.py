"""Commands as processes: forked from a server that has imported the libraries, and done violence to."""

import contextlib
import faulthandler
import multiprocessing
import os
import resource
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType

SERVER = multiprocessing.get_context("forkserver")
PRELOADED = [
    *("bertfeat.cli.extract", "bertfeat.cli.verify", "bertfeat.core.extraction.run", "obstore"),
    *("bertfeat.core.extraction.joining", "bertfeat.scale.processes"),
    *("transformers.models.auto", "transformers.models.bert"),
]
HOST, FILE_BYTES = "TORTURE_HOST", "TORTURE_FILE_BYTES"
"""In a process's environment: what it takes for its machine's name, and the largest file that it may write."""

_POLL = 0.003


@dataclass
class Run:
    """A process that runs a command."""

    role: str
    process: BaseProcess
    log: Path
    began: float = field(default_factory=time.monotonic)
    harmed: str = ""  # "killed", "terminated", "stopped": what was done to it

    @property
    def alive(self) -> bool:
        return self.process.is_alive()

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def send(self, number: signal.Signals) -> bool:
        """Send a signal to a process that is alive."""
        if not self.alive:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)
            return True
        return False

    @property
    def text(self) -> str:
        """What it has printed."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""


class Crew:
    """The processes of one attempt."""

    def __init__(self) -> None:
        self.runs: list[Run] = []

    @property
    def alive(self) -> list[Run]:
        return [run for run in self.runs if run.alive]

    def wait(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Wait until all have ended, or something holds; False if that was not so in time."""
        end = time.monotonic() + seconds
        while self.alive and not until():
            if time.monotonic() > end:
                return False
            time.sleep(_POLL)
        return True

    def end(self) -> None:
        """End what is left, with all of its children."""
        for run in self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.process.kill()  # one that has no group of its own yet
            run.process.join()


def start_run(role: str, command: Sequence[str], environment: Mapping[str, str], log: Path) -> Run:
    """Start a command in a process of its own."""
    process = SERVER.Process(target=_execute, args=(list(command), dict(environment), str(log)))
    process.start()
    return Run(role, process, log)


def _execute(command: list[str], environment: dict[str, str], log: str) -> None:
    sys.modules["__main__"] = ModuleType("__main__")  # worker processes are not to import the benchmark
    with contextlib.suppress(PermissionError):
        os.setpgid(0, 0)
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    os.environ.update(environment)
    tempfile.tempdir = None  # as the server found it
    if name := environment.get(HOST):
        socket.gethostname = lambda: name
    if size := environment.get(FILE_BYTES):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), int(size)))
    from bertfeat.cli import run

    sys.argv = command
    run()


def children(pid: int) -> Iterator[tuple[int, str]]:
    """The children of a process, and their command lines."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError, IndexError, ValueError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == pid:
                    yield (
                        int(entry.name),
                        (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"),
                    )

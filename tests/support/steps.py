"""A command stopped or killed at one of its own steps: the n-th time that it touches a folder.

A step is an audit event of Python (PEP 578): a file opened, renamed or removed, a folder made, a lock taken. The
product knows nothing of this: :func:`start` runs it in a process that was given an audit hook first. What libraries
written in C do to files (FAISS, pyarrow) raises no event, and falls between two of them.

    events = steps(["index", "a.features"], [work])            # what an undisturbed run does, in order
    with start(["index", "a.features"], [work], stop=Stop(3, signal.SIGSTOP)) as run:
        run.wait_until_stopped()
        ...                                                      # others do what they want meanwhile
        run.go_on()
        ended = run.wait()

Processes are forked from a server that has imported the libraries already (:func:`preload` names more of them), so that
each costs some 50 ms. ``prepare`` names a function ``module:function`` that is called in the process first, to stand in
for parts of the system.
"""

import ast
import contextlib
import functools
import importlib
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PRELOADED = ["bertfeat.cli", "tests.support.steps"]
_OF_ONE_PATH = ("open", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.scandir", "os.listdir", "fcntl.flock")
_OF_TWO_PATHS = ("os.rename", "os.link", "os.symlink", "shutil.copyfile", "shutil.move")
EVENTS = dict.fromkeys((*_OF_ONE_PATH, "shutil.rmtree"), 1) | dict.fromkeys(_OF_TWO_PATHS, 2)  # event: its paths
_RELATIVE = ("os.remove", "os.mkdir", "os.rmdir")  # whose last argument may be the handle of a folder
SECONDS = 60.0  # for which a process may run


@dataclass(frozen=True, slots=True)
class Stop:
    """At which step a process sends itself which signal: SIGKILL, or SIGSTOP, after which it can go on."""

    step: int  # from 1
    signal: signal.Signals


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended, and what it wrote."""

    exit_code: int  # negative: the signal that ended it
    stdout: str
    stderr: str


class Running:
    """A command in a process of its own."""

    def __init__(self, process: Any, output: Path) -> None:
        self._process, self._output = process, output

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_error: object) -> None:
        if self._process.is_alive():  # stopped, perhaps
            self._process.kill()
        self._process.join()
        shutil.rmtree(self._output, ignore_errors=True)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return int(self._process.pid)

    def wait_until_stopped(self) -> bool:
        """Wait until the process has stopped itself; False if it ended without."""
        for _ in _patiently():
            if not self._process.is_alive():
                return False
            # the server is its parent, so its state is read, not waited for
            if Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T":
                return True
        raise TimeoutError(f"process {self.pid} neither stopped nor ended")

    def go_on(self) -> None:
        """Let a stopped process go on."""
        os.kill(self.pid, signal.SIGCONT)

    def wait(self) -> Ended:
        """Wait until the process has ended."""
        self._process.join(SECONDS)
        if self._process.exitcode is None:
            raise TimeoutError(f"process {self.pid} did not end: {self._text('stderr')}")
        return Ended(self._process.exitcode, self._text("stdout"), self._text("stderr"))

    def _text(self, name: str) -> str:
        path = self._output / name
        return path.read_text(errors="replace") if path.exists() else ""


def start(
    arguments: Sequence[str | Path],
    folders: Sequence[Path],
    *,
    stop: Stop | None = None,
    log: Path | None = None,
    cwd: Path | None = None,
    prepare: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Running:
    """Start ``bertfeat`` with those arguments; ``folders`` are those whose events count, and what lies in them.

    ``log`` is a file to which every event is written, a line each; ``environment`` are variables beside those of this
    process.
    """
    output = Path(tempfile.mkdtemp(prefix="steps-"))
    listed = [str(argument) for argument in arguments]
    roots = [os.path.abspath(folder) for folder in folders]
    further = {**os.environ, **(environment or {})}  # the server's are those of whoever started it
    told = (
        listed,
        roots,
        stop,
        None if log is None else str(log),
        str(cwd or Path.cwd()),
        str(output),
        prepare,
        further,
    )
    process = _server().Process(target=_run, args=told)
    process.start()
    return Running(process, output)


def steps(
    arguments: Sequence[str | Path],
    folders: Sequence[Path],
    *,
    cwd: Path | None = None,
    prepare: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> list[str]:
    """The events of an undisturbed run that concern the folders, in order: ``os.rename …``.

    Raises:
        RuntimeError: the run failed.
    """
    with tempfile.TemporaryDirectory(prefix="steps-") as work:
        log = Path(work) / "log"
        with start(arguments, folders, log=log, cwd=cwd, prepare=prepare, environment=environment) as run:
            ended = run.wait()
        if ended.exit_code:
            raise RuntimeError(f"the undisturbed run ended with {ended.exit_code}: {ended.stderr}")
        return log.read_text(errors="replace").splitlines() if log.exists() else []


def preload(*modules: str) -> None:
    """Let the server import those modules too; to be called before the first command is started."""
    whole = [name for module in modules for name in (module, *lazy_modules(module))]
    PRELOADED.extend(name for name in whole if name not in PRELOADED)


def lazy_modules(package: str) -> list[str]:
    """The modules from which a package exports names when they are first asked for; none if it is no such package."""
    stub = ROOT / Path(*package.split(".")) / "__init__.pyi"
    if not stub.is_file():
        return []
    imported = [node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ImportFrom)]
    return [f"{package}.{node.module}" for node in imported]


@functools.cache
def _server() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def _run(
    arguments: list[str],
    roots: list[str],
    stop: Stop | None,
    log: str | None,
    cwd: str,
    output: str,
    prepare: str | None,
    environment: dict[str, str],
) -> None:
    """In the new process: hand stdout and stderr to files, install the hook, run the command."""
    os.environ.clear()
    os.environ.update(environment)
    os.environ["OMP_NUM_THREADS"] = "1"  # FAISS's threads would be many processes' times many
    for number, name in ((1, "stdout"), (2, "stderr")):
        handle = os.open(Path(output) / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(handle, number)
    os.chdir(cwd)
    from bertfeat.cli import run

    if prepare is not None:
        module, _, function = prepare.partition(":")
        getattr(importlib.import_module(module), function)()
    install(roots, stop, log)
    sys.argv = ["bertfeat", *arguments]
    run()


def install(roots: Sequence[str], stop: Stop | None, log: str | None) -> None:
    """Install the hook in this process, for good: Python removes none."""
    sys.addaudithook(_Hook(roots, stop, log))


class _Hook:
    """Counts the events that concern some folders, and sends a signal at one of them, before it happens."""

    def __init__(self, roots: Sequence[str], stop: Stop | None, log: str | None) -> None:
        self._roots, self._stop = tuple(roots), stop
        self._log = None if log is None else os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._count = 0
        self._inside = False  # what the hook itself does is no step

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in EVENTS or self._inside:
            return
        self._inside = True
        try:
            paths = [path for path in map(_path, arguments[: EVENTS[event]]) if path is not None]
            if event in _RELATIVE and paths:
                paths = [_beside(arguments[-1], paths[0])]
            if not any(self._concerns(path) for path in paths):
                return
            self._count += 1
            if self._log is not None:
                os.write(self._log, f"{event} {' '.join(paths)}\n".encode(errors="replace"))
            if self._stop is not None and self._count == self._stop.step:
                os.kill(os.getpid(), self._stop.signal)
        finally:
            self._inside = False

    def _concerns(self, path: str) -> bool:
        return any(path == root or path.startswith(f"{root}{os.sep}") for root in self._roots)


def _path(argument: object) -> str | None:
    """The absolute path that an argument of an event is: a path, or the handle of an open file."""
    if isinstance(argument, str | bytes | os.PathLike):
        return os.path.abspath(os.fsdecode(argument))
    if isinstance(argument, int) and not isinstance(argument, bool) and argument > 2:
        with contextlib.suppress(OSError):
            return os.readlink(f"/proc/self/fd/{argument}")
    return None


def _beside(folder: int, path: str) -> str:
    """A path that was given relative to the handle of a folder, such as by ``shutil.rmtree``."""
    if folder < 0:
        return path
    with contextlib.suppress(OSError):
        return os.path.join(os.readlink(f"/proc/self/fd/{folder}"), os.path.basename(path))
    return path


def _patiently(seconds: float = SECONDS) -> Iterator[None]:
    """Times to look again, for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        time.sleep(0.002)

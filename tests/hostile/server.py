"""A process with everything imported that forks for each command: ``python -m tests.hostile.server``.

A command costs a fork instead of a start of the interpreter, and may hang, abort or die of a signal: that is then its
result. Requests come as lines of JSON on standard input, results go as lines of JSON to standard output.
"""

import contextlib
import faulthandler
import fcntl
import importlib
import io
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, cast

from tests.support.steps import Stop, install, lazy_modules

CLOSED, BROKEN = "closed", "broken"
IDLE = 25.0  # seconds in which a process that waits for nothing that comes does nothing
_IMPORTED = (
    *("bertfeat.cli.learning", "bertfeat.cli.plot", "bertfeat.core.extraction", "bertfeat.learning"),
    "bertfeat.search.index",
    *("bertfeat.search.building.build", "bertfeat.search.building.update"),
    *("bertfeat.search.verify", "bertfeat.search.evaluation.recall"),
    *("bertfeat.usages.search", "bertfeat.usages.senses"),
    *(
        "bertfeat.usages",
        "bertfeat.study",
        "bertfeat.plots",
        "bertfeat.search.evaluation.beir",
        "bertfeat.search",
        "faiss",
    ),
    *("sklearn.linear_model", "sklearn.manifold", "matplotlib.figure", "matplotlib.backends.backend_agg"),
    *("ir_measures", "transformers", "safetensors.torch", "tests.support.tiny_models"),
    *("torch._dynamo", "pytrec_eval", "pyarrow.pandas_compat"),
)
_MODES = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)


def main() -> None:
    """Answer requests until there are no more."""
    import bertfeat.cli

    "".encode("utf-8-sig")  # which a fork that runs as nobody could not import
    for package in _IMPORTED:
        for name in (package, *lazy_modules(package)):
            importlib.import_module(name)
    for verb in bertfeat.cli.main.list_commands(None):
        bertfeat.cli.main.get_command(None, verb)
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    requests = os.fdopen(os.dup(0), "r")
    for line in requests:
        reply = _served(json.loads(line))
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def _served(asked: dict[str, Any]) -> dict[str, Any]:
    started = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _be_the_command(asked)
    timed_out = not _ends(pid, asked["limit"])
    if timed_out:
        _kill(pid)
    _, status, used = os.wait4(pid, 0)
    _end_its_children(pid)
    return {
        "code": os.waitstatus_to_exitcode(status),
        "timed_out": timed_out,
        "seconds": time.monotonic() - started,
        "processor": used.ru_utime + used.ru_stime,
        "megabytes": used.ru_maxrss / 1024,
    }


def _ends(pid: int, limit: float) -> bool:
    """Whether a process ends within so many seconds, and does something meanwhile; it is left to be waited for."""
    handle = os.pidfd_open(pid)
    now = time.monotonic()
    deadline, used, busy = now + limit, -1, now
    try:
        while not select.select([handle], [], [], 1.0)[0]:
            before, used, now = used, _used(pid), time.monotonic()
            busy = now if used != before else busy
            if now > min(deadline, busy + IDLE):
                return False
        return True
    finally:
        os.close(handle)


def _used(pid: int) -> int:
    """Clock ticks that a process has computed for, all of its threads; another number each time while it can run."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return time.monotonic_ns() if fields[0] in "RD" else int(fields[11]) + int(fields[12])


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGUSR1)  # it writes where it is
    _ends(pid, 2.0)
    os.kill(pid, signal.SIGKILL)


def _end_its_children(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


# ── in the fork ─────────────────────────────────────────────────────────────────────────────────────────────


def _be_the_command(asked: dict[str, Any]) -> NoReturn:
    code = 99
    try:
        os.setsid()
        os.chdir(asked["folder"])
        os.environ.update(asked["environment"])
        _limit_memory(asked["gigabytes"])
        where = os.open(asked["where"], os.O_WRONLY | os.O_CREAT, 0o666)
        faulthandler.register(signal.SIGUSR1, file=fcntl.fcntl(where, fcntl.F_DUPFD_CLOEXEC, 100))  # out of the way
        os.close(where)
        _take_streams(asked["streams"])
        if asked["user"] is not None:
            os.setgroups([])
            os.setgid(asked["user"])
            os.setuid(asked["user"])
        if asked["step"] is not None:
            install([asked["step_folder"]], Stop(asked["step"], signal.Signals(asked["signal"])), asked["log"])
        _job(asked)()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        with contextlib.suppress(BaseException):
            sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                if stream is not None:
                    stream.flush()
            except (OSError, ValueError):
                code = 120  # as the interpreter does
        os._exit(code)
    raise AssertionError


def _job(asked: dict[str, Any]) -> Callable[[], Any]:
    if asked["call"] is not None:
        module, _, name = asked["call"].partition(":")
        return lambda: getattr(importlib.import_module(module), name)(*asked["arguments"])
    import bertfeat.cli

    sys.argv = ["bertfeat", *asked["arguments"]]
    return cast("Callable[[], Any]", bertfeat.cli.run)


def _limit_memory(gigabytes: float | None) -> None:
    if gigabytes is not None:
        limit = int(gigabytes * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _take_streams(places: list[str]) -> None:
    """Let the standard streams be files, or be closed, as the interpreter finds them at its start."""
    for number, (place, mode) in enumerate(zip(places, _MODES, strict=True)):
        if place == CLOSED:
            os.close(number)
            continue
        handle = _broken_pipe() if place == BROKEN else os.open(place, mode, 0o666)
        os.dup2(handle, number)
        os.close(handle)
    sys.stdin = None if places[0] == CLOSED else _text(0, "r", "strict")
    sys.stdout = None if places[1] == CLOSED else _text(1, "w", "strict")
    sys.stderr = None if places[2] == CLOSED else _text(2, "w", "backslashreplace")
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]


def _broken_pipe() -> int:
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def _text(number: int, mode: str, errors: str) -> io.TextIOWrapper:
    raw = io.FileIO(number, mode, closefd=False)
    buffered = io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
    return io.TextIOWrapper(buffered, "utf-8", errors, line_buffering=number == 2)


if __name__ == "__main__":
    main()

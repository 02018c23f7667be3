"""Benchmarks at toy size: python -m tests.support.toy_run

A line on stdin (JSON: folder, script, constants, arguments, output) is one run, which is answered by its exit code;
what it prints goes to the file ``output``.

A start of Python takes longer than what a toy does. So each run is forked from this process, which has imported the
libraries; and what a script starts a process for, which are commands of bertfeat and the ways of a duel, stays in it.
"""

import contextlib
import importlib
import io
import json
import os
import runpy
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

PRELOADED = ("torch", "transformers.models.bert", "sentence_transformers", "bertfeat.cli", "bertfeat.core.extraction")

Work = Callable[[], Any]


def serve() -> None:
    """Fork a process for each line."""
    for name in PRELOADED:
        importlib.import_module(name)
    for line in sys.stdin:
        asked = json.loads(line)
        output = Path(asked.pop("output"))
        if child := os.fork():
            sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
            sys.stdout.flush()
        else:
            os._exit(_exit_code(partial(run_toy, **asked), output))


def _exit_code(work: Work, output: Path) -> int:
    """Do the work of a process whose streams are a file, and which reads nothing."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for stream in (1, 2):
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    try:
        work()
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def run_toy(folder: str, script: str, constants: Mapping[str, object], arguments: Sequence[str]) -> None:
    """Run a script of ``folder``, beside which it works, with other values for constants of its module."""
    os.chdir(Path(folder).parent)
    sys.path.insert(0, folder)
    sys.argv = [f"{folder}/{script}.py", *arguments]
    _do_little()
    _stay_in_this_process()
    module = _module(script)
    for constant, value in constants.items():
        assert hasattr(module, constant), constant
        setattr(module, constant, value)
    module.main()


def _do_little() -> None:
    """Measure once and not for some time, train for an epoch, and wait for no disk."""
    rate = _module("bertfeat.core.encoder").product_rate
    _module("bertfeat.core.encoder").product_rate = lambda *shape, rows: rate(*shape, rows=min(rows, 64), repeats=1)
    _module("bertfeat.search.evaluation.recall").SECONDS_TIMED = 0.0
    _module("bertfeat.pretraining.calls").SECONDS_MEASURED = 0.0
    _module("bertfeat.learning.loop").is_over = lambda history, _settings: bool(history)
    _module("_machine").digest_of_room = lambda _room: "not looked at"
    _module("os").fsync = lambda _file: None


def _stay_in_this_process() -> None:
    _module("_commands").printed = _printed
    _module("_duel")._running = _way
    _module("_duel")._ask = _seconds


def _module(name: str) -> Any:
    """A module whose names are replaced."""
    return importlib.import_module(name)


def _printed(command: Sequence[str], **environment: str) -> str:
    """Run a command of bertfeat, or a script, and return what it prints."""
    from bertfeat.cli import main

    program, *words = command
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), mock.patch.dict(os.environ, environment):
        try:
            if program == sys.executable:
                with mock.patch.object(sys, "argv", words):
                    runpy.run_path(words[0], run_name="__main__")
            else:
                main(words, prog_name="bertfeat")
        except SystemExit as end:
            if end.code:
                raise subprocess.CalledProcessError(int(end.code), command) from end
    return printed.getvalue()


@contextlib.contextmanager
def _way(way: Any, corpus: Path, model: Path, length: int) -> Iterator[tuple[Work, float]]:
    """Make a way. One that fails inside fails the toy, where a duel would only record it."""
    assert (way.python, way.checkout) == (sys.executable, None), way
    name, *settings = way.function.split(":")
    texts = json.loads(corpus.read_text("utf-8"))
    with mock.patch.dict(os.environ):  # a way may set variables of its process
        try:
            run = getattr(importlib.import_module("_peer"), name)(str(model), length, *settings)
        except ImportError as error:  # of a peer that is not installed, which a duel records
            raise RuntimeError(str(error)) from error
        work = partial(run, texts)
        yield work, _seconds(work)


def _seconds(work: Work) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


if __name__ == "__main__":
    serve()

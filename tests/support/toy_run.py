"""A benchmark at toy size, in this process: python -m tests.support.toy_run FOLDER NAME CONSTANTS ARGUMENTS

What a script starts a process for takes less than the start of that process, so commands of bertfeat and the ways of a
duel run here.
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
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

Work = Callable[[], Any]


def run_toy(folder: str, name: str, constants: str, *arguments: str) -> None:
    """Run the script of a name in ``folder``, with other values for constants of its module (JSON) and of ours."""
    sys.path.insert(0, folder)
    sys.argv = [f"{folder}/{name}.py", *arguments]
    _do_little()
    _stay_in_this_process()
    script = importlib.import_module(name)
    for constant, value in json.loads(constants).items():
        assert hasattr(script, constant), constant
        setattr(script, constant, value)
    script.main()


def _do_little() -> None:
    """Measure once and not for some time, train for an epoch, and wait for no disk."""
    from bertfeat import encoder
    from bertfeat.pretraining import estimate
    from bertfeat.search.evaluation import recall
    from bertfeat.training import loop

    def product_rate(*shape: Any, rows: int) -> float:
        return rate(*shape, rows=min(rows, 64), repeats=1)

    rate, encoder.product_rate = encoder.product_rate, product_rate
    recall.SECONDS_TIMED = estimate.SECONDS_MEASURED = 0.0
    loop.is_over = lambda history, _settings: bool(history)
    importlib.import_module("_machine").digest_of_room = lambda _room: "not looked at"
    os.fsync = lambda _file: None


def _stay_in_this_process() -> None:
    commands, duel = (importlib.import_module(name) for name in ("_commands", "_duel"))
    commands.printed = _printed
    duel._running, duel._ask = _way, _seconds


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
    run_toy(*sys.argv[1:])

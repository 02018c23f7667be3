"""The ways of a duel of ``benchmarks/_duel.py`` in this process: to start one takes longer than all that a toy does."""

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

Work = Callable[[], Any]


def run_in_this_process(duel: ModuleType) -> None:
    """Let a duel make its ways here. One that fails inside fails the toy, where a duel would only record it."""
    duel._running = _made  # type: ignore[attr-defined]
    duel._ask = _timed  # type: ignore[attr-defined]


@contextmanager
def _made(way: Any, corpus: Path, model: Path, length: int) -> Iterator[tuple[Work, float]]:
    assert (way.python, way.checkout) == (sys.executable, None), way
    name, *settings = way.function.split(":")
    texts = json.loads(corpus.read_text("utf-8"))
    with mock.patch.dict(os.environ):  # a way may set variables of its process
        try:
            run = getattr(importlib.import_module("_peer"), name)(str(model), length, *settings)
        except ImportError as error:  # of a peer that is not installed, which a duel records
            raise RuntimeError(str(error)) from error

        def work() -> Any:
            return run(texts)

        yield work, _timed(work)


def _timed(work: Work) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin

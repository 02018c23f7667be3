"""Waiting for object storage: each request runs on a thread of its own, so that signals end the wait at once.

A request that waited inside of native code could not be interrupted: Ctrl-C would take effect when the last retry is
over, minutes later. obstore's asynchronous calls are no way out: their answers are brought by threads of Rust that call
into Python, and may still be inside of such a call when the interpreter ends, which then unwinds them through Rust's
frames and aborts the process (exit code 134). A blocking call brings its answer back on the thread that made it.
"""

import logging
import os
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from bertfeat.errors import StorageError, UsageError
from bertfeat.io.storage.object_errors import ANSWERS, TIMEOUT_VARIABLE, explain_error, is_passing, reason_of_error

_log = logging.getLogger("bertfeat")
_process = 0  # the first one that asked; 0 before
_MOST_PAUSE = 15.0  # seconds between two attempts
_SILENT = 5.0  # seconds without an answer of which nothing is said

T = TypeVar("T")


def patience() -> float:
    """For how many seconds a request is tried.

    Raises:
        UsageError: the variable of the environment is no positive number.
    """
    text = os.environ.get(TIMEOUT_VARIABLE) or "180"
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise UsageError("is no positive number of seconds", where=f"{TIMEOUT_VARIABLE}={text}")
    return seconds


def ask_storage(place: str, seconds: float, request: Callable[[], T], *, profile: bool = False) -> T:
    """The answer to a request, which is asked again for so many seconds as long as only the network fails.

    Asking twice must do no harm.

    Raises:
        FileNotFoundError: there is no such object.
        StorageError: no answer, or a refusal.
    """
    start, pause, told = time.monotonic(), 0.1, False
    while True:
        try:
            return _wait(request)
        except ANSWERS as error:
            left = start + seconds - time.monotonic()
            if left <= 0 or not is_passing(error):
                raise explain_error(error, place, profile=profile) from error
            if not told and left < seconds - _SILENT:
                _log.warning("%s does not answer (%s); trying for another %.0f s", place, reason_of_error(error), left)
                told = True
        time.sleep(min(left, pause * random.uniform(0.5, 1)))
        pause = min(2 * pause, _MOST_PAUSE)


def _wait(request: Callable[[], T]) -> T:
    _refuse_fork()
    answer: Future[T] = Future()

    def ask() -> None:
        try:
            answer.set_result(request())
        except BaseException as error:
            # a panic of obstore's Rust is no Exception; those that settings cause are refused before
            is_panic = type(error).__name__ == "PanicException"
            answer.set_exception(StorageError(f"obstore failed: {error}") if is_panic else error)

    threading.Thread(target=ask, name="object-storage", daemon=True).start()
    return answer.result()


def _refuse_fork() -> None:
    """Refuse processes in which obstore's threads stayed behind, where a request would wait for ever."""
    global _process
    _process = _process or os.getpid()
    if _process != os.getpid():
        raise StorageError(
            "object storage cannot be used in a process that was forked from one that used it",
            remedy="start processes with multiprocessing's 'spawn'",
        )

"""Waiting for object storage: obstore's requests run on a thread of their own, so that signals end the wait at once.

A request that waited inside of native code could not be interrupted: Ctrl-C would take effect when the last retry is
over, minutes later.
"""

import asyncio
import logging
import os
import random
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from bertfeat.errors import StorageError, UsageError
from bertfeat.io.storage.object_errors import ANSWERS, TIMEOUT_VARIABLE, explain_error, is_passing, reason_of_error

_log = logging.getLogger("bertfeat")
_loops: dict[int, asyncio.AbstractEventLoop] = {}  # of the process of that number, and none of others
_loops_lock = threading.Lock()
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


def ask_storage(place: str, seconds: float, request: Callable[[], Awaitable[T]], *, profile: bool = False) -> T:
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


def _wait(request: Callable[[], Awaitable[T]]) -> T:
    async def answer() -> T:
        return await request()

    future = asyncio.run_coroutine_threadsafe(answer(), _loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _loop() -> asyncio.AbstractEventLoop:
    with _loops_lock:
        if not _loops:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="object-storage", daemon=True).start()
            _loops[os.getpid()] = loop
        if os.getpid() not in _loops:  # obstore's threads stayed behind, and a request would wait for ever
            raise StorageError(
                "object storage cannot be used in a process that was forked from one that used it",
                remedy="start processes with multiprocessing's 'spawn'",
            )
        return _loops[os.getpid()]

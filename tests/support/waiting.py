"""Waiting for what is about to happen: for a condition, and not for a time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(happened: Callable[[], T], seconds: float = 60) -> T:
    """Ask again and again until the answer is true, and give it; after so many seconds the test fails."""
    end = time.monotonic() + seconds
    while not (found := happened()):
        assert time.monotonic() < end, f"it did not happen in {seconds:g} s; the last answer was {found!r}"
        time.sleep(0.005)
    return found

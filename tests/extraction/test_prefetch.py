"""Working one item ahead: order, errors, and never more than one."""

import threading
import time
from collections.abc import Iterator

import pytest

from bertfeat.io.threads import prefetched


def test_all_items_in_order() -> None:
    assert list(prefetched(iter(range(100)))) == list(range(100))
    assert list(prefetched(iter(()))) == []


def test_an_error_comes_in_its_place() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    found = prefetched(items())
    assert next(found) == 1
    with pytest.raises(ValueError, match="broken"):
        next(found)


def test_one_item_is_made_ahead_and_no_more() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in range(5):
            made.append(number)
            yield number

    for number in prefetched(items()):
        limit = time.monotonic() + 5
        while len(made) < min(5, number + 2) and time.monotonic() < limit:
            time.sleep(0.005)
        time.sleep(0.03)  # time to make another one
        assert made == list(range(min(5, number + 2)))


def test_closing_ends_the_thread() -> None:
    before = set(threading.enumerate())
    found = prefetched(iter(range(100)))
    next(found)
    (thread,) = set(threading.enumerate()) - before
    found.close()
    thread.join(timeout=5)
    assert not thread.is_alive()

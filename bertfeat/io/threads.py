"""A pool of threads, and an iterator that works one item ahead of its consumer, both in their caller's context.

The context variables of the caller decide, for example, how parameters are spelled in messages.
"""

import sys
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor  # noqa: TID251  # its only home
from contextlib import closing
from contextvars import copy_context
from queue import Empty, Queue
from typing import Generic, ParamSpec, TypeVar

T = TypeVar("T")
_Given = ParamSpec("_Given")
_PATIENCE = 0.1  # seconds between checks for Ctrl-C and for whether the consumer has closed the iterator


class ContextPool(ThreadPoolExecutor):
    """A pool of threads that runs each call in a copy of its caller's context (PEP 567)."""

    def submit(self, call: Callable[_Given, T], /, *given: _Given.args, **named: _Given.kwargs) -> Future[T]:
        """Run a call on a thread of the pool, in a copy of the caller's context."""
        return super().submit(copy_context().run, call, *given, **named)  # type: ignore[arg-type]

    def shutdown(
        self, wait: bool = True, *, cancel_futures: bool = False, _is_ending: Callable[[], bool] = sys.is_finalizing
    ) -> None:
        """End the threads; nothing is left to do where the interpreter ends, which has waited for them already."""
        if not _is_ending():  # then an iterator that was left early is closed late, when the modules are gone
            super().shutdown(wait, cancel_futures=cancel_futures)


def prefetched(items: Iterator[T], *, join: bool = False) -> Generator[T, None, None]:
    """Yield the items of ``items``; a thread makes each while the one before is used, and its errors are raised here.

    Closing the iterator, as an exception in its consumer does, ends the thread after the item that it is making;
    ``join`` waits for that.
    """
    with closing(_Prefetcher(items, join=join)) as ahead:
        yield from ahead


class _Prefetcher(Generic[T]):
    def __init__(self, items: Iterator[T], *, join: bool) -> None:
        self._items, self._join = items, join
        self._queue: Queue[tuple[T | None, BaseException | None]] = Queue()
        self._taken, self._closed = threading.Event(), threading.Event()
        # a daemon: an interrupted process does not wait for a part that is no longer needed
        run = copy_context().run
        self._thread = threading.Thread(target=run, args=(self._fill,), name="bertfeat-ahead", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        while True:
            try:  # in short waits, so that Ctrl-C takes effect at once
                item, error = self._queue.get(timeout=_PATIENCE)
            except Empty:
                continue
            self._taken.set()
            if error is not None:
                if isinstance(error, StopIteration):
                    return
                raise error
            yield item  # type: ignore[misc]  # None stands for an item only beside an error

    def close(self) -> None:
        """Stop making items."""
        self._closed.set()
        if self._join:
            self._thread.join()

    def _fill(self) -> None:
        try:
            for item in self._items:
                if not self._hand_over((item, None)):
                    return
                del item  # so that only the consumer keeps it in memory
        except BaseException as error:
            self._hand_over((None, error))
        else:
            self._hand_over((None, StopIteration()))

    def _hand_over(self, entry: tuple[T | None, BaseException | None]) -> bool:
        """Wait until the entry is taken, so that no more than one is ever ahead; False if the iterator was closed."""
        self._queue.put(entry)
        while not self._closed.is_set():
            if self._taken.wait(_PATIENCE):
                self._taken.clear()
                return True
        return False

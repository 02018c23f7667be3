"""Values that are computed in the background, when they are first wanted."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Background(Generic[_T]):
    """A value that is computed once, on a thread of its own, which starts when the value is first wanted."""

    def __init__(self, compute: Callable[[], _T], name: str) -> None:
        self._compute, self._name = compute, name
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._value: _T | None = None
        self._error: Exception | None = None

    def start(self) -> threading.Thread:
        """Begin, if it has not begun."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
            return self._thread

    def wait(self) -> _T:
        """Return the computed value when it is there. An error of the computation is raised."""
        self.start().join()
        value = self.value()
        assert value is not None
        return value

    def value(self) -> _T | None:
        """Return the computed value; None while it is not there yet. An error of the computation is raised."""
        self.start()
        if self._error is not None:
            raise self._error.with_traceback(None)
        return self._value

    def _work(self) -> None:
        try:
            self._value = self._compute()
        except Exception as error:
            self._error = error

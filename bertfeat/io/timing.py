"""Where the time goes: seconds of each stage, while somebody asks."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock

Seconds = Mapping[str, float]

_recorder: "_Recorder | None" = None


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Mark a stage of the work, which :func:`recorded_stages` then times; else it costs nothing to speak of."""
    recorder = _recorder
    if recorder is None:
        yield
        return
    begin = recorder.now()
    yield
    recorder.add(name, recorder.now() - begin)


@contextmanager
def recorded_stages(settle: Callable[[], None] = lambda: None) -> Iterator[Seconds]:
    """Record the seconds of every stage of this process, on whatever thread; ``settle`` waits for a device's work."""
    global _recorder
    _recorder = _Recorder(settle)
    try:
        yield _recorder.seconds
    finally:
        _recorder = None


class _Recorder:
    def __init__(self, settle: Callable[[], None]) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._settle = settle
        self._lock = Lock()

    def add(self, name: str, seconds: float) -> None:
        """Add to a stage, which several threads may be at."""
        with self._lock:
            self.seconds[name] += seconds

    def now(self) -> float:
        self._settle()
        return time.perf_counter()

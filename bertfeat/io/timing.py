"""Timing of the stages of the work, such as tokenizing and writing, recorded if the caller asks for it."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock

Seconds = Mapping[str, float]


class _StageRecorder:
    """Adds up the seconds of each stage, whatever threads it runs on."""

    def __init__(self, synchronize: Callable[[], None]) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._synchronize = synchronize
        self._lock = Lock()

    def add(self, name: str, seconds: float) -> None:
        """Add to a stage, which may run on several threads."""
        with self._lock:
            self.seconds[name] += seconds

    def now(self) -> float:
        """The time, once the device has done its work."""
        self._synchronize()
        return time.perf_counter()


_recorder: ContextVar[_StageRecorder | None] = ContextVar("recorder", default=None)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Mark a stage of the work, which :func:`recorded_stages` then times; otherwise it costs almost nothing."""
    recorder = _recorder.get()
    if recorder is None:
        yield
        return
    begin = recorder.now()
    yield
    recorder.add(name, recorder.now() - begin)


def record_stages(seconds: Seconds) -> None:
    """Add seconds of stages that the caller has measured itself; does nothing if stages are not recorded."""
    if recorder := _recorder.get():
        for name, each in seconds.items():
            recorder.add(name, each)


@contextmanager
def recorded_stages(synchronize: Callable[[], None] = lambda: None) -> Iterator[Seconds]:
    """Record the seconds of every stage within this block; ``synchronize`` waits for a device's work.

    The recorder is a context variable, so other extractions in the process are not recorded. A thread that belongs to
    the work is started with :func:`contextvars.copy_context`, as :func:`bertfeat.io.prefetched` does.
    """
    recorder = _StageRecorder(synchronize)
    token = _recorder.set(recorder)
    try:
        yield recorder.seconds
    finally:
        _recorder.reset(token)

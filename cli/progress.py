"""Progress of a long run on stderr: a bar on a terminal, a line a minute elsewhere, nothing when quiet."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from .console import Talk, duration, tell

if TYPE_CHECKING:
    from bertfeat.extraction import Progress
    from bertfeat.search import BuildProgress

SECONDS_BETWEEN_LINES = 60.0

Told = TypeVar("Told")  # what a run tells of its progress


@dataclass(frozen=True, slots=True)
class Look:
    """Progress as it is shown."""

    fraction: float  # 0..1
    text: str


def extraction_look(progress: "Progress") -> Look:
    """Documents, tokens a second and the time left, as far as they are known."""
    text = f"{progress.documents:,} documents, {progress.tokens / max(progress.seconds, 1e-9):,.0f} tokens/s"
    if progress.fraction > 0:
        text += f", {duration(progress.seconds * (1.0 - progress.fraction) / progress.fraction)} left"
    return Look(progress.fraction, text)


def build_look(progress: "BuildProgress") -> Look:
    """The step of an index's build, and how far it is."""
    return Look(
        progress.done / max(progress.total, 1), f"{progress.step} {progress.done:,} of {progress.total:,} vectors"
    )


@contextmanager
def shown_progress(talk: Talk, look: Callable[[Told], Look]) -> Iterator[Callable[[Told], None] | None]:
    """Give a function to call with the run's progress; None if nobody wants to see it."""
    if talk.quiet:
        yield None
    elif sys.stderr.isatty():
        with _bar() as show:
            yield lambda told: show(look(told))
    else:
        yield _Lines(look)


class _Lines(Generic[Told]):
    """Writes a line a minute."""

    def __init__(self, look: Callable[[Told], Look]) -> None:
        self._look = look
        self._next = time.monotonic() + SECONDS_BETWEEN_LINES

    def __call__(self, told: Told) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + SECONDS_BETWEEN_LINES
            seen = self._look(told)
            tell(f"{seen.fraction:.0%}: {seen.text}")


@contextmanager
def _bar() -> Iterator[Callable[[Look], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda seen: bar.update(task, completed=seen.fraction, description=seen.text)

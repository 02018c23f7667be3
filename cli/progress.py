"""Progress of a long run on stderr: a bar on a terminal, a line a minute elsewhere, nothing when quiet."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from .console import Console, format_duration, write_stderr

if TYPE_CHECKING:
    from bertfeat.extraction import Progress
    from bertfeat.search import BuildProgress

SECONDS_BETWEEN_LINES = 60.0

ProgressT = TypeVar("Told")  # what a run tells of its progress


@dataclass(frozen=True, slots=True)
class ProgressView:
    """Progress as it is shown."""

    fraction: float  # 0..1
    text: str


def view_extraction(progress: "Progress") -> ProgressView:
    """Documents, tokens a second and the time left, as far as they are known."""
    text = f"{progress.documents:,} documents, {progress.tokens / max(progress.seconds, 1e-9):,.0f} tokens/s"
    if progress.fraction > 0:
        text += f", {format_duration(progress.seconds * (1.0 - progress.fraction) / progress.fraction)} left"
    return ProgressView(progress.fraction, text)


def view_index_build(progress: "BuildProgress") -> ProgressView:
    """The step of an index's build, and how far it is."""
    return ProgressView(
        progress.done / max(progress.total, 1), f"{progress.step} {progress.done:,} of {progress.total:,} vectors"
    )


@contextmanager
def progress_display(
    console: Console, look: Callable[[ProgressT], ProgressView]
) -> Iterator[Callable[[ProgressT], None] | None]:
    """Give a function to call with the run's progress; None if nobody wants to see it."""
    if console.quiet:
        yield None
    elif sys.stderr.isatty():
        with _progress_bar() as show:
            yield lambda told: show(look(told))
    else:
        yield _ProgressLines(look)


class _ProgressLines(Generic[ProgressT]):
    """Writes a line a minute."""

    def __init__(self, look: Callable[[ProgressT], ProgressView]) -> None:
        self._look = look
        self._next = time.monotonic() + SECONDS_BETWEEN_LINES

    def __call__(self, told: ProgressT) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + SECONDS_BETWEEN_LINES
            seen = self._look(told)
            write_stderr(f"{seen.fraction:.0%}: {seen.text}")


@contextmanager
def _progress_bar() -> Iterator[Callable[[ProgressView], None]]:
    from rich.console import Console as RichConsole
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=RichConsole(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda seen: bar.update(task, completed=seen.fraction, description=seen.text)

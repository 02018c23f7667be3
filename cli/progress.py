"""Progress of a long run on stderr: a bar on a terminal, a line a minute elsewhere, nothing with ``--quiet``.

A program that stands in for a terminal gets lines where it says so by ``TERM=dumb`` or ``CI``; elsewhere the bar is
drawn twice a second, so that the log of a terminal stays small.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from .console import Console, format_duration, write_stderr

if TYPE_CHECKING:
    from bertfeat.distributed import MergeProgress
    from bertfeat.extraction import Progress
    from bertfeat.pretraining import PretrainingProgress
    from bertfeat.search import BuildProgress

SECONDS_BETWEEN_LINES = 60.0

ProgressT = TypeVar("ProgressT")  # the progress that a run reports


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
    """The step of the build of an index, and how far it is."""
    return ProgressView(
        progress.done / max(progress.total, 1), f"{progress.step} {progress.done:,} of {progress.total:,} vectors"
    )


def view_merge(progress: "MergeProgress") -> ProgressView:
    """The step of a merge, and how far it is."""
    return ProgressView(
        progress.done / max(progress.total, 1), f"{progress.step} {progress.done:,} of {progress.total:,} parts"
    )


def view_pretraining(progress: "PretrainingProgress") -> ProgressView:
    """The stage of a pre-training, its speed and loss, and the time left, as far as they are known."""
    text = progress.stage
    if progress.tokens_per_second is not None:
        text += f", {progress.tokens_per_second:,.0f} tokens/s"
    if progress.loss is not None:
        text += f", loss {progress.loss:.3f}"
    if progress.seconds_left is not None:
        text += f", {format_duration(progress.seconds_left)} left"
    return ProgressView(progress.fraction, text)


@contextmanager
def progress_display(
    console: Console, view: Callable[[ProgressT], ProgressView]
) -> Iterator[Callable[[ProgressT], None] | None]:
    """Yield a function to call with the run's progress, which ``view`` formats; None with ``--quiet``."""
    if console.quiet:
        yield None
    elif _is_live_terminal():
        with _progress_bar() as show:
            yield lambda progress: show(view(progress))
    else:
        yield _ProgressLines(view)


def _is_live_terminal() -> bool:
    dumb = os.environ.get("TERM", "") in ("", "dumb", "unknown") and os.name != "nt"
    return sys.stderr.isatty() and not dumb and os.environ.get("CI", "") in ("", "0", "false")


class _ProgressLines(Generic[ProgressT]):
    """Writes a line a minute."""

    def __init__(self, view: Callable[[ProgressT], ProgressView]) -> None:
        self._view = view
        self._next = time.monotonic() + SECONDS_BETWEEN_LINES

    def __call__(self, progress: ProgressT) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + SECONDS_BETWEEN_LINES
            shown = self._view(progress)
            write_stderr(f"{shown.fraction:.0%}: {shown.text}")


@contextmanager
def _progress_bar() -> Iterator[Callable[[ProgressView], None]]:
    from rich.console import Console as RichConsole
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=RichConsole(stderr=True), refresh_per_second=2, transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda shown: bar.update(task, completed=shown.fraction, description=shown.text)

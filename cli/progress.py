"""Progress of a long run on stderr: a bar on a terminal, a line a minute elsewhere, nothing when quiet."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from .talk import Talk, duration

if TYPE_CHECKING:
    from bertfeat.extraction import Progress

SECONDS_BETWEEN_LINES = 60.0


@contextmanager
def shown_progress(talk: Talk) -> Iterator["Callable[[Progress], None] | None"]:
    """Give a function to call with the run's progress; None if nobody wants to see it."""
    if talk.quiet:
        yield None
    elif sys.stderr.isatty():
        with _bar() as show:
            yield show
    else:
        yield _Lines()


def describe(progress: "Progress") -> str:
    """Documents, tokens a second and the time left, as far as they are known."""
    seconds = max(progress.seconds, 1e-9)
    said = f"{progress.documents:,} documents, {progress.tokens / seconds:,.0f} tokens/s"
    return f"{said}, {duration(_left(progress))} left" if progress.fraction > 0 else said


def _left(progress: "Progress") -> float:
    return progress.seconds * (1.0 - progress.fraction) / progress.fraction


class _Lines:
    """Writes a line a minute."""

    def __init__(self) -> None:
        self._next = time.monotonic() + SECONDS_BETWEEN_LINES

    def __call__(self, progress: "Progress") -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + SECONDS_BETWEEN_LINES
            click.echo(f"{progress.fraction:.0%}: {describe(progress)}", err=True)


@contextmanager
def _bar() -> Iterator["Callable[[Progress], None]"]:
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}"))
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda progress: bar.update(task, completed=progress.fraction, description=describe(progress))

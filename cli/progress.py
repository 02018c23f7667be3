"""Progress of a long run on stderr: a bar on a terminal, a line a minute elsewhere, nothing with ``--quiet``.

A program that stands in for a terminal gets lines where it says so by ``TERM=dumb`` or ``CI``; elsewhere the bar is
drawn twice a second, so that the log of a terminal stays small.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from bertfeat.progress import AnyProgress, Milestone, ignore_progress

from .console import Console, write_stderr

SECONDS_BETWEEN_LINES = 60.0


@contextmanager
def progress_display(console: Console) -> Iterator[Callable[[AnyProgress], None]]:
    """Yield a function to call with the progress of a call; with ``--quiet`` it shows nothing.

    A :class:`bertfeat.progress.Milestone` is a line of its own; the bar begins again below it.
    """
    if console.quiet:
        yield ignore_progress
        return
    live, lines = _is_live_terminal(), _ProgressLines()
    show: Callable[[AnyProgress], None] | None = None
    with ExitStack() as bar:

        def display(progress: AnyProgress) -> None:
            nonlocal show
            if isinstance(progress, Milestone):
                bar.close()
                show = None
                console.say(str(progress))
                return
            show = show or (bar.enter_context(_progress_bar()) if live else lines)
            show(progress)

        yield display


def _is_live_terminal() -> bool:
    dumb = os.environ.get("TERM", "") in ("", "dumb", "unknown") and os.name != "nt"
    return sys.stderr.isatty() and not dumb and os.environ.get("CI", "") in ("", "0", "false")


class _ProgressLines:
    """Writes a line a minute."""

    def __init__(self) -> None:
        self._next = time.monotonic() + SECONDS_BETWEEN_LINES

    def __call__(self, progress: AnyProgress) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + SECONDS_BETWEEN_LINES
            write_stderr(f"{progress.fraction:.0%}: {progress}")


@contextmanager
def _progress_bar() -> Iterator[Callable[[AnyProgress], None]]:
    from rich.console import Console as RichConsole
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=RichConsole(stderr=True), refresh_per_second=2, transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda progress: bar.update(task, completed=progress.fraction, description=str(progress))

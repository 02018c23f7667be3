"""The display of the extraction of corpora that heads learn from, and of the pace of learning."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import click

from bertfeat.display import format_duration
from bertfeat.errors import ROWS_FAILED, pluralize
from bertfeat.progress import AnyProgress

from ..console import Console
from ..progress import progress_display

if TYPE_CHECKING:
    from bertfeat.learning import DatasetReport, Pace


def exit_for_failed_rows(failed: int, console: Console) -> None:
    """End a training with its exit code where rows of its corpora failed; everything else is printed already."""
    if failed:
        console.warn(f"{pluralize(failed, 'row')} of the corpora failed, and nothing was learnt of them")
        raise click.exceptions.Exit(ROWS_FAILED)


class DatasetDisplay:
    """Shows the extraction of one corpus after another, with a line at the end of each, and the pace of training."""

    def __init__(self, console: Console, noun: str) -> None:
        self._console, self._noun = console, noun
        self._open = ExitStack()
        self._show: Callable[[AnyProgress], None] | None = None
        self._paced = False

    def progress(self, progress: AnyProgress) -> None:
        """Show how far an extraction, or the fine-tuning, has come."""
        if self._show is None:
            self._show = self._open.enter_context(progress_display(self._console))
        self._show(progress)

    def report(self, report: "DatasetReport") -> None:
        """Print the result of the extraction of a corpus."""
        self.close()
        extraction = report.extraction
        done = "nothing to do" if extraction.nothing_to_do else format_duration(extraction.seconds)
        self._console.say(f"{extraction.folder}: {pluralize(extraction.counts.documents, self._noun)}, {done}")
        if extraction.failed:
            failed = pluralize(extraction.failed, self._noun)
            self._console.warn(f"{failed} of {report.source} failed; see {extraction.failure_list}")

    def pace(self, pace: "Pace") -> None:
        """Print how long the first training takes; further ones of a table are much alike."""
        if not self._paced:
            most = f"there are {pace.epochs} at most, {format_duration(pace.seconds * pace.epochs)}"
            self._console.say(f"an epoch takes about {format_duration(pace.seconds)} to learn; {most}")
        self._paced = True

    def close(self) -> None:
        """Take the progress off the terminal."""
        self._open.close()
        self._show = None


@contextmanager
def dataset_display(console: Console, noun: str) -> Iterator[DatasetDisplay]:
    """A display of the extraction of corpora, which calls a row by ``noun``; closed at the end."""
    display = DatasetDisplay(console, noun)
    try:
        yield display
    finally:
        display.close()

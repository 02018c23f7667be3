"""The display of a training: corpora that are extracted, epochs and runs, and rows that failed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from bertfeat.errors import ROWS_FAILED, pluralize
from bertfeat.progress import AnyProgress

from ..console import Console
from ..progress import progress_display


@contextmanager
def training_display(console: Console) -> Iterator[Callable[[AnyProgress], None]]:
    """Yield a function to call with the progress of a training, which warns of rows that could not be extracted."""
    from bertfeat.learning import DatasetReport

    with progress_display(console) as show:

        def display(progress: AnyProgress) -> None:
            show(progress)
            if isinstance(progress, DatasetReport) and progress.extraction.failed:
                failed = pluralize(progress.extraction.failed, progress.noun)
                console.warn(f"{failed} of {progress.source} failed; see {progress.extraction.failure_list}")

        yield display


def exit_for_failed_rows(failed: int, console: Console) -> None:
    """End a training with its exit code where rows of its corpora failed; everything else is printed already.

    Raises:
        click.exceptions.Exit: rows failed.
    """
    if failed:
        console.warn(f"{pluralize(failed, 'row')} of the corpora failed, and nothing was learned of them")
        raise click.exceptions.Exit(ROWS_FAILED)

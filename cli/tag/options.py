"""What the commands of ``bertfeat tag`` share: options, and how the extraction of their corpora is shown."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import click

from ..app import Callback, Decorator, option
from ..console import Console, format_duration, pluralize
from ..progress import progress_display, view_extraction

if TYPE_CHECKING:
    from bertfeat.extraction import Progress
    from bertfeat.tagging import DatasetReport

PAIRS = ("pairs", "pair_column")
"""Options of reading that no tagger has a use for: it reads single texts."""


def sentences_option(name: str, help_text: str, *, required: bool = False) -> Decorator:
    """Declare an option that takes tagged sentences; ``--train`` reaches its command as ``train``."""
    return option(name, required=required, type=click.Path(), metavar="CONLL|FEATURES", help=help_text)


def tagger_options(function: Callback) -> Callback:
    """Declare where a tagger finds its model, and where it runs; they reach the command as ``model`` and ``device``."""
    device = option(
        "--device",
        metavar="DEVICE",
        further=True,
        show_default="a GPU if there is one",
        help="cpu, cuda, cuda:1.",
    )
    model = option("--model", metavar="DIR", further=True, help="Where the model of its features is, if it moved.")
    return model(device(function))


class DatasetDisplay:
    """Shows the extraction of one corpus after another: progress meanwhile, a line at the end of each."""

    def __init__(self, console: Console, noun: str) -> None:
        self._console, self._noun = console, noun
        self._open = ExitStack()
        self._show: Callable[[Progress], None] | None = None

    def progress(self, progress: "Progress") -> None:
        """Show how far an extraction has come."""
        if self._show is None:
            display = self._open.enter_context(progress_display(self._console, view_extraction))
            self._show = display or (lambda _: None)
        self._show(progress)

    def report(self, report: "DatasetReport") -> None:
        """Print the result of the extraction of a corpus."""
        self.close()
        extraction = report.extraction
        if extraction is None:
            sentences = pluralize(len(report.features), self._noun)
            self._console.say(f"{report.features.folder}: {sentences}, with these layers already")
            return
        done = "nothing to do" if extraction.nothing_to_do else format_duration(extraction.seconds)
        self._console.say(f"{extraction.folder}: {pluralize(extraction.counts.documents, self._noun)}, {done}")
        if extraction.failed:
            failed = pluralize(extraction.failed, self._noun)
            self._console.warn(f"{failed} of {report.source} failed; see {extraction.failure_list}")

    def close(self) -> None:
        """Take the progress off the terminal."""
        self._open.close()
        self._show = None


@contextmanager
def dataset_display(console: Console, noun: str = "sentence") -> Iterator[DatasetDisplay]:
    """A display of the extraction of corpora, which calls a row by ``noun``; closed at the end."""
    display = DatasetDisplay(console, noun)
    try:
        yield display
    finally:
        display.close()

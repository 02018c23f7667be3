"""``bertfeat tag predict``: texts, words or features with a tag for each word."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertfeat.errors import ROWS_FAILED

from ..app import Command, option
from ..bundles import leave_out
from ..console import Console, pluralize
from ..options import output_options, reading_options
from ..paths import STDIN
from ..terminal import has_colour
from .options import PAIRS, tagger_options

if TYPE_CHECKING:
    from bertfeat.corpus import CorpusSettings
    from bertfeat.tagging import PredictionForm, PredictionReport

COLOURS = ("red", "green", "yellow", "blue", "magenta", "cyan")
SHOWN_FAILURES = 5


@click.command(cls=Command, name="predict")
@click.argument("folder", metavar="TAGGER", type=click.Path(path_type=Path))
@click.argument("source", metavar="INPUT")
@option(
    "--to",
    type=click.Choice(["conll", "jsonl", "text"]),
    show_default="text on a terminal, else conll",
    help="A word and its tag a line, JSON a text, or texts with marks.",
)
@option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    show_default="standard output",
    help="Where the tags go.",
)
@tagger_options
@reading_options
@output_options
def command(
    folder: Path,
    source: str,
    to: "PredictionForm | None",
    output: Path | None,
    model: str | None,
    device: str | None,
    reading: "CorpusSettings",
    console: Console,
) -> None:
    """Tag a file of texts or words, or a feature set; - is stdin.

    Texts go through the very model and recipe that the tagger was trained on; features of another model are refused.
    Spans are written as BIO tags, or by jsonl (and --json) as character offsets.

    \b
    bertfeat tag predict ner.tagger news.txt
    bertfeat tag predict ner.tagger test.conll > predicted.conll
    echo "Ada Lovelace was born in London." | bertfeat tag predict ner.tagger - --to jsonl
    """
    if console.as_json and to not in (None, "jsonl"):
        raise click.UsageError(f"--json is --to jsonl; leave it or --to {to} out")
    from bertfeat.tagging import tag_corpus

    to_stdout = output is None or str(output) == STDIN
    usual: PredictionForm = "text" if to_stdout and sys.stdout.isatty() else "conll"
    form: PredictionForm = "jsonl" if console.as_json else to or usual
    colour = to_stdout and has_colour()
    report = tag_corpus(
        folder,
        source,
        (lambda text: click.echo(text, color=colour)) if output is None or to_stdout else output,
        to=form,
        corpus_settings=reading,
        model=model,
        device=device,
        mark=_colour_span if colour else None,
    )
    _print_outcome(report, form, console)


leave_out(command, "keep", "tag_column", *PAIRS)


def _print_outcome(report: "PredictionReport", form: str, console: Console) -> None:
    if report.empty and form == "conll":
        console.say(f"{pluralize(report.empty, 'text')} without words left out")
    if report.failures:
        reasons = "".join(f"\n  {failure.reason}" for failure in report.failures[:SHOWN_FAILURES])
        rows = pluralize(len(report.failures), "row")
        console.warn(f"{rows} failed and could not be tagged; the first are:{reasons}")
        raise click.exceptions.Exit(ROWS_FAILED)


def _colour_span(text: str, label: str) -> str:
    """A span in the colour of its label."""
    colour = COLOURS[sum(map(ord, label)) % len(COLOURS)]
    return click.style(text, fg=colour, bold=True) + click.style(f" {label}", fg=colour, dim=True)

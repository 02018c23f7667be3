"""``bertfeat classify predict``, and the same command for other heads: write predictions for texts.

Labels, answers and choices are written as one JSON object per line, tags also as CoNLL or as texts with marks.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertfeat.errors import ROWS_FAILED, pluralize

from ..app import Decorator, option
from ..console import Console
from ..options import STDIN, output_options, recorded_device_option, recorded_model_option
from ..terminal import has_color
from .options import HeadCommands

if TYPE_CHECKING:
    from bertfeat.core import CorpusSettings
    from bertfeat.learning import LearningSettings, PredictionForm

COLORS = ("red", "green", "yellow", "blue", "magenta", "cyan")

_ARGUMENTS: tuple[Decorator, ...] = (
    click.argument("folder", metavar="HEAD", type=click.Path(path_type=Path)),
    click.argument("source", metavar="INPUT"),
    option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        metavar="FILE",
        show_default="standard output",
        help="Where the predictions go.",
    ),
)
_FORM_OPTION = option(
    "--to",
    type=click.Choice(["conll", "jsonl", "text"]),
    show_default="text on a terminal, else conll",
    help="A word and its tag a line, JSON a text, or texts with marks.",
)

_TAG_HELP = """\
Tag a file of texts or words, or a feature set; - is stdin.

Texts go through the very model and recipe that the tagger was trained on; features of another model are refused.
Spans are written as BIO tags, or by jsonl (and --json) as character offsets.

\b
bertfeat tag predict ner.head news.txt
bertfeat tag predict ner.head test.conll > predicted.conll
echo "Ada Lovelace was born in London." | bertfeat tag predict ner.head - --to jsonl
"""

_HELP = """\
Predict for a corpus, a feature set or standard input (-): an object a line, with the id of the row.

\b
bertfeat {kind} predict train.head {test} > predictions.jsonl
"""


def predict_command(head: HeadCommands) -> click.Command:
    """The ``predict`` command for a kind of head."""
    options = (
        *_ARGUMENTS,
        *([_FORM_OPTION] if head.kind == "tag" else []),
        head.column_options("choices"),
        recorded_model_option,
        recorded_device_option,
        head.reading_options("id_column"),
        output_options,
    )
    return head.command("predict", _predict_head, _TAG_HELP if head.kind == "tag" else _HELP, options)


def _predict_head(
    kind: str,
    folder: Path,
    source: str,
    output: Path | None,
    columns: "LearningSettings",
    model: str | None,
    device: str | None,
    reading: "CorpusSettings",
    console: Console,
    to: "PredictionForm | None" = None,
) -> None:
    from bertfeat.learning import write_predictions

    if console.as_json and to not in (None, "jsonl"):
        raise click.UsageError(f"--json is --to jsonl; leave it or --to {to} out")
    to_stdout = output is None or str(output) == STDIN
    form: PredictionForm = "jsonl"
    if kind == "tag" and not console.as_json:
        form = to or ("text" if to_stdout and sys.stdout.isatty() else "conll")
    color = to_stdout and form == "text" and has_color()
    report = write_predictions(
        folder,
        source,
        (lambda text: click.echo(text, color=color)) if output is None or to_stdout else output,
        kind=kind,
        to=form,
        mark=_color_span if color else None,
        choices=tuple(columns.choices),
        corpus_settings=reading,
        model=model,
        device=device,
    )
    if report.empty and form == "conll":
        console.say(f"{pluralize(report.empty, 'text')} without words left out")
    if report.failures:
        reasons = "".join(f"\n  {failure.reason}" for failure in report.failures[:5])
        rows = pluralize(len(report.failures), "row")
        console.warn(f"{rows} failed and got no prediction; the first are:{reasons}")
        raise click.exceptions.Exit(ROWS_FAILED)


def _color_span(text: str, label: str) -> str:
    """A span of text and its label, in the color of the label."""
    color = COLORS[sum(map(ord, label)) % len(COLORS)]
    return click.style(text, fg=color, bold=True) + click.style(f" {label}", fg=color, dim=True)

"""``bertfeat classify predict``, and the same of other heads: labels, answers or choices, a JSON object a line."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertfeat.errors import ROWS_FAILED

from ..app import option
from ..console import Console, pluralize
from ..options import output_options, reading_options
from ..tag.options import tagger_options
from .options import column_options, head_command

if TYPE_CHECKING:
    from bertfeat.corpus import CorpusSettings


_OPTIONS = (
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
    column_options,
    tagger_options,
    reading_options,
    output_options,
)

_HELP = """\
Predict for a corpus, a feature set or standard input (-): an object a line, with the id of the row.

\b
bertfeat {kind} predict train.head {test} > predictions.jsonl
"""


def predict_command(kind: str) -> click.Command:
    """The command of a kind of head."""
    return head_command(kind, "predict", _predict_head, _OPTIONS, _HELP)


def _predict_head(
    kind: str,
    folder: Path,
    source: str,
    output: Path | None,
    label: str | None,
    choices: tuple[str, ...],
    model: str | None,
    device: str | None,
    reading: "CorpusSettings",
    console: Console,
) -> None:
    from bertfeat.heads import write_predictions

    predictions = write_predictions(
        folder,
        source,
        click.echo if output is None or str(output) == "-" else output,
        kind=kind,
        label=label,
        choices=choices,
        corpus_settings=reading,
        model=model,
        device=device,
    )
    if predictions.failures:
        reasons = "".join(f"\n  {failure.reason}" for failure in predictions.failures[:5])
        rows = pluralize(len(predictions.failures), "row")
        console.warn(f"{rows} failed and got no prediction; the first are:{reasons}")
        raise click.exceptions.Exit(ROWS_FAILED)

"""``bertfeat probe``: measure how well each layer predicts a label."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from bertfeat.errors import pluralize
from bertfeat.study import ProbeSettings

from .app import Command, option
from .bundles import settings_options
from .console import Console, progress_display
from .option_types import LOCATION
from .options import output_options
from .terminal import single_line

if TYPE_CHECKING:
    from bertfeat.io import Location
    from bertfeat.study import ProbeReport, ProbeScores


@click.command(cls=Command, name="probe")
@click.argument("folder", metavar="FEATURES", type=LOCATION)
@option("--label", required=True, metavar="COL", help="A kept column; tags for the tags of words.")
@settings_options("settings", ProbeSettings)
@output_options
def command(
    folder: "Location",
    label: str,
    settings: ProbeSettings,
    console: Console,
) -> None:
    """Tell how well a linear classifier reads a label off each layer.

    Logistic regression on standardised features, cross-validated; for the tags of words no document is in two folds.
    The baseline always says what most are. --json is what `bertfeat plot layers` draws.

    \b
    bertfeat probe corpus.features --label year
    bertfeat probe train.features --label tags --json > probe.json
    """
    from bertfeat.study import probe_layers

    with progress_display(console) as progress:
        report = probe_layers(folder, label, settings, progress=progress)
    for line in _left_out_lines(report):
        console.say(line)
    for probe in report.layers:
        if not probe.converged:
            console.warn(f"{probe.column}: the classifier did not converge; a smaller ProbeSettings.strength may help")
    console.result(report, _probe_lines(report))


def _left_out_lines(report: "ProbeReport") -> Iterator[str]:
    noun = _example_noun(report)
    if report.nulls:
        yield f"{pluralize(report.nulls, noun)} without {report.label} left out"
    if report.unaligned:
        yield f"{pluralize(report.unaligned, noun)} without a vector left out"
    if report.rare:
        yield f"{pluralize(report.rare, noun)} of rare classes left out"


def _probe_lines(report: "ProbeReport") -> Iterator[str]:
    examples = f"{report.examples:,} of {pluralize(report.labeled, f'labeled {_example_noun(report)}')}"
    yield f"{report.label}: {len(report.classes)} classes, {examples}, {report.folds} folds, {report.pooling} vectors"
    yield ""
    wide = max(len("baseline"), *(len(probe.column) for probe in report.layers))
    yield f"{'layer':<{wide}}  accuracy            macro F1"
    yield f"{'baseline':<{wide}}  {_format_probe_scores(report.baseline)}   always {single_line(report.majority)!r}"
    for probe in report.layers:
        best = "   best" if probe is report.best else ""
        yield f"{probe.column:<{wide}}  {_format_probe_scores(probe.measured)}{best}"


def _format_probe_scores(scores: "ProbeScores") -> str:
    accuracy = f"{scores.accuracy:.4f} ± {scores.accuracy_spread:.4f}"
    return f"{accuracy}     {scores.macro_f1:.4f} ± {scores.macro_f1_spread:.4f}"


def _example_noun(report: "ProbeReport") -> str:
    return "word" if report.pooling == "word" else "document"

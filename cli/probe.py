"""``bertfeat probe``: what each layer gives away of a label."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .app import Command, option
from .console import Console, pluralize
from .option_types import listed_option
from .options import output_options
from .progress import ProgressView, progress_display
from .terminal import single_line

if TYPE_CHECKING:
    from bertfeat.probes import ProbeReport, ProbeScores


@click.command(cls=Command, name="probe")
@click.argument("folder", metavar="FEATURES", type=click.Path(path_type=Path))
@option("--label", required=True, metavar="COL", help="A kept column; tags for the tags of words.")
@listed_option(
    "--layers", metavar="SPEC[,SPEC]", show_default="all that are stored", help="Which ones, such as 3,last,sum4."
)
@option("--pooling", metavar="NAME", help="mean, cls or max; needed only where several are stored.")
@option("--folds", type=click.IntRange(min=2), default=5, metavar="N", help="Of the cross-validation.")
@option(
    "--most",
    type=click.IntRange(min=1),
    default=20_000,
    metavar="N",
    help="Documents or words to learn from, a random sample.",
)
@option(
    "--min-members",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Leave out classes in fewer documents.",
)
@option("--strength", type=float, default=1.0, further=True, metavar="C", help="Inverse of the L2 penalty.")
@option(
    "--seed",
    type=click.IntRange(min=0),
    default=1,
    further=True,
    metavar="N",
    help="Of the random sample and folds.",
)
@output_options
def command(
    folder: Path,
    label: str,
    layers: tuple[str, ...],
    pooling: str | None,
    folds: int,
    most: int,
    min_members: int,
    strength: float,
    seed: int,
    console: Console,
) -> None:
    """Tell how well a linear classifier reads a label off each layer.

    Logistic regression on standardised features, cross-validated; for the tags of words no document is in two folds.
    The baseline always says what most are. --json is what `bertfeat plot layers` draws.

    \b
    bertfeat probe corpus.features --label year
    bertfeat probe train.features --label tags --json > probe.json
    """
    from bertfeat.features import FeatureSet
    from bertfeat.probes import ProbeSettings, probe_layers

    settings = ProbeSettings(pooling, layers, folds, most, min_members, strength, seed)
    with progress_display(console, _look) as shown:
        told = None if shown is None else lambda done, total: shown((done, total))
        probed = probe_layers(FeatureSet(folder), label, settings, on_step=told)
    for line in _left_out(probed):
        console.say(line)
    for each in probed.layers:
        if not each.converged:
            console.warn(f"{each.column}: the classifier did not converge; a smaller --strength may help")
    console.result(probed, _lines(probed))


def _look(step: tuple[int, int]) -> ProgressView:
    return ProgressView(step[0] / step[1], f"{step[0]} of {step[1]} classifiers")


def _left_out(probed: "ProbeReport") -> Iterator[str]:
    thing = _thing(probed)
    if probed.nulls:
        yield f"{pluralize(probed.nulls, thing)} without {probed.label} left out"
    if probed.unaligned:
        yield f"{pluralize(probed.unaligned, thing)} without a vector left out"
    if probed.rare:
        yield f"{pluralize(probed.rare, thing)} of rare classes left out"


def _lines(probed: "ProbeReport") -> Iterator[str]:
    learnt = f"{probed.examples:,} of {pluralize(probed.labelled, f'labelled {_thing(probed)}')}"
    yield f"{probed.label}: {len(probed.classes)} classes, {learnt}, {probed.folds} folds, {probed.pooling} vectors"
    yield ""
    wide = max(len("baseline"), *(len(each.column) for each in probed.layers))
    yield f"{'layer':<{wide}}  accuracy            macro F1"
    yield f"{'baseline':<{wide}}  {_shown(probed.baseline)}   always {single_line(probed.majority)!r}"
    for each in probed.layers:
        yield f"{each.column:<{wide}}  {_shown(each.measured)}{'   best' if each is probed.best else ''}"


def _shown(measured: "ProbeScores") -> str:
    accuracy = f"{measured.accuracy:.4f} ± {measured.accuracy_spread:.4f}"
    return f"{accuracy}     {measured.macro_f1:.4f} ± {measured.macro_f1_spread:.4f}"


def _thing(probed: "ProbeReport") -> str:
    return "word" if probed.pooling == "word" else "document"

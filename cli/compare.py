"""``bertfeat compare``: compare two feature sets of the same rows, layer by layer."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertfeat.errors import pluralize
from bertfeat.study import ComparisonSettings

from .app import Command, option
from .bundles import settings_options
from .console import Console, progress_display, two_columns
from .option_types import LOCAL_PATH, LOCATION
from .options import output_options

if TYPE_CHECKING:
    from bertfeat.io import Location
    from bertfeat.study import ComparedSet, ComparisonReport


@click.command(cls=Command, name="compare")
@click.argument("first", metavar="FEATURES", type=LOCATION)
@click.argument("second", metavar="OTHER", type=LOCATION)
@settings_options("settings", ComparisonSettings)
@option("--plot", "picture", type=LOCAL_PATH, metavar="FILE", help="Draw every pair as .png, .pdf or .svg.")
@output_options
def command(
    first: "Location",
    second: "Location",
    settings: ComparisonSettings,
    picture: Path | None,
    console: Console,
) -> None:
    """Compare two feature sets of the same rows, layer by layer.

    They may be of two models, of two precisions, or from before and after training. Linear CKA and cosines are taken
    over all documents, tokens or words; RSA (Spearman, of cosines) and nearest neighbors over a sample. Tokens are
    compared where both models cut the same characters.

    \b
    bertfeat compare fp32.features bf16.features
    bertfeat compare minilm.features bert.features --pooling word --plot layers.pdf
    bertfeat compare before.features after.features --layers last --json
    """
    from bertfeat.plots import draw_comparison, picture_path
    from bertfeat.study import compare_features

    if picture is not None:
        picture_path(picture)  # before anything is computed
    with progress_display(console) as progress:
        comparison = compare_features(first, second, settings, progress=progress)
    if not comparison.by_text:
        console.warn("texts are not stored in both sets, so rows were matched by their numbers and ids alone")
    for compared in (comparison.first, comparison.second):
        for line in _left_out(compared, comparison.pooling):
            console.say(line)
    if picture is not None:
        draw_comparison(comparison, picture)
    console.result(comparison, _likeness_lines(comparison))


def _left_out(compared: "ComparedSet", pooling: str) -> Iterator[str]:
    if compared.failed:
        yield f"{compared.features}: {pluralize(compared.failed, 'row')} left out that failed here"
    if compared.without_vector:
        why = "that stand for no characters" if pooling == "token" else "without a vector"
        yield f"{compared.features}: {pluralize(compared.without_vector, pooling)} left out {why}"
    if compared.unmatched:
        left_out = pluralize(compared.unmatched, pooling)
        yield f"{compared.features}: {left_out} left out whose characters are no {pooling}'s of the other set"


def _likeness_lines(comparison: "ComparisonReport") -> Iterator[str]:
    sets = (comparison.first, comparison.second)
    unit = comparison.pooling if comparison.pooling in ("token", "word") else "document"
    rows = [
        *(
            (name, f"{compared.features}, {compared.model}, {compared.precision}")
            for name, compared in zip(("first", "second"), sets, strict=True)
        ),
        ("compared", f"{comparison.pooling} vectors of {pluralize(comparison.items, unit)}"),
        ("sample", f"{pluralize(comparison.sample, unit)} for RSA and the {comparison.k} nearest neighbors"),
    ]
    yield from two_columns(rows)
    if len(comparison.pairs) > 1:
        yield ""
        yield from _matrix_lines(comparison)
    yield ""
    yield from _partner_lines(comparison)


def _matrix_lines(comparison: "ComparisonReport") -> Iterator[str]:
    """A table of the CKA of every pair of layers."""
    down, across = (
        [name.removeprefix("layer") for name in compared.layers] for compared in (comparison.first, comparison.second)
    )
    left, wide = max(map(len, down)), max(5, *map(len, across))
    yield "CKA, layers of the first down, of the second across"
    yield " ".join([" " * left, *(f"{name:>{wide}}" for name in across)])
    for name, values in zip(down, comparison.matrix("cka").tolist(), strict=True):
        yield " ".join([f"{name:<{left}}", *(f"{_format_measure(value, 3):>{wide}}" for value in values)])


def _partner_lines(comparison: "ComparisonReport") -> Iterator[str]:
    """A table of all measures, with one pair for each layer of the first set."""
    titles = ("first", "second", "CKA", "RSA", "neighbors", "mean cosine", "least")
    pairs = [
        (
            pair.first,
            pair.second,
            *(_format_measure(value, 6) for value in (pair.cka, pair.rsa)),
            _format_measure(pair.neighbors, 4),
            *(_format_measure(value, 6) for value in (pair.cosine, pair.least_cosine)),
        )
        for pair in comparison.partners
    ]
    widths = [max(map(len, column)) for column in zip(titles, *pairs, strict=True)]
    for cells in (titles, *pairs):
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()


def _format_measure(value: float | None, digits: int) -> str:
    return "-" if value is None or value != value else f"{value:.{digits}f}"

"""``bertfeat plot``: draw the documents of a feature set as a map, or the results of probes layer by layer."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertfeat.errors import UsageError

from .app import Callback, Command, option
from .console import Console, two_columns
from .option_types import LOCAL_PATH, LOCATION
from .options import default_output, output_options

if TYPE_CHECKING:
    from bertfeat.io import Location


_SOON = 2000  # points that are laid out in a few seconds


def size_options(function: Callback) -> Callback:
    """Declare ``--width`` and ``--height`` of a picture."""
    high = option(
        "--height", type=float, metavar="INCHES", further=True, show_default="by the width", help="Of the picture."
    )
    wide = option(
        "--width",
        type=float,
        metavar="INCHES",
        further=True,
        show_default="by what it shows",
        help="Of the picture; 3.5 is a column of a journal.",
    )
    return wide(high(function))


@click.group(name="plot")
def command() -> None:
    """Draw pictures of features."""


@command.command(cls=Command, name="map")
@click.argument("features", type=LOCATION)
@option(
    "-o",
    "--output",
    type=LOCAL_PATH,
    metavar="FILE",
    show_default="corpus.map.png",
    help="Its ending says the form: .png, .pdf, .svg, or .html, a page with texts and search.",
)
@option(
    "--column",
    metavar="NAME",
    show_default="the last layer, where one pooling has it, else the only one",
    help="Which document column, stored or derived.",
)
@option(
    "--spans",
    metavar="RULE",
    show_default="whole documents",
    help="Points are sentences, paragraphs, words:200[:50] or column:NAME, pooled from tokens.",
)
@option(
    "--color", metavar="COL", help="A kept column, row or id that gives the colors; COL:string: its numbers are names."
)
@option(
    "--method",
    type=click.Choice(["pca", "tsne", "umap"]),
    show_default="tsne for up to 20,000 points, umap for more, pca without their libraries",
    help="How points are laid out.",
)
@option(
    "--clusters",
    type=click.IntRange(0, 10),
    metavar="N",
    show_default="10 where scikit-learn is installed and texts are kept",
    help="Clusters with colors and names: the words that tell their texts from the others.",
)
@option(
    "--points",
    type=click.IntRange(min=3),
    default=20_000,
    metavar="N",
    help="Most documents drawn, an even sample of all.",
)
@size_options
@output_options
def draw(
    features: "Location",
    output: Path | None,
    column: str | None,
    spans: str | None,
    color: str | None,
    method: str | None,
    clusters: int | None,
    points: int,
    width: float | None,
    height: float | None,
    console: Console,
) -> None:
    """Draw the documents of a feature set, or their spans, as points in the plane, near ones near one another.

    Clusters of points are named by the words of their texts.

    \b
    bertfeat plot map corpus.features --color year
    bertfeat plot map corpus.features --color author -o map.html
    bertfeat plot map books.features --spans sentences --color author -o map.html
    bertfeat plot map corpus.features --column concat4_mean --method tsne -o map.pdf --width 3.5
    """
    from bertfeat.core import FeatureSet
    from bertfeat.plots import (
        FORMS,
        METHOD_NAMES,
        PAGE,
        best_method,
        draw_points,
        form_of,
        map_documents,
        picture_path,
        write_page,
    )

    path = picture_path(output or default_output([features], ".map.png"), (*FORMS, PAGE))
    is_page = form_of(path) == PAGE
    if is_page and (width is not None or height is not None):
        raise UsageError("a page fits itself to its window", remedy="--width and --height are for png, pdf and svg")
    opened = FeatureSet(features)
    most = points if spans else min(points, len(opened))
    likely = method or best_method(most)
    if likely != "pca" and most > _SOON:
        console.say(f"{METHOD_NAMES[likely]} takes a minute or more, once for the same vectors")
    made = map_documents(
        opened,
        spans=spans,
        column=column,
        clusters=clusters,
        color=color,
        method=method,
        points=points,
        with_texts=is_page,
    )
    if is_page:
        write_page(made, path)
    else:
        draw_points(made, path, None, width, height)
    kept = None if made.explained is None else f"{made.explained:.1%} of the variance"
    rows = [("picture", path), ("points", f"{len(made):,} of {made.of:,}"), ("keeps", kept)]
    values = {"path": path, "points": len(made), "of": made.of, "explained": made.explained}
    console.result(values, two_columns(rows))


@command.command(cls=Command, name="layers")
@click.argument("probes", metavar="PROBE.json...", nargs=-1, required=True, type=click.Path(path_type=Path))
@option(
    "-o",
    "--output",
    type=LOCAL_PATH,
    metavar="FILE",
    show_default="probe.layers.png",
    help="Its ending says the form: .png, .pdf or .svg.",
)
@size_options
@output_options
def layers(
    probes: tuple[Path, ...],
    output: Path | None,
    width: float | None,
    height: float | None,
    console: Console,
) -> None:
    """Draw what probes found layer by layer, a line each, from what `bertfeat probe --json` printed.

    \b
    bertfeat probe corpus.features --label tags --json > tags.json
    bertfeat plot layers tags.json
    bertfeat plot layers minilm.json bert.json -o both.pdf
    """
    from bertfeat.plots import draw_layers, layer_columns
    from bertfeat.study import read_probes

    path = output or default_output(probes, ".layers.png")
    reports = [report for file in probes for report in read_probes(file)]
    draw_layers(reports, path, width=width, height=height)
    columns = layer_columns(reports)
    rows = [("picture", path), ("probes", len(reports)), ("columns", ", ".join(columns))]
    console.result({"path": path, "probes": len(reports), "columns": columns}, two_columns(rows))

"""``bertfeat plot``: pictures."""

from pathlib import Path

import click

from .frame import Command, option
from .options import talk_options
from .sources import default_output
from .talk import Talk, table


@click.group(name="plot")
def command() -> None:
    """Draw pictures of features."""


@command.command(cls=Command, name="map")
@click.argument("features", type=click.Path(path_type=Path))
@option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE.png", help="Default: corpus.map.png.")
@option("--column", metavar="NAME", help="Which document column; needed only where there are several.")
@option("--color", metavar="COL", help="A kept column that gives the points their colour.")
@option("--method", type=click.Choice(["pca", "tsne"]), default="pca", help="pca (default) or tsne, which is slow.")
@option(
    "--points", type=click.IntRange(min=3), default=20_000, metavar="N", help="Most documents drawn; default: 20000."
)
@talk_options
def draw(
    features: Path, output: Path | None, column: str | None, color: str | None, method: str, points: int, talk: Talk
) -> None:
    """Draw the documents of a feature set as points in the plane, near ones near one another.

    \b
    bertfeat plot map corpus.features --color year
    bertfeat plot map corpus.features --column concat4_mean --method tsne -o map.png
    """
    from bertfeat.features import FeatureSet
    from bertfeat.plots import draw_map

    path = output or default_output([features], ".map.png")
    drawn = draw_map(FeatureSet(features), path, column=column, color=color, method=method, points=points)
    kept = f"{drawn.explained:.1%} of the variance" if drawn.explained is not None else None
    rows = [("picture", drawn.path), ("points", f"{drawn.points:,} of {drawn.of:,}"), ("keeps", kept)]
    talk.result(drawn, table(rows))


@command.command(cls=Command, name="layers")
@click.argument("probes", metavar="PROBE.json...", nargs=-1, required=True, type=click.Path(path_type=Path))
@option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE.png", help="Default: probe.layers.png.")
@option(
    "--measure",
    type=click.Choice(["macro-f1", "accuracy"]),
    default="macro-f1",
    help="macro-f1 (default), in which every class counts alike, or accuracy.",
)
@talk_options
def layers(probes: tuple[Path, ...], output: Path | None, measure: str, talk: Talk) -> None:
    """Draw what probes found layer by layer, a line each, from what `bertfeat probe --json` printed.

    \b
    bertfeat probe corpus.features --label tags --json > tags.json
    bertfeat plot layers tags.json
    bertfeat plot layers minilm.json bert.json --measure accuracy -o both.png
    """
    from bertfeat.plots import draw_layers
    from bertfeat.probes import read_probes

    path = output or default_output(probes, ".layers.png")
    drawn = draw_layers([probe for file in probes for probe in read_probes(file)], path, measure=measure)
    talk.result(
        drawn, table([("picture", drawn.path), ("probes", drawn.probes), ("columns", ", ".join(drawn.columns))])
    )

"""``bertfeat classify train``, and the same of other heads: labelled examples become a head."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..app import option
from ..console import Console, fields_of, format_duration, two_columns
from ..options import ModelOptions, model_options, output_options, reading_options
from ..paths import default_output
from ..tag.options import dataset_display
from ..tag.table7 import GridPoints
from .options import (
    column_options,
    head_command,
    head_training_options,
    pair_options,
    source_option,
)

if TYPE_CHECKING:
    from bertfeat.corpus import CorpusSettings
    from bertfeat.heads import HeadReport, HeadSettings
    from bertfeat.training import Epoch, GridPoint


_OPTIONS = (
    source_option("--train", "Examples to learn from: a corpus with a column of labels, or features.", required=True),
    source_option("--dev", "Examples that choose the best epoch.", required=True),
    column_options,
    option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        metavar="DIR",
        show_default="train.head",
        help="Where the head goes.",
    ),
    option(
        "--layers",
        metavar="SPEC",
        show_default="concat4, or the only ones that are stored",
        help="What is read: last, sum4, 3, …; mix4, mix-all: a weighted sum that is learnt.",
    ),
    pair_options,
    option("--fine-tune", is_flag=True, help="Fine-tune the whole model on the texts, instead of a head on features."),
    option(
        "--grid",
        type=GridPoints(),
        further=True,
        metavar="B:RATE:E",
        show_default="32:3e-5:3",
        help="Batch size, learning rate and epochs of --fine-tune.",
    ),
    head_training_options,
    model_options,
    reading_options,
    option("--overwrite", is_flag=True, further=True, help="Start anew where another training's folder is."),
    output_options,
)

_HELP = """\
Train a head on frozen features.

A corpus is extracted first, into the head's folder; features that were extracted with the labels kept (--keep) are
read as they are. The epoch with the best score on the development set is kept. Interrupted, the same command goes
on.

\b
bertfeat {kind} train {train}
"""


def train_command(kind: str) -> click.Command:
    """The command of a kind of head."""
    return head_command(kind, "train", _learn_head, _OPTIONS, _HELP, "precision")


def _learn_head(
    kind: str,
    train: str,
    dev: str,
    label: str | None,
    choices: tuple[str, ...],
    output: Path | None,
    layers: str | None,
    pooling: str | None,
    embed_pairs: str | None,
    fine_tune: bool,
    grid: tuple[tuple[int, float, int], ...] | None,
    training: Callable[[], "HeadSettings"],
    model: ModelOptions,
    reading: "CorpusSettings",
    overwrite: bool,
    console: Console,
) -> None:
    settings = training()
    from bertfeat.heads import train_head

    point = _grid_point(fine_tune, grid)

    with dataset_display(console, "row") as display:
        report = train_head(
            kind,
            train,
            dev,
            output or default_output([train], ".head"),
            label=label,
            choices=choices,
            layers=layers,
            pooling=pooling,
            embed_pairs=embed_pairs,
            settings=settings,
            corpus_settings=reading,
            fine_tune=point,
            overwrite=overwrite,
            progress=display.progress,
            on_dataset=display.report,
            on_epoch=lambda epoch: console.say(head_epoch_line(epoch)),
            **asdict(model),
        )
    _print_head(report, console)


def _grid_point(fine_tune: bool, grid: tuple[tuple[int, float, int], ...] | None) -> "GridPoint | None":
    """The one point of settings that a model is fine-tuned with.

    Raises:
        click.UsageError: several points, or no fine-tuning.
    """
    from bertfeat.training import GridPoint

    if not fine_tune:
        if grid:
            raise click.UsageError("--grid is of --fine-tune: add that, or leave it out")
        return None
    points = grid or ((32, 3e-5, 3),)
    if len(points) > 1:
        raise click.UsageError("--grid: give one point; table7 looks for the best one")
    return GridPoint(*points[0])


def head_epoch_line(epoch: "Epoch") -> str:
    """How an epoch went."""
    best = " *" if epoch.best == epoch.number else ""
    speed = epoch.words / max(epoch.seconds, 1e-9)
    return f"epoch {epoch.number}: loss {epoch.loss:.4f}, dev {epoch.score:.4f}, {speed:,.0f} examples/s{best}"


def _print_head(report: "HeadReport", console: Console) -> None:
    for warning in report.warnings:
        console.warn(warning)
    record = report.record
    if report.scores is None:
        console.say(f"{report.folder}: trained already, nothing to do")
    labels = len(record.outputs.labels)
    reads = "texts" if record.approach == "fine-tuned" else f"{record.input.name} ({record.pooling})"
    epochs = f", in epoch {record.best_epoch} of {len(record.history)}" if record.history else ""
    rows = [
        ("head", report.folder),
        ("reads", f"{reads} of {record.model.name}"),
        ("labels", f"{labels:,}" if labels else None),
        (f"dev {record.measure}", f"{record.score:.4f}{epochs}"),
        ("time", format_duration(report.seconds) if report.scores is not None else None),
    ]
    result = {"folder": report.folder, "measure": record.measure, "score": record.score}
    result |= {"best_epoch": record.best_epoch, "epochs": len(record.history), "resumed": report.resumed}
    scores = {} if report.scores is None else {"dev": fields_of(report.scores)}
    console.result({**result, "seconds": report.seconds, **scores}, two_columns(rows))

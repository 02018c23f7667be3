"""``bertfeat tag table7``: which layers make the best features, as Table 7 of the BERT paper asks."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..app import Command, option
from ..bundles import leave_out, set_aside
from ..console import Console, format_duration, pluralize, two_columns
from ..option_types import CommaList, listed_option
from ..options import ModelOptions, model_options, output_options, reading_options
from ..paths import default_output
from .options import PAIRS, dataset_display, sentences_option
from .train import training_options

if TYPE_CHECKING:
    from bertfeat.corpus import CorpusSettings
    from bertfeat.tagging import Table7Estimate, Table7Report, TableRow, TableRun, TrainingSettings


class GridPoints(click.ParamType):  # type: ignore[type-arg]  # generic only in newer clicks
    """Points ``batch:rate:epochs`` separated by commas."""

    name = "grid"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[tuple[int, float, int], ...]:
        """Read each point."""
        points = []
        for item in CommaList().convert(value, param, ctx):
            try:
                batch, rate, epochs = item.split(":")
                points.append((int(batch), float(rate), int(epochs)))
            except ValueError:
                self.fail(f"{item!r} is not written as batch:rate:epochs, for example 32:5e-5:3", param, ctx)
        return tuple(points)


@click.command(cls=Command, name="table7")
@sentences_option("--train", "Sentences to learn from: a corpus with tags, or a set of single layers.", required=True)
@sentences_option("--dev", "Sentences that choose the best epoch.", required=True)
@sentences_option("--test", "Scored, never chosen by.")
@option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    show_default="train.table7",
    help="Where the table and its runs go.",
)
@listed_option(
    "--rows",
    metavar="ROW[,ROW]",
    show_default="paper",
    help="paper: its six; all: every layer; others: sum4, sum-all, mix=1..3, 7, …",
)
@option("--seeds", type=click.IntRange(1, 1000), default=5, metavar="N", help="Trainings of each row.")
@option("--fine-tune", is_flag=True, help="Fine-tune the model itself, too, with the paper's grid of settings.")
@option("--dry-run", is_flag=True, help="Say the hours, and write nothing.")
@option(
    "--grid",
    type=GridPoints(),
    further=True,
    metavar="B:RATE:E,…",
    show_default="the paper's 18",
    help="Batch sizes, learning rates and epochs that --fine-tune tries, such as 32:5e-5:3.",
)
@training_options
@model_options
@reading_options
@output_options
def command(
    train: str,
    dev: str,
    test: str | None,
    output: Path | None,
    rows: tuple[str, ...],
    seeds: int,
    fine_tune: bool,
    dry_run: bool,
    grid: tuple[tuple[int, float, int], ...] | None,
    training: Callable[[], "TrainingSettings"],
    model: ModelOptions,
    reading: "CorpusSettings",
    console: Console,
) -> None:
    """Compare layers as features for tagging, as Table 7 of the BERT paper does, on your own data.

    The layers are extracted once, unless the features beside the corpora hold them; every row is trained with every
    seed (--seed and those after it). What is done is kept in DIR by row and seed: interrupted, or asked for more rows
    or seeds, the same command does the rest.

    \b
    bertfeat tag table7 --train train.conll --dev dev.conll --test test.conll
    bertfeat tag table7 --train train.conll --dev dev.conll --model google-bert/bert-base-cased --fine-tune
    bertfeat tag table7 --train train.conll --dev dev.conll --rows all,sum4,concat4 --seeds 3 --dry-run
    """
    from bertfeat.tagging import estimate_table7, train_table7
    from bertfeat.training import GridPoint

    settings = training()
    folder = output or default_output([train], ".table7")
    request = {
        "rows": rows or ("paper",),
        "seeds": range(settings.seed, settings.seed + seeds),
        "settings": settings,
        "fine_tune": fine_tune,
        "grid": tuple(GridPoint(*point) for point in grid or ()),
        "corpus_settings": reading,
        **asdict(model),
    }
    if dry_run:
        _print_estimate(estimate_table7(train, dev, test, folder, **request), seeds, console)
        return
    with dataset_display(console) as display:
        report = train_table7(
            train,
            dev,
            test,
            folder,
            **request,
            progress=display.progress,
            on_dataset=display.report,
            on_run=lambda row, run, was_stored: console.say(_run_line(row, run, was_stored)),
        )
    _print_table(report, console)


set_aside(command, "hidden", "crf", "seed", "precision", "text_columns", "keep")
leave_out(command, *PAIRS)


def _run_line(row: "TableRow", run: "TableRun", was_stored: bool) -> str:
    test = "" if run.test is None else f", test {run.test:.4f}"
    how = "there already" if was_stored else f"epoch {run.best_epoch} of {run.epochs}, {format_duration(run.seconds)}"
    point = "" if run.grid is None else f" {run.grid.batch_size}:{run.grid.learning_rate:g}:{run.grid.epochs}"
    return f"{row.title}{point}, seed {run.seed}: dev {run.dev:.4f}{test} ({how})"


def _print_table(report: "Table7Report", console: Console) -> None:
    from bertfeat.tagging import format_markdown

    for warning in report.warnings:
        console.warn(warning)
    console.result(report.table.plain, [format_markdown(report.table).rstrip()])
    files = [name for name in ("table7.md", "table7.json", "table7.png") if (report.folder / name).exists()]
    console.say(f"{report.folder}: {', '.join(files)}")


def _print_estimate(estimate: "Table7Estimate", seeds: int, console: Console) -> None:
    tuning = format_duration(estimate.fine_tuning)
    lines = two_columns(
        [
            ("rows", f"{estimate.rows}, with {pluralize(seeds, 'training')} each, on {estimate.words:,} words"),
            ("extraction", f"about {format_duration(estimate.extraction)}"),
            ("training", f"about {format_duration(estimate.training)}, if each takes {estimate.epochs} epochs"),
            ("fine-tuning", f"about {tuning}" if estimate.fine_tuning else None),
            ("together", f"about {estimate.hours:.1f} hours"),
        ]
    )
    console.result(estimate, lines)

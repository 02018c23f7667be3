"""``bertfeat classify table7``, and the same command for other heads: compare layers as features for the task.

It is named after Table 7 of the BERT paper, which compares layers as features for tagging.
"""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bertfeat.display import format_duration
from bertfeat.errors import pluralize
from bertfeat.learning import PAPER_GRID, GridPoint

from ..app import option
from ..bundles import set_aside
from ..console import Console, fields_of, two_columns
from ..option_types import listed_option
from ..options import default_output, output_options
from .options import HeadCommands, fine_tune_option, folder_option, source_option
from .train import exit_for_failed_rows, training_display

if TYPE_CHECKING:
    from bertfeat.learning import HeadTableEstimate, LearningSettings


_OPTIONS = (
    folder_option("train.table7", "Where the table and its runs go."),
    listed_option(
        "--rows",
        metavar="ROW[,ROW]",
        show_default="paper",
        help="paper: its six; all: every layer; others: sum4, sum-all, mix=1..3, 7, …",
    ),
    option("--seeds", type=click.IntRange(1, 1000), default=5, metavar="N", help="Trainings of each row."),
    fine_tune_option(
        PAPER_GRID,
        "[B:RATE:E,…]",
        "Fine-tune the model itself, too: with the best of these batch sizes, learning rates and epochs, or of the "
        "paper's 18.",
    ),
    option("--dry-run", is_flag=True, help="Say the hours, and write nothing."),
)

_HELP = """\
Compare layers as features for a head, as Table 7 of the BERT paper does for tagging.

The layers are extracted once; every row is trained with every seed (--seed and those after it). Beside them stand
the most frequent answer (not of tags) and, with --fine-tune, the whole model. What is done is kept in DIR by row and
seed: interrupted, or asked for more rows or seeds, the same command does the rest.

\b
bertfeat {kind} table7 {train} --test {test}
"""


def table7_command(head: HeadCommands) -> click.Command:
    """The ``table7`` command for a kind of head."""
    options = (
        source_option("--train", "Examples to learn from: a corpus, or features of single layers.", required=True),
        source_option("--dev", "Examples that choose the best epoch.", required=True),
        source_option("--test", "Scored, never chosen by."),
        head.learning_options(*_OPTIONS),
        output_options,
    )
    command = head.command("table7", _compare, _HELP, options)
    set_aside(command, "seed", "task", "text_columns", "choices")
    return command


def _compare(
    kind: str,
    train: str,
    dev: str,
    test: str | None,
    output: Path | None,
    rows: tuple[str, ...],
    seeds: int,
    fine_tune: tuple[GridPoint, ...] | None,
    dry_run: bool,
    asked: "LearningSettings",
    console: Console,
) -> None:
    from bertfeat.learning import estimate_head_table7, format_head_table, train_head_table7

    first = asked.training.seed
    table: dict[str, Any] = {
        "rows": rows or ("paper",),
        "seeds": range(first, first + seeds),
        "fine_tune": fine_tune or (),
    }
    if dry_run:
        estimate = estimate_head_table7(kind, train, dev, test, **table, **fields_of(asked))
        console.result(estimate, _estimate_lines(estimate, seeds))
        return
    folder = output or default_output([train], ".table7")
    with training_display(console) as show:
        report = train_head_table7(kind, train, dev, test, folder, progress=show, **table, **fields_of(asked))
    for warning in report.warnings:
        console.warn(warning)
    console.result(asdict(report.table), [format_head_table(report.table).rstrip()])
    files = [name for name in ("table7.md", "table7.json", "table7.png") if (report.folder / name).exists()]
    console.say(f"{report.folder}: {', '.join(files)}")
    exit_for_failed_rows(report.failed, console)


def _estimate_lines(estimate: "HeadTableEstimate", seeds: int) -> Iterator[str]:
    tuning = estimate.fine_tuning
    yield from two_columns(
        [
            ("rows", f"{estimate.rows}, with {pluralize(seeds, 'training')} each, on {estimate.examples:,} examples"),
            ("extraction", f"about {format_duration(estimate.extraction)}"),
            (
                "training",
                f"about {format_duration(estimate.training)}, if each takes {estimate.epochs} epochs"
                if estimate.training
                else None,
            ),
            ("linear heads", f"about {format_duration(estimate.solving)}, once a row" if estimate.solving else None),
            ("fine-tuning", f"about {format_duration(tuning)}" if tuning else None),
            ("together", f"about {estimate.hours:.1f} hours"),
            ("for less", _cheaper_ways(estimate, seeds)),
        ]
    )


def _cheaper_ways(estimate: "HeadTableEstimate", seeds: int) -> str:
    """The options that make a table cheaper, with the training time that each leaves."""
    ways = []
    if seeds > 1:
        ways.append(f"--seeds 1 (training about {format_duration(estimate.training / seeds)})")
    if estimate.rows > 1:
        ways.append(f"one of --rows (about {format_duration(estimate.training / estimate.rows)})")
    ways += ["one point for --fine-tune"] * bool(estimate.fine_tuning)
    return ", ".join([*ways, "a part of the corpora"])

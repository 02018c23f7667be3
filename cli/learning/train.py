"""``bertfeat classify train``, and the same command for other heads: train a head on labeled examples.

The display of a training and its exit code, which ``table7`` shares, are here too.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bertfeat.display import format_duration
from bertfeat.errors import ROWS_FAILED, pluralize
from bertfeat.learning import GridPoint
from bertfeat.progress import AnyProgress

from ..app import option
from ..console import Console, fields_of, progress_display, two_columns
from ..info import kept_line
from ..options import default_output, output_options
from ..result_lines import choice_table
from .options import HeadCommands, fine_tune_option, folder_option, source_option

if TYPE_CHECKING:
    from bertfeat.learning import HeadReport, LearningSettings

_OPTIONS = (
    folder_option("train.head", "Where the head goes."),
    option(
        "--layers",
        metavar="SPEC",
        show_default="concat4, or the only ones that are stored",
        help="What is read: last, sum4, 3, …; mix4, mix-all: a weighted sum that is learned. Of several "
        "(5,7,concat4) the dev set chooses one, for tags and labels.",
    ),
    fine_tune_option(
        (GridPoint(32, 3e-5, 3),),
        "[B:RATE:E]",
        "Fine-tune the whole model on the texts, instead of a head on features; with a batch size, learning rate and "
        "epochs, or with 32:3e-5:3.",
    ),
)

_TAG_HELP = """\
Train a tagger (a two-layer BiLSTM) on frozen features of words.

A corpus with tags (CoNLL, or others with --pretokenized --tag-column) is extracted first, into the tagger's folder;
feature sets with tags are read as they are. The epoch with the best score on the development set is kept.
Interrupted, the same command goes on.

\b
bertfeat {kind} train {train}
bertfeat {kind} train --train train.features --dev dev.features --layers mix-all -o mix.head
"""

_HELP = """\
Train a head on frozen features.

A corpus is extracted first, into the head's folder; features that were extracted with the labels kept (--keep) are
read as they are. Of a network that is trained in epochs and of linear heads that are solved, the one with the least
loss on the development set is kept. Interrupted, the same command goes on.

\b
bertfeat {kind} train {train}
"""


def train_command(head: HeadCommands) -> click.Command:
    """The ``train`` command for a kind of head."""
    options = (
        source_option("--train", "Examples to learn from: a corpus with labels or tags, or features.", required=True),
        source_option("--dev", "Examples that choose the best epoch and head.", required=True),
        head.learning_options(*_OPTIONS),
        option("--overwrite", is_flag=True, further=True, help="Start anew where another training's folder is."),
        output_options,
    )
    return head.command("train", _learn_head, _TAG_HELP if head.kind == "tag" else _HELP, options)


def _learn_head(
    kind: str,
    train: str,
    dev: str,
    output: Path | None,
    layers: str | None,
    fine_tune: tuple[GridPoint, ...] | None,
    asked: "LearningSettings",
    overwrite: bool,
    console: Console,
) -> None:
    from bertfeat.learning import train_head

    if fine_tune and len(fine_tune) > 1:
        raise click.UsageError("--fine-tune: give one point; table7 looks for the best one")
    way: dict[str, Any] = {"layers": layers, "fine_tune": fine_tune[0] if fine_tune else None, "overwrite": overwrite}
    folder = output or default_output([train], ".head")
    with training_display(console) as show:
        report = train_head(kind, train, dev, folder, progress=show, **way, **fields_of(asked))
    _print_head(report, console)


def _print_head(report: "HeadReport", console: Console) -> None:
    for warning in report.warnings:
        console.warn(warning)
    for line in choice_table(report.choice) if report.choice else ():
        console.say(line)
    record = report.record
    if report.scores is None:
        console.say(f"{report.folder}: trained already, nothing to do")
    labels, scheme = len(record.outputs.labels), f" ({record.outputs.scheme})" if record.outputs.scheme else ""
    reads = "texts" if record.approach == "fine-tuned" else f"{record.input.name} ({record.pooling})"
    candidates = [
        ("" if at else "tried", f"{each.score:.4f}  {'' if each.loss is None else f'loss {each.loss:.4f}  '}{each}")
        for at, each in enumerate(record.candidates if len(record.candidates) > 1 else ())
    ]
    rows = [
        ("head", report.folder),
        ("reads", f"{reads} of {record.model.name}"),
        ("labels", f"{labels:,}{scheme}" if labels else None),
        *candidates,
        (f"dev {record.measure}", f"{record.score:.4f}"),
        ("kept", kept_line(record)),
        ("time", format_duration(report.seconds) if report.scores is not None else None),
    ]
    result = {"folder": report.folder, "measure": record.measure, "score": record.score}
    result |= {"best_epoch": record.best_epoch, "epochs": len(record.history), "resumed": report.resumed}
    result |= {"candidates": record.candidates, "chosen": record.chosen, "layers": record.layers}
    scores = {} if report.scores is None else {"dev": fields_of(report.scores)}
    console.result({**result, "seconds": report.seconds, **scores}, two_columns(rows))
    exit_for_failed_rows(report.failed, console)


@contextmanager
def training_display(console: Console) -> Iterator[Callable[[AnyProgress], None]]:
    """Yield a function that shows the progress of a training, and warns about rows that could not be extracted."""
    from bertfeat.learning import DatasetReport

    with progress_display(console) as show:

        def display(progress: AnyProgress) -> None:
            show(progress)
            if isinstance(progress, DatasetReport) and progress.extraction.failed:
                failed = pluralize(progress.extraction.failed, progress.noun)
                console.warn(f"{failed} of {progress.source} failed; see {progress.extraction.failure_list}")

        yield display


def exit_for_failed_rows(failed: int, console: Console) -> None:
    """End a training with the exit code for failed rows, if there were any; everything else is printed already."""
    if failed:
        console.warn(f"{pluralize(failed, 'row')} of the corpora failed, and nothing was learned of them")
        raise click.exceptions.Exit(ROWS_FAILED)

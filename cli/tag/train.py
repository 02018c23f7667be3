"""``bertfeat tag train``: features with tags become a tagger."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..app import Command, option
from ..bundles import bundle, defer_settings, leave_out, set_aside
from ..console import Console, fields_of, format_duration, two_columns
from ..loop_options import LOOP_NAMES, LOOP_OPTIONS
from ..options import ModelOptions, model_options, output_options, reading_options
from ..paths import default_output
from .options import PAIRS, dataset_display, sentences_option

if TYPE_CHECKING:
    from bertfeat.corpus import CorpusSettings
    from bertfeat.tagging import TrainingReport, TrainingSettings
    from bertfeat.training import Epoch


training_options = bundle(
    "training",
    defer_settings("bertfeat.tagging", "TrainingSettings"),
    ("hidden", "crf", "seed", "scheme", *LOOP_NAMES),
    option(
        "--hidden",
        type=click.IntRange(min=1),
        default=256,
        metavar="N",
        help="Width of the LSTM, of each direction; the paper has 768.",
    ),
    option(
        "--crf/--no-crf",
        default=None,
        help="Score whole sequences of tags (CRF), or each tag by itself as the paper does.",
        show_default="a CRF where tags stand for spans; none for a Table 7",
    ),
    option(
        "--seed",
        type=click.IntRange(min=0),
        default=1,
        metavar="N",
        help="Of the random numbers: another one, another tagger.",
    ),
    option(
        "--scheme",
        type=click.Choice(["BIO", "IOBES"]),
        default="BIO",
        further=True,
        help="In which spans are learnt; BIO, IOB1 and IOBES are read, BIO is written.",
    ),
    *LOOP_OPTIONS,
)
"""How a tagger is trained; the command gets ``training``, which makes the ``TrainingSettings``."""


@click.command(cls=Command, name="train")
@sentences_option("--train", "Sentences to learn from: a feature set, or a corpus with tags.", required=True)
@sentences_option("--dev", "Sentences that choose the best epoch.", required=True)
@option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    show_default="train.tagger",
    help="Where the tagger goes.",
)
@option(
    "--layers",
    metavar="SPEC",
    show_default="concat4, or the only ones that are stored",
    help="What is read of each word: last, sum4, 3, …; mix4, mix-all: a weighted sum that is learnt.",
)
@training_options
@model_options
@reading_options
@option("--overwrite", is_flag=True, further=True, help="Start anew where another training's folder is.")
@output_options
def command(
    train: str,
    dev: str,
    output: Path | None,
    layers: str | None,
    training: Callable[[], "TrainingSettings"],
    model: ModelOptions,
    reading: "CorpusSettings",
    overwrite: bool,
    console: Console,
) -> None:
    """Train a tagger (a two-layer BiLSTM) on frozen features of words.

    A corpus with tags (CoNLL, or others with --pretokenized --tag-column) is extracted first, into a feature set
    beside it. The epoch with the best score on the development set is kept. Interrupted, the same command goes on.

    \b
    bertfeat tag train --train train.conll --dev dev.conll
    bertfeat tag train --train train.features --dev dev.features --layers mix-all --crf -o mix.tagger
    """
    settings = training()
    from bertfeat.tagging import train_tagger

    with dataset_display(console) as display:
        report = train_tagger(
            train,
            dev,
            output or default_output([train], ".tagger"),
            layers=layers,
            settings=settings,
            corpus_settings=reading,
            overwrite=overwrite,
            progress=display.progress,
            on_dataset=display.report,
            on_epoch=lambda epoch: console.say(epoch_line(epoch)),
            **asdict(model),
        )
    _print_training(report, console)


set_aside(command, "precision", "text_columns", "keep")
leave_out(command, *PAIRS)


def epoch_line(epoch: "Epoch") -> str:
    """How an epoch went."""
    best = " *" if epoch.best == epoch.number else ""
    speed = epoch.words / max(epoch.seconds, 1e-9)
    return f"epoch {epoch.number}: loss {epoch.loss:.4f}, dev {epoch.score:.4f}, {speed:,.0f} words/s{best}"


def _print_training(report: "TrainingReport", console: Console) -> None:
    for warning in report.warnings:
        console.warn(warning)
    settings = report.settings
    if report.scores is None:
        console.say(f"{report.folder}: trained already, nothing to do")
    measure = "span F1" if settings.labels.has_spans else "accuracy"
    rows = [
        ("tagger", report.folder),
        ("reads", f"{settings.input.name} of {settings.model.name}"),
        ("labels", f"{len(settings.labels)} ({settings.labels.scheme})"),
        (f"dev {measure}", f"{settings.score:.4f}, in epoch {settings.best_epoch} of {len(settings.history)}"),
        ("time", format_duration(report.seconds) if report.scores is not None else None),
    ]
    result = {"folder": report.folder, "score": settings.score, "best_epoch": settings.best_epoch}
    result |= {"epochs": len(settings.history), "resumed": report.resumed}
    result |= {"seconds": report.seconds, "cached": report.cached}
    scores = {} if report.scores is None else {"dev": fields_of(report.scores)}
    console.result({**result, **scores}, two_columns(rows))

"""``bertfeat tag train``: features with tags become a tagger."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .frame import Command, Option, option
from .options import Decorator, ModelOptions, bundle, model_options, reading_options, talk_options
from .progress import extraction_look, shown_progress
from .sources import default_output
from .talk import Talk, counted, duration, plain, table

if TYPE_CHECKING:
    from bertfeat.corpus import CorpusSettings
    from bertfeat.features import FeatureSet
    from bertfeat.tagging import Epoch, Trained, TrainingSettings

GIB = 2**30


def _training_settings(memory: float, **chosen: Any) -> "TrainingSettings":
    from bertfeat.tagging import TrainingSettings  # here, because it imports torch

    return TrainingSettings(memory=round(memory * GIB), **chosen)


training_options = bundle(
    "training",
    lambda **chosen: lambda: _training_settings(**chosen),
    ("hidden", "crf", "seed", "scheme", "dropout", "batch_size", "learning_rate", "epochs", "patience", "memory"),
    option("--hidden", type=click.IntRange(min=1), default=256, metavar="N", help="Of each LSTM; the paper has 768."),
    option("--crf", is_flag=True, help="Score whole sequences of tags (CRF) instead of each tag by itself."),
    option(
        "--seed", type=click.IntRange(min=0), default=1, metavar="N", help="Another one, another tagger; default 1."
    ),
    option(
        "--scheme",
        type=click.Choice(["BIO", "IOBES"]),
        default="BIO",
        further=True,
        help="In which spans are learnt (default BIO); BIO, IOB1 and IOBES are read, BIO is written.",
    ),
    option("--dropout", type=float, default=0.5, further=True, metavar="SHARE", help="Default: 0.5."),
    option("--batch-size", type=click.IntRange(min=1), default=32, further=True, metavar="N", help="Sentences; 32."),
    option("--learning-rate", type=float, default=1e-3, further=True, metavar="RATE", help="At first; default: 0.001."),
    option("--epochs", type=click.IntRange(min=1), default=40, further=True, metavar="N", help="At most; default: 40."),
    option(
        "--patience",
        type=click.IntRange(min=1),
        default=6,
        further=True,
        metavar="N",
        help="Epochs without a better score on the development set before it ends; default: 6.",
    ),
    option(
        "--memory",
        type=click.FloatRange(min=0.001),
        default=4.0,
        further=True,
        metavar="GIB",
        help="Features held in memory (default 4 GiB); larger sets are read anew each epoch.",
    ),
)
"""How a tagger is trained; the command gets ``training``, which makes the ``TrainingSettings``."""


def sentences_option(name: str, told: str, *, required: bool = False) -> Decorator:
    """Declare an option that takes tagged sentences; ``--train`` reaches its command as ``train_given``."""
    given, kind = f"{name.removeprefix('--')}_given", click.Path(path_type=Path)
    return option(name, given, required=required, type=kind, metavar="CONLL|FEATURES", help=told)


@click.command(cls=Command, name="train")
@sentences_option("--train", "Sentences to learn from: a feature set, or a corpus with tags.", required=True)
@sentences_option("--dev", "Sentences that choose the best epoch.", required=True)
@option("-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help="Default: train.tagger.")
@option("--layers", metavar="SPEC", help="concat4 (default), last, sum4, …; mix4, mix-all: a learned weighted sum.")
@training_options
@model_options
@reading_options
@option("--overwrite", is_flag=True, further=True, help="Start anew where another training's folder is.")
@talk_options
def command(
    train_given: Path,
    dev_given: Path,
    output: Path | None,
    layers: str | None,
    training: Any,
    model: ModelOptions,
    reading: "CorpusSettings",
    overwrite: bool,
    talk: Talk,
) -> None:
    """Train a tagger (a two-layer BiLSTM) on frozen features of words.

    A corpus with tags (CoNLL, or others with --pretokenized --tag-column) is extracted first, into a feature set
    beside it. The epoch with the best score on the development set is kept. Interrupted, the same command goes on.

    \b
    bertfeat tag train --train train.conll --dev dev.conll
    bertfeat tag train --train train.features --dev dev.features --layers mix-all --crf -o mix.tagger
    """
    settings = training()
    from bertfeat.tagging import train

    folder = output or default_output([train_given], ".tagger")
    train_set, dev_set = prepared_pair(train_given, dev_given, layers, model, reading, talk)
    done = train(
        train_set,
        dev_set,
        folder,
        layers=layers,
        settings=settings,
        device=model.device,
        overwrite=overwrite,
        on_epoch=lambda epoch: talk.say(epoch_line(epoch)),
    )
    _tell(done, talk)


def set_aside(of: click.Command, *names: str) -> None:
    """Move options of bundles behind those that matter more to a command."""
    for parameter in of.params:
        if parameter.name in names and isinstance(parameter, Option):
            parameter.further = True


set_aside(command, "precision", "text_columns", "keep")


def prepared_pair(
    train_given: Path,
    dev_given: Path,
    layers: str | None,
    model: ModelOptions,
    reading: "CorpusSettings",
    talk: Talk,
) -> tuple["FeatureSet", "FeatureSet"]:
    """Open or extract both sets; a corpus beside a feature set is extracted as that was."""
    from bertfeat.tagging import is_feature_set

    given = (train_given, dev_given)
    sets = [is_feature_set(path) for path in given]
    if any(sets) and (model.model, model.revision, model.precision, model.batch_tokens) != (None, None, "auto", None):
        raise click.UsageError("--model and its options are for corpora; the feature set that is given records its own")
    found: dict[int, FeatureSet] = {}
    for number in sorted((0, 1), key=lambda at: not sets[at]):  # a feature set first: it says how
        like = next(iter(found.values())) if any(sets) and found else None
        found[number] = opened(given[number], layers, model, reading, talk, like)
    return found[0], found[1]


def opened(
    given: Path,
    layers: str | None,
    model: ModelOptions,
    reading: "CorpusSettings",
    talk: Talk,
    like: "FeatureSet | None" = None,
    folder: Path | None = None,
) -> "FeatureSet":
    """Open a feature set or extract a corpus, and tell what happened."""
    from bertfeat.tagging import prepared

    with shown_progress(talk, extraction_look) as progress:
        made = prepared(
            given, layers=layers, reading=reading, like=like, folder=folder, progress=progress, **asdict(model)
        )
    if made.report is not None:
        report = made.report
        done = "nothing to do" if report.nothing_to_do else duration(report.seconds)
        talk.say(f"{report.folder}: {counted(report.counts.documents, 'sentence')}, {done}")
        if report.failed:
            talk.warn(f"{counted(report.failed, 'sentence')} of {given} failed; see {report.folder}/_failures.jsonl")
    return made.features


def epoch_line(epoch: "Epoch") -> str:
    """How an epoch went."""
    best = " *" if epoch.best == epoch.number else ""
    speed = epoch.words / max(epoch.seconds, 1e-9)
    return f"epoch {epoch.number}: loss {epoch.loss:.4f}, dev {epoch.score:.4f}, {speed:,.0f} words/s{best}"


def draw_if_possible(name: str, *arguments: Any, talk: Talk) -> None:
    """Draw a picture, or say what is missing for it: what was computed is done all the same."""
    from bertfeat import plots
    from bertfeat.errors import BertfeatError

    try:
        getattr(plots, name)(*arguments)
    except BertfeatError as error:
        talk.warn(f"no picture: {error}")


def _tell(done: "Trained", talk: Talk) -> None:
    for warning in done.warnings:
        talk.warn(warning)
    settings = done.settings
    draw_if_possible("draw_curves", settings, done.folder / "curves.png", talk=talk)
    measure = "span F1" if settings.labels.has_spans else "accuracy"
    rows = [
        ("tagger", done.folder),
        ("reads", f"{settings.input.name} of {settings.model.name}"),
        ("labels", f"{len(settings.labels)} ({settings.labels.scheme})"),
        (f"dev {measure}", f"{settings.score:.4f}, in epoch {settings.best_epoch} of {len(settings.history)}"),
        ("time", duration(done.seconds)),
    ]
    told = {"folder": done.folder, "score": settings.score, "best_epoch": settings.best_epoch}
    told |= {"epochs": len(settings.history), "resumed": done.resumed, "seconds": done.seconds, "cached": done.cached}
    scores = {} if done.scores is None else {"dev": plain(done.scores)}
    talk.result({**told, **scores}, table(rows))

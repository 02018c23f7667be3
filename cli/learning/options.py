"""Options that the commands of heads share, and the lists of those that a kind of head does not use."""

import functools
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from bertfeat.core import ModelSettings, list_poolings
from bertfeat.learning import HeadSettings

from ..app import Callback, Command, CommandOption, Decorator, option
from ..bundles import bundle, leave_out, set_aside, settings_options
from ..option_types import CommaList, listed_option
from ..options import model_options, reading_options

if TYPE_CHECKING:
    from bertfeat.core import CorpusSettings
    from bertfeat.learning import ExtractorArguments, LearningArguments

# options for heads over words, and options for heads over texts
_WORDS = ("word_column", "tag_column", "pretokenized", "document_context", "crf", "scheme", "predictions", "to")
_TEXTS = ("label", "choices", "pair_column", "embed_pairs", "pooling", "weight_decay", "max_answer")
_UNUSED = {
    "tag": _TEXTS,
    "classify": (*_WORDS, "choices", "max_answer"),
    "answer": (*_WORDS, "choices", "label", "embed_pairs", "pooling"),
    "choose": (*_WORDS, "pair_column", "max_answer"),
}
_HIDDEN = {
    "tag": ("256", "Width of the BiLSTM, of each direction; the paper has 768."),
    "classify": ("none, 128, or the mean of both, as is best on dev", None),
    "answer": ("128, a BiLSTM", None),
    "choose": ("none, 256, or the mean of both, as is best on dev", None),
}
"""The default that the help of ``--hidden`` shows, by kind, and a help text that replaces its own, or None."""
_FURTHER = {"tag": ("task", "hidden", "fine_tune", "text_columns"), "classify": ()}
"""Options that the help of a kind lists last; for kinds that are not here, only ``task``."""

EXAMPLES = {
    "tag": ("--train train.conll --dev dev.conll", "test.conll"),
    "classify": ("--train train.csv --dev dev.csv --label intent", "test.csv"),
    "answer": ("--train train.json --dev dev.json", "test.json"),
    "choose": ("--train train.csv --dev dev.csv --text-column context --choices a,b,c,d --label right", "test.csv"),
}
"""The examples in the help, by kind: the options of ``train``, and the file to predict."""


def head_command(
    kind: str, name: str, run: Callback, options: Sequence[Decorator], help_text: str, *further: str
) -> click.Command:
    """Make the command ``name`` for a kind of head: ``run`` gets the kind and the values of the options.

    In the help text ``{kind}``, ``{train}`` and ``{test}`` are replaced by the kind and its examples; options named in
    ``further`` are listed last.
    """
    decorated: Callback = functools.partial(run, kind)
    for add in reversed(options):  # click lists the option that was added last first
        decorated = add(decorated)
    train, test = EXAMPLES[kind]
    shown = help_text.format(kind=kind, train=train, test=test)
    command = click.command(cls=Command, name=name, help=shown)(decorated)
    leave_out(command, *_UNUSED[kind], "pairs", "keep", "metadata")
    for parameter in command.params:
        if parameter.name == "hidden" and isinstance(parameter, CommandOption):
            parameter.show_default, own_help = _HIDDEN[kind]
            parameter.help = own_help or parameter.help
    set_aside(command, *further, *_FURTHER.get(kind, ("task",)))
    return command


def source_option(name: str, help_text: str, *, required: bool = False) -> Decorator:
    """Declare an option that takes examples; ``--train`` reaches its command as ``train``."""
    return option(name, required=required, metavar="FILE|FEATURES", help=help_text)


def folder_option(default: str, help_text: str) -> Decorator:
    """Declare ``--output``, the folder of the result; the help shows ``default`` as its default."""
    path = click.Path(path_type=Path)
    return option("-o", "--output", type=path, metavar="DIR", show_default=default, help=help_text)


def grid_option(metavar: str, default: str, help_text: str) -> Decorator:
    """Declare ``--grid``, the settings of fine-tuning."""
    return option("--grid", type=_GridPoints(), further=True, metavar=metavar, show_default=default, help=help_text)


def column_options(function: Callback) -> Callback:
    """Declare the columns of the labels and the choices; they reach the command as ``label`` and ``choices``."""
    label = option(
        "--label",
        metavar="COL[,COL]",
        help="Column of a label, a number or a list of labels, or one a label (1 or 0); of choices the number, from 0, "
        "or the column.",
    )
    return label(choices_option(function))


choices_option = listed_option("--choices", metavar="COL,COL[,COL]", help="Columns of the choices.")
"""Declare the columns of the choices."""


def pair_options(function: Callback) -> Callback:
    """Declare how texts and pairs become vectors; they reach the command as ``pooling`` and ``embed_pairs``."""
    pooling = option(
        "--pooling",
        metavar="KIND",
        further=True,
        help=f"{list_poolings()}.",
        show_default="the model's own, else mean",
    )
    pairs = option(
        "--embed-pairs",
        type=click.Choice(["apart", "together"]),
        further=True,
        help="Each text by itself (u, v, |u-v|, u·v), or both as one sequence with segment ids.",
        show_default="apart",
    )
    return pooling(pairs(function))


def learning_options(*between: Decorator) -> Decorator:
    """Declare the columns to predict, and how examples are read and learned from; the command gets ``examples``.

    The options ``between`` come after the columns and before the others.
    """
    names = ("label", "choices", "pooling", "embed_pairs", "settings", "model", "reading")
    training = settings_options("settings", HeadSettings)
    others = (pair_options, training, model_options, reading_options)
    return bundle("examples", _learning_arguments, names, column_options, *between, *others)


def _learning_arguments(
    label: str | None,
    choices: tuple[str, ...],
    pooling: str | None,
    embed_pairs: str | None,
    settings: HeadSettings,
    model: ModelSettings,
    reading: "CorpusSettings",
) -> "LearningArguments":
    return {
        "label": label,
        "choices": choices,
        "pooling": pooling,
        "embed_pairs": embed_pairs,
        "settings": settings,
        "corpus_settings": reading,
        **cast("ExtractorArguments", asdict(model)),
    }


class _GridPoints(click.ParamType):  # type: ignore[type-arg]  # generic only in newer clicks
    """Settings that fine-tuning tries: points ``batch:rate:epochs`` separated by commas."""

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

"""The options that the commands of heads share, and the table of what differs from kind to kind."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from bertfeat.core import CorpusSettings
from bertfeat.learning import GridPoint, HeadSettings, LearningSettings

from ..app import Callback, Command, CommandOption, Decorator, option
from ..bundles import bundle, set_aside, settings_options
from ..option_types import CommaList

_READING = ("text_columns", "format", "encoding")
_MODEL = ("model", "precision", "device")
_LEARNING = ("hidden", "batch_size", "learning_rate", "epochs", "seed")


@dataclass(frozen=True)
class HeadCommands:
    """What the commands of a kind of head have of their own: settings that are options, and examples in their help."""

    kind: str
    train: str  # the options of ``train`` in an example
    test: str  # the file to predict in an example
    reading: Sequence[str] = _READING  # fields of CorpusSettings: where the texts are
    tags: Sequence[str] = ()  # fields of CorpusSettings: where what is predicted is
    columns: Sequence[str] = ()  # fields of LearningSettings: what is predicted
    vectors: Sequence[str] = ()  # fields of LearningSettings: how texts become vectors
    learning: Sequence[str] = _LEARNING  # fields of HeadSettings
    hidden: str = ""  # the default of ``--hidden`` in words
    set_aside: Sequence[str] = ()  # options that the help lists last

    def command(self, name: str, run: Callback, help_text: str, options: Sequence[Decorator]) -> click.Command:
        """Make the command ``name``: ``run`` gets the kind and the values of the options.

        In the help text ``{kind}``, ``{train}`` and ``{test}`` are replaced by the kind and its examples.
        """
        decorated: Callback = functools.partial(run, self.kind)
        for add in reversed(options):  # click lists the option that was added last first
            decorated = add(decorated)
        shown = help_text.format(kind=self.kind, train=self.train, test=self.test)
        command = click.command(cls=Command, name=name, help=shown)(decorated)
        for parameter in command.params:
            if parameter.name == "hidden" and isinstance(parameter, CommandOption):
                parameter.show_default = self.hidden
        set_aside(command, "precision", *self.set_aside)
        return command

    def reading_options(self, *further: str) -> Decorator:
        """Declare how the texts of a corpus are read; the command gets ``reading``, a ``CorpusSettings``."""
        return settings_options("reading", CorpusSettings, fields=(*self.reading, *further))

    def column_options(self, *names: str) -> Decorator:
        """Declare the columns among ``names`` that the kind has; the command gets ``columns``, a LearningSettings."""
        return settings_options("columns", LearningSettings, fields=[name for name in self.columns if name in names])

    def learning_options(self, *between: Decorator) -> Decorator:
        """Declare what is learned, from which examples; the command gets ``asked``, a LearningSettings.

        The options ``between`` come after the columns and before the others.
        """
        names = ("columns", "vectors", "training", "reading")
        columns = settings_options("columns", LearningSettings, fields=self.columns)
        vectors = settings_options("vectors", LearningSettings, fields=(*self.vectors, *_MODEL))
        training = settings_options("training", HeadSettings, fields=self.learning)
        return bundle(
            "asked", _join_settings, names, columns, *between, vectors, training, self.reading_options(*self.tags)
        )


def _join_settings(
    columns: LearningSettings, vectors: LearningSettings, training: HeadSettings, reading: CorpusSettings
) -> LearningSettings:
    return replace(vectors, label=columns.label, choices=columns.choices, settings=training, corpus_settings=reading)


_HEADS = (
    HeadCommands(
        "tag",
        "--train train.conll --dev dev.conll",
        "test.conll",
        reading=(*_READING, "pretokenized", "word_column"),
        tags=("tag_column", "document_context"),
        learning=(*_LEARNING, "crf"),
        hidden="256, of each direction; the paper has 768",
        set_aside=("fine_tune", "text_columns"),
    ),
    HeadCommands(
        "classify",
        "--train train.csv --dev dev.csv --label intent",
        "test.csv",
        reading=(*_READING, "pair_column"),
        columns=("label",),
        vectors=("pooling", "embed_pairs"),
        learning=(*_LEARNING, "task"),
        hidden="none, 128, or the mean of both, as is best on dev",
    ),
    HeadCommands(
        "answer",
        "--train train.json --dev dev.json",
        "test.json",
        reading=(*_READING, "pair_column"),
        hidden="128, a BiLSTM",
    ),
    HeadCommands(
        "choose",
        "--train train.csv --dev dev.csv --text-column context --choices a,b,c,d --label right",
        "test.csv",
        columns=("label", "choices"),
        vectors=("pooling", "embed_pairs"),
        hidden="none, 256, or the mean of both, as is best on dev",
    ),
)
HEADS = {head.kind: head for head in _HEADS}
"""The kinds of heads by name."""


def source_option(name: str, help_text: str, *, required: bool = False) -> Decorator:
    """Declare an option that takes examples; ``--train`` reaches its command as ``train``."""
    return option(name, required=required, metavar="FILE|FEATURES", help=help_text)


def folder_option(default: str, help_text: str) -> Decorator:
    """Declare ``--output``, the folder of the result; the help shows ``default`` as its default."""
    path = click.Path(path_type=Path)
    return option("-o", "--output", type=path, metavar="DIR", show_default=default, help=help_text)


def fine_tune_option(usual: Sequence[GridPoint], metavar: str, help_text: str) -> Decorator:
    """Declare ``--fine-tune``, which may name the settings to fine-tune with; without them they are the ``usual``."""
    points = ",".join(f"{point.batch_size}:{point.learning_rate:g}:{point.epochs}" for point in usual)
    return option("--fine-tune", type=_GridPoints(), is_flag=False, flag_value=points, metavar=metavar, help=help_text)


class _GridPoints(click.ParamType):  # type: ignore[type-arg]  # generic only in newer clicks
    """Settings that fine-tuning tries: points ``batch:rate:epochs`` separated by commas."""

    name = "grid"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[GridPoint, ...]:
        """Read each point."""
        points = []
        for item in CommaList().convert(value, param, ctx):
            try:
                batch, rate, epochs = item.split(":")
                points.append(GridPoint(int(batch), float(rate), int(epochs)))
            except ValueError:
                self.fail(f"{item!r} is not written as batch:rate:epochs, for example 32:5e-5:3", param, ctx)
        return tuple(points)

"""What the commands of heads share: options, and what a kind of head has no use for."""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ..app import Callback, Command, Decorator, option
from ..bundles import bundle, defer_settings, leave_out, set_aside
from ..loop_options import LOOP_NAMES, LOOP_OPTIONS
from ..option_types import listed_option

if TYPE_CHECKING:
    pass

_WORDS = ("tag_column", "pretokenized", "document_context", "pairs", "keep")
_UNUSED = {
    "classify": (*_WORDS, "choices", "max_answer"),
    "answer": (*_WORDS, "choices", "label", "regression", "embed_pairs", "pooling"),
    "choose": (*_WORDS, "pair_column", "regression", "max_answer"),
}

EXAMPLES = {
    "classify": ("--train train.csv --dev dev.csv --label intent", "test.csv"),
    "answer": ("--train train.json --dev dev.json", "test.json"),
    "choose": ("--train train.csv --dev dev.csv --text-column context --choices a,b,c,d --label right", "test.csv"),
}
"""What follows ``train``, and what is predicted, in the help of a kind."""


def head_command(
    kind: str, name: str, run: Callback, options: Sequence[Decorator], help_text: str, *further: str
) -> click.Command:
    """The command of a kind of head: ``run`` gets the kind and the values of the options.

    In the help ``{kind}``, ``{train}`` and ``{test}`` stand for what the kind has; options named in ``further`` come
    after those that matter more.
    """
    decorated: Callback = functools.partial(run, kind)
    for add in reversed(options):  # click lists the option that was added last first
        decorated = add(decorated)
    train, test = EXAMPLES[kind]
    shown = help_text.format(kind=kind, train=train, test=test)
    command = click.command(cls=Command, name=name, help=shown)(decorated)
    leave_out(command, *_UNUSED[kind])
    set_aside(command, *further)
    return command


def source_option(name: str, help_text: str, *, required: bool = False) -> Decorator:
    """Declare an option that takes examples; ``--train`` reaches its command as ``train``."""
    return option(name, required=required, metavar="FILE|FEATURES", help=help_text)


def column_options(function: Callback) -> Callback:
    """Declare the columns of what is to be predicted; they reach the command as ``label`` and ``choices``."""
    label = option(
        "--label",
        metavar="COL",
        help="Column of what is to be predicted: a label or a number; of choices the number, from 0, or the column.",
    )
    choices = listed_option("--choices", metavar="COL,COL[,COL]", help="Columns of the choices.")
    return label(choices(function))


def pair_options(function: Callback) -> Callback:
    """Declare how texts and pairs become vectors; they reach the command as ``pooling`` and ``embed_pairs``."""
    pooling = option(
        "--pooling", metavar="KIND", further=True, help="mean, cls or max.", show_default="the model's own, else mean"
    )
    pairs = option(
        "--embed-pairs",
        type=click.Choice(["apart", "together"]),
        further=True,
        help="Each text by itself (u, v, |u-v|, u·v), or both as one sequence with segment ids.",
        show_default="apart",
    )
    return pooling(pairs(function))


head_training_options = bundle(
    "training",
    defer_settings("bertfeat.heads", "HeadSettings"),
    ("regression", "hidden", "seed", "max_answer", *LOOP_NAMES),
    option("--regression", is_flag=True, help="Learn numbers, not labels."),
    option(
        "--seed",
        type=click.IntRange(min=0),
        default=1,
        metavar="N",
        help="Of the random numbers: another one, another head.",
    ),
    option(
        "--hidden",
        type=click.IntRange(min=0),
        further=True,
        metavar="N",
        help="Width of the hidden layer; 0: none.",
        show_default="classify 0, answer 128 (a BiLSTM), choose 256",
    ),
    option(
        "--max-answer",
        type=click.IntRange(min=1),
        default=30,
        further=True,
        metavar="N",
        help="Tokens of the longest answer.",
    ),
    *LOOP_OPTIONS,
)
"""How a head is trained; the command gets ``training``, which makes the ``HeadSettings``."""

"""The options of every training on stored features: of taggers and of heads."""

import click

from .app import option
from .option_types import ByteSize

LOOP_NAMES = ("dropout", "batch_size", "learning_rate", "epochs", "schedule", "patience", "memory")
"""What the options are called in Python: fields of ``LoopSettings``."""

LOOP_OPTIONS = (
    option(
        "--dropout",
        type=float,
        default=0.5,
        further=True,
        metavar="SHARE",
        help="Share of values left out while it learns.",
    ),
    option(
        "--batch-size",
        type=click.IntRange(min=1),
        default=32,
        further=True,
        metavar="N",
        help="Sentences, or other examples, in a batch.",
    ),
    option(
        "--learning-rate",
        type=float,
        default=1e-3,
        further=True,
        metavar="RATE",
        help="At the beginning; it falls by the schedule.",
    ),
    option("--epochs", type=click.IntRange(min=1), default=40, further=True, metavar="N", help="Epochs at most."),
    option(
        "--schedule",
        type=click.Choice(["plateau", "linear"]),
        default="plateau",
        further=True,
        help="plateau: halve the rate where the score on the development set no longer rises, and keep the best epoch; "
        "linear: let it fall to 0 over all epochs, and keep the last one.",
    ),
    option(
        "--patience",
        type=click.IntRange(min=1),
        default=6,
        further=True,
        metavar="N",
        help="Epochs without a better score on the development set before a plateau ends.",
    ),
    option(
        "--memory",
        type=ByteSize(least=10**6),
        default="4GiB",
        further=True,
        metavar="SIZE",
        help="Features held in memory, such as 500M or 8G; larger sets are read anew each epoch.",
    ),
)
"""They go into a :func:`bundle`, all of them among the further ones."""

"""The options of scoring the best hits again, which ``search`` and ``evaluate`` share."""

from typing import TYPE_CHECKING

import click

from .app import option
from .bundles import bundle
from .command_line import options_on_command_line

if TYPE_CHECKING:
    from bertfeat import MaxSim

RERANK_NAMES = ("rerank", "rerank_column", "rerank_depth", "rerank_weight", "rerank_idf")


def _maxsim_options(
    rerank: str | None, rerank_column: str | None, rerank_depth: int | None, rerank_weight: float, rerank_idf: bool
) -> "MaxSim | None":
    """What the options say; None where hits are not scored again.

    Raises:
        click.UsageError: an option that nobody would read.
    """
    from bertfeat import MaxSim

    options = MaxSim(rerank_column, rerank_depth, rerank_weight, rerank_idf)  # what is wrong is told in every use
    if rerank is None:
        for name in options_on_command_line(among=RERANK_NAMES):
            raise click.UsageError(f"{name} is for --rerank maxsim")
        return None
    return options


rerank_options = bundle(
    "rerank",
    _maxsim_options,
    RERANK_NAMES,
    option(
        "--rerank", type=click.Choice(["maxsim"]), help="Score the best hits again, by the vectors of their tokens."
    ),
    option(
        "--rerank-column",
        metavar="NAME",
        further=True,
        help="Which tokens or words are compared: layer5_token.",
        show_default="those of the index's recipe",
    ),
    option(
        "--rerank-depth",
        type=click.IntRange(min=1),
        metavar="N",
        further=True,
        help="How many hits are scored again.",
        show_default="50",
    ),
    option(
        "--rerank-weight",
        type=float,
        default=0.5,
        metavar="W",
        further=True,
        help="Weight of the score by vector, which is added.",
    ),
    option(
        "--rerank-idf/--no-rerank-idf",
        default=True,
        further=True,
        help="Whether rare tokens of the query count for more.",
        show_default="they do",
    ),
)

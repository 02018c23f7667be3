"""The options of scoring the best hits again, which ``search`` and ``evaluate`` share."""

import click

from bertfeat.search import MaxSim

from .app import option
from .bundles import options_on_command_line
from .settings_options import option_names, settings_options

RERANK_NAMES = ("rerank", *option_names(MaxSim))


def _unless_unused(options: MaxSim, *, rerank: str | None) -> MaxSim | None:
    """The options, or None where hits are not scored again.

    Raises:
        click.UsageError: an option that nobody would read.
    """
    if rerank is None:
        for name in options_on_command_line(among=RERANK_NAMES):
            raise click.UsageError(f"{name} is for --rerank maxsim")
        return None
    return options


rerank_options = settings_options(
    "rerank",
    MaxSim,
    option(
        "--rerank", type=click.Choice(["maxsim"]), help="Score the best hits again, by the vectors of their tokens."
    ),
    names=("rerank",),
    finish=_unless_unused,
)

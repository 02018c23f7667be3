"""Which options were typed."""

import click
from click.core import ParameterSource


def was_typed(option: str) -> bool:
    """Whether an option stands on the command line; one that is set in the environment is meant for every command."""
    return click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE

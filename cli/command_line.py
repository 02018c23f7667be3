"""Which options were typed."""

from collections.abc import Collection

import click
from click.core import ParameterSource


def on_command_line(option: str) -> bool:
    """Whether an option stands on the command line; one that is set in the environment is meant for every command."""
    return click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE


def options_on_command_line(*, but: Collection[str] = ("as_json", "quiet")) -> list[str]:
    """The options on the command line, such as ``--text-column``, but for some."""
    options = [each for each in click.get_current_context().command.params if isinstance(each, click.Option)]
    return [max(each.opts, key=len) for each in options if each.name not in but and on_command_line(str(each.name))]

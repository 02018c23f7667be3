"""The options that are on the command line; those that are set in the environment are meant for every command."""

from collections.abc import Collection

import click
from click.core import ParameterSource


def on_command_line(name: str) -> bool:
    """Whether the option that reaches the command as ``name`` is on the command line."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def options_on_command_line(
    *, among: Collection[str] | None = None, but: Collection[str] = ("as_json", "quiet")
) -> list[str]:
    """The options on the command line as they are written, such as ``--text-column`` and ``--no-text``.

    ``among`` limits them to some and ``but`` leaves some out, by the names by which they reach the command.
    """
    context = click.get_current_context()
    options = [param for param in context.command.params if isinstance(param, click.Option) and param.name not in but]
    return [
        max(option.secondary_opts if context.params.get(str(option.name)) is False else option.opts, key=len)
        for option in options
        if (among is None or option.name in among) and on_command_line(str(option.name))
    ]

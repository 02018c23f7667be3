"""Bundles of options, which several commands share, and the options that are on the command line.

A bundle reaches its command as one object. Options that are set in the environment are meant for every command, so only
those on the command line are refused where they do nothing.
"""

import functools
from collections.abc import Callable, Collection, Sequence

import click
from click.core import ParameterSource

from .app import Callback, CommandOption, Decorator


def bundle(argument: str, make: Callable[..., object], names: Sequence[str], *options: Decorator) -> Decorator:
    """Make a decorator that adds ``options`` and hands the command ``argument=make(**those options' values)``."""

    def decorate(function: Callback) -> Callback:
        @functools.wraps(function)
        def command(**values: object) -> object:
            bundled = {name: values.pop(name) for name in names}
            return function(**values, **{argument: make(**bundled)})

        decorated: Callback = command
        for add in reversed(options):  # click lists the option that was added last first
            decorated = add(decorated)
        return decorated

    return decorate


def set_aside(command: click.Command, *names: str) -> None:
    """Move options of bundles behind those that matter more to a command."""
    for parameter in command.params:
        if parameter.name in names and isinstance(parameter, CommandOption):
            parameter.further = True


def leave_out(command: click.Command, *names: str) -> None:
    """Take options of bundles away from a command that does not use them; it gets the values of absent options."""
    run = command.callback
    assert run is not None
    absent = {str(parameter.name): _absent(parameter) for parameter in command.params if parameter.name in names}
    command.params = [parameter for parameter in command.params if parameter.name not in absent]
    command.callback = functools.wraps(run)(lambda **values: run(**values, **absent))


def _absent(parameter: click.Parameter) -> tuple[()] | bool | None:
    """The value of an option that is absent."""
    if parameter.multiple:
        return ()
    return False if getattr(parameter, "is_flag", False) and not parameter.secondary_opts else None


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

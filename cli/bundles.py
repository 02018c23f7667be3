"""Bundles of options: several commands share them, and each reaches its command as one object."""

import functools
from collections.abc import Callable, Sequence

import click

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

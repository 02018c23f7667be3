"""Bundles of options: several commands share them, and each reaches its command as one object."""

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import TypeVar

import click

from .app import Callback, Decorator, Option

Made = TypeVar("Made")


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


def deferred(load: Callable[[], Callable[..., Made]]) -> Callable[..., Callable[[], Made]]:
    """What a bundle makes of its options whose class, which ``load`` imports, is heavy: a function."""

    def make(**values: object) -> Callable[[], Made]:
        return lambda: load()(**values)

    return make


def defer_settings(module: str, name: str) -> Callable[..., Callable[[], object]]:
    """A maker for :func:`bundle` of settings that are made when the command runs, since that imports torch.

    Options that are not given have the settings' own defaults.
    """

    def make(**values: object) -> Callable[[], object]:
        given = {key: value for key, value in values.items() if value is not None}
        return lambda: getattr(importlib.import_module(module), name)(**given)

    return make


def set_aside(command: click.Command, *names: str) -> None:
    """Move options of bundles behind those that matter more to a command."""
    for parameter in command.params:
        if parameter.name in names and isinstance(parameter, Option):
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
    return () if parameter.multiple else False if getattr(parameter, "is_flag", False) else None

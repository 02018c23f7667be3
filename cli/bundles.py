"""Bundles of options, which several commands share or which set the fields of a settings class.

A bundle reaches its command as one object. The options of a settings class are made from the descriptions of its fields
(``bertfeat/options.py``). Options that are set in the environment are meant for every command, so only those on the
command line are refused by a command that does not use them.
"""

import enum
import functools
import types
import typing
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from bertfeat.errors import SWITCHES, option_of
from bertfeat.options import Option, Setting, described_settings

from .app import Callback, CommandOption, Decorator, option
from .option_types import LOCAL_PATH, ByteSize, format_bytes, listed_option


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


def settings_options(
    argument: str,
    owner: type,
    *besides: Decorator,
    names: Sequence[str] = (),
    fields: Sequence[str] | None = None,
    finish: Callable[..., object] | None = None,
) -> Decorator:
    """Make a decorator that adds the options of a settings class, and hands the command ``argument=owner(**values)``.

    Values that are not given are not passed on: the class knows its defaults. ``fields`` are those that are options, in
    their order, by default all. ``besides`` are other options, which come first; ``finish`` takes the settings and the
    values of these, by their ``names``, and returns the argument.
    """
    prefix = getattr(owner, "parameter_prefix", "")
    described = {each.name: each for each in described_settings(owner) if not each.option.python_only}
    settings = [described[name] for name in (described if fields is None else fields)]

    def make(**values: object) -> object:
        others = {name: values.pop(name) for name in names}
        given = {name.removeprefix(prefix): value for name, value in values.items() if value not in (None, ())}
        return owner(**given) if finish is None else finish(owner(**given), **others)

    return bundle(
        argument,
        make,
        [*names, *(f"{prefix}{each.name}" for each in settings)],
        *besides,
        *(_declare(owner, each, prefix) for each in settings),
    )


def option_names(owner: type) -> tuple[str, ...]:
    """The names by which the options of a settings class reach a command."""
    prefix = getattr(owner, "parameter_prefix", "")
    return tuple(f"{prefix}{each.name}" for each in described_settings(owner) if not each.option.python_only)


def _declare(owner: type, setting: Setting, prefix: str) -> Decorator:
    described, name = setting.option, f"{prefix}{setting.name}"
    spelled, kind = option_of(name), _shell_type(setting.type)
    if kind is bool and spelled in SWITCHES:
        spelled = f"{spelled}/--no-{spelled.removeprefix('--')}"
    declarations = (spelled, *described.aliases, name)
    facts: dict[str, Any] = {
        "help": described.help,
        "further": not described.basic,
        "bounds": "" if described.in_bytes else described.describe_bounds(for_help=True),
        "setting": (owner, setting.name),
    }
    if described.default:
        facts["show_default"] = described.default
    if kind is bool:
        return option(*declarations, is_flag=True, default=setting.default, **facts)
    if described.metavar or kind in (int, float):
        facts["metavar"] = described.metavar or ("N" if kind is int else "NUMBER")
    if typing.get_origin(kind) is tuple:
        if described.repeated:
            return option(*declarations, multiple=True, **facts)
        choices = tuple(described.choices) or _choices(typing.get_args(kind)[0])
        return listed_option(*declarations, choices=choices, **facts)
    facts["type"] = _click_type(kind, described)
    default = setting.default.value if isinstance(setting.default, enum.Enum) else setting.default
    if not described.default and default not in (None, ""):
        facts["default"] = format_bytes(default) if described.in_bytes else default
    return option(*declarations, **facts)


def _shell_type(hint: object) -> object:
    """The type that the shell reads: of a union, the list; else the type with choices, text, or the first."""
    if typing.get_origin(hint) is Sequence:
        return tuple[_shell_type(typing.get_args(hint)[0]), ...]  # type: ignore[misc]  # a type that is known at run time
    if not isinstance(hint, types.UnionType) and typing.get_origin(hint) is not typing.Union:
        return hint
    kinds = [each for each in typing.get_args(hint) if each is not types.NoneType]
    if lists := [each for each in kinds if typing.get_origin(each) is Sequence]:
        return _shell_type(lists[0])
    choices = [each for each in kinds if _choices(each)]
    return choices[0] if choices else str if str in kinds else kinds[0]


def _choices(kind: object) -> tuple[str, ...]:
    """The values of an enum or a Literal; other types have none."""
    if typing.get_origin(kind) is typing.Literal:
        return tuple(map(str, typing.get_args(kind)))
    if isinstance(kind, type) and issubclass(kind, enum.StrEnum):
        return tuple(member.value for member in kind)
    return ()


def _click_type(kind: object, described: Option) -> object:
    """The type that click reads; the bounds of fractions are checked by the settings class."""
    if choices := _choices(kind):
        return click.Choice(choices)
    if described.in_bytes:
        return ByteSize(least=described.least_typed)
    if kind is int:
        least, most = (None if bound is None else int(bound) for bound in (described.least, described.most))
        return int if least is most is None else click.IntRange(least, most)
    return LOCAL_PATH if kind is Path else kind


def set_aside(command: click.Command, *names: str) -> None:
    """Move options of bundles to the further options of a command, which its help lists last."""
    for parameter in command.params:
        if parameter.name in names and isinstance(parameter, CommandOption):
            parameter.further = True


def on_command_line(name: str) -> bool:
    """Whether the option that reaches the command as ``name`` is on the command line."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def options_on_command_line(
    *, among: Collection[str] | None = None, but: Collection[str] = ("as_json", "quiet")
) -> list[str]:
    """The options on the command line as they are written, such as ``--text-column`` and ``--no-text``.

    ``among`` limits them to some, and ``but`` leaves some out; both are names by which options reach the command.
    """
    context = click.get_current_context()
    options = [param for param in context.command.params if isinstance(param, click.Option) and param.name not in but]
    return [
        max(option.secondary_opts if context.params.get(str(option.name)) is False else option.opts, key=len)
        for option in options
        if (among is None or option.name in among) and on_command_line(str(option.name))
    ]

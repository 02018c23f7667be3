"""Options of the shell made from the fields of a settings class, where each is described (``bertfeat/options.py``)."""

import enum
import types
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from bertfeat.errors import SWITCHES, option_of
from bertfeat.options import Option, Setting, described_settings

from .app import Decorator, option
from .bundles import bundle
from .option_types import LOCAL_PATH, ByteSize, format_bytes, listed_option


def settings_options(
    argument: str,
    owner: type,
    *besides: Decorator,
    names: Sequence[str] = (),
    finish: Callable[..., object] | None = None,
) -> Decorator:
    """Make a decorator that adds the options of a settings class, and hands the command ``argument=owner(**values)``.

    What is not given is not passed on: the class knows its defaults. ``besides`` are options that come first, of those
    ``names``: ``finish`` takes the settings and these options' values, and makes of them what the command gets.
    """
    prefix = getattr(owner, "parameter_prefix", "")
    settings = [each for each in described_settings(owner) if not each.option.python_only]

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
    """Declare the option of a setting."""
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
        return listed_option(*declarations, choices=_choices(typing.get_args(kind)[0]), **facts)
    facts["type"] = _click_type(kind, described)
    if not described.default and setting.default not in (None, ""):
        facts["default"] = format_bytes(setting.default) if described.in_bytes else _plain_default(setting.default)
    return option(*declarations, **facts)


def _shell_type(hint: object) -> object:
    """The type that the shell reads: without None, and of several the one that has choices, else text."""
    if not isinstance(hint, types.UnionType) and typing.get_origin(hint) is not typing.Union:
        return hint
    kinds = [each for each in typing.get_args(hint) if each is not types.NoneType]
    choices = [each for each in kinds if _choices(each)]
    return choices[0] if choices else str if str in kinds else kinds[0]


def _choices(kind: object) -> tuple[str, ...]:
    """The values of an enum or a Literal; none of other types."""
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


def _plain_default(value: object) -> object:
    return value.value if isinstance(value, enum.Enum) else value

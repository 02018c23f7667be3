"""Options from a TOML file, each under its name on the command line: ``port = 80``, ``served-model-name = ["a", "b"]``.

The command line and the environment go before the file.
"""

import tomllib
from pathlib import Path

import click

from bertfeat.errors import did_you_mean

from .app import Decorator, option
from .option_types import LOCAL_PATH, CommaList


def config_option(arguments: str) -> Decorator:
    """Make the option ``--config FILE``; the command's arguments stand in the file under the key ``arguments``."""

    def read(context: click.Context, _: click.Parameter, path: Path | None) -> None:
        if path is not None:
            context.default_map = _read_options(context, path, arguments)

    return option(
        "--config",
        type=LOCAL_PATH,
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=read,
        help=f"A TOML file of options and {arguments}, which the command line and the environment go before.",
    )


def _read_options(context: click.Context, path: Path, arguments: str) -> dict[str, object]:
    """The values of a file by the names of the parameters; a key or a value that cannot be is refused."""
    try:
        values = tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise click.UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path}: not TOML: {error}") from None
    known: dict[str, click.Parameter] = {}
    for parameter in context.command.params:
        if isinstance(parameter, click.Argument):
            known[arguments] = parameter
        elif not parameter.is_eager:
            known |= {name.lstrip("-"): parameter for name in parameter.opts if name.startswith("--")}
    found = {}
    for key, value in values.items():
        name = key.replace("_", "-")
        if name not in known:
            hint = did_you_mean(name, known)
            raise click.UsageError(f"{path}: there is no option {key!r}; {hint}the keys are {', '.join(sorted(known))}")
        parameter = known[name]
        found[str(parameter.name)] = _as_typed(context, parameter, value, f"{path}: {key}")
    return found


def _as_typed(context: click.Context, parameter: click.Parameter, value: object, where: str) -> object:
    """A value of the file as the command line would have it."""
    is_flag = isinstance(parameter, click.Option) and parameter.is_flag
    takes_many = parameter.multiple or parameter.nargs == -1
    many = takes_many or isinstance(parameter.type, CommaList)
    items = value if isinstance(value, list) and many else [value]
    if is_flag != isinstance(value, bool) or any(isinstance(item, list | dict) for item in items):
        expected = "true or false" if is_flag else "a value, or a list of values" if many else "a value"
        raise click.UsageError(f"{where}: {expected} stands here")
    if is_flag:
        return value
    typed = tuple(map(str, items)) if takes_many else ",".join(map(str, items))
    try:
        parameter.type_cast_value(context, typed)
    except click.BadParameter as error:
        raise click.UsageError(f"{where}: {error.message}") from None
    return typed

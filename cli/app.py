"""The click classes of the program: commands, which are imported when they are called, and options, with their help."""

import copy
import difflib
import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from bertfeat.options import Option

from .errors import reported_errors

if TYPE_CHECKING:
    from click.types import OptionHelpExtra

ENVIRONMENT_PREFIX = "BERTFEAT"


class CommandOption(click.Option):
    """An option; a ``further`` one is listed at the end of the help, under "Further options".

    The help shows its default; where that is not a constant, ``show_default`` describes it. ``bounds`` are those of
    a number, in words. ``setting`` names the settings class and the field that describe it, if some do.
    """

    def __init__(
        self,
        declarations: Sequence[str] | None = None,
        *,
        further: bool = False,
        bounds: str = "",
        setting: tuple[type, str] | None = None,
        **settings: Any,
    ) -> None:
        if not settings.get("is_flag"):  # the default of a flag is clear
            settings.setdefault("show_default", True)
        super().__init__(declarations, **settings)
        self.further, self.bounds, self.setting = further, bounds, setting

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Its value in the environment: BERTFEAT_INFO_TEXT_COLUMN for --text-column, else under click's own name."""
        if ctx.auto_envvar_prefix and self.allow_from_autoenv and not self.envvar:
            name = max(self.opts, key=len).lstrip("-").replace("-", "_").upper()
            if value := os.environ.get(f"{ctx.auto_envvar_prefix}_{name}"):
                return value
        return super().resolve_envvar_value(ctx)

    def get_help_extra(self, ctx: click.Context) -> "OptionHelpExtra":
        """The text in brackets after the help; click also puts a described default into parentheses."""
        extra = super().get_help_extra(ctx)
        if isinstance(self.show_default, str) and "default" in extra:
            extra["default"] = self.show_default
        bounds = self.bounds
        if isinstance(self.type, click.IntRange | click.FloatRange):
            bounds = Option("", least=self.type.min, most=self.type.max).describe_bounds(for_help=True)
        extra.pop("range", None)
        if bounds:
            extra["range"] = bounds
        return extra


class Command(click.Command):
    """A command whose help shows the options that matter first and the further ones after them."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write both lists of options, and how they are set in the environment."""
        first: list[tuple[str, str]] = []
        further: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                (further if getattr(parameter, "further", False) else first).append(record)
        for heading, records in (("Options", first), ("Further options", further)):
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)
        with formatter.section("Environment"):
            formatter.write_text(f"Every option is also {ctx.auto_envvar_prefix}_<OPTION>, in capitals.")


class CommandGroup(click.Group):
    """A group that lists its commands with their whole first sentences, and suggests one for a misspelled name."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with their first sentences."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(limit=200)) for name, command in self.commands.items()]
            )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command by its name; if there is none, suggest one with a similar name."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1, cutoff=0.5) if args else []
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise click.UsageError(f"{error.message}{hint}", ctx) from None


Callback = Callable[..., object]
"""The function of a command."""

Decorator = Callable[[Callback], Callback]


def option(*declarations: str, further: bool = False, **settings: Any) -> Decorator:
    """Declare a :class:`CommandOption`, as ``click.option`` does; each command that shares it gets a copy."""
    made = CommandOption(declarations, further=further, **settings)

    def decorate(function: Callback) -> Callback:
        parameters: list[click.Parameter] = function.__dict__.setdefault("__click_params__", [])
        parameters.append(copy.copy(made))
        return function

    return decorate


class Program(CommandGroup):
    """The program itself: imports a command's module only when that command, or the help, is asked for."""

    def __init__(
        self, *, sections: Mapping[str, Sequence[str]], homes: Mapping[str, str] | None = None, **settings: Any
    ) -> None:
        super().__init__(**settings)
        self.sections = sections  # heading → names of commands; a command `x` is `command` in the module `x`
        self.homes = homes or {}  # name → module, for commands that share a module, where a command `x` is named `x`

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, in the order of the help."""
        return [name for names in self.sections.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f".{self.homes.get(cmd_name, cmd_name)}", __package__)
        command: click.Command = getattr(module, cmd_name if cmd_name in self.homes else "command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under their headings."""
        width = max(map(len, self.list_commands(ctx)))
        for heading, names in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), self._summary(ctx, name)) for name in names])

    def _summary(self, ctx: click.Context, name: str) -> str:
        command = self.get_command(ctx, name)
        return command.get_short_help_str(limit=200) if command else ""  # its first sentence, whole

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments before the command; wrong usage ends as it does in a command."""
        with reported_errors():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; errors end it with a message and a documented exit code."""
        with reported_errors():
            return super().invoke(ctx)

"""The frame around the commands: commands found when they are asked for, and help that begins with what matters."""

import difflib
import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from .errors import reported_errors

ENVIRONMENT_PREFIX = "BERTFEAT"


class Option(click.Option):
    """An option; a ``further`` one stands at the end of the help, under a heading of its own.

    Its default is shown in the help; ``show_default`` says it in words where it is no constant.
    """

    def __init__(self, *args: Any, further: bool = False, **kwargs: Any) -> None:
        if not kwargs.get("is_flag"):  # of a flag there is nothing to say
            kwargs.setdefault("show_default", True)
        super().__init__(*args, **kwargs)
        self.further = further

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Its value in the environment: under the name that is typed, BERTFEAT_INFO_TEXT_COLUMN, or click's own."""
        if ctx.auto_envvar_prefix and self.allow_from_autoenv and not self.envvar:
            typed = max(self.opts, key=len).lstrip("-").replace("-", "_").upper()
            if value := os.environ.get(f"{ctx.auto_envvar_prefix}_{typed}"):
                return value
        return super().resolve_envvar_value(ctx)

    def get_help_extra(self, ctx: click.Context) -> Any:
        """What stands in brackets after the help; click puts a default in words into parentheses as well."""
        extra = super().get_help_extra(ctx)
        if isinstance(self.show_default, str) and "default" in extra:
            extra["default"] = self.show_default
        return extra


_MOST_SHOWN = 500  # characters of a wrong usage


class Command(click.Command):
    """A command whose help shows the options that matter first and the further ones after them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments; of those that are wrong the beginning is shown."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if len(error.message) <= _MOST_SHOWN:
                raise
            raise click.UsageError(f"{error.message[:_MOST_SHOWN]}…", ctx) from None

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


def option(*declarations: str, further: bool = False, **settings: Any) -> Callable[[Any], Any]:
    """Declare an :class:`Option`, as ``click.option`` does."""
    return click.option(*declarations, cls=Option, further=further, **settings)


class Program(click.Group):
    """The program itself: imports a command's module only when that command, or the help, is asked for."""

    def __init__(self, *args: Any, verbs: Mapping[str, Sequence[str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.verbs = verbs  # heading → names of commands, each the name of a module with a `command` in it

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, in the order of the help."""
        return [name for names in self.verbs.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = importlib.import_module(f".{cmd_name}", __package__).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under their headings."""
        width = max(map(len, self.list_commands(ctx)))
        for heading, names in self.verbs.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), self._summary(ctx, name)) for name in names])

    def _summary(self, ctx: click.Context, name: str) -> str:
        command = self.get_command(ctx, name)
        return command.get_short_help_str(limit=200) if command else ""  # its first sentence, whole

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one may have been meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1, cutoff=0.5) if args else []
            raise click.UsageError(
                f"{error.message} Did you mean '{near[0]}'?" if near else error.message, ctx
            ) from None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what stands before the command; wrong usage ends as it does in a command."""
        with reported_errors():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; errors end it with a message and a documented exit code."""
        with reported_errors():
            return super().invoke(ctx)

"""``bertfeat tag``: taggers learnt from stored features."""

import difflib

import click

from . import evaluate, predict, table7, train


class _TagGroup(click.Group):
    """Its commands are listed with their first sentences whole, and a misspelt one gets a suggestion."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(limit=200)) for name, command in self.commands.items()]
            )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], self.commands, n=1, cutoff=0.5) if args else []
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise click.UsageError(f"{error.message}{hint}", ctx) from None


@click.group(cls=_TagGroup, name="tag")
def command() -> None:
    """Train taggers on features, tag texts, and compare layers as the BERT paper's Table 7 does."""


command.add_command(train.command)
command.add_command(evaluate.command)
command.add_command(predict.command)
command.add_command(table7.command)

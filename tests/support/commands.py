"""The commands of the program, as click knows them."""

from collections.abc import Iterator

import click

from bertfeat.cli import main


def _leaves(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words that call each command, those of groups in groups too."""
    for name in group.list_commands(click.Context(group)):
        member = group.get_command(click.Context(group), name)
        if isinstance(member, click.Group):
            yield from _leaves(member, (*path, name))
        else:
            yield (*path, name)


COMMANDS = list(_leaves(main))
"""The words that call each command: ``("search",)``, ``("tag", "train")``."""


def find_command(words: tuple[str, ...]) -> click.Command:
    """The command that those words call."""
    command: click.Command | None = main
    for word in words:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
    assert command is not None
    return command


def declared_options() -> set[str]:
    """Every option of every command, such as ``--part-rows`` and ``--no-text``."""
    options = (each for words in COMMANDS for each in find_command(words).params if isinstance(each, click.Option))
    return {name for each in options for name in (*each.opts, *each.secondary_opts)}

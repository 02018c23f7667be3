"""The commands ``classify``, ``answer`` and ``choose``: a group each, with the same verbs."""

import click

from ..app import CommandGroup
from . import evaluate, predict, table7, train


def head_group(kind: str, summary: str) -> click.Group:
    """The group of a kind of head."""
    group = CommandGroup(name=kind, help=summary)
    for make in (train.make_command, evaluate.make_command, predict.make_command, table7.make_command):
        group.add_command(make(kind))
    return group

"""The commands ``classify``, ``answer`` and ``choose``: a group each, with the same verbs."""

import click

from ..app import CommandGroup
from .evaluate import evaluate_command
from .predict import predict_command
from .table7 import table7_command
from .train import train_command


def head_group(kind: str, summary: str) -> click.Group:
    """The group of a kind of head."""
    group = CommandGroup(name=kind, help=summary)
    for make in (train_command, evaluate_command, predict_command, table7_command):
        group.add_command(make(kind))
    return group

"""``bertfeat tag``: taggers learnt from stored features."""

import click

from ..app import CommandGroup
from . import evaluate, predict, table7, train


@click.group(cls=CommandGroup, name="tag")
def command() -> None:
    """Train taggers on features, tag texts, and compare layers as the BERT paper's Table 7 does."""


command.add_command(train.command)
command.add_command(evaluate.command)
command.add_command(predict.command)
command.add_command(table7.command)

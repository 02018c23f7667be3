"""``bertfeat tag``: taggers learnt from stored features."""

import click

from . import tag_evaluate, tag_predict, tag_table, tag_train


@click.group(name="tag")
def command() -> None:
    """Train taggers on features, tag texts, and compare layers as the BERT paper's Table 7 does."""


command.add_command(tag_train.command)
command.add_command(tag_evaluate.command)
command.add_command(tag_predict.command)
command.add_command(tag_table.command)

"""The commands ``tag``, ``classify``, ``answer`` and ``choose``: a group for each kind of head, with the same verbs."""

import click

from ..app import CommandGroup
from .evaluate import evaluate_command
from .options import HEADS
from .predict import predict_command
from .table7 import table7_command
from .train import train_command


def _head_group(kind: str, summary: str) -> click.Group:
    group = CommandGroup(name=kind, help=summary)
    for make in (train_command, evaluate_command, predict_command, table7_command):
        group.add_command(make(HEADS[kind]))
    return group


tag = _head_group("tag", "Learn tags of words from their features, and tag texts.")
classify = _head_group("classify", "Learn labels, or numbers, of texts and of pairs from their features.")
answer = _head_group("answer", "Learn to find the answers to questions in passages, from the features of their tokens.")
choose = _head_group("choose", "Learn which of several continuations is the right one, from features.")

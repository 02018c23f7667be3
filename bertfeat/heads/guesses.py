"""Guesses: the predictions of a head before any threshold, and the scores of its network that they are made of."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from bertfeat.heads.answer_scores import SpanScores
from bertfeat.heads.networks import HeadNetwork
from bertfeat.heads.scores import ClassScores, MultiLabelScores, NumberScores
from bertfeat.tagging import Scores
from bertfeat.training import ExampleChunk, batches_by_length, gather_batch

_EVALUATED = 256  # examples of a batch where nothing is learnt

HeadScores = Scores | ClassScores | MultiLabelScores | NumberScores | SpanScores

Threshold = float | tuple[float, ...] | None
"""Chosen on the development set: the no-answer score above which a question has none, or a probability a label."""


@dataclass(frozen=True, slots=True)
class Guess:
    """The prediction of a head for one example."""

    value: str | float | int | tuple[str, ...]  # a label, a number, a choice's number, tags; of an answer see below
    scores: tuple[float, ...] = ()  # probability of each label or choice
    start: int = 0  # of an answer, in characters of the passage
    end: int = 0
    no_answer: float = 0.0  # score of [CLS] less that of the best span: higher where an answer is less likely


def network_scores(network: HeadNetwork, chunk: ExampleChunk, device: torch.device) -> NDArray[np.float32]:
    """The scores of each vector of a chunk, in its order: ``[N, K]``, see :meth:`HeadNetwork.decide`."""
    network.eval()
    scores = np.empty((len(chunk.features), network.shape.outputs), np.float32)
    for packed in batches_by_length(chunk.offsets, _EVALUATED):
        scores[packed.vectors] = network.decide(gather_batch(chunk.features, packed, device)).cpu().numpy()
    return scores

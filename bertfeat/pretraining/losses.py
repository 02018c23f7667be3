"""The loss of a batch and its parts, by transformers' own models.

The head for masked words is the widest product of a small model, and most pieces are not predicted. So only the hidden
states of the predicted ones are given to it: the loss is the same, a mean over these pieces.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor, nn

from bertfeat.pretraining.anchor import Anchor
from bertfeat.pretraining.examples import Batch
from bertfeat.pretraining.masking import UNPREDICTED

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, slots=True)
class BatchLoss:
    """The loss of a batch, and what it is made of."""

    total: Tensor  # []
    words: Tensor  # [], mean over the predicted pieces
    pairs: Tensor | None  # [], of next sentences
    anchor: Tensor | None  # [], distance from the old vectors, without its weight
    word_logits: Tensor  # [P, V] of the predicted pieces
    word_labels: Tensor  # [P]
    pair_logits: Tensor | None  # [S, 2]


def batch_loss(module: "PreTrainedModel", batch: Batch, anchor: Anchor | None = None) -> BatchLoss:
    """Run a batch through a model with heads."""
    if getattr(module.config, "is_decoder", False):
        return _next_piece_loss(module, batch)
    inputs = {name: values for name, values in batch.items() if name != "unmasked_ids"}
    predicted = batch["labels"] != UNPREDICTED  # [S, T]
    labels = inputs.pop("labels")[predicted]  # [P]
    with _only(module.base_model, predicted) as states:
        output = module(**inputs, labels=labels[None])
    pairs = distance = None
    pair_logits = getattr(output, "seq_relationship_logits", None)
    if pair_logits is not None:
        pairs = nn.functional.cross_entropy(pair_logits, batch["next_sentence_label"])
    total = output.loss
    if anchor is not None:
        distance = anchor.distance(states[0], batch)
        total = total + anchor.weight * distance
    logits = output.prediction_logits if pair_logits is not None else output.logits
    words = output.loss if pairs is None else output.loss - pairs
    return BatchLoss(total, words.detach(), pairs, distance, logits[0], labels, pair_logits)


@contextmanager
def _only(encoder: nn.Module, predicted: Tensor) -> Iterator[list[Tensor]]:
    """Give the heads the hidden states of the predicted pieces alone; yields a list with all, ``[S, T, H]``."""
    states: list[Tensor] = []

    def select(_module: nn.Module, _inputs: object, output: "dict[str, Tensor]") -> "dict[str, Tensor]":
        states.append(output["last_hidden_state"])
        output["last_hidden_state"] = states[0][predicted][None]
        return output

    hook = encoder.register_forward_hook(select)
    try:
        yield states
    finally:
        hook.remove()


def _next_piece_loss(module: "PreTrainedModel", batch: Batch) -> BatchLoss:
    """The loss of a left-to-right model: each piece from those before it."""
    output = module(**batch, use_cache=False)
    labels = batch["labels"][:, 1:]
    predicted = labels != UNPREDICTED
    logits = output.logits[:, :-1][predicted]
    return BatchLoss(output.loss, output.loss.detach(), None, None, logits, labels[predicted], None)

"""Losses of transformers' own models: of a batch in training, and over the sequences that are held out.

In a small model the head for masked words is the largest matrix product, and most pieces are not predicted. So it gets
only the hidden states of the predicted ones: the loss is the same, a mean over these pieces.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertfeat.core import Model, Pooling
from bertfeat.pretraining.corpus import CorpusSplit, TokenStore
from bertfeat.pretraining.examples import (
    UNPREDICTED,
    Batch,
    Collator,
    ContextFreeGuesses,
    Ids,
    SequenceExamples,
    SpecialTokens,
)
from bertfeat.pretraining.results import HeldOutScores

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Anchor:
    """The starting model as it was before the training, and the weight of the distance from its vectors.

    ``weight · mean(1 - cos(new, old))`` is added to the loss: ``old`` is the pooled last layer of the starting model
    for the sequence without masks, without dropout; ``new`` is that of the model in training for the sequence as it
    sees it, masks included. The cosine is used because searches compare vectors by it, and the masked sequence because
    its hidden states are there already.
    """

    def __init__(self, encoder: "PreTrainedModel", pooling: Pooling, weight: float) -> None:
        self._encoder, self._pooling = encoder.eval().requires_grad_(False), pooling
        self.weight = weight

    @classmethod
    def of(cls, model: Model, weight: float, device: torch.device) -> "Anchor":
        """Load the starting model once more, to stay as it is."""
        from transformers import AutoModel

        encoder = AutoModel.from_pretrained(
            model.folder, dtype=torch.float32, trust_remote_code=False, use_safetensors=True, local_files_only=True
        )
        return cls(encoder.to(device), model.pooling, weight)

    def distance(self, states: Tensor, batch: Batch) -> Tensor:
        """Mean distance of the sequences' vectors from the old ones, 0 to 2; ``states`` are ``[S, T, H]``."""
        mask = batch["attention_mask"]
        inputs = {name: batch[name] for name in ("attention_mask", "token_type_ids") if name in batch}
        with torch.no_grad():
            old = self._encoder(input_ids=batch["unmasked_ids"], **inputs).last_hidden_state
        cosine = nn.functional.cosine_similarity(pool(states, mask, self._pooling), pool(old, mask, self._pooling))
        return (1 - cosine).mean()


def pool(states: Tensor, mask: Tensor, pooling: Pooling) -> Tensor:
    """One vector per sequence: ``[S, T, H]`` and ``[S, T]`` → ``[S, H]``."""
    if pooling is Pooling.CLS:
        return states[:, 0]
    if pooling is Pooling.LAST:
        return states[torch.arange(len(states), device=states.device), mask.sum(1) - 1]
    within = mask[..., None].bool()
    if pooling is Pooling.MAX:
        return states.masked_fill(~within, float("-inf")).amax(1)
    if pooling is Pooling.MEAN:
        return states.masked_fill(~within, 0).sum(1) / within.sum(1)
    raise ValueError(f"a loss cannot hold vectors of the pooling {pooling}")


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
    next_labels = inputs.pop("next_sentence_label", None)
    select = _SelectPredicted(predicted)
    with module.base_model.register_forward_hook(select):
        output = module(**inputs)
    pairs = distance = pair_logits = None
    logits = (output.logits if next_labels is None else output.prediction_logits)[0]
    total = words = _cross_entropy(logits, labels)
    if next_labels is not None:
        pair_logits = output.seq_relationship_logits
        pairs = _cross_entropy(pair_logits, next_labels)
        total = total + pairs
    if anchor is not None:
        distance = anchor.distance(select.states, batch)
        total = total + anchor.weight * distance
    return BatchLoss(total, words, pairs, distance, logits, labels, pair_logits)


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean loss, as transformers' models have it; in float32 whatever the logits are."""
    if not len(labels):  # nothing is predicted where all words are unknown
        return logits.float().sum() * 0.0
    return nn.functional.cross_entropy(logits.float(), labels)


class _SelectPredicted:
    """A forward hook of an encoder, after which the heads get the hidden states of the predicted pieces alone."""

    states: Tensor  # [S, T, H] of all pieces, once the encoder has run

    def __init__(self, predicted: Tensor) -> None:
        self._predicted = predicted  # [S, T]

    def __call__(self, _module: nn.Module, _inputs: object, output: "dict[str, Tensor]") -> "dict[str, Tensor]":
        self.states = output["last_hidden_state"]
        output["last_hidden_state"] = self.states[self._predicted][None]
        return output


def _next_piece_loss(module: "PreTrainedModel", batch: Batch) -> BatchLoss:
    """The loss of a left-to-right model: each piece from those before it."""
    inputs = {name: values for name, values in batch.items() if name != "labels"}
    output = module(**inputs, use_cache=False)
    predicted = batch["labels"][:, 1:] != UNPREDICTED
    labels = batch["labels"][:, 1:][predicted]
    logits = output.logits[:, :-1][predicted]
    loss = _cross_entropy(logits, labels)
    return BatchLoss(loss, loss, None, None, logits, labels, None)


# ── scores of what is held out ──────────────────────────────────────────────────────────────────────────────


SEQUENCES = 512
"""The most held-out sequences that are scored: about 10,000 predicted pieces at 128 tokens."""

_BATCH = 32


def score_examples(
    module: "PreTrainedModel", examples: SequenceExamples, collator: Collator, unigram: NDArray[np.float64]
) -> HeldOutScores:
    """Score a model on examples; ``unigram`` has the logarithm of each piece's probability, ``[V]``."""
    loss = right = predicted = pairs_right = pairs = 0.0
    module.eval()
    with torch.no_grad():
        for at in range(0, len(examples), _BATCH):
            rows = [examples[number] for number in range(at, min(at + _BATCH, len(examples)))]
            batch = {name: values.to(module.device) for name, values in collator(rows).items()}
            result = batch_loss(module, batch)
            count = len(result.word_labels)
            if count:
                loss += float(result.words) * count
                right += int((result.word_logits.argmax(-1) == result.word_labels).sum())
            predicted += count
            if result.pair_logits is not None:
                pairs_right += int((result.pair_logits.argmax(-1) == batch["next_sentence_label"]).sum())
                pairs += len(rows)
    mean = loss / max(predicted, 1)
    labels, guesses = _context_free(examples, np.exp(unigram))
    return HeldOutScores(
        loss=mean,
        unigram_loss=float(-unigram[labels].mean()) if len(labels) else 0.0,
        copying_loss=guesses.loss(labels),
        accuracy=right / max(predicted, 1),
        copying_accuracy=guesses.accuracy(labels),
        predicted=int(predicted),
        next_accuracy=pairs_right / pairs if pairs else None,
        sequences=len(examples),
        perplexity=math.exp(min(mean, 700)) if getattr(module.config, "is_decoder", False) else None,
    )


def _context_free(examples: SequenceExamples, frequencies: NDArray[np.float64]) -> tuple[Ids, ContextFreeGuesses]:
    """The predicted pieces, and the guesses at them that need no context."""
    labels, seen = list[Ids](), list[Ids]()
    for example in examples:
        predicted = example.labels != UNPREDICTED
        labels.append(example.labels[predicted])
        seen.append(example.seen[predicted])
    places = np.concatenate(seen)
    if not examples.objective.has_masks:
        places = np.full_like(places, examples.special.mask)
    return np.concatenate(labels), examples.masker.guesses(places, frequencies)


def unigram_logs(store: TokenStore, split: CorpusSplit, special: SpecialTokens) -> NDArray[np.float64]:
    """The logarithm of each piece's frequency in the training part, with 1 added to each count. Shape: ``[V]``."""
    counts = store.counts(0, len(store.pieces), len(special.ordinary))
    for start, end in zip(split.held_out.starts, split.held_out.ends, strict=True):
        counts -= store.counts(int(start), int(end), len(special.ordinary))
    more = np.where(special.ordinary, counts + 1, 0)
    with np.errstate(divide="ignore"):
        logs: NDArray[np.float64] = np.log(more / more.sum())
    return logs

"""How well a model predicts the sequences that are held out."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from bertfeat.pretraining.examples import Collator, Example, SpecialTokens
from bertfeat.pretraining.losses import batch_loss
from bertfeat.pretraining.masking import UNPREDICTED
from bertfeat.pretraining.ranges import CorpusSplit
from bertfeat.pretraining.report import HeldOutScores
from bertfeat.pretraining.token_store import TokenStore

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SEQUENCES = 512
"""Held-out sequences that are scored at most: 10,000 predicted pieces at 128 tokens."""

_BATCH = 32
_BLOCK = 1 << 22  # pieces that are counted at a time


def score_examples(
    module: "PreTrainedModel", examples: Sequence[Example], collator: Collator, unigram: NDArray[np.float64]
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
    return HeldOutScores(
        loss=mean,
        unigram_loss=_unigram_loss(examples, unigram),
        accuracy=right / max(predicted, 1),
        predicted=int(predicted),
        next_accuracy=pairs_right / pairs if pairs else None,
        sequences=len(examples),
        perplexity=math.exp(min(mean, 700)) if getattr(module.config, "is_decoder", False) else None,
    )


def _unigram_loss(examples: Sequence[Example], unigram: NDArray[np.float64]) -> float:
    labels = np.concatenate([examples[at].labels for at in range(len(examples))])
    predicted = labels[labels != UNPREDICTED]
    return float(-unigram[predicted].mean()) if len(predicted) else 0.0


def unigram_logs(store: TokenStore, split: CorpusSplit, special: SpecialTokens) -> NDArray[np.float64]:
    """The logarithm of each piece's frequency in what is learnt from, with one more of each. Shape: ``[V]``."""
    counts = _counts(store, 0, len(store.pieces), len(special.ordinary))
    for start, end in zip(split.held_out.starts, split.held_out.ends, strict=True):
        counts -= _counts(store, int(start), int(end), len(special.ordinary))
    more = np.where(special.ordinary, counts + 1, 0)
    with np.errstate(divide="ignore"):
        logs: NDArray[np.float64] = np.log(more / more.sum())
    return logs


def _counts(store: TokenStore, start: int, end: int, size: int) -> NDArray[np.int64]:
    counts = np.zeros(size, np.int64)
    for at in range(start, end, _BLOCK):
        counts += np.bincount(store.ids(at, min(at + _BLOCK, end)), minlength=size)
    return counts

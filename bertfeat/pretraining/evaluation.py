"""Scores of a model on the sequences that are held out."""

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from bertfeat.pretraining.examples import Collator, SequenceExamples, SpecialTokens
from bertfeat.pretraining.losses import batch_loss
from bertfeat.pretraining.masking import UNPREDICTED, ContextFreeGuesses, Ids
from bertfeat.pretraining.ranges import CorpusSplit
from bertfeat.pretraining.report import HeldOutScores
from bertfeat.pretraining.token_store import TokenStore

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SEQUENCES = 512
"""Held-out sequences that are scored at most: 10,000 predicted pieces at 128 tokens."""

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
    """The predicted pieces, and what can be guessed of them without their context."""
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
    """The logarithm of each piece's frequency in what is learned from, with one more of each. Shape: ``[V]``."""
    counts = store.counts(0, len(store.pieces), len(special.ordinary))
    for start, end in zip(split.held_out.starts, split.held_out.ends, strict=True):
        counts -= store.counts(int(start), int(end), len(special.ordinary))
    more = np.where(special.ordinary, counts + 1, 0)
    with np.errstate(divide="ignore"):
        logs: NDArray[np.float64] = np.log(more / more.sum())
    return logs

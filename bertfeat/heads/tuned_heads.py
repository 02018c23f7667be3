"""What a fine-tuned model predicts of texts.

Shapes: E sequences, T tokens of one; K scores of a sequence.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.encoder import resolve_device
from bertfeat.errors import HeadError, UsageError
from bertfeat.heads.answers import best_answers
from bertfeat.heads.guesses import NEVER, Guess, choice_guesses, class_guesses
from bertfeat.heads.kinds import HeadKind
from bertfeat.heads.sequences import PassageWindow, Sequencer
from bertfeat.heads.settings import Outputs
from bertfeat.heads.texts import HeadTexts
from bertfeat.models import Model
from bertfeat.training import Example, load_fine_tuned, model_outputs

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.utils.generic import ModelOutput

MODELS = {
    HeadKind.CLASSIFY: "AutoModelForSequenceClassification",
    HeadKind.ANSWER: "AutoModelForQuestionAnswering",
    HeadKind.CHOOSE: "AutoModelForMultipleChoice",
}
"""transformers' own model of each kind."""


@dataclass(frozen=True, slots=True)
class SavedTunedHead:
    """A fine-tuned model that predicts."""

    module: "PreTrainedModel"
    sequencer: Sequencer
    outputs: Outputs
    max_answer: int  # tokens of the longest answer

    def guesses(self, texts: HeadTexts) -> list[Guess]:
        """What the model predicts of each example, in order.

        Raises:
            UsageError: the texts are for a head of another kind.
            HeadError: a question without a passage, or with a single choice.
        """
        kind = self.sequencer.kind
        if texts.kind is not kind:
            raise UsageError(f"these are examples for {texts.kind.noun}, and this is {kind.noun}")
        if not texts.texts:
            return []
        read = self.sequencer.read(texts)
        scores = self._scores(read.examples)
        if kind is HeadKind.ANSWER:
            return _passage_guesses(read.windows, scores, self.max_answer)
        if kind is HeadKind.CHOOSE:
            offsets = np.cumsum([0, *(len(other) for other in texts.others)])
            return choice_guesses(np.concatenate(scores)[:, None], offsets)
        return class_guesses(np.stack(scores), self.outputs)

    def count_truncated(self, texts: HeadTexts) -> int:
        """How many examples are too long for the model to read all of them."""
        return self.sequencer.read(texts).truncated

    def _scores(self, examples: Sequence[Example]) -> list[NDArray[np.float32]]:
        """The scores of each example, in order: ``[K]``, ``[C]`` of choices, ``[T, 2]`` of windows."""
        kind = self.sequencer.kind
        tensors = model_outputs(self.module, examples, lambda output: _output_scores(output, kind).float())
        found = [tensor.numpy() for tensor in tensors]
        if kind is HeadKind.CLASSIFY:
            return found
        return [scores[: len(example["input_ids"])] for scores, example in zip(found, examples, strict=True)]


def load_tuned_head(
    folder: Path, kind: HeadKind, outputs: Outputs, *, device: str | None = None, max_answer: int = 30
) -> SavedTunedHead:
    """A fine-tuned model as it was saved.

    Raises:
        ModelError: the folder holds no sound model with its tokenizer, or one of another kind.
        HeadError: it has other labels.
        UsageError: there is no such device.
    """
    model = Model(str(folder), folder)
    module = load_fine_tuned(model, MODELS[kind])
    if kind is HeadKind.CLASSIFY:
        _check_outputs(folder, module, outputs)
    module.to(resolve_device(device))  # type: ignore[arg-type]  # transformers' decorator hides its self
    return SavedTunedHead(module, Sequencer(model, kind), outputs, max_answer)


def _check_outputs(folder: Path, module: "PreTrainedModel", outputs: Outputs) -> None:
    """Refuse a model that does not have the head's labels."""
    names = tuple(name for _, name in sorted((module.config.id2label or {}).items()))
    if outputs.labels and names != outputs.labels:
        raise HeadError("this model has other labels than its head", where=folder, remedy="copy the whole head again")
    if not outputs.labels and len(names) != 1:
        raise HeadError("this model has labels, and its head numbers", where=folder, remedy="copy the whole head again")


def _output_scores(output: "ModelOutput", kind: HeadKind) -> Tensor:
    if kind is HeadKind.ANSWER:
        return torch.stack([output["start_logits"], output["end_logits"]], -1)
    logits: Tensor = output["logits"]
    return logits


# ── answers ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _ScoredSpan:
    """A span of a passage."""

    start: int  # characters
    end: int
    score: float


def _passage_guesses(
    windows: Sequence[PassageWindow], scores: Sequence[NDArray[np.float32]], max_answer: int
) -> list[Guess]:
    """The best span of each passage over all its windows, ``[T, 2]`` each.

    As in BERT's ``run_squad.py``, which SQuAD 2.0 is answered with: a span begins at a token that no other window reads
    with more context, the score of no answer is the least of [CLS] over all windows, and the best span's is taken off
    it. (There only the 20 best starts and ends are tried, here all.)
    """
    pairs = groupby(zip(windows, scores, strict=True), key=lambda pair: pair[0].example)
    return [_passage_guess(list(group), max_answer) for _, group in pairs]


def _passage_guess(read: Sequence[tuple[PassageWindow, NDArray[np.float32]]], max_answer: int) -> Guess:
    spans = [span for window, scores in read for span in _best_span(window, scores, max_answer)]
    if not spans:
        return Guess("", no_answer=NEVER)
    best = max(spans, key=lambda span: span.score)  # of equal ones the first
    none = min(float(scores[0].sum()) for _, scores in read)
    return Guess("", start=best.start, end=best.end, no_answer=none - best.score)


def _best_span(window: PassageWindow, scores: NDArray[np.float32], max_answer: int) -> Iterator[_ScoredSpan]:
    """The best span that begins at a token of a window's own, if there is one."""
    starts, ends = window.spans.start[window.begin : window.stop], window.spans.end[window.begin : window.stop]
    kept = np.flatnonzero(ends > starts)
    places = window.place + kept
    begins = np.where(window.own[kept], scores[places, 0], -np.inf)
    for best in best_answers(begins, scores[places, 1], 1, max_answer):
        yield _ScoredSpan(int(starts[kept[best.tokens.first]]), int(ends[kept[best.tokens.last]]), best.score)

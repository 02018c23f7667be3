"""The other approach of the paper: whole models fine-tuned as heads, by transformers' own models and Trainer.

Devlin et al. 2019, sections 4 and A.3: [CLS] of a text or a pair goes into a classifier, each token of a passage into
scores of the answer's start and end, [CLS] of a question with each choice into one score.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from bertfeat.errors import HeadError
from bertfeat.heads.answers import AnswerTokens, find_answer_tokens
from bertfeat.heads.gold import GoldAnswer
from bertfeat.heads.guesses import Guess
from bertfeat.heads.kinds import HeadKind
from bertfeat.heads.sequences import HeadSequences, PassageWindow, Sequencer
from bertfeat.heads.settings import Outputs
from bertfeat.heads.texts import HeadTexts
from bertfeat.heads.tuned_heads import MODELS, SavedTunedHead
from bertfeat.models import Model
from bertfeat.training import Example, FineTuned, GridPoint, OnStep, fine_tuned

_NO_ANSWER = (0, 0)  # [CLS] stands for it


@dataclass(frozen=True, slots=True)
class TunedHead:
    """A head that was just fine-tuned."""

    head: SavedTunedHead
    model: Model  # that it was made of
    tuned: FineTuned
    truncated: int  # training examples of which something was cut off

    @property
    def loss(self) -> float:
        """Mean over all steps."""
        return self.tuned.loss

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.tuned.steps

    @property
    def seconds(self) -> float:
        """Of training alone."""
        return self.tuned.seconds

    def guesses(self, texts: HeadTexts) -> list[Guess]:
        """What the model predicts of each example, in order; errors as of :class:`SavedTunedHead`."""
        return self.head.guesses(texts)

    def save(self, folder: Path) -> None:
        """Write the model with its tokenizer, for transformers and :func:`load_tuned_head` to read.

        Raises:
            StorageError: the folder cannot be written.
        """
        self.tuned.save(self.model, folder)


@contextmanager
def fine_tuned_head(
    model: Model,
    train: HeadTexts,
    outputs: Outputs,
    point: GridPoint,
    *,
    seed: int,
    device: str | None = None,
    precision: str = "auto",
    on_step: OnStep | None = None,
    max_answer: int = 30,
) -> Iterator[TunedHead]:
    """Fine-tune transformers' model of a head's kind on texts; inside the block it predicts.

    Runs on one device and needs no network. Equal seeds give equal results on the same machine. Numbers are learnt at
    mean 0 and spread 1. Of a question's answers the first is learnt, in each window that holds all of it; in the others
    it has none. ``precision`` as of :func:`fine_tuned`.

    Raises:
        UsageError: settings that cannot be right.
        HeadError: no examples, or one from which nothing can be learnt.
        ModelError: transformers has no such model for it, or its weights are incomplete.
        BertfeatError: accelerate is not installed, or the loss is no longer a number.
    """
    if not train.texts or len(train.gold) != len(train.texts):
        raise HeadError(f"{len(train.gold):,} of {len(train.texts):,} examples say what is to be predicted")
    sequencer = Sequencer(model, train.kind)
    read = sequencer.read(train)
    with fine_tuned(
        model,
        MODELS[train.kind],
        training_examples(train, read, outputs),
        point,
        seed=seed,
        device=device,
        precision=precision,
        on_step=on_step,
        **_config(train.kind, outputs),
    ) as tuned:
        head = SavedTunedHead(tuned.module, sequencer, outputs, max_answer)
        yield TunedHead(head, model, tuned, read.truncated)


def _config(kind: HeadKind, outputs: Outputs) -> Mapping[str, object]:
    """What transformers' model has to know of what it predicts."""
    if kind is not HeadKind.CLASSIFY:
        return {"num_labels": 2} if kind is HeadKind.ANSWER else {}
    if not outputs.labels:
        return {"num_labels": 1, "problem_type": "regression"}
    return {
        "num_labels": len(outputs.labels),
        "id2label": dict(enumerate(outputs.labels)),
        "label2id": {label: number for number, label in enumerate(outputs.labels)},
        "problem_type": "single_label_classification",
    }


# ── what is learnt ─────────────────────────────────────────────────────────────────────────────────────────


def training_examples(train: HeadTexts, read: HeadSequences, outputs: Outputs) -> list[Example]:
    """The examples with what the model is to give, under the names that transformers has for it.

    Raises:
        HeadError: a label that is none of the head's, no right choice, or an answer that is no stretch of its passage.
    """
    if train.kind is HeadKind.ANSWER:
        spans = _window_spans(train, read.windows)
        return [
            {**example, "start_positions": np.array(first), "end_positions": np.array(last)}
            for example, (first, last) in zip(read.examples, spans, strict=True)
        ]
    labels = _right_choices(train) if train.kind is HeadKind.CHOOSE else _labels(train, outputs)
    return [
        {**example, "labels": np.array(label, np.float32 if isinstance(label, float) else np.int64)}
        for example, label in zip(read.examples, labels, strict=True)
    ]


def _labels(train: HeadTexts, outputs: Outputs) -> Sequence[int | float]:
    """The numbers of labels, or standardised numbers."""
    if not outputs.labels:
        return [(float(cast("float", value)) - outputs.mean) / outputs.spread for value in train.gold]
    numbers = {label: number for number, label in enumerate(outputs.labels)}
    for name, value in zip(train.ids, train.gold, strict=True):
        if str(value) not in numbers:
            raise HeadError(f"its label {value!r} is none of the head's", where=f"example {name}")
    return [numbers[str(value)] for value in train.gold]


def _right_choices(train: HeadTexts) -> Sequence[int]:
    """The numbers of the right choices."""
    right = [int(cast("int", value)) for value in train.gold]
    for name, number, choices in zip(train.ids, right, train.others, strict=True):
        if not 0 <= number < len(choices):
            raise HeadError("it has no right choice", where=f"question {name}")
    return right


def _window_spans(train: HeadTexts, windows: Sequence[PassageWindow]) -> Iterator[tuple[int, int]]:
    """The first and last token, in each window, of the answer, or those of [CLS]."""
    answers = cast("Sequence[tuple[GoldAnswer, ...]]", train.gold)
    for window in windows:
        span = None
        if answers[window.example]:
            span = _answer_span(train, window, answers[window.example][0])
        if span is None or span.first < window.begin or span.last >= window.stop:
            yield _NO_ANSWER
        else:
            offset = window.place - window.begin
            yield span.first + offset, span.last + offset


def _answer_span(train: HeadTexts, window: PassageWindow, answer: GoldAnswer) -> AnswerTokens:
    """The tokens of the whole passage that an answer has."""
    passage, spans = train.others[window.example][0], window.spans
    found = find_answer_tokens(passage, spans.start, spans.end, answer.text, answer.start)
    if isinstance(found, AnswerTokens):
        return found
    raise HeadError(
        f"{found.reason} ({answer.text!r}, start {answer.start:,})",
        where=f"question {train.ids[window.example]}",
        remedy="correct its text or its start, which counts the characters of the passage from 0",
    )

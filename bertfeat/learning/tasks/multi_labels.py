"""The task of multi-label classification: any number of labels per text or pair, each with its own threshold."""

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from bertfeat.errors import HeadError, parameter, shorten
from bertfeat.learning.record import Outputs
from bertfeat.learning.scores import MultiLabelScores, score_multi_labels
from bertfeat.learning.settings import HeadSettings
from bertfeat.learning.tables import ExampleTable, Gold, gold_values, label_columns
from bertfeat.learning.task import GoldExamples, Guess, HeadPrediction, Offsets, PassageSpans, Scores, Task, Threshold

_YES_OR_NO = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}
_EVEN = 0.5
"""The threshold of a label that no example of the development set has, and of all labels where none were chosen."""


class MultiLabels(Task):
    """The task of predicting any number of labels per text or pair.

    The gold labels are a column of lists, or several columns of yes and no.
    """

    name = "multi-labels"
    measure = "micro F1"
    problem_type = "multi_label_classification"
    baseline = "Each label's share of the training set"

    def gold_columns(self, label: str | None, known: Collection[str]) -> tuple[str, ...]:
        """The column of lists, or the columns of yes and no."""
        return () if label is None else label_columns(label, known)

    def read_gold(self, table: ExampleTable, label: str | None) -> tuple[Gold, ...]:
        """The labels of each row, each once, sorted."""
        assert label is not None
        columns = label_columns(label, table.kept)
        if len(columns) == 1:
            return tuple(_read_label_lists(table, columns[0]))
        sides = [list(_read_sides(table, column)) for column in columns]
        rows = zip(*sides, strict=True)
        return tuple(tuple(sorted(name for name, yes in zip(columns, row, strict=True) if yes)) for row in rows)

    def learn_outputs(self, gold: Sequence[Gold], origin: str, settings: HeadSettings) -> Outputs:
        """All labels of the examples, sorted; refused if every example has the same ones."""
        sets = [set(labels) for labels in cast("Sequence[tuple[str, ...]]", gold)]
        labels = tuple(sorted(set().union(*sets)))
        if all(len(each) == len(labels) for each in sets):
            held = f"has the labels {', '.join(labels[:12])}" if labels else "has no label"
            raise HeadError(f"every example {held}: there is nothing to learn", where=origin)
        return Outputs(labels)

    def learned(self, gold: Sequence[Gold], origin: str, settings: HeadSettings, columns: Sequence[str] = ()) -> Self:
        """The same task with the labels of the examples; of several columns each has to be a label of one of them."""
        task = super().learned(gold, origin, settings, columns)
        missing = [column for column in columns if column not in task.outputs.labels]
        if len(columns) > 1 and missing:
            problem = f"no example has the label {missing[0]}: there is nothing to learn of it"
            remedy = f"leave it out of {parameter('label')}, or add examples that have it"
            raise HeadError(problem, where=origin, remedy=remedy)
        return task

    def make_targets(self, gold: GoldExamples) -> NDArray[np.generic]:
        """1 for each label of each example: ``[E, K]`` float32."""
        return self._memberships(gold.values).astype(np.float32)

    def mean_loss(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Mean over examples of the negative log probability that each label is present or absent: ``[B, K]`` both."""
        return binary_cross_entropy_with_logits(scores, targets, reduction="sum") / len(targets)

    def guesses(self, scores: Scores, offsets: Offsets, spans: PassageSpans | None) -> list[Guess]:
        """The probability of each label of each example ``[E, K]``."""
        return [Guess("", tuple(row.tolist())) for row in torch.from_numpy(scores).sigmoid().numpy()]

    def guess_loss(self, gold: Sequence[Gold], guesses: Sequence[Guess]) -> float | None:
        """The loss of :meth:`mean_loss`; labels that the head lacks do not count."""
        right = self._memberships(gold)
        shares = np.array([guess.scores for guess in guesses])
        certain = np.where(right, shares, 1.0 - shares)
        return -float(np.log(np.maximum(certain, np.finfo(np.float32).tiny)).sum(1).mean())

    def score(
        self, gold: Sequence[Gold], guesses: Sequence[Guess], passages: Sequence[str], at: Threshold
    ) -> MultiLabelScores:
        """Micro and macro F1 of the labels whose probabilities reach their thresholds."""
        predicted = [self._chosen(guess, at) for guess in guesses]
        return score_multi_labels(cast("Sequence[tuple[str, ...]]", gold), predicted)

    def best_threshold(self, gold: Sequence[Gold], guesses: Sequence[Guess], passages: Sequence[str]) -> Threshold:
        """The threshold of each label with the best F1, see :func:`_best_cut`."""
        right = self._memberships(gold)
        shares = np.array([guess.scores for guess in guesses]).reshape(right.shape)
        return tuple(_best_cut(right[:, number], shares[:, number]) for number in range(len(self.outputs.labels)))

    def frequent(self, gold: Sequence[Gold]) -> Guess:
        """The share of the examples that have each label, as its probability."""
        return Guess("", tuple(self._memberships(gold).mean(0).tolist()))

    def prediction(
        self, owner: str, guess: Guess, passage: str, threshold: Threshold, gold: Gold | None
    ) -> HeadPrediction:
        """The labels whose probabilities reach their thresholds, and the probabilities of all."""
        shares = dict(zip(self.outputs.labels, guess.scores, strict=True))
        return HeadPrediction(owner, self._chosen(guess, threshold), gold=gold, probabilities=shares)

    def line(self, row: HeadPrediction, choices: tuple[str, ...]) -> dict[str, object]:
        """Id, labels, and the probability of each label of the head."""
        return {"id": row.id, "labels": row.value, "probabilities": row.probabilities}

    def _memberships(self, gold: Sequence[Gold]) -> NDArray[np.bool_]:
        """Whether each example has each label: ``[E, K]``."""
        numbers = {label: number for number, label in enumerate(self.outputs.labels)}
        made = np.zeros((len(gold), len(numbers)), np.bool_)
        for example, labels in enumerate(cast("Sequence[tuple[str, ...]]", gold)):
            made[example, [numbers[label] for label in labels if label in numbers]] = True
        return made

    def _chosen(self, guess: Guess, at: Threshold) -> tuple[str, ...]:
        """The labels whose probabilities reach their thresholds."""
        labels = self.outputs.labels
        cuts = at if isinstance(at, tuple) else (_EVEN,) * len(labels)
        return tuple(label for label, share, cut in zip(labels, guess.scores, cuts, strict=True) if share >= cut)


def _best_cut(right: NDArray[np.bool_], shares: NDArray[np.float64]) -> float:
    """The threshold of a label's probabilities ``[E]`` with the best F1; of equal F1 the highest.

    It is halfway between two of the probabilities (or the lowest one and 0), so that rounding decides nothing.
    """
    if not right.any():
        return _EVEN
    order = np.argsort(-shares, kind="stable")
    hits, predicted = np.cumsum(right[order]), np.arange(1, len(order) + 1)
    ends = np.append(shares[order][1:] != shares[order][:-1], True)  # equal probabilities are predicted together
    f1 = np.where(ends, 2 * hits / (predicted + right.sum()), -1.0)
    place = int(np.argmax(f1))
    lower = shares[order][place + 1] if place + 1 < len(order) else 0.0
    return float((shares[order][place] + lower) / 2)


def _read_label_lists(table: ExampleTable, column: str) -> Iterator[tuple[str, ...]]:
    for row, value in gold_values(table, column):
        labels = parse_labels(value)
        if labels is None:
            raise HeadError(
                f"the {column} of row {row:,} is {shorten(repr(value))}, which is no list of labels",
                where=table.where,
                remedy='write a JSON list of texts: ["sports", "politics"], or [] for none',
            )
        yield labels


def parse_labels(value: object) -> tuple[str, ...] | None:
    """The labels of a JSON list of texts, each once, sorted; None where it is none."""
    try:
        listed = json.loads(value) if isinstance(value, str) else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(listed, list) or not all(isinstance(label, str) and label for label in listed):
        return None
    return tuple(sorted(set(listed)))


def _read_sides(table: ExampleTable, column: str) -> Iterator[bool]:
    for row, value in gold_values(table, column):
        side = _YES_OR_NO.get(str(value).strip().lower())
        if side is None:
            raise HeadError(
                f"the {column} of row {row:,} is {shorten(repr(value))}, which is neither yes nor no",
                where=table.where,
                remedy="write true or false, or 1 or 0",
            )
        yield side

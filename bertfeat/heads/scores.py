"""Scores of predicted classes, sets of labels and numbers against gold ones, as the benchmarks define them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from bertfeat.arguments import checked
from bertfeat.display import displayed
from bertfeat.errors import UsageError
from bertfeat.tagging import LabelScores

_LARGEST = 1e150  # whose square is still a number

_Numbers = NDArray[np.float64]

NumberList = NDArray[np.floating] | Sequence[float]
"""Numbers ``[n]``, one for each example."""


@displayed
@dataclass(frozen=True, slots=True)
class ClassScores:
    """Agreement of predicted classes with gold ones; 0 if there is nothing to count."""

    accuracy: float  # 0 to 1
    macro_f1: float  # 0 to 1: the mean over the labels that are gold or predicted
    matthews: float  # -1 to 1: Matthews' correlation, of any number of classes; 0 if one side is all one class
    examples: int
    correct: int
    by_label: Mapping[str, LabelScores]  # sorted by label
    confusion: Mapping[str, Mapping[str, int]]  # gold label → predicted label → examples

    @property
    def value(self) -> float:
        """The one number: accuracy."""
        return self.accuracy


@checked
def score_classes(gold: Sequence[str], predicted: Sequence[str]) -> ClassScores:
    """Compare predicted classes with gold ones.

    Raises:
        UsageError: nothing to score, or not equally many.
    """
    refuse_unequal(gold, predicted, "classes")
    pairs = Counter(zip(gold, predicted, strict=True))
    rights, guesses = Counter(gold), Counter(predicted)
    by_label = {
        label: LabelScores.of_counts(rights[label], guesses[label], pairs[label, label])
        for label in sorted(rights | guesses)
    }
    correct = sum(scores.correct for scores in by_label.values())
    return ClassScores(
        accuracy=correct / len(gold),
        macro_f1=sum(scores.f1 for scores in by_label.values()) / len(by_label),
        matthews=_matthews(by_label, correct, len(gold)),
        examples=len(gold),
        correct=correct,
        by_label=by_label,
        confusion=_as_table(pairs),
    )


def _as_table(pairs: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    table: dict[str, dict[str, int]] = {}
    for right, guess in sorted(pairs):
        table.setdefault(right, {})[guess] = pairs[right, guess]
    return table


def _matthews(by_label: Mapping[str, LabelScores], correct: int, examples: int) -> float:
    """Matthews' correlation of several classes (Gorodkin 2004), from exact whole numbers."""
    counts = [(scores.gold, scores.predicted) for scores in by_label.values()]
    square = examples * examples
    shared = correct * examples - sum(gold * predicted for gold, predicted in counts)
    own = square - sum(gold * gold for gold, _ in counts)
    guessed = square - sum(predicted * predicted for _, predicted in counts)
    return shared / sqrt(own * guessed) if own and guessed else 0.0


@displayed
@dataclass(frozen=True, slots=True)
class MultiLabelScores:
    """Agreement of predicted sets of labels with gold ones; 0 if there is nothing to count."""

    micro_f1: float  # 0 to 1: over all labels of all examples
    macro_f1: float  # 0 to 1: the mean over the labels that are gold or predicted
    micro_precision: float
    micro_recall: float
    exact_match: float  # share of the examples whose labels are all right, and no other
    examples: int
    correct: int  # examples
    by_label: Mapping[str, LabelScores]  # sorted by label

    @property
    def value(self) -> float:
        """The one number: micro F1."""
        return self.micro_f1


@checked
def score_multi_labels(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> MultiLabelScores:
    """Compare predicted sets of labels with gold ones, an example each.

    Raises:
        UsageError: nothing to score, or not equally many.
    """
    refuse_unequal(gold, predicted, "sets of labels")
    rights, guesses = [set(labels) for labels in gold], [set(labels) for labels in predicted]
    pairs = list(zip(rights, guesses, strict=True))
    gold_counts, predicted_counts = Counter(_flat(rights)), Counter(_flat(guesses))
    both = Counter(_flat(right & guess for right, guess in pairs))
    by_label = {
        label: LabelScores.of_counts(gold_counts[label], predicted_counts[label], both[label])
        for label in sorted(gold_counts | predicted_counts)
    }
    micro = LabelScores.of_counts(gold_counts.total(), predicted_counts.total(), both.total())
    correct = sum(right == guess for right, guess in pairs)
    return MultiLabelScores(
        micro_f1=micro.f1,
        macro_f1=sum(scores.f1 for scores in by_label.values()) / max(1, len(by_label)),
        micro_precision=micro.precision,
        micro_recall=micro.recall,
        exact_match=correct / len(pairs),
        examples=len(pairs),
        correct=correct,
        by_label=by_label,
    )


def _flat(sets: Iterable[set[str]]) -> Iterator[str]:
    return (label for labels in sets for label in labels)


@displayed
@dataclass(frozen=True, slots=True)
class NumberScores:
    """Agreement of predicted numbers with gold ones; a correlation with numbers that are all equal is 0."""

    pearson: float  # -1 to 1
    spearman: float  # -1 to 1: of the ranks; equal numbers share the mean of theirs
    mse: float  # mean squared error
    mae: float  # mean absolute error
    examples: int

    @property
    def value(self) -> float:
        """The one number: Spearman's correlation."""
        return self.spearman


@checked
def score_numbers(gold: NumberList, predicted: NumberList) -> NumberScores:
    """Compare predicted numbers with gold ones.

    Raises:
        UsageError: nothing to score, not equally many, or a number that is infinite, NaN or beyond 1e150.
    """
    refuse_unequal(gold, predicted, "numbers")
    right, guess = as_finite(gold, "gold number"), as_finite(predicted, "predicted number")
    error = guess - right
    return NumberScores(
        pearson=_correlation(right, guess),
        spearman=_correlation(_mean_ranks(right), _mean_ranks(guess)),
        mse=float(np.mean(error * error)),
        mae=float(np.mean(np.abs(error))),
        examples=len(right),
    )


def refuse_unequal(gold: Sized, other: Sized, noun: str, which: str = "predicted") -> None:
    """Refuse to compare sequences that are empty or of different lengths.

    Raises:
        UsageError: says how long they are.
    """
    if len(gold) != len(other):
        raise UsageError(f"{len(gold):,} gold {noun}, but {len(other):,} {which} ones", remedy="give one for each")
    if not len(gold):
        raise UsageError(f"there are no {noun} to score")


def as_finite(values: NumberList, noun: str) -> NDArray[np.float64]:
    """The values as an array ``[n]``.

    Raises:
        UsageError: one of them is infinite, NaN or beyond 1e150, or they are no list but a matrix.
    """
    array = np.asarray(values, np.float64)
    if array.ndim != 1:
        raise UsageError(f"there is to be one {noun} for each, not an array of shape {list(array.shape)}")
    wrong = np.flatnonzero(~(np.abs(array) <= _LARGEST))
    if len(wrong):
        raise UsageError(
            f"{noun} {wrong[0] + 1:,} is {array[wrong[0]]}", remedy="give numbers between -1e150 and 1e150"
        )
    return array


def _mean_ranks(values: _Numbers) -> _Numbers:
    """The ranks of values ``[n]`` from 1 on, equal ones with the mean of their ranks."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    last: _Numbers = np.cumsum(counts).astype(np.float64)
    return (last - (counts - 1) / 2)[places]


def _correlation(left: _Numbers, right: _Numbers) -> float:
    """Pearson's correlation of ``[n]`` and ``[n]``; 0 where one of them is constant."""
    if np.ptp(left) == 0 or np.ptp(right) == 0:
        return 0.0
    return float(np.clip(_direction(left) @ _direction(right), -1.0, 1.0))


def _direction(values: _Numbers) -> _Numbers:
    """The deviations from the mean ``[n]``, as a vector of length 1."""
    deviations = values - np.mean(values)
    scaled = deviations / np.max(np.abs(deviations))  # so that no square of a tiny or huge one is lost
    return np.asarray(scaled / np.linalg.norm(scaled))

"""Scores that compare predicted labels, numbers and answers with gold ones.

Answers are scored as in SQuAD (Rajpurkar et al. 2016, v1.1; 2018, v2.0), but from 0 to 1 instead of in percent.
"""

import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bertfeat.arguments import checked
from bertfeat.display import displayed
from bertfeat.errors import UsageError
from bertfeat.learning.spans import LabelScores

# ── labels and numbers ────────────────────────────────────────────────────────────────────────────────────


_Numbers = NDArray[np.float64]

NumberList = NDArray[np.floating] | Sequence[float]
"""Numbers ``[n]``, one for each example."""


@displayed
@dataclass(frozen=True, slots=True)
class ClassScores:
    """Agreement of predicted classes with gold ones; 0 if there is nothing to count."""

    accuracy: float  # 0 to 1
    macro_f1: float  # 0 to 1: the mean over the labels that are gold or predicted
    matthews: float  # -1 to 1: Matthews' correlation, for any number of classes; 0 if one side is all one class
    examples: int
    correct: int
    by_label: Mapping[str, LabelScores]  # sorted by label
    confusion: Mapping[str, Mapping[str, int]]  # gold label → predicted label → examples

    @property
    def value(self) -> float:
        """The main score: accuracy."""
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
    confusion: dict[str, dict[str, int]] = {}
    for right, guess in sorted(pairs):
        confusion.setdefault(right, {})[guess] = pairs[right, guess]
    return ClassScores(
        accuracy=correct / len(gold),
        macro_f1=sum(scores.f1 for scores in by_label.values()) / len(by_label),
        matthews=_matthews(by_label, correct, len(gold)),
        examples=len(gold),
        correct=correct,
        by_label=by_label,
        confusion=confusion,
    )


def _matthews(by_label: Mapping[str, LabelScores], correct: int, examples: int) -> float:
    """Matthews' correlation for several classes (Gorodkin 2004), computed from exact integers."""
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
    exact_match: float  # share of the examples for which exactly the gold labels are predicted
    examples: int
    correct: int  # examples that match exactly
    by_label: Mapping[str, LabelScores]  # sorted by label

    @property
    def value(self) -> float:
        """The main score: micro F1."""
        return self.micro_f1


@checked
def score_multi_labels(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> MultiLabelScores:
    """Compare predicted sets of labels with gold ones, one per example.

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
    """Agreement of predicted numbers with gold ones; a correlation is 0 if the numbers on one side are all equal."""

    pearson: float  # -1 to 1
    spearman: float  # -1 to 1: correlation of the ranks; equal numbers get the mean of their ranks
    mse: float  # mean squared error
    mae: float  # mean absolute error
    examples: int

    @property
    def value(self) -> float:
        """The main score: Spearman's correlation."""
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
    """Refuse to compare sequences that are empty or of different lengths."""
    if len(gold) != len(other):
        raise UsageError(f"{len(gold):,} gold {noun}, but {len(other):,} {which} ones", remedy="give one for each")
    if not len(gold):
        raise UsageError(f"there are no {noun} to score")


def as_finite(values: NumberList, noun: str) -> NDArray[np.float64]:
    """The values as an array ``[n]``; values that are NaN, infinite or beyond 1e150 are refused."""
    array = np.asarray(values, np.float64)
    if array.ndim != 1:
        raise UsageError(f"give one {noun} for each example, not an array of shape {list(array.shape)}")
    wrong = np.flatnonzero(~(np.abs(array) <= 1e150))  # the square of 1e150 is still finite
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
    scaled = deviations / np.max(np.abs(deviations))  # so that squares neither underflow nor overflow
    return np.asarray(scaled / np.linalg.norm(scaled))


# ── answers ───────────────────────────────────────────────────────────────────────────────────────────────


_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)

_Credits = NDArray[np.float64]  # what the prediction for each question earns, 0 to 1; [questions]


@dataclass(frozen=True, slots=True)
class BestThreshold:
    """The best score that any threshold gives; questions with a no-answer score above it get no answer."""

    score: float  # 0 to 1
    threshold: float


@displayed
@dataclass(frozen=True, slots=True)
class SpanScores:
    """Agreement of predicted answers with gold ones; all scores are 0 to 1.

    The scores for questions with (or without) an answer are None if there is no such question. The best scores are None
    unless there are no-answer scores and questions without an answer.
    """

    exact_match: float  # share of the questions whose prediction is one of the gold answers
    f1: float  # mean F1 of the words
    questions: int
    has_answer: int  # questions with a gold answer
    has_answer_exact: float | None
    has_answer_f1: float | None
    no_answer: int  # questions without one
    no_answer_accuracy: float | None  # share of them with no prediction
    best_exact: BestThreshold | None = None
    best_f1: BestThreshold | None = None

    @property
    def value(self) -> float:
        """The main score: the best F1 where there are questions without an answer and their scores, else F1."""
        return self.f1 if self.best_f1 is None else self.best_f1.score


@checked
def score_answers(
    gold: Sequence[Sequence[str]], predicted: Sequence[str], no_answer_scores: NumberList | None = None
) -> SpanScores:
    """Compare the predicted answer to each question with its gold answers, of which the most similar one counts.

    A question without gold answers has no answer, which the prediction ``""`` stands for. If there is such a question,
    answers are scored as by the script of SQuAD v2.0, else as by that of v1.1; the scripts differ where an answer is
    nothing but articles and punctuation. ``no_answer_scores``, higher where an answer is less likely, are used for the
    best scores only; if you give them, predict an answer wherever possible.

    Raises:
        UsageError: nothing to score, not equally many, or a score that is infinite or NaN.
    """
    refuse_unequal(gold, predicted, "answers")
    exact, f1 = _credit_answers(gold, predicted)
    answerable = np.array([len(answers) > 0 for answers in gold])
    scores = None if no_answer_scores is None else _take_scores(gold, no_answer_scores)
    sweep = None if scores is None or answerable.all() else _Sweep.over(scores, answerable, predicted)
    return SpanScores(
        exact_match=float(exact.mean()),
        f1=float(f1.mean()),
        questions=len(gold),
        has_answer=int(answerable.sum()),
        has_answer_exact=_mean_of(exact[answerable]),
        has_answer_f1=_mean_of(f1[answerable]),
        no_answer=int((~answerable).sum()),
        no_answer_accuracy=_mean_of(exact[~answerable]),
        best_exact=None if sweep is None else sweep.find_best(exact),
        best_f1=None if sweep is None else sweep.find_best(f1),
    )


@checked
def best_threshold(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[str],
    no_answer_scores: NumberList,
    *,
    by: Literal["f1", "exact"] = "f1",
) -> BestThreshold:
    """Find the threshold of no-answer scores with the best F1, or share of exact matches; of equal ones the least.

    As in SQuAD v2.0's script, with two differences: questions with equal scores are on the same side of the threshold,
    and where answering nothing is best, the threshold is below every score, which the script's 0 may not be.

    Raises:
        UsageError: as :func:`score_answers`.
    """
    refuse_unequal(gold, predicted, "answers")
    scores = _take_scores(gold, no_answer_scores)
    exact, f1 = _credit_answers(gold, predicted)
    answerable = np.array([len(answers) > 0 for answers in gold])
    return _Sweep.over(scores, answerable, predicted).find_best(f1 if by == "f1" else exact)


def normalize_answer(text: str) -> str:
    """An answer in lower case, without punctuation and articles, its words separated by one space."""
    bare = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())


@dataclass(frozen=True, slots=True)
class _Sweep:
    """Questions in the order of their no-answer scores; those up to a threshold are answered."""

    order: NDArray[np.intp]
    scores: NDArray[np.float64]  # ascending
    answerable: NDArray[np.bool_]  # in the order of the questions, as is the next
    answered: NDArray[np.bool_]

    @classmethod
    def over(cls, scores: NDArray[np.float64], answerable: NDArray[np.bool_], predicted: Sequence[str]) -> "_Sweep":
        """The sweep over questions in any order."""
        order = np.argsort(scores, kind="stable")
        return cls(order, scores[order], answerable, np.array([text != "" for text in predicted]))

    def find_best(self, credit: _Credits) -> BestThreshold:
        """The threshold with the highest sum of credits."""
        gains = np.where(self.answerable, credit, -1.0 * self.answered)[self.order]
        none_answered = float(np.count_nonzero(~self.answerable))
        sums = none_answered + np.cumsum(gains)
        ends = np.flatnonzero(np.append(np.diff(self.scores) > 0, True))  # ends of runs of equal scores
        best = ends[np.argmax(sums[ends])]
        if sums[best] > none_answered:
            return BestThreshold(float(sums[best]) / len(credit), float(self.scores[best]))
        least = self.scores[0]
        return BestThreshold(none_answered / len(credit), float(0.0 if least > 0 else np.nextafter(least, -np.inf)))


def _take_scores(gold: Sequence[Sequence[str]], scores: NumberList) -> NDArray[np.float64]:
    refuse_unequal(gold, scores, "answers", "no-answer")
    return as_finite(scores, "no-answer score")


def _credit_answers(gold: Sequence[Sequence[str]], predicted: Sequence[str]) -> tuple[_Credits, _Credits]:
    """Exact matches and F1 of each question."""
    second = any(not answers for answers in gold)  # whether SQuAD v2.0's rules apply
    exact, f1 = [], []
    for answers, text in zip(gold, predicted, strict=True):
        rights = [normalize_answer(answer) for answer in answers]
        if second:
            rights = [right for right in rights if right] or [""]
        guess = normalize_answer(text)
        exact.append(float(guess in rights))
        f1.append(max(_word_f1(right.split(), guess.split(), float(second)) for right in rights))
    return np.array(exact), np.array(f1)


def _word_f1(gold: Sequence[str], predicted: Sequence[str], both_empty: float) -> float:
    if not gold and not predicted:
        return both_empty
    shared = (Counter(gold) & Counter(predicted)).total()
    return 2 * shared / (len(gold) + len(predicted))


def _mean_of(credit: _Credits) -> float | None:
    return float(credit.mean()) if len(credit) else None

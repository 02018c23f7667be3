"""Scores of predicted answers against gold ones, as SQuAD's two evaluation scripts count.

Rajpurkar et al. 2016 (v1.1) and 2018 (v2.0). All scores are 0 to 1, where the scripts print percent.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bertfeat.arguments import checked
from bertfeat.display import displayed
from bertfeat.heads.scores import NumberList, as_finite, refuse_unequal

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)

_Credits = NDArray[np.float64]  # what the prediction for each question earns, 0 to 1; [questions]


@dataclass(frozen=True, slots=True)
class BestThreshold:
    """The best score that a threshold of no-answer scores gives: a question above it counts as without an answer."""

    score: float  # 0 to 1
    threshold: float


@displayed
@dataclass(frozen=True, slots=True)
class SpanScores:
    """Agreement of predicted answers with gold ones; all scores are 0 to 1.

    Without questions of the kind, the scores of questions with and without an answer are None; so are the best ones
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
        """The one number: the best F1 where there are questions without an answer and their scores, else F1."""
        return self.f1 if self.best_f1 is None else self.best_f1.score


@checked
def score_answers(
    gold: Sequence[Sequence[str]], predicted: Sequence[str], no_answer_scores: NumberList | None = None
) -> SpanScores:
    """Compare the predicted answer of each question with its gold ones, of which the nearest counts.

    A question without gold answers has none, and ``""`` predicts that. If there is such a question, answers count as in
    the script of SQuAD v2.0, else as in that of v1.1; they differ where an answer is nothing but articles and
    punctuation. ``no_answer_scores``, higher where an answer is less likely, are for the best scores only: give with
    them an answer wherever there is one to give.

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

    As in SQuAD v2.0's script, but for two things: questions with one score are on one side of the threshold, and where
    it is best to answer none of them the threshold is below every score, which the script's 0 need not be.

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
    """Questions in the order of their no-answer scores, of which a threshold answers the first ones."""

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
        ends = np.flatnonzero(np.append(np.diff(self.scores) > 0, True))  # of the questions with one score
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
    second = any(not answers for answers in gold)  # whether they count as in v2.0
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

"""Scores of classes and numbers against scikit-learn and SciPy."""

import random

import numpy as np
import pytest
from hypothesis import given, settings as hypothesis_settings, strategies as st
from scipy import stats
from sklearn.metrics import (
    accuracy_score,
    confusion_matrix,
    f1_score,
    matthews_corrcoef,
    mean_absolute_error,
    mean_squared_error,
    precision_recall_fscore_support,
)

from bertfeat.errors import UsageError
from bertfeat.io import to_plain
from bertfeat.learning import score_classes, score_numbers
from tests.test_house import loaded_by

LABELS = st.sampled_from(["neutral", "entailment", "contradiction", "", "é"])
PAIRS = st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=40)


@hypothesis_settings(max_examples=100, deadline=None)
@given(pairs=PAIRS)
@pytest.mark.filterwarnings("ignore:.*single label.*")
def test_classes_score_as_scikit_learn_says(pairs: list[tuple[str, str]]) -> None:
    gold, predicted = [right for right, _ in pairs], [guess for _, guess in pairs]
    scores = score_classes(gold, predicted)
    labels = sorted(set(gold) | set(predicted))
    assert scores.value == scores.accuracy == pytest.approx(accuracy_score(gold, predicted))
    assert scores.macro_f1 == pytest.approx(f1_score(gold, predicted, average="macro", zero_division=0))
    assert scores.matthews == pytest.approx(matthews_corrcoef(gold, predicted), abs=1e-12)
    assert (scores.examples, scores.correct) == (len(gold), sum(a == b for a, b in pairs))
    assert list(scores.by_label) == labels
    each = precision_recall_fscore_support(gold, predicted, labels=labels, zero_division=0)
    for label, *expected in zip(labels, *each, strict=True):
        found = scores.by_label[label]
        assert (found.precision, found.recall, found.f1, found.gold) == pytest.approx(tuple(expected))
        assert found.predicted == predicted.count(label)
        assert found.correct == sum(a == b == label for a, b in pairs)
    table = [[scores.confusion.get(right, {}).get(guess, 0) for guess in labels] for right in labels]
    assert table == confusion_matrix(gold, predicted, labels=labels).tolist()


def test_two_classes_have_the_correlation_of_the_four_counts() -> None:
    gold, predicted = list("1111000011"), list("1101010010")
    right, wrong, missed, left = 4, 1, 2, 3
    square = (right + wrong) * (right + missed) * (left + wrong) * (left + missed)
    expected = (right * left - wrong * missed) / square**0.5
    assert score_classes(gold, predicted).matthews == pytest.approx(expected)


def test_one_class_has_no_correlation() -> None:
    assert score_classes(["a", "b"], ["a", "a"]).matthews == 0.0
    assert score_classes(["a"], ["a"]).matthews == 0.0


@pytest.mark.parametrize("seed", range(10))
def test_numbers_score_as_scipy_says(seed: int) -> None:
    chance = np.random.default_rng(seed)
    gold = chance.integers(0, 6, 50) / 2  # with many ties
    predicted = np.round(gold + chance.normal(0, seed / 3, 50), 1 + seed % 3)
    scores = score_numbers(gold.tolist(), predicted.tolist())
    assert scores.pearson == pytest.approx(stats.pearsonr(gold, predicted).statistic)
    assert scores.spearman == scores.value == pytest.approx(stats.spearmanr(gold, predicted).statistic)
    assert scores.mse == pytest.approx(mean_squared_error(gold, predicted))
    assert scores.mae == pytest.approx(mean_absolute_error(gold, predicted))
    assert scores.examples == 50


@pytest.mark.parametrize("scale", [1e-160, 1e-8, 1.0, 1e12, 1e149])
def test_a_correlation_knows_no_scale(scale: float) -> None:
    gold = [1.0, 2.0, 4.0, 4.0]
    found = score_numbers(gold, [value * -scale for value in gold])
    assert (found.pearson, found.spearman) == pytest.approx((-1.0, -1.0))


def test_numbers_that_are_all_equal_have_no_correlation() -> None:
    for gold, predicted in (([1.0, 1.0], [0.5, 2.0]), ([1.0, 2.0], [0.1, 0.1]), ([3.0], [3.0])):
        scores = score_numbers(gold, predicted)
        assert (scores.pearson, scores.spearman) == (0.0, 0.0)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf"), 1e200])
def test_what_is_no_number_is_refused(wrong: float) -> None:
    with pytest.raises(UsageError, match="gold number 2 is"):
        score_numbers([1.0, wrong], [1.0, 2.0])
    with pytest.raises(UsageError, match="predicted number 1 is"):
        score_numbers([1.0, 2.0], [wrong, 2.0])


def test_nothing_and_different_lengths_are_refused() -> None:
    with pytest.raises(UsageError, match="there are no classes to score"):
        score_classes([], [])
    with pytest.raises(UsageError, match="2 gold classes, but 1 predicted ones"):
        score_classes(["a", "b"], ["a"])
    with pytest.raises(UsageError, match="there are no numbers to score"):
        score_numbers([], [])
    with pytest.raises(UsageError, match="1 gold numbers, but 0 predicted ones"):
        score_numbers([1.0], [])


def test_many_classes_are_scored_quickly() -> None:
    chance = random.Random(0)
    gold = [str(chance.randrange(20_000)) for _ in range(50_000)]
    assert score_classes(gold, gold[::-1]).examples == 50_000


def test_scores_are_plain() -> None:
    plain = to_plain(score_classes(["a", "b"], ["a", "a"]))
    assert plain["confusion"] == {"a": {"a": 1}, "b": {"a": 1}}
    assert plain["by_label"] == {
        "a": {"precision": 0.5, "recall": 1.0, "f1": pytest.approx(2 / 3), "gold": 1, "predicted": 2, "correct": 1},
        "b": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "gold": 1, "predicted": 0, "correct": 0},
    }
    assert set(map(type, to_plain(score_numbers([1, 2], [1, 3])).values())) == {float, int}


def test_scores_need_no_model_libraries() -> None:
    assert (
        loaded_by("import bertfeat.learning; bertfeat.learning.score_answers") & {"torch", "transformers", "scipy"}
        == set()
    )

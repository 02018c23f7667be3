"""Scores of answers against a plain reimplementation of SQuAD's definitions, and thresholds against trying them all."""

import collections
import re
import string
from collections.abc import Sequence

import pytest
from hypothesis import given, settings as hypothesis_settings, strategies as st

from bertfeat.errors import UsageError
from bertfeat.io import to_plain
from bertfeat.learning import best_threshold, score_answers
from bertfeat.learning.scores import normalize_answer

WORDS = st.lists(st.sampled_from(["The", "a", "An", "bank,", "BANK", "of", "river!", "é", "—", "U.S."]), max_size=4)
ANSWERS = st.builds(" ".join, WORDS)
GOLD = ANSWERS.filter(bool)
FIRST = st.lists(st.tuples(st.lists(GOLD, min_size=1, max_size=3), ANSWERS), min_size=1, max_size=8)
SECOND = st.lists(
    st.tuples(st.lists(GOLD, max_size=3), ANSWERS, st.integers(-3, 3).map(lambda score: score / 2)),
    min_size=1,
    max_size=8,
)


def bare_words(text: str) -> list[str]:
    """The words that count: small letters, no ASCII punctuation, no articles."""
    kept = "".join(char for char in text.lower() if char not in string.punctuation)
    return [word for word in re.split(r"\b(?:a|an|the)\b|\s+", kept) if word]


def exact_of(gold: str, predicted: str) -> float:
    return float(bare_words(gold) == bare_words(predicted))


def f1_of(gold: str, predicted: str, both_empty: float) -> float:
    right, guess = bare_words(gold), bare_words(predicted)
    if not right or not guess:
        return both_empty if right == guess else 0.0
    left = collections.Counter(right)
    same = 0
    for word in guess:
        if left[word]:
            left[word] -= 1
            same += 1
    precision, recall = same / len(guess), same / len(right)
    return 2 * precision * recall / (precision + recall) if same else 0.0


def counting(answers: Sequence[str], *, second: bool) -> list[str]:
    """The gold answers that are compared: v2.0 leaves out those of which nothing is left."""
    return ([answer for answer in answers if bare_words(answer)] or [""]) if second else list(answers)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  U.S. Bank, of\tAmerica", "us bank of america"),
        ("a-the", "athe"),
        ("An", ""),
        ("theme a", "theme"),
        ("“1,000”", "“1000”"),
    ],
)
def test_a_normalized_answer(text: str, expected: str) -> None:
    assert normalize_answer(text) == expected


@hypothesis_settings(max_examples=150, deadline=None)
@given(questions=FIRST)
def test_answers_score_as_version_1_defines(questions: list[tuple[list[str], str]]) -> None:
    scores = score_answers([gold for gold, _ in questions], [text for _, text in questions])
    exact = [max(exact_of(answer, text) for answer in gold) for gold, text in questions]
    f1 = [max(f1_of(answer, text, 0.0) for answer in gold) for gold, text in questions]
    assert scores.exact_match == scores.has_answer_exact == pytest.approx(sum(exact) / len(exact))
    assert scores.value == scores.f1 == scores.has_answer_f1 == pytest.approx(sum(f1) / len(f1))
    assert (scores.questions, scores.has_answer, scores.no_answer) == (len(questions), len(questions), 0)
    assert (scores.no_answer_accuracy, scores.best_exact, scores.best_f1) == (None, None, None)


@hypothesis_settings(max_examples=200, deadline=None)
@given(questions=SECOND)
def test_answers_score_as_version_2_defines(questions: list[tuple[list[str], str, float]]) -> None:
    questions = [*questions, ([], "bank", 0.25)]
    gold, predicted = [gold for gold, _, _ in questions], [text for _, text, _ in questions]
    scores = score_answers(gold, predicted)
    compared = [counting(answers, second=True) for answers in gold]
    exact = [max(exact_of(answer, text) for answer in one) for one, text in zip(compared, predicted, strict=True)]
    f1 = [max(f1_of(answer, text, 1.0) for answer in one) for one, text in zip(compared, predicted, strict=True)]
    has = [bool(answers) for answers in gold]
    assert (scores.has_answer, scores.no_answer) == (sum(has), len(has) - sum(has))
    assert scores.exact_match == pytest.approx(mean(exact))
    assert scores.value == scores.f1 == pytest.approx(mean(f1))
    assert scores.has_answer_exact == approx(credit for credit, one in zip(exact, has, strict=True) if one)
    assert scores.has_answer_f1 == approx(credit for credit, one in zip(f1, has, strict=True) if one)
    assert scores.no_answer_accuracy == approx(credit for credit, one in zip(exact, has, strict=True) if not one)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def approx(values: object) -> object:
    found = list(values)  # type: ignore[call-overload]
    return pytest.approx(mean(found)) if found else None


@hypothesis_settings(max_examples=200, deadline=None)
@given(questions=SECOND)
def test_the_best_threshold_is_the_best_of_all(questions: list[tuple[list[str], str, float]]) -> None:
    # where nothing is left of a prediction, v2.0's script counts it for its threshold as an answer all the same
    questions = [(gold, text if bare_words(text) else "", score) for gold, text, score in [*questions, ([], "of", 0.0)]]
    gold, predicted, no_answer = (list(column) for column in zip(*questions, strict=True))
    gold = [[answer for answer in answers if bare_words(answer)] for answers in gold]
    scores = score_answers(gold, predicted, no_answer)
    assert scores.best_exact is not None
    assert scores.best_f1 is not None
    tried = [min(no_answer) - 1, *no_answer]
    below = {
        threshold: score_answers(gold, [text if score <= threshold else "" for _, text, score in questions])
        for threshold in [*tried, scores.best_exact.threshold, scores.best_f1.threshold]
    }
    assert scores.best_exact.score == pytest.approx(max(below[one].exact_match for one in tried))
    assert scores.best_f1.score == scores.value == pytest.approx(max(below[one].f1 for one in tried))
    assert below[scores.best_exact.threshold].exact_match == pytest.approx(scores.best_exact.score)
    assert below[scores.best_f1.threshold].f1 == pytest.approx(scores.best_f1.score)
    assert best_threshold(gold, predicted, no_answer) == scores.best_f1
    assert best_threshold(gold, predicted, no_answer, by="exact") == scores.best_exact


def test_a_threshold_by_hand() -> None:
    gold, predicted = [["a mill"], [], ["the bank"], []], ["mill", "x", "the river bank", "y"]
    scores = score_answers(gold, predicted, [0.1, 0.3, 0.2, 0.9])
    assert (scores.exact_match, scores.has_answer_exact, scores.no_answer_accuracy) == (0.25, 0.5, 0.0)
    assert scores.f1 == pytest.approx((1 + 2 / 3) / 4)
    assert scores.best_exact is not None
    assert scores.best_f1 is not None
    assert (scores.best_exact.score, scores.best_exact.threshold) == (0.75, 0.1)
    assert scores.best_f1.score == pytest.approx((1 + 2 / 3 + 2) / 4)
    assert scores.best_f1.threshold == 0.2


def test_where_no_answer_is_best_the_threshold_is_below_every_score() -> None:
    assert best_threshold([[], ["a b"]], ["x", "c"], [0.5, 0.7]).threshold == 0.0  # as the script of v2.0 says
    best = best_threshold([[], ["a b"]], ["x", "c"], [-2.0, 0.7])
    assert best.score == 0.5
    assert -2.1 < best.threshold < -2.0


def test_equal_scores_are_on_one_side() -> None:
    # taken one by one, the first question alone would make it 1.0, which no threshold gives
    assert best_threshold([["b"], []], ["b", "c"], [0.5, 0.5]).score == 0.5


def test_nothing_different_lengths_and_no_numbers_are_refused() -> None:
    with pytest.raises(UsageError, match="there are no answers to score"):
        score_answers([], [])
    with pytest.raises(UsageError, match="1 gold answers, but 2 predicted ones"):
        score_answers([["a"]], ["a", "b"])
    with pytest.raises(UsageError, match="1 gold answers, but 0 no-answer ones"):
        score_answers([["a"]], ["a"], [])
    with pytest.raises(UsageError, match="no-answer score 1 is nan"):
        best_threshold([["a"]], ["a"], [float("nan")])


def test_scores_are_plain() -> None:
    plain = to_plain(score_answers([["a b"], []], ["b", ""], [0.1, 0.9]))
    assert plain == {
        "exact_match": 1.0,
        "f1": 1.0,
        "questions": 2,
        "has_answer": 1,
        "has_answer_exact": 1.0,
        "has_answer_f1": 1.0,
        "no_answer": 1,
        "no_answer_accuracy": 1.0,
        "best_exact": {"score": 1.0, "threshold": 0.1},
        "best_f1": {"score": 1.0, "threshold": 0.1},
    }

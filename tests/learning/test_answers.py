"""Answers as tokens: every pair of tokens is tried, and a tokenizer's own offsets are read."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings as hypothesis_settings, strategies as st

from bertfeat.learning import AnswerTokens, NoAnswerTokens, answer_text, best_answers, find_answer_tokens

PASSAGE = "The old-mill  burnt, 3km off."
TOKENS = [match.span() for match in re.finditer(r"\w{1,3}|[^\w\s]", PASSAGE)]
STARTS, ENDS = [start for start, _ in TOKENS], [end for _, end in TOKENS]


def test_every_piece_of_a_passage_has_the_tokens_of_its_characters() -> None:
    for start, stop in itertools.combinations(range(len(PASSAGE) + 1), 2):
        text = PASSAGE[start:stop]
        owners = [at for at, (begin, end) in enumerate(TOKENS) if set(range(begin, end)) & set(range(start, stop))]
        found = find_answer_tokens(PASSAGE, STARTS, ENDS, text, start)
        if not owners:
            assert isinstance(found, NoAnswerTokens)
            continue
        assert found == AnswerTokens(owners[0], owners[-1])
        assert text.strip() in answer_text(PASSAGE, STARTS, ENDS, found)


def test_whole_tokens_give_the_answer_back() -> None:
    for first, last in itertools.combinations_with_replacement(range(len(TOKENS)), 2):
        text = PASSAGE[STARTS[first] : ENDS[last]]
        found = find_answer_tokens(PASSAGE, np.array(STARTS), np.array(ENDS), text, STARTS[first])
        assert found == AnswerTokens(first, last)
        assert answer_text(PASSAGE, STARTS, ENDS, found) == text


@pytest.mark.parametrize(
    ("text", "start", "tokens", "reason"),
    [
        ("", 0, TOKENS, "the answer is empty"),
        (" ", 3, TOKENS, "the answer is empty"),
        ("mill", 7, TOKENS, "does not stand at 7 in the passage"),
        (".", -1, TOKENS, "does not stand at -1 in the passage"),
        ("The", 0, TOKENS[1:], "no token has a character of the answer"),
        ("off", 25, [], "no token has a character"),
        ("burnt, 3", 14, TOKENS[:6], "the passage was cut off"),
        ("The", 0, [(0, 0)], "no token has a character"),
    ],
)
def test_answers_without_tokens(text: str, start: int, tokens: list[tuple[int, int]], reason: str) -> None:
    found = find_answer_tokens(PASSAGE, [begin for begin, _ in tokens], [end for _, end in tokens], text, start)
    assert isinstance(found, NoAnswerTokens)
    assert reason in found.reason


def test_a_blank_before_an_answer_has_no_token() -> None:
    assert find_answer_tokens(PASSAGE, STARTS, ENDS, " old", 3) == AnswerTokens(1, 1)
    assert find_answer_tokens("a b ", [0, 2], [1, 3], "b ", 2) == AnswerTokens(1, 1)


SCORES = st.one_of(st.integers(-3, 3).map(float), st.just(-np.inf))


@hypothesis_settings(max_examples=300, deadline=None)
@given(scores=st.lists(st.tuples(SCORES, SCORES), max_size=9), count=st.integers(0, 12), most_tokens=st.integers(0, 11))
def test_the_best_answers_are_the_best_of_all(scores: list[tuple[float, float]], count: int, most_tokens: int) -> None:
    starts, ends = (np.array(column, np.float32) for column in ([a for a, _ in scores], [b for _, b in scores]))
    every = [
        (-float(starts[first] + ends[last]), first, last)
        for first in range(len(scores))
        for last in range(first, min(first + most_tokens, len(scores)))
        if starts[first] + ends[last] > -np.inf
    ]
    found = best_answers(starts, ends, count, most_tokens)
    assert [(-one.score, one.tokens.first, one.tokens.last) for one in found] == sorted(every)[:count]


def test_a_long_passage() -> None:
    chance = np.random.default_rng(0)
    starts, ends = chance.normal(size=(2, 4000)).astype(np.float32)
    (best,) = best_answers(starts, ends, most_tokens=50)
    sums = np.add.outer(starts.astype(np.float64), ends)
    allowed = np.triu(np.ones_like(sums, bool)) & ~np.triu(np.ones_like(sums, bool), 50)
    assert best.score == np.max(sums, initial=-np.inf, where=allowed)
    assert sums[best.tokens.first, best.tokens.last] == best.score

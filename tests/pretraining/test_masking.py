"""Masks have the promised rates, against exact binomial bounds, and spare special tokens."""

import numpy as np
import pytest
from scipy.stats import binom

from bertfeat.pretraining.examples import UNPREDICTED, Masker
from bertfeat.pretraining.settings import MaskShares

VOCABULARY, SPECIAL, MASK = 1000, 5, 4
ORDINARY = np.arange(VOCABULARY) >= SPECIAL
UNLIKELY = 1e-6


def masker(
    rate: float = 0.15, *, shares: tuple[float, float, float] = (80, 10, 10), whole_words: bool = False
) -> Masker:
    return Masker(MaskShares(*shares), rate, whole_words=whole_words, mask_id=MASK, ordinary=ORDINARY)


def sequence(rng: np.random.Generator, length: int = 100) -> np.ndarray:
    """A sequence of ordinary pieces between two special tokens."""
    return np.concatenate(([2], rng.integers(SPECIAL, VOCABULARY, length), [3]))


def within(count: int, draws: int, rate: float) -> bool:
    """Whether so many of the draws are as probable as not to be told from the rate."""
    return bool(binom.ppf(UNLIKELY, draws, rate) <= count <= binom.ppf(1 - UNLIKELY, draws, rate))


@pytest.mark.parametrize(("rate", "shares"), [(0.15, (80, 10, 10)), (0.4, (50, 30, 20)), (0.15, (0, 0, 100))])
def test_rates(rate: float, shares: tuple[float, float, float]) -> None:
    rng, made = np.random.default_rng(1), masker(rate, shares=shares)
    predicted = masked = kept = pieces = 0
    for _ in range(1000):
        ids = sequence(rng, 103)
        seen, labels = made.mask(ids, np.ones(len(ids), bool), rng)
        chosen = labels != UNPREDICTED
        assert np.array_equal(labels[chosen], ids[chosen])
        assert np.array_equal(seen[~chosen], ids[~chosen])
        predicted, pieces = predicted + int(chosen.sum()), pieces + 103
        masked += int((seen[chosen] == MASK).sum())
        kept += int((seen[chosen] == ids[chosen]).sum())
    assert pieces > 1e5
    assert within(predicted, pieces, rate)
    assert within(masked, predicted, shares[0] / 100)
    by_chance = shares[1] / 100 / (VOCABULARY - SPECIAL)  # a random piece may be the piece itself
    assert within(kept, predicted, shares[2] / 100 + by_chance)


def test_special_tokens_are_never_masked_and_never_drawn() -> None:
    rng, made = np.random.default_rng(2), masker(0.9, shares=(0, 100, 0))
    drawn = set()
    for _ in range(1000):
        ids = sequence(rng, 100)
        ids[50] = 3  # a [SEP] between the segments, or in the text itself
        seen, labels = made.mask(ids, np.ones(len(ids), bool), rng)
        assert (labels[[0, 50, -1]] == UNPREDICTED).all()
        assert np.array_equal(seen[[0, 50, -1]], [2, 3, 3])
        drawn |= set(seen[labels != UNPREDICTED].tolist())
    assert drawn == set(range(SPECIAL, VOCABULARY))


def test_each_place_is_as_likely_as_any_other() -> None:
    rng, made = np.random.default_rng(3), masker()
    counts = np.zeros(22, int)
    for _ in range(8_000):
        counts += made.mask(sequence(rng, 20), np.ones(22, bool), rng)[1] != UNPREDICTED
    assert counts[[0, -1]].tolist() == [0, 0]
    assert all(within(int(count), 8_000, 0.15) for count in counts[1:-1])


@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_short_sequence_has_one_predicted_piece_at_least(length: int) -> None:
    rng = np.random.default_rng(4)
    for _ in range(200):
        _, labels = masker().mask(sequence(rng, length), np.ones(length + 2, bool), rng)
        assert (labels != UNPREDICTED).sum() >= 1


def test_a_sequence_of_special_tokens_alone_has_none() -> None:
    ids = np.array([2, 3])
    seen, labels = masker().mask(ids, np.ones(2, bool), np.random.default_rng(0))
    assert np.array_equal(seen, ids)
    assert (labels == UNPREDICTED).all()


def test_whole_words_are_predicted_whole() -> None:
    rng, made = np.random.default_rng(5), masker(whole_words=True)
    predicted = pieces = 0
    for _ in range(1000):
        ids = sequence(rng, 104)
        starts = rng.random(len(ids)) < 0.6
        starts[[0, 1, -1]] = True
        _, labels = made.mask(ids, starts, rng)
        words = np.cumsum(starts)
        for word in range(1, words.max() + 1):
            assert len(set((labels[words == word] != UNPREDICTED).tolist())) == 1
        predicted, pieces = predicted + int((labels != UNPREDICTED).sum()), pieces + 104
    assert within(predicted, pieces, 0.15)


def test_one_long_word_is_predicted_whole() -> None:
    starts = np.array([True, True, False, False, True])
    _, labels = masker(whole_words=True).mask(np.array([2, 10, 11, 12, 3]), starts, np.random.default_rng(0))
    assert labels.tolist() == [UNPREDICTED, 10, 11, 12, UNPREDICTED]


def test_the_same_generator_gives_the_same_masks() -> None:
    ids = sequence(np.random.default_rng(0))
    one, two = (masker().mask(ids, np.ones(len(ids), bool), np.random.default_rng((7, 3))) for _ in range(2))
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(one, two, strict=True))

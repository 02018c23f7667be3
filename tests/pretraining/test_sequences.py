"""Segments, checked against the corpus that they are drawn from."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom

from bertfeat.errors import CorpusError
from bertfeat.pretraining.corpus import DocumentRanges, TokenStore, split_corpus
from bertfeat.pretraining.examples import SHORTER, SegmentDrawer, Segments
from bertfeat.pretraining.settings import Objective
from tests.support.pretraining_toy import numbered_store

LENGTH = 64
PAIR_ROOM, ROOM = LENGTH - 3, LENGTH - 2


def corpus(seed: int = 0, documents: int = 40, continued: float = 0.3) -> TokenStore:
    rng = np.random.default_rng(seed)
    lengths = [rng.integers(1, 32, rng.integers(1, 60)).tolist() for _ in range(documents)]
    return numbered_store([[2, *document] for document in lengths], continued=continued)


def ranges_of(store: TokenStore) -> DocumentRanges:
    return split_corpus(store, 0, 1).training


def drawer(store: TokenStore, objective: Objective = Objective.MLM_NSP, seed: int = 1) -> SegmentDrawer:
    return SegmentDrawer(store, ranges_of(store), objective, LENGTH, seed)


def document_of(store: TokenStore, piece: int) -> int:
    return int(np.searchsorted(store.documents, piece, side="right")) - 1


def epoch(made: SegmentDrawer, number: int = 0) -> list[Segments]:
    return [made.draw(number, at)[0] for at in range(len(made))]


# ── the order ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
def test_an_epoch_has_every_sequence_once_in_an_order_of_its_own(size: int) -> None:
    store = numbered_store([[20]] * size)  # a sequence each
    made = drawer(store, Objective.MLM)
    orders = [[document_of(store, segments.first[0]) for segments in epoch(made, number)] for number in (0, 1)]
    assert [sorted(order) for order in orders] == [list(range(size))] * 2
    if size > 10:
        assert orders[0] != orders[1]
    if size == 1000:
        assert abs(np.corrcoef(orders[0], range(size))[0, 1]) < 0.12
        assert abs(np.corrcoef(orders[0], orders[1])[0, 1]) < 0.12


# ── pairs ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_labels_of_next_sentences_are_those_of_the_corpus() -> None:
    store = corpus()
    made = drawer(store)
    for segments in epoch(made):
        assert segments.second is not None
        (start, cut), (other, end) = segments.first, segments.second
        assert start < cut
        assert other < end
        assert (cut - start) + (end - other) <= PAIR_ROOM
        assert document_of(store, start) == document_of(store, cut - 1)
        assert document_of(store, other) == document_of(store, end - 1)
        if segments.is_next:
            assert other == cut
        assert segments.is_next == (document_of(store, other) == document_of(store, start))


@pytest.mark.parametrize("least", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_half_of_the_pairs_are_next_ones(least: int) -> None:
    store = corpus()
    made = drawer(store)
    draws = count = 0
    for number in range(least // len(made) + 1):
        drawn = epoch(made, number)
        draws, count = draws + len(drawn), count + sum(segments.is_next for segments in drawn)
    assert draws > least
    assert binom.ppf(1e-6, draws, 0.5) <= count <= binom.ppf(1 - 1e-6, draws, 0.5)


def test_second_segments_do_not_give_themselves_away_by_their_length() -> None:
    made = drawer(corpus(documents=30))
    lengths: dict[bool, list[int]] = {True: [], False: []}
    for number in range(30):
        for segments in epoch(made, number):
            assert segments.second is not None
            lengths[segments.is_next].append(segments.second[1] - segments.second[0])
    following, others = (np.array(lengths[kind]) for kind in (True, False))
    error = np.sqrt(following.var() / len(following) + others.var() / len(others))
    assert abs(following.mean() - others.mean()) < 5 * error + 1.5  # others end at words, and short documents


def test_second_segments_from_elsewhere_are_drawn_by_the_length_of_documents() -> None:
    store = numbered_store([[20] * 40, [20] * 10, [20] * 10])
    made = drawer(store)
    counts = {1: 0, 2: 0, 0: 0}
    for number in range(200):
        for segments in epoch(made, number):
            if not segments.is_next and document_of(store, segments.first[0]) == 0:
                assert segments.second is not None
                counts[document_of(store, segments.second[0])] += 1
    assert counts[0] == 0
    assert binom.ppf(1e-6, counts[1] + counts[2], 0.5) <= counts[1] <= binom.ppf(1 - 1e-6, counts[1] + counts[2], 0.5)


def test_segments_begin_with_sentences_where_there_are_some() -> None:
    store = numbered_store([[10] * 50, [10] * 50])
    for segments in epoch(drawer(store)):
        assert segments.second is not None
        assert segments.first[0] % 10 == 0
        if segments.second[1] - segments.first[0] > 10:
            assert segments.second[0] % 10 == 0


@pytest.mark.parametrize("lengths", [[[3]], [[1], [1]], [[500]], [[1], [40]]])
def test_one_document_gives_no_pairs(lengths: list[list[int]]) -> None:
    with pytest.raises(CorpusError, match="document_column"):
        drawer(numbered_store(lengths))


@pytest.mark.parametrize("lengths", [[[2], [2]], [[2], [3], [1]], [[1, 1], [1, 1, 1]], [[200], [2]]])
def test_the_shortest_documents_give_pairs(lengths: list[list[int]]) -> None:
    store = numbered_store(lengths, continued=0.9)
    for number in range(50):
        for segments in epoch(drawer(store), number):
            assert segments.second is not None
            assert segments.first[0] < segments.first[1]
            assert segments.second[0] < segments.second[1]


# ── single segments ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("objective", [Objective.MLM, Objective.LTR])
def test_single_segments_are_of_one_document_and_fit(objective: Objective) -> None:
    store = corpus()
    lengths = []
    for segments in epoch(drawer(store, objective)):
        assert segments.second is None
        start, end = segments.first
        assert 0 < end - start <= ROOM
        assert document_of(store, start) == document_of(store, end - 1)
        lengths.append(end - start)
    assert np.mean(lengths) > 0.8 * ROOM


def test_epochs_read_the_text_evenly_and_from_other_places() -> None:
    store = numbered_store([[7] * 100, [7] * 60])
    made = drawer(store, Objective.MLM)
    seen = np.zeros(len(store.pieces))
    for number in range(300):
        for segments in epoch(made, number):
            seen[slice(*segments.first)] += 1
    share = seen / 300
    assert share.min() > 0.3
    assert 0.85 < share.mean() < 1.15
    assert epoch(made, 0) != epoch(made, 1)


def test_some_sequences_are_shorter() -> None:
    made = drawer(numbered_store([[5] * 4000, [5] * 4000]), Objective.MLM)
    drawn = [segments for number in range(10) for segments in epoch(made, number)]
    # of lengths drawn from 2 to all, those within a word of all cannot be told from the others
    short = sum(segments.first[1] - segments.first[0] < ROOM // 2 for segments in drawn)
    expected = SHORTER * (ROOM // 2 - 2) / (ROOM - 1)
    assert binom.ppf(1e-6, len(drawn), expected) <= short <= binom.ppf(1 - 1e-6, len(drawn), expected)


def test_a_sequence_is_a_function_of_seed_epoch_and_number() -> None:
    store = corpus()
    made, again = drawer(store), drawer(store)
    backwards = [again.draw(epoch, at)[0] for epoch in (1, 0) for at in reversed(range(len(again)))]
    assert [made.draw(epoch, at)[0] for epoch in (0, 1) for at in range(len(made))] == backwards[::-1]
    assert epoch(drawer(store, seed=2)) != epoch(made)


# ── what is held out ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("documents", "whole"), [(10, False), (400, True)])
def test_what_is_held_out_is_never_learned_from(documents: int, whole: bool) -> None:
    store = corpus(documents=documents)
    split = split_corpus(store, 0.1, 1)
    held = np.zeros(len(store.pieces), bool)
    for start, end in zip(split.held_out.starts, split.held_out.ends, strict=True):
        held[start:end] = True
    assert 0.02 < held.mean() < 0.3
    assert "documents" in split.described
    assert ("last sentences" in split.described) is not whole
    for made in (
        SegmentDrawer(store, split.training, Objective.MLM_NSP, LENGTH, 1),
        SegmentDrawer(store, split.held_out, Objective.MLM_NSP, LENGTH, 1),
    ):
        drawn = [segment for each in epoch(made) for segment in (each.first, each.second) if segment is not None]
        kinds = {bool(held[slice(*segment)].any()) for segment in drawn}
        alike = {bool(held[slice(*segment)].all()) for segment in drawn}
        assert kinds == alike
        assert len(kinds) == 1


def test_ranges_cover_the_corpus_once() -> None:
    store = corpus()
    split = split_corpus(store, 0.1, 1)
    ends = [
        (int(start), int(end))
        for ranges in (split.training, split.held_out)
        for start, end in zip(ranges.starts, ranges.ends, strict=True)
    ]
    ends.sort()
    assert ends[0][0] == 0
    assert ends[-1][1] == len(store.pieces)
    assert all(one[1] == two[0] for one, two in pairwise(ends))
    assert all(start in set(store.sentences.tolist()) for start, _ in ends)


def test_a_corpus_too_small_to_hold_anything_out() -> None:
    with pytest.raises(CorpusError, match="held_out=0"):
        split_corpus(numbered_store([[5], [6]]), 0.01, 1)
    with pytest.raises(CorpusError, match="empty"):
        split_corpus(numbered_store([]), 0.01, 1)

"""Windows: every piece read, kept exactly once, and from where it has most context."""

from itertools import accumulate, pairwise

import pytest
from hypothesis import given, strategies as st

from bertfeat.core.tokens.windows import TextWindow, cut_left_windows, cut_windows, fit_context


def context(piece: int, window: TextWindow) -> int:
    """The shorter side of a piece's context within a window."""
    return min(piece - window.start, window.stop - 1 - piece)


@given(st.integers(0, 400), st.integers(1, 70))
def test_each_piece_is_kept_once_from_the_window_with_most_context(pieces: int, capacity: int) -> None:
    windows = cut_windows(pieces, capacity)
    kept = [piece for window in windows for piece in range(window.take_start, window.take_stop)]
    assert kept == list(range(pieces))
    for window in windows:
        assert window.stop - window.start == min(pieces, capacity)
        assert window.start <= window.take_start <= window.take_stop <= window.stop
        for piece in range(window.take_start, window.take_stop):
            best = max(context(piece, other) for other in windows if other.start <= piece < other.stop)
            assert context(piece, window) == best


@given(st.integers(0, 400), st.integers(1, 70))
def test_in_a_causal_model_from_the_window_with_most_before_it(pieces: int, capacity: int) -> None:
    windows = cut_windows(pieces, capacity, causal=True)
    kept = [piece for window in windows for piece in range(window.take_start, window.take_stop)]
    assert kept == list(range(pieces))
    assert [(window.start, window.stop) for window in windows] == [
        (w.start, w.stop) for w in cut_windows(pieces, capacity)
    ]
    for window in windows:
        for piece in range(window.take_start, window.take_stop):
            assert piece - window.start == max(
                piece - other.start for other in windows if other.start <= piece < other.stop
            )


@given(st.integers(1, 400), st.integers(4, 70))
def test_neighbors_overlap_by_a_quarter_and_the_last_is_full(pieces: int, capacity: int) -> None:
    windows = cut_windows(pieces, capacity)
    assert windows[0].start == 0
    assert windows[-1].stop == pieces
    for left, right in pairwise(windows):
        assert left.start < right.start
        assert left.stop - right.start >= capacity // 4
    for left, right in pairwise(windows[:-1]):
        assert left.stop - right.start == capacity // 4


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=30), st.integers(0, 5), st.integers(1, 12))
def test_each_word_ends_a_window_that_begins_with_the_words_before(
    words: list[tuple[int, int]], left: int, capacity: int
) -> None:
    """``words`` are given by the pieces of nobody before each, and its own."""
    stops = list(accumulate(gap + own for gap, own in words))
    firsts = [stop - own for stop, (_, own) in zip(stops, words, strict=True)]
    begins = [firsts[at - left] if at >= left else 0 for at in range(len(words))]
    pieces = (stops[-1] if stops else 0) + 3
    windows = cut_left_windows(begins, stops, pieces, capacity)
    kept = [piece for window in windows for piece in range(window.take_start, window.take_stop)]
    if not words:
        return
    assert kept == list(range(pieces))
    for window in windows:
        assert window.stop == window.take_stop <= window.start + capacity
        assert window.start <= window.take_start
    last = {window.take_stop: window for window in windows}
    for begin, stop, (gap, own) in zip(begins[:-1], stops[:-1], words[:-1], strict=True):
        if own and not gap:
            assert last[stop].start == max(begin, stop - capacity)


@pytest.mark.parametrize(("pieces", "number"), [(0, 1), (510, 1), (511, 2), (893, 2), (894, 3)])
def test_number_of_windows_of_a_model_with_512_positions(pieces: int, number: int) -> None:
    assert len(cut_windows(pieces, 510)) == number


@given(*[st.integers(0, 60)] * 4)
def test_context_fills_the_room_as_evenly_as_it_can(before: int, own: int, after: int, capacity: int) -> None:
    left, right = fit_context(before, own, after, capacity)
    assert 0 <= left <= before
    assert 0 <= right <= after
    room = max(0, capacity - own)
    assert left + right == min(room, before + after)
    if left < before and right < after:
        assert abs(left - right) <= 1

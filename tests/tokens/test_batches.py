"""Batches: every window in exactly one, within the budget; groups found again in each."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st

from bertfeat.core.tokens import Layout, TokenBatch, TokenGroups, cut_batches, groups_in_batch


def layout_of(lengths: list[int], targets: list[int] | None = None) -> Layout:
    """Windows whose tokens are numbered, every token picked for its window or for the given targets."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    ids = np.arange(offsets[-1], dtype=np.int32)
    own = np.repeat(np.arange(len(lengths)), lengths)
    aims = own if targets is None else np.array(targets, np.int64)
    groups = TokenGroups(
        np.arange(len(ids), dtype=np.int32), aims.astype(np.int32), int(aims.max()) + 1 if len(aims) else 0
    )
    return Layout(ids, (ids % 2).astype(np.int8), offsets, None, groups, groups, groups, groups, None, None)


@given(st.lists(st.integers(1, 30), max_size=40), st.integers(1, 100), st.booleans(), st.none() | st.integers(1, 5))
def test_every_window_is_in_one_batch(lengths: list[int], budget: int, padded: bool, most: int | None) -> None:
    layout = layout_of(lengths)
    found = list(cut_batches(layout, budget, padded=padded, most=most))
    assert sorted(w for batch in found for w in batch.windows.tolist()) == list(range(len(lengths)))
    for batch in found:
        cost = len(batch.lengths) * int(batch.lengths.max()) if padded else len(batch.ids)
        assert cost <= budget or len(batch.windows) == 1
        assert most is None or len(batch.windows) <= most
        assert (np.diff(batch.lengths) <= 0).all()
        same_as_layout(layout, batch)
    # as full as they can be: the next batch's first window would not have fitted
    for batch, after in pairwise(found):
        number = len(batch.windows) + 1
        cost = number * int(batch.lengths[0]) if padded else len(batch.ids) + int(after.lengths[0])
        assert cost > budget or number - 1 == most


def same_as_layout(layout: Layout, batch: TokenBatch) -> None:
    for window, start, length in zip(batch.windows, batch.starts, batch.lengths, strict=True):
        rows = slice(layout.window_offsets[window], layout.window_offsets[window + 1])
        assert batch.ids[start : start + length].tolist() == layout.ids[rows].tolist()
        assert batch.types[start : start + length].tolist() == layout.types[rows].tolist()


@given(st.lists(st.integers(1, 9), min_size=2, max_size=20))
def test_halves_hold_what_the_whole_held(lengths: list[int]) -> None:
    layout = layout_of(lengths)
    (batch,) = cut_batches(layout, 1000, padded=False)
    left, right = batch.halves(layout)
    assert [*left.windows, *right.windows] == batch.windows.tolist()
    assert abs(len(left.windows) - len(right.windows)) <= 1
    for half in (left, right):
        same_as_layout(layout, half)


@given(st.data(), st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 40))
def test_picks_of_all_batches_are_the_picks(data: st.DataObject, lengths: list[int], budget: int) -> None:
    total = sum(lengths)
    steps = data.draw(st.lists(st.integers(0, 2), min_size=total, max_size=total))
    layout = layout_of(lengths, np.cumsum(steps).tolist())
    chosen = np.flatnonzero(data.draw(st.lists(st.booleans(), min_size=total, max_size=total)))
    groups = TokenGroups(layout.pooled.tokens[chosen], layout.pooled.targets[chosen], layout.pooled.size)
    found: dict[int, list[int]] = {}
    for batch in cut_batches(layout, budget, padded=False):
        part = groups_in_batch(groups, layout, batch)
        for begin, end, target in zip(
            part.offsets, np.append(part.offsets, len(part.tokens))[1:], part.targets, strict=True
        ):
            assert end > begin
            found.setdefault(int(target), []).extend(batch.ids[part.tokens[begin:end]].tolist())
    wanted: dict[int, list[int]] = {}
    for row, target in zip(groups.tokens.tolist(), groups.targets.tolist(), strict=True):
        wanted.setdefault(target, []).append(row)
    assert {target: sorted(rows) for target, rows in found.items()} == wanted


def test_a_document_in_two_windows_has_two_segments() -> None:
    layout = layout_of([3, 3], [0] * 6)
    (batch,) = cut_batches(layout, 100, padded=False)
    groups = groups_in_batch(layout.pooled, layout, batch)
    assert groups.offsets.tolist() == [0, 3]
    assert groups.targets.tolist() == [0, 0]


@pytest.mark.parametrize("padded", [True, False])
def test_no_windows_no_batches(padded: bool) -> None:
    assert list(cut_batches(layout_of([]), 10, padded=padded)) == []

"""Segment reductions against loops over NumPy slices."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from bertfeat.extraction.pooling import POOLING_METHODS, segment_extreme, segment_sum, select_rows
from bertfeat.recipe import Pooling

SEGMENTS = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=6), max_size=6)
HIDDEN = torch.randn(10, 4, generator=torch.Generator().manual_seed(3))


def packed(segments: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    lengths = [len(rows) for rows in segments]
    offsets = np.concatenate([[0], np.cumsum(lengths)])[:-1] if segments else np.zeros(0)
    rows = [row for rows in segments for row in rows]
    return torch.tensor(rows, dtype=torch.int64), torch.from_numpy(offsets.astype(np.int64))


@given(SEGMENTS)
@settings(deadline=None)
def test_sums_and_maxima(segments: list[list[int]]) -> None:
    picked, offsets = packed(segments)
    hidden = HIDDEN.numpy()
    sums = np.array([hidden[rows].sum(axis=0) for rows in segments], np.float32).reshape(-1, 4)
    maxima = np.array([hidden[rows].max(axis=0) for rows in segments], np.float32).reshape(-1, 4)
    np.testing.assert_allclose(segment_sum(HIDDEN, picked, offsets), sums, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(segment_extreme(HIDDEN, picked, offsets, which="max"), maxima)


def test_an_empty_segment_sums_to_zero() -> None:
    found = segment_sum(HIDDEN, torch.tensor([1, 2]), torch.tensor([0, 2, 2]))
    np.testing.assert_allclose(found[0], HIDDEN[1] + HIDDEN[2])
    assert not found[1:].any()


@pytest.mark.parametrize("rows", [[], [3], [9, 0, 0]], ids=str)
def test_selected_rows(rows: list[int]) -> None:
    picked = torch.tensor(rows, dtype=torch.int64)
    np.testing.assert_array_equal(select_rows(HIDDEN, picked, torch.arange(len(rows))), HIDDEN.numpy()[rows])


def test_every_pooling_has_a_method() -> None:
    assert set(POOLING_METHODS) == set(Pooling)


def test_the_neighbours_of_a_segment_change_nothing() -> None:
    alone = segment_sum(HIDDEN, torch.tensor([4, 7, 2]), torch.tensor([0]))
    beside = segment_sum(HIDDEN, torch.tensor([1, 4, 7, 2, 5]), torch.tensor([0, 1, 4]))
    np.testing.assert_array_equal(alone[0], beside[1])

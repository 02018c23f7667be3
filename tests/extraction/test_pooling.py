"""Segment reductions against loops over NumPy slices."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from bertfeat.core.extraction.pooling import POOLING_METHODS, segment_extreme, segment_sum, select_rows
from bertfeat.core.recipe import Pooling
from tests.support.runs import extractor
from tests.support.tiny_models import Tiny

SEGMENTS = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=6), max_size=6)
OF_LAYERS = [each for each in Pooling if each.per_document and each is not Pooling.SENTENCE]
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


def test_the_neighbors_of_a_segment_change_nothing() -> None:
    alone = segment_sum(HIDDEN, torch.tensor([4, 7, 2]), torch.tensor([0]))
    beside = segment_sum(HIDDEN, torch.tensor([1, 4, 7, 2, 5]), torch.tensor([0, 1, 4]))
    np.testing.assert_array_equal(alone[0], beside[1])


# ── long texts, through the door ────────────────────────────────────────────────────────────────────────────

ORACLES: dict[str, Callable[[NDArray[np.float32]], NDArray[np.float32]]] = {
    "mean": lambda tokens: tokens.mean(axis=0),
    "cls": lambda tokens: tokens[0],
    "last-token": lambda tokens: tokens[-1],
    "max": lambda tokens: tokens.max(axis=0),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("gathers", [False, True], ids=["merged", "gathered"])
@pytest.mark.parametrize("layers", ["last", "concat4", "sum4"])
@pytest.mark.parametrize("pooling", OF_LAYERS, ids=str)
def test_a_long_text_is_pooled_over_all_of_its_tokens(
    bert: Tiny, pooling: Pooling, layers: str, gathers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In several windows or one: a pooled vector is the pooling of the text's token vectors.

    The tokens of each layer are pooled by the pooling's own ``reduce`` where it is one that this test does not know.
    Every pooling can do without ``merge``, as one has to whose windows cannot be merged.
    """
    if gathers:
        monkeypatch.setattr(
            "bertfeat.core.extraction.compute.POOLING_METHODS",
            {**POOLING_METHODS, pooling: replace(POOLING_METHODS[pooling], merge=None)},
        )
    texts = ["He went to the bank. " * times for times in (1, 3, 15, 40, 0, 7)]
    wanted = extractor(bert, layers="all", pooling="token", max_length=24, dtype="float32").features(texts)
    for batch_tokens in (24, 4096):
        made = extractor(bert, layers=layers, pooling=pooling.value, max_length=24, batch_tokens=batch_tokens).features(
            texts
        )
        assert sum(document.n_tokens > 24 for document in made) > 2
        for own, whole in zip(made, wanted, strict=True):
            single = [whole.matrix(f"layer{layer}_token") for layer in range(1, bert.model.num_layers + 1)][-4:]
            chosen = {"last": single[-1:], "concat4": single, "sum4": [np.sum(single, 0)]}
            found = own.vector(made_name(layers, pooling))
            expected = np.concatenate([pooled(np.asarray(layer), pooling) for layer in chosen[layers]])
            np.testing.assert_allclose(found, expected, rtol=0, atol=3e-5)


def made_name(layers: str, pooling: Pooling) -> str:
    return f"{layers}_{pooling}"


def pooled(tokens: NDArray[np.float32], pooling: Pooling) -> NDArray[np.float32]:
    if pooling.value in ORACLES:
        return ORACLES[pooling.value](tokens)
    method = POOLING_METHODS[pooling]
    reduced = method.reduce(torch.from_numpy(tokens), torch.arange(len(tokens)), torch.tensor([0])).numpy()[0]
    return np.asarray(reduced / len(tokens) if method.averaged else reduced)

"""Attention within texts, with windows, shared heads, biases, caps and sinks, against its definition in NumPy."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.core.encoder.kernels import Kernels
from bertfeat.core.encoder.text_attention import AttentionTerms, NotPackable, TextAttention, find_reach
from tests.encoder.support import BF16, FP32, HALF_STEP, KINDS, random
from tests.support.tiny_models import CPU

LENGTHS = np.array([300, 130, 64, 33, 33, 17, 16, 3, 1, 1])
TOKENS = int(LENGTHS.sum())
AFTER = 5  # rows after the last text
WINDOWS = {
    "everything": (300, 300),
    "causal": (300, 0),
    "window": (7, 7),
    "causal window": (40, 0),
    "one beside": (1, 1),
    "itself": (0, 0),
    "uneven": (33, 2),
}
Float64s = NDArray[np.float64]


def in_float64(query: Tensor, key: Tensor, value: Tensor, terms: AttentionTerms) -> Float64s:
    """Each text by itself. Shape: ``[T, A, d]``, ``[T, B, d]``, ``[T, B, e]`` → ``[T, A, e]``."""
    q, k, v = (each.double().numpy() for each in (query, key, value))
    group = q.shape[1] // k.shape[1]
    found = np.zeros((len(q), q.shape[1], v.shape[2]))
    for end, length in zip(np.cumsum(LENGTHS), LENGTHS, strict=True):
        rows = slice(end - length, end)
        apart = np.arange(length)[None] - np.arange(length)[:, None]
        seen = (apart >= -terms.before) & (apart <= terms.after)
        for head in range(q.shape[1]):
            scores = q[rows, head] @ k[rows, head // group].T * terms.scale
            if terms.softcap is not None:
                scores = np.tanh(scores / terms.softcap) * terms.softcap
            if terms.bias is not None:
                scores = scores + terms.bias[head].double().numpy()[apart + terms.bias.shape[1] // 2]
            weights = np.where(seen, np.exp(scores), 0)
            total = weights.sum(1, keepdims=True)
            if terms.sinks is not None:
                total = total + np.exp(float(terms.sinks[head]))
            found[rows, head] = weights / total @ v[rows, head // group]
    return found


def heads(number: int, width: int, seed: int, dtype: torch.dtype = FP32) -> Tensor:
    return random(TOKENS + AFTER, number, width, dtype=dtype, seed=seed)


def assert_attends(query: Tensor, key: Tensor, value: Tensor, terms: AttentionTerms) -> None:
    found = TextAttention(LENGTHS, CPU)(query, key, value, terms)
    wanted = in_float64(query[:TOKENS], key[:TOKENS], value[:TOKENS], terms)
    assert found.shape == (len(query), query.shape[1], value.shape[2])
    assert not found[TOKENS:].any()
    precise = query.dtype is FP32
    tolerance = 1e-5 if precise else 2 * HALF_STEP * float(value.abs().max())
    np.testing.assert_allclose(
        found[:TOKENS].double().numpy(), wanted, rtol=0 if precise else HALF_STEP, atol=tolerance
    )


@pytest.mark.sampled(20)
@pytest.mark.parametrize("dtype", [FP32, BF16], ids=str)
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS.keys())
@pytest.mark.parametrize("each", [*KINDS, "none"], indirect=True)
def test_windows_and_shared_heads(window: tuple[int, int], dtype: torch.dtype, each: Kernels | None) -> None:
    for width, key_heads in ((32, 1), (48, 2), (64, 4)):
        query, key, value = (
            heads(4, width, 1, dtype),
            heads(key_heads, width, 2, dtype),
            heads(key_heads, width, 3, dtype),
        )
        assert_attends(query, key, value, AttentionTerms(0.2, *window))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", [FP32, BF16], ids=str)
@pytest.mark.parametrize("window", [WINDOWS["everything"], WINDOWS["uneven"]], ids=str)
@pytest.mark.parametrize("each", [*KINDS, "none"], indirect=True)
def test_a_bias_by_distance(window: tuple[int, int], dtype: torch.dtype, each: Kernels | None) -> None:
    bias = random(4, 2 * 299 + 1, seed=9)
    for scale in (1.0, 0.125):
        query, key, value = (heads(4, 32, seed, dtype) * 0.5 for seed in (1, 2, 3))
        assert_attends(query, key, value, AttentionTerms(scale, *window, bias=bias))


@pytest.mark.parametrize(
    "more", [{"softcap": 1.5}, {"sinks": torch.tensor([0.5, -1.0, 2.0, 0.0])}, {}], ids=["cap", "sinks", "other width"]
)
def test_what_the_kernels_do_not_know(more: dict[str, Any]) -> None:
    query, key, value = heads(4, 32, 1), heads(2, 32, 2), heads(2, 48, 3)
    for window in WINDOWS.values():
        assert_attends(query, key, value, AttentionTerms(0.3, *window, **more))


def test_queries_of_a_long_text_in_several_steps(monkeypatch: pytest.MonkeyPatch, without: None) -> None:
    query, key, value = heads(4, 16, 1), heads(2, 16, 2), heads(2, 16, 3)
    monkeypatch.setattr("bertfeat.core.encoder.text_attention._SCORES", 5_000)
    for window in WINDOWS.values():
        assert_attends(query, key, value, AttentionTerms(0.3, *window))


@pytest.mark.parametrize("layout", ["heads first", "one product", "every second value"])
def test_wherever_heads_lie_in_memory(layout: str, each: Kernels) -> None:
    if layout == "heads first":
        query, key, value = (random(4, TOKENS + AFTER, 32, seed=seed).transpose(0, 1) for seed in (1, 2, 3))
    elif layout == "one product":
        query, key, value = (random(TOKENS + AFTER, 12, 32)[:, at : at + 4] for at in (0, 4, 8))
    else:
        query, key, value = (random(TOKENS + AFTER, 4, 64, seed=seed)[..., ::2] for seed in (1, 2, 3))
    assert_attends(query, key, value, AttentionTerms(0.2, 9, 4))


def test_batch_mates_change_no_bit(each: Kernels) -> None:
    query, key, value = heads(4, 32, 1), heads(2, 32, 2), heads(2, 32, 3)
    terms = AttentionTerms(0.2, 20, 0)
    together = TextAttention(LENGTHS, CPU)(query, key, value, terms)
    for end, length in zip(np.cumsum(LENGTHS), LENGTHS, strict=True):
        rows = slice(int(end - length), int(end))
        alone = TextAttention(np.array([length]), CPU)(query[rows], key[rows], value[rows], terms)
        assert torch.equal(alone, together[rows])


# ── how far a token sees, from the rule of a mask ───────────────────────────────────────────────────────────


@pytest.mark.parametrize("length", [1, 2, 5, 6, 7, 30])
def test_the_reach_of_a_rule(length: int) -> None:
    def reach(rule: Any) -> tuple[int, int]:
        return find_reach(rule, 11, length, CPU)

    most = length - 1
    assert reach(lambda b, h, q, k: k >= 0) == (most, most)
    assert reach(lambda b, h, q, k: k <= q) == (most, 0)
    assert reach(lambda b, h, q, k: abs(k - q) <= 5) == (min(most, 5), min(most, 5))
    assert reach(lambda b, h, q, k: (k <= q) & (k > q - 6)) == (min(most, 5), 0)
    assert reach(lambda b, h, q, k: torch.tensor(True)) == (most, most)


@pytest.mark.parametrize(
    "rule",
    [
        lambda b, h, q, k: k // 8 == q // 8,  # in chunks
        lambda b, h, q, k: (k <= q) | (k < 14),  # the first ones see each other
        lambda b, h, q, k: (q - k) % 2 == 0,  # every second
        lambda b, h, q, k: k < q,  # not itself
        lambda b, h, q, k: q < 0,  # nothing
    ],
    ids=["chunks", "prefix", "every second", "not itself", "nothing"],
)
def test_rules_that_are_no_windows(rule: Any) -> None:
    with pytest.raises(NotPackable):
        find_reach(rule, 11, 30, CPU)

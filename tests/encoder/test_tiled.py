"""A block's kernels for AMX against float64; tiles are emulated where there are none."""

import pytest
import torch

from bertfeat.encoder.blocks import TiledPostAttention, TorchPostAttention, find_tile_kernels, make_post_attention
from bertfeat.encoder.kernels import Kernels
from tests.encoder.support import (
    ACTIVATIONS,
    BF16,
    FP32,
    assert_close_to,
    block_weights,
    let_find,
    post_attention_in_float64,
    random,
)
from tests.support.tiny_models import CPU

FINE = 1e-5


# ── what follows attention ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(
    ("hidden", "inner"), [(32, 32), (32, 64), (96, 416), (64, 800), (384, 1536), (768, 3072)], ids=str
)
def test_post_attention_in_every_width(amx: Kernels, hidden: int, inner: int, activation: str) -> None:
    weights = block_weights(hidden, inner)
    post_attention = TiledPostAttention(weights, 1e-12, activation, amx)
    context, residual = random(33, hidden, dtype=BF16, seed=1), random(33, hidden, dtype=BF16, seed=2)
    assert_close_to(
        post_attention(context, residual), post_attention_in_float64(weights, context, residual, activation)
    )


@pytest.mark.parametrize("rows", [1, 31, 32, 33, 300])
@pytest.mark.parametrize("hidden", [96, 384])
def test_post_attention_of_any_number_of_rows(amx: Kernels, rows: int, hidden: int) -> None:
    weights = block_weights(hidden, 4 * hidden)
    post_attention = TiledPostAttention(weights, 1e-12, "gelu", amx)
    context, residual = random(rows, hidden, dtype=BF16, seed=1), random(rows, hidden, dtype=BF16, seed=2)
    found = post_attention(context, residual)
    assert_close_to(found, post_attention_in_float64(weights, context, residual, "gelu"))
    assert torch.equal(post_attention(context[:1], residual[:1]), found[:1])  # a row's mates change no bit
    assert torch.equal(post_attention(context[rows // 2 :], residual[rows // 2 :]), found[rows // 2 :])


def test_post_attention_of_no_rows(amx: Kernels) -> None:
    post_attention = TiledPostAttention(block_weights(32, 64), 1e-12, "gelu", amx)
    assert post_attention(random(0, 32, dtype=BF16), random(0, 32, dtype=BF16)).shape == (0, 32)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_nan_stays_in_its_row(amx: Kernels, activation: str) -> None:
    post_attention = TiledPostAttention(block_weights(64, 96), 1e-12, activation, amx)
    context, residual = random(40, 64, dtype=BF16, seed=1), random(40, 64, dtype=BF16, seed=2)
    clean = post_attention(context, residual)
    context[5, 3], residual[20, 63] = torch.nan, torch.inf
    found = post_attention(context, residual)
    assert found[[5, 20]].isnan().all()
    rest = [row for row in range(40) if row not in (5, 20)]
    assert torch.equal(found[rest], clean[rest])


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_far_from_zero(amx: Kernels, activation: str) -> None:
    weights = block_weights(32, 32)
    up, far = weights.up, torch.linspace(-60, 60, 32)
    up.weight.zero_()
    up.bias.copy_(far)
    context, residual = random(1, 32, dtype=BF16, seed=1), random(1, 32, dtype=BF16, seed=2)
    found = TiledPostAttention(weights, 1e-12, activation, amx)(context, residual)
    assert_close_to(found, post_attention_in_float64(weights, context, residual, activation))


def test_torch_computes_alike() -> None:
    weights = block_weights(96, 416)
    context, residual = random(33, 96, seed=1), random(33, 96, seed=2)
    for activation in ACTIVATIONS:
        found = TorchPostAttention.of(weights, 1e-12, activation, CPU, FP32)(context, residual)
        wanted = post_attention_in_float64(weights, context, residual, activation)
        torch.testing.assert_close(found.double(), wanted, rtol=0, atol=FINE)


# ── what serves when ─────────────────────────────────────────────────────────────────────────────────────────


def test_which_form_serves(amx: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(hidden: int, inner: int, dtype: torch.dtype) -> type:
        return type(make_post_attention(block_weights(hidden, inner), 1e-12, "gelu", CPU, dtype))

    assert chosen(64, 96, BF16) is TiledPostAttention
    assert [chosen(64, 96, FP32), chosen(64, 80, BF16), chosen(48, 96, BF16)] == [TorchPostAttention] * 3
    assert find_tile_kernels(torch.device("cuda"), BF16, 64, 96) is None
    monkeypatch.setattr(amx, "has_amx", False)
    assert chosen(64, 96, BF16) is TorchPostAttention
    let_find(None, monkeypatch)
    assert chosen(64, 96, BF16) is TorchPostAttention

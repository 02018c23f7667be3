"""What tests of kernels share."""

import pytest
import torch
from torch import Tensor

from bertfeat.core.encoder import int8, kernels, stack
from bertfeat.core.encoder.kernels import Kernels
from bertfeat.core.encoder.weights import Affine, BlockWeights
from tests.support.emulated import emulated_amx

FP32, BF16 = torch.float32, torch.bfloat16
HALF_STEP = 2.0**-8  # of bfloat16, relative: what rounding a result once may cost


def random(*shape: int, dtype: torch.dtype = FP32, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def let_find(found: Kernels | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all that looks for kernels find these."""
    for module in (kernels, int8, stack):
        monkeypatch.setattr(module, "find_kernels", lambda: found)


KINDS = ("amx", "bf16", "avx512", "avx2")
"""Instructions for which float32 or bfloat16 have kernels of their own."""

BETTER_FIRST = (("amx",), ("bf16", "vnni"), ("avx512",), ("avx2_vnni",), ("avx2",))


def held_to(instructions: str, monkeypatch: pytest.MonkeyPatch, *, emulated: bool = True) -> Kernels:
    """Let all find the kernels as a processor has them that knows nothing better than these instructions.

    A processor that lacks them skips the test; but the tiles of AMX are ``emulated`` where there are none, slowly.
    """
    found = kernels.find_kernels()
    if emulated and instructions == "amx" and found is not None and not found.has_amx:
        found = emulated_amx()
    if found is None or not getattr(found, f"has_{instructions}"):
        pytest.skip(f"the kernels were not built here, or they cannot have {instructions}")
    for rank in BETTER_FIRST:
        if instructions in rank:
            break
        for better in rank:
            monkeypatch.setattr(found, f"has_{better}", False)
    let_find(found, monkeypatch)
    return found


def block_weights(hidden: int, inner: int) -> BlockWeights:
    def product(seed: int, outputs: int, inputs: int) -> Affine:
        weight = random(outputs, inputs, seed=seed) / inputs**0.5
        return Affine(weight.bfloat16().float(), random(outputs, seed=seed + 1) / 4)  # weights that bf16 holds

    def norm(seed: int) -> Affine:
        return Affine(1 + random(hidden, seed=seed) / 4, random(hidden, seed=seed + 1) / 4)

    query, key, value, out = (product(seed, hidden, hidden) for seed in (10, 12, 14, 16))
    up, down = product(18, inner, hidden), product(20, hidden, inner)
    return BlockWeights(query, key, value, out, norm(22), up, down, norm(24))


ACTIVATIONS = {
    "gelu": lambda x: x * torch.special.ndtr(x),
    "gelu_new": lambda x: x * torch.sigmoid(2 * (2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)),
    "relu": lambda x: x.clamp(min=0),
}


def post_attention_in_float64(weights: BlockWeights, context: Tensor, residual: Tensor, activation: str) -> Tensor:
    def times(x: Tensor, affine: Affine) -> Tensor:
        return x @ affine.weight.double().T + affine.bias.double()

    def normed(x: Tensor, affine: Affine) -> Tensor:
        centerd = x - x.mean(-1, keepdim=True)
        unit = centerd / (centerd.square().mean(-1, keepdim=True) + 1e-12).sqrt()
        return unit * affine.weight.double() + affine.bias.double()

    attended = normed(times(context.double(), weights.attention_out) + residual.double(), weights.attention_norm)
    raised = ACTIVATIONS[activation](times(attended, weights.up))
    return normed(times(raised, weights.down) + attended, weights.out_norm)


def assert_close_to(found: Tensor, wanted: Tensor) -> None:
    """Three values are rounded on the way: what was normed, what was raised, and the result."""
    assert found.dtype is BF16
    error = (found.double() - wanted).abs()
    assert error.max() < 8 * HALF_STEP
    assert error.mean() < HALF_STEP

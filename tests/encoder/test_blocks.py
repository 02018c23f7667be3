"""The part of a block after attention by torch's operators, which serve where no kernel does, against float64."""

import pytest
import torch

from bertfeat.core.encoder.blocks import TorchPostAttention
from tests.encoder.support import (
    ACTIVATIONS,
    BF16,
    FP32,
    assert_close_to,
    block_weights,
    post_attention_in_float64,
    random,
)
from tests.support.tiny_models import CPU

FINE = 1e-5


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [FP32, BF16], ids=str)
def test_torch_computes_it(activation: str, dtype: torch.dtype) -> None:
    weights = block_weights(96, 416)
    context, residual = random(33, 96, dtype=dtype, seed=1), random(33, 96, dtype=dtype, seed=2)
    found = TorchPostAttention.of(weights, 1e-12, activation, CPU, dtype)(context, residual)
    wanted = post_attention_in_float64(weights, context, residual, activation)
    if dtype is FP32:
        torch.testing.assert_close(found.double(), wanted, rtol=0, atol=FINE)
    else:
        assert_close_to(found, wanted)

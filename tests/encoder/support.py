"""What tests of kernels share."""

import pytest
import torch
from torch import Tensor

from bertfeat.encoder import int8, kernels, tiled
from bertfeat.encoder.kernels import Kernels

FP32, BF16 = torch.float32, torch.bfloat16
HALF_STEP = 2.0**-8  # of bfloat16, relative: what rounding a result once may cost


def random(*shape: int, dtype: torch.dtype = FP32, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def let_find(found: Kernels | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all that looks for kernels find these."""
    for module in (kernels, int8, tiled):
        monkeypatch.setattr(module, "find_kernels", lambda: found)

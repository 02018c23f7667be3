"""The part of a transformer block after attention, in bfloat16 on AMX: products of bfloat16, all else of float32.

It takes torch's CPU operators 1.2 to 2.4 times as long, because each product goes through memory (benchmarks/block.py).

Shapes: ``T`` tokens, ``H`` hidden width.
"""

import torch
from torch import Tensor

from bertfeat.encoder.kernels import ACTIVATIONS, Kernels, find_kernels
from bertfeat.encoder.native import NormStruct, PostAttentionStruct, ProductStruct
from bertfeat.encoder.weights import Affine, BlockWeights

_STEP = 32  # widths are multiples of this


class TiledProduct:
    """A product whose weight ``[out, in]`` is stored as AMX tiles."""

    def __init__(self, product: Affine, kernels: Kernels) -> None:
        outputs, inputs = product.weight.shape
        self._tensors = (kernels.pack(product.weight.bfloat16().contiguous()), product.bias)  # kept in memory
        self.native = ProductStruct(*(each.data_ptr() for each in self._tensors), inputs, outputs)


class TiledPostAttention:
    """A block's part after attention, in one kernel: output product, residual, norm, feed-forward, residual, norm."""

    def __init__(self, weights: BlockWeights, eps: float, activation: str, kernels: Kernels) -> None:
        self._kernels, self._activation = kernels, ACTIVATIONS[activation]
        self._products = [TiledProduct(each, kernels) for each in (weights.attention_out, weights.up, weights.down)]
        self._norms = [weights.attention_norm, weights.out_norm]
        self._natives = [
            *(product.native for product in self._products),
            *(NormStruct(norm.weight.data_ptr(), norm.bias.data_ptr(), eps) for norm in self._norms),
        ]

    def __call__(self, context: Tensor, residual: Tensor) -> Tensor:
        """Compute. Shape: ``[T, H]``, ``[T, H]`` → ``[T, H]``."""
        out = torch.empty_like(residual)
        pointers = (context.data_ptr(), residual.data_ptr(), out.data_ptr())
        job = PostAttentionStruct(*pointers, len(residual), self._activation, *self._natives)
        self._kernels.call("bertfeat_post_attention", job)
        return out


def find_tile_kernels(device: torch.device, dtype: torch.dtype, hidden: int, inner: int) -> Kernels | None:
    """Find the kernels if they compute blocks of these widths in AMX tiles on this device."""
    serves = device.type == "cpu" and dtype is torch.bfloat16 and not (hidden % _STEP or inner % _STEP)
    kernels = find_kernels() if serves else None
    return kernels if kernels and kernels.has_amx else None

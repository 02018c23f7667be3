"""The transformer block (Vaswani et al. 2017; post-layer-norm) without its attention, in a floating-point format.

Shapes: ``T`` tokens, ``S`` sequences, ``H`` hidden width, ``I`` intermediate width.
"""

from collections.abc import Collection, Iterable
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, linear

from bertfeat.core.encoder.linear import LinearProduct, make_linear_product
from bertfeat.core.encoder.weights import Affine, BlockWeights
from bertfeat.core.recipe import BlockSite


class PostAttention(Protocol):
    """The part of a block after attention: output product, residual, norm, feed-forward, residual, norm."""

    def __call__(self, context: Tensor, residual: Tensor) -> Tensor:
        """Compute. Shape: ``[T, H]``, ``[T, H]`` → ``[T, H]``."""


class Block(Protocol):
    """One transformer block without its attention."""

    @property
    def post_attention(self) -> PostAttention:
        """The part of the block after attention."""

    @property
    def attention_dtype(self) -> torch.dtype:
        """The format of queries, keys and values, and of the result of attention."""

    def project(self, hidden: Tensor) -> Tensor:
        """Compute queries, keys and values. Shape: ``[T, H]`` → ``[T, 3H]``."""

    def project_first_tokens(self, hidden: Tensor, first_rows: Tensor) -> tuple[Tensor, Tensor]:
        """Compute queries of first tokens alone. Shape: ``[T, H]``, ``[S, H]`` → ``[S, H]``, ``[T, 2H]``."""


class FloatBlock:
    """A block in a floating-point format, where no kernel serves, as on GPUs; its products are torch's or oneDNN's."""

    def __init__(
        self, weights: BlockWeights, eps: float, activation: str, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.attention_dtype, joined = dtype, weights.query_key_value
        self._weight, self._bias = joined.weight.to(device, dtype), joined.bias.to(device, dtype)
        self._qkv = make_linear_product(self._weight, self._bias)
        self.post_attention = TorchPostAttention.of(weights, eps, activation, device, dtype)

    def project(self, hidden: Tensor) -> Tensor:
        """Compute queries, keys and values. Shape: ``[T, H]`` → ``[T, 3H]``."""
        return self._qkv(hidden)

    def project_first_tokens(self, hidden: Tensor, first_rows: Tensor) -> tuple[Tensor, Tensor]:
        """Compute queries of first tokens alone. Shape: ``[T, H]``, ``[S, H]`` → ``[S, H]``, ``[T, 2H]``."""
        width = hidden.shape[1]
        query = linear(first_rows, self._weight[:width], self._bias[:width])
        return query, linear(hidden, self._weight[width:], self._bias[width:])


class TorchPostAttention:
    """The part of a block after attention, by torch's operators around three products."""

    def __init__(self, products: Iterable[LinearProduct], norms: Iterable[Affine], eps: float, activation: str) -> None:
        self._out, self._up, self._down = products
        self._attention_norm, self._out_norm = norms
        self._eps, self._activation = eps, activation

    @classmethod
    def of(
        cls, weights: BlockWeights, eps: float, activation: str, device: torch.device, dtype: torch.dtype
    ) -> "TorchPostAttention":
        """Place the weights of a block on a device, in a floating-point format."""
        products = (
            make_linear_product(product.weight.to(device, dtype), product.bias.to(device, dtype))
            for product in (weights.attention_out, weights.up, weights.down)
        )
        norms = (
            Affine(norm.weight.to(device, dtype), norm.bias.to(device, dtype))
            for norm in (weights.attention_norm, weights.out_norm)
        )
        return cls(products, norms, eps, activation)

    def __call__(self, context: Tensor, residual: Tensor) -> Tensor:
        """Compute. Shape: ``[T, H]``, ``[T, H]`` → ``[T, H]``."""
        return self.at_sites(context, residual, ())[BlockSite.OUTPUT]

    def at_sites(self, context: Tensor, residual: Tensor, sites: Collection[BlockSite]) -> dict[BlockSite, Tensor]:
        """Compute the block's output, and the values at some sites within it.

        Outputs that are added in the same product are computed by themselves once more, so that asking for them changes
        no other value.

        Shape: ``[T, H]``, ``[T, H]`` → ``[T, H]`` each.
        """
        values: dict[BlockSite, Tensor] = {}

        def summed(site: BlockSite, product: LinearProduct, inputs: Tensor, added: Tensor, output: BlockSite) -> Tensor:
            if output in sites:
                values[output] = product(inputs)
            total = product.plus_residual(inputs, added)
            if site in sites:
                values[site] = total
            return total

        attended = self._normed(
            summed(BlockSite.MID, self._out, context, residual, BlockSite.ATTN), self._attention_norm
        )
        raised = self._up.with_activation(attended, self._activation)  # [T, I]
        total = summed(BlockSite.PRE_NORM, self._down, raised, attended, BlockSite.MLP)
        values |= {
            site: given for site, given in ((BlockSite.HEADS, context), (BlockSite.MLP_IN, attended)) if site in sites
        }
        return values | {BlockSite.OUTPUT: self._normed(total, self._out_norm)}

    def _normed(self, summed: Tensor, norm: Affine) -> Tensor:
        return layer_norm(summed, summed.shape[-1:], norm.weight, norm.bias, self._eps)

"""The packed forward pass: the tokens of a batch side by side, ``[T, H]``, without padding.

BERT (Devlin et al. 2019), RoBERTa and XLM-R, DistilBERT, ELECTRA: post-layer-norm blocks, absolute positions.

Shapes: ``T`` tokens, ``S`` sequences, ``H`` hidden width, ``I`` intermediate width, ``L`` blocks.
"""

from collections.abc import Collection, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding, layer_norm

from bertfeat.encoder.attention import Attention, make_attention
from bertfeat.encoder.precision import Precision
from bertfeat.encoder.products import make_product
from bertfeat.encoder.states import HiddenState
from bertfeat.encoder.weights import Affine, BlockWeights, activation, read_weights
from bertfeat.models import Model
from bertfeat.tokens import Batch


class PackedEncoder:
    """A frozen BERT-family encoder over packed tokens."""

    padded = False

    def __init__(self, model: Model, precision: Precision, device: torch.device) -> None:
        weights, config = read_weights(model), model.config
        self.num_layers, self.hidden_size = model.num_layers, model.hidden_size
        self.precision, self.device = precision, device
        self._dtype = precision.dtype
        self._eps = float(getattr(config, "layer_norm_eps", 1e-12))  # DistilBERT's configuration does not say
        self._first_position = model.first_position
        self._words, self._positions = self._place(weights.words), self._place(weights.positions)
        self._types = None if weights.types is None else self._place(weights.types)
        self._norm = Affine(weights.norm.weight.to(device), weights.norm.bias.to(device))
        self._project = make_product(*self._pair(weights.projection)) if weights.projection else None
        heads = int(config.num_attention_heads)
        self._head_width = self.hidden_size // heads
        self._blocks = [
            Block(block, heads, self._eps, activation(model), device, self._dtype)
            for block in weights.blocks
        ]

    @torch.inference_mode()
    def hidden_states(
        self, batch: Batch, layers: Collection[int], *, first_only: bool = False
    ) -> Iterator[HiddenState]:
        """Yield the wanted layers of a batch, ascending, and stop at the deepest.

        With ``first_only`` the deepest is computed, and given, for the first token of each sequence alone.

        Shape: ``[T, H]`` each, or ``[S, H]``; of the encoder's precision.
        """
        deepest = max(layers)
        hidden = self._embed(batch)
        if 0 in layers:
            yield HiddenState(0, hidden, firsts=False)
        attention = make_attention(batch.lengths, self.device, self._dtype, self._head_width)
        for layer in range(1, deepest + 1):
            block = self._blocks[layer - 1]
            if first_only and layer == deepest:
                starts = torch.from_numpy(batch.starts).to(self.device)
                yield HiddenState(layer, block.first(hidden, starts, attention), firsts=True)
                return
            hidden = block(hidden, attention)
            if layer in layers:
                yield HiddenState(layer, hidden, firsts=False)

    def _embed(self, batch: Batch) -> Tensor:
        summed = embedding(self._tensor(batch.ids), self._words).float()
        summed += embedding(self._tensor(self._position_ids(batch)), self._positions)
        if self._types is not None:
            summed += embedding(self._tensor(batch.types), self._types)
        normed = layer_norm(summed, summed.shape[-1:], self._norm.weight, self._norm.bias, self._eps).to(self._dtype)
        return normed if self._project is None else self._project(normed)

    def _position_ids(self, batch: Batch) -> NDArray[np.int64]:
        within = np.arange(len(batch.ids)) - np.repeat(batch.starts, batch.lengths)
        if self._first_position == 0:
            return within
        # RoBERTa counts over tokens that are not its padding token, which a text can spell out
        padding_id = self._first_position - 1
        padding = batch.ids == padding_id
        before = np.cumsum(padding) - padding
        before -= np.repeat(before[batch.starts], batch.lengths)
        return np.where(padding, padding_id, within - before + self._first_position)

    def _tensor(self, numbers: NDArray[np.integer]) -> Tensor:
        return torch.from_numpy(numbers.astype(np.int64, copy=False)).to(self.device, non_blocking=True)

    def _place(self, table: Tensor) -> Tensor:
        return table.to(self.device, self._dtype)

    def _pair(self, affine: Affine) -> tuple[Tensor, Tensor]:
        return self._place(affine.weight), self._place(affine.bias)


class Block:
    """One transformer block, its products packed and fused."""

    def __init__(
        self, weights: BlockWeights, heads: int, eps: float, activation: str, device: torch.device, dtype: torch.dtype
    ) -> None:
        self._heads, self._eps, self._activation = heads, eps, activation
        joined = [weights.query, weights.key, weights.value]
        self._weight = torch.cat([each.weight for each in joined]).to(device, dtype)
        self._bias = torch.cat([each.bias for each in joined]).to(device, dtype)
        self._qkv = make_product(self._weight, self._bias)
        self._out, self._up, self._down = (
            make_product(each.weight.to(device, dtype), each.bias.to(device, dtype))
            for each in (weights.attention_out, weights.up, weights.down)
        )
        self._attention_norm, self._out_norm = (
            Affine(each.weight.to(device, dtype), each.bias.to(device, dtype))
            for each in (weights.attention_norm, weights.out_norm)
        )

    def __call__(self, hidden: Tensor, attention: Attention) -> Tensor:
        """Compute the block. Shape: ``[T, H]`` → ``[T, H]``."""
        return self._after(attention(self._qkv(hidden), self._heads), hidden)

    def first(self, hidden: Tensor, starts: Tensor, attention: Attention) -> Tensor:
        """Compute the block for the first token of each sequence. Shape: ``[T, H]``, ``[S]`` → ``[S, H]``."""
        width = hidden.shape[1]
        residual = hidden.index_select(0, starts)
        query = torch.nn.functional.linear(residual, self._weight[:width], self._bias[:width])
        key_value = torch.nn.functional.linear(hidden, self._weight[width:], self._bias[width:])
        return self._after(attention.first(query, key_value, self._heads), residual)

    def _after(self, context: Tensor, residual: Tensor) -> Tensor:
        """What follows attention: output product, residual, norm, feed-forward, residual, norm."""
        attended = self._normed(self._out.added(context, residual), self._attention_norm)
        raised = self._up.activated(attended, self._activation)  # [T, I]
        return self._normed(self._down.added(raised, attended), self._out_norm)

    def _normed(self, summed: Tensor, norm: Affine) -> Tensor:
        return layer_norm(summed, summed.shape[-1:], norm.weight, norm.bias, self._eps)

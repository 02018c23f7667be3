"""The packed forward pass: the tokens of a batch side by side, ``[T, H]``, without padding.

BERT (Devlin et al. 2019), RoBERTa and XLM-R, DistilBERT, ELECTRA: post-layer-norm blocks, absolute positions.

Shapes: ``T`` tokens, ``S`` sequences, ``H`` hidden width, ``I`` intermediate width, ``L`` blocks.
"""

from collections.abc import Collection, Iterator
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding, layer_norm, linear

from bertfeat.encoder.attention import make_attention
from bertfeat.encoder.forks import tell_of_fork
from bertfeat.encoder.kernels import KernelPostAttention, find_post_attention_kernels
from bertfeat.encoder.linear import make_linear_product
from bertfeat.encoder.path import PACKED_SENTENCE, BatchForm, EncoderPath
from bertfeat.encoder.precision import Precision
from bertfeat.encoder.states import HiddenState
from bertfeat.encoder.transfer import move_to_device
from bertfeat.encoder.weights import Affine, BlockWeights, attention_heads, read_weights
from bertfeat.errors import ModelError
from bertfeat.io import stage
from bertfeat.models import Model
from bertfeat.tokens import TokenBatch


class PackedEncoder:
    """A frozen BERT-family encoder over packed tokens."""

    padded = False

    def __init__(self, model: Model, precision: Precision, device: torch.device) -> None:
        self._heads, weights = attention_heads(model), read_weights(model)
        self.num_layers, self.hidden_size = model.num_layers, model.hidden_size
        self.precision, self.device = precision, device
        self.path = EncoderPath(BatchForm.PACKED, PACKED_SENTENCE, model.notes)
        self._name, self._dtype = model.name, precision.dtype
        eps = model.sizes.layer_norm_eps
        self._eps = 1e-12 if eps is None else eps  # DistilBERT's configuration does not say
        self._first_position = model.first_position
        self._words, self._positions = self._place(weights.words), self._place(weights.positions)
        self._types = None if weights.types is None else self._place(weights.types)
        self._norm = Affine(weights.norm.weight.to(device), weights.norm.bias.to(device))
        self._project = make_linear_product(*self._pair(weights.projection)) if weights.projection else None
        self._blocks = [
            TransformerBlock(block, self._eps, model.config.activation, device, self._dtype) for block in weights.blocks
        ]

    @torch.inference_mode()
    def hidden_states(
        self, batch: TokenBatch, layers: Collection[int], *, first_token_only: bool = False
    ) -> Iterator[HiddenState]:
        """Yield the chosen layers of a batch, ascending, and stop at the deepest.

        With ``first_token_only`` the deepest layer is computed and yielded for the first token of each sequence alone.

        Shape: ``[T, H]`` each, or ``[S, H]``; of the encoder's precision.
        """
        tell_of_fork()
        deepest, tokens = max(layers), len(batch.ids)
        with stage("embed"):
            hidden = self._embed(batch)
        if 0 in layers:
            yield HiddenState(0, hidden[:tokens], first_token_only=False)
        attention = make_attention(batch.lengths, self.device, self._dtype, self.hidden_size // self._heads)
        for layer in range(1, deepest + 1):
            block = self._blocks[layer - 1]
            if first_token_only and layer == deepest:
                with stage("QKV"):
                    residual = hidden.index_select(0, self._rows(batch.starts))
                    query, key_value = block.project_first_tokens(hidden, residual)
                with stage("attention"):
                    context = attention.for_first_tokens(query, key_value, self._heads)
                with stage("FFN"):
                    first_rows = block.post_attention(context, residual)
                yield HiddenState(layer, first_rows[: len(batch.starts)], first_token_only=True)
                return
            with stage("QKV"):
                qkv = block.project(hidden)
            with stage("attention"):
                context = attention(qkv, self._heads)
            with stage("FFN"):
                hidden = block.post_attention(context, hidden)
            if layer in layers:
                yield HiddenState(layer, hidden[:tokens], first_token_only=False)

    def _embed(self, batch: TokenBatch) -> Tensor:
        summed = embedding(self._rows(batch.ids), self._words).float()
        summed += embedding(self._rows(self._position_ids(batch)), self._positions)
        if self._types is not None:
            self._check_types(batch, len(self._types))
            summed += embedding(self._rows(batch.types), self._types)
        normed = layer_norm(summed, summed.shape[-1:], self._norm.weight, self._norm.bias, self._eps).to(self._dtype)
        return normed if self._project is None else self._project(normed)

    def _check_types(self, batch: TokenBatch, known: int) -> None:
        if (most := int(batch.types.max(initial=0))) >= known:
            raise ModelError(
                f"its tokenizer marks tokens as of segment {most}, and the model knows {known} (counted from 0); it "
                f"cannot read pairs of texts",
                where=self._name,
            )

    def _position_ids(self, batch: TokenBatch) -> NDArray[np.int64]:
        within = np.arange(len(batch.ids)) - np.repeat(batch.starts, batch.lengths)
        if self._first_position == 0:
            return within
        # RoBERTa counts over tokens that are not its padding token, which a text can spell out
        padding_id = self._first_position - 1
        padding = batch.ids == padding_id
        before = np.cumsum(padding) - padding
        before -= np.repeat(before[batch.starts], batch.lengths)
        return np.where(padding, padding_id, within - before + self._first_position)

    def _rows(self, numbers: NDArray[np.integer]) -> Tensor:
        """Numbers of rows, and on CPU zeros after them, up to a size that comes again in other batches."""
        size = usual_size(len(numbers)) if self.device.type == "cpu" else len(numbers)
        padded = np.zeros(size, np.int64)
        padded[: len(numbers)] = numbers
        return move_to_device(padded, self.device)

    def _place(self, table: Tensor) -> Tensor:
        return table.to(self.device, self._dtype)

    def _pair(self, affine: Affine) -> tuple[Tensor, Tensor]:
        return self._place(affine.weight), self._place(affine.bias)


def usual_size(rows: int) -> int:
    """Round a number of rows up, by a sixteenth or 15 at most, to one of few sizes.

    oneDNN writes a new program for each size that it meets, which in bf16 takes longer than running it.
    """
    step = max(16, 1 << max(0, rows.bit_length() - 5))
    return -(-rows // step) * step


class TransformerBlock:
    """One transformer block but for its attention."""

    def __init__(
        self, weights: BlockWeights, eps: float, activation: str, device: torch.device, dtype: torch.dtype
    ) -> None:
        joined = weights.query_key_value
        self._weight, self._bias = joined.weight.to(device, dtype), joined.bias.to(device, dtype)
        self._qkv = make_linear_product(self._weight, self._bias)
        inner, hidden = weights.up.weight.shape
        self.post_attention: PostAttention = (
            KernelPostAttention(weights, eps, activation, kernels)
            if (kernels := find_post_attention_kernels(device, dtype, hidden, inner))
            else TorchPostAttention(weights, eps, activation, device, dtype)
        )

    def project(self, hidden: Tensor) -> Tensor:
        """Compute queries, keys and values. Shape: ``[T, H]`` → ``[T, 3H]``."""
        return self._qkv(hidden)

    def project_first_tokens(self, hidden: Tensor, first_rows: Tensor) -> tuple[Tensor, Tensor]:
        """Compute queries of first tokens alone. Shape: ``[T, H]``, ``[S, H]`` → ``[S, H]``, ``[T, 2H]``."""
        width = hidden.shape[1]
        query = linear(first_rows, self._weight[:width], self._bias[:width])
        return query, linear(hidden, self._weight[width:], self._bias[width:])


class PostAttention(Protocol):
    """What follows attention: output product, residual, norm, feed-forward, residual, norm."""

    def __call__(self, context: Tensor, residual: Tensor) -> Tensor:
        """Compute. Shape: ``[T, H]``, ``[T, H]`` → ``[T, H]``."""


class TorchPostAttention:
    """What follows attention, by torch's operators, the products packed and fused."""

    def __init__(
        self, weights: BlockWeights, eps: float, activation: str, device: torch.device, dtype: torch.dtype
    ) -> None:
        self._eps, self._activation = eps, activation
        self._out, self._up, self._down = (
            make_linear_product(product.weight.to(device, dtype), product.bias.to(device, dtype))
            for product in (weights.attention_out, weights.up, weights.down)
        )
        self._attention_norm, self._out_norm = (
            Affine(norm.weight.to(device, dtype), norm.bias.to(device, dtype))
            for norm in (weights.attention_norm, weights.out_norm)
        )

    def __call__(self, context: Tensor, residual: Tensor) -> Tensor:
        """Compute. Shape: ``[T, H]``, ``[T, H]`` → ``[T, H]``."""
        attended = self._normed(self._out.plus_residual(context, residual), self._attention_norm)
        raised = self._up.with_activation(attended, self._activation)  # [T, I]
        return self._normed(self._down.plus_residual(raised, attended), self._out_norm)

    def _normed(self, summed: Tensor, norm: Affine) -> Tensor:
        return layer_norm(summed, summed.shape[-1:], norm.weight, norm.bias, self._eps)

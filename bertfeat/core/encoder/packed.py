"""The packed forward pass: the tokens of a batch side by side, ``[T, H]``, without padding.

For BERT (Devlin et al. 2019), RoBERTa and XLM-R, DistilBERT, ELECTRA and MPNet: post-layer-norm blocks, absolute
positions; in MPNet attention also has a bias by distance.

Shapes: ``T`` tokens, ``S`` sequences, ``H`` hidden width, ``I`` intermediate width, ``L`` blocks.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding, layer_norm

from bertfeat.core.encoder.attention import Attention, make_attention
from bertfeat.core.encoder.blocks import Block, FloatBlock
from bertfeat.core.encoder.forks import tell_of_fork
from bertfeat.core.encoder.int8 import Int8Block, calibration_batch, int8_note, largest_inputs
from bertfeat.core.encoder.linear import make_linear_product
from bertfeat.core.encoder.path import PACKED_SENTENCE, BatchForm, EncoderPath
from bertfeat.core.encoder.precision import Precision
from bertfeat.core.encoder.stack import EmbeddingTables, Stack, TokenRows, float_stack, int8_stack
from bertfeat.core.encoder.states import HiddenState
from bertfeat.core.encoder.transfer import move_to_device, usual_size
from bertfeat.core.encoder.unseen import UnseenTokens
from bertfeat.core.encoder.weights import Affine, EncoderWeights, attention_heads, read_weights
from bertfeat.core.models import Model
from bertfeat.core.recipe import BlockSite, Place
from bertfeat.core.tokens import TokenBatch
from bertfeat.errors import ModelError
from bertfeat.io import stage


class _Tokens(NamedTuple):
    """The tokens of a batch on the device, filled up with rows to a size that other batches have too."""

    ids: Tensor
    positions: Tensor
    types: Tensor
    starts: Tensor  # [S] rows of first tokens


class PackedEncoder:
    """A frozen BERT-family encoder over packed tokens."""

    padded = False

    def __init__(self, model: Model, precision: Precision, device: torch.device) -> None:
        self._heads, weights = attention_heads(model), read_weights(model)
        self.num_layers, self.hidden_size = model.num_layers, model.hidden_size
        self.precision, self.device = precision, device
        self._name, self._dtype = model.name, precision.dtype
        self._with_unseen = UnseenTokens(model, precision, device)
        eps = model.sizes.layer_norm_eps
        self._eps = 1e-12 if eps is None else eps
        self._first_position = model.first_position
        self._words, self._positions = self._place(weights.words), self._place(weights.positions)
        self._types = None if weights.types is None else self._place(weights.types)
        self._norm = Affine(weights.norm.weight.to(device), weights.norm.bias.to(device))
        projection = weights.projection and (
            self._place(weights.projection.weight),
            self._place(weights.projection.bias),
        )
        self._project = make_linear_product(*projection) if projection else None
        activation, self._bias = model.config.activation, weights.relative_bias
        self._blocks: Sequence[Block] = []
        self._stack = None
        if precision is not Precision.INT8:
            self._stack = float_stack(
                weights.blocks, self._eps, self._heads, activation, device, self._dtype, self._bias
            )
        if self._stack is None:
            self._blocks, self._stack = self._made_blocks(model, weights)
        self._tables = (
            EmbeddingTables(self._words, self._positions, self._types, self._norm, self._eps)
            if self._stack and self._project is None
            else None
        )
        self._attention_dtype = self._blocks[0].attention_dtype if self._blocks else self._dtype
        self.path = EncoderPath(
            BatchForm.PACKED,
            PACKED_SENTENCE,
            (*model.notes, *int8_note(precision, model.hidden_size, model.inner_size)),
            same_bytes=self._tables is not None,  # libraries' products round by the number of rows
        )

    @torch.inference_mode()
    def hidden_states(
        self, batch: TokenBatch, places: Collection[Place], *, first_token_only: bool = False
    ) -> Iterator[HiddenState]:
        """Yield the values of a batch at the chosen places, layer by layer, and stop at the deepest layer.

        With ``first_token_only`` the deepest layer is computed and yielded for the first token of each sequence only.

        Shape: ``[T, H]`` each, or ``[S, H]``; in the encoder's precision.
        """
        tell_of_fork()
        if batch.unseen is not None:
            yield from self._with_unseen(batch, places)
            return
        if self._stack:
            with stage("embed"):
                inputs = self._stack_inputs(batch)
            yield from self._stack(inputs, batch.lengths, places, first_token_only=first_token_only)
            return
        with stage("embed"):
            tokens = self._place_tokens(batch)
        attention = self._attention(batch.lengths)
        for state in self._states(tokens, attention, places, first_token_only=first_token_only):
            yield state.cut(len(batch.ids), len(batch.lengths))

    def _stack_inputs(self, batch: TokenBatch) -> Tensor | TokenRows:
        """The tokens, which the stack embeds; or their embeddings, where a projection follows (ELECTRA)."""
        if self._tables is None:
            return self._embed(self._place_tokens(batch))
        self._check_types(batch)
        return TokenRows(self._tables, batch.ids, batch.positions(self._first_position), batch.types)

    def _states(
        self, tokens: _Tokens, attention: Attention, places: Collection[Place], *, first_token_only: bool
    ) -> Iterator[HiddenState]:
        """Yield the chosen places, block by block, with the rows that fill the tokens up."""
        deepest = max(places).layer
        with stage("embed"):
            hidden = self._embed(tokens)
        if Place(0) in places:
            yield HiddenState(Place(0), hidden, first_token_only=False)
        for layer in range(1, deepest + 1):
            block = self._blocks[layer - 1]
            wanted = [place for place in sorted(places) if place.layer == layer]
            if first_token_only and layer == deepest:
                with stage("QKV"):
                    residual = hidden.index_select(0, tokens.starts)
                    query, key_value = block.project_first_tokens(hidden, residual)
                with stage("attention"):
                    context = attention.for_first_tokens(query, key_value, self._heads)
                with stage("FFN"):
                    values = _at_sites(block, context, residual, wanted)
                yield from (HiddenState(place, values[place.site], first_token_only=True) for place in wanted)
                return
            with stage("QKV"):
                qkv = block.project(hidden)
            with stage("attention"):
                context = attention(qkv, self._heads)
            with stage("FFN"):
                values = _at_sites(block, context, hidden, wanted)
            hidden = values[BlockSite.OUTPUT]
            yield from (HiddenState(place, values[place.site], first_token_only=False) for place in wanted)

    def _attention(self, lengths: NDArray[np.int64]) -> Attention:
        width = self.hidden_size // self._heads
        return make_attention(lengths, self.device, self._attention_dtype, width, self._bias)

    def _made_blocks(self, model: Model, weights: EncoderWeights) -> tuple[Sequence[Block], Stack | None]:
        """Make the blocks; and, for int8, the stack that computes all of them in one call, where there is one."""
        activation = model.config.activation
        if self.precision is not Precision.INT8:
            return [FloatBlock(each, self._eps, activation, self.device, self._dtype) for each in weights.blocks], None
        batch = calibration_batch(model)
        embedded = self._embed(self._place_tokens(batch))[: len(batch.ids)]
        largest = largest_inputs(
            weights.blocks, embedded, batch.lengths, self._heads, self._eps, activation, self._bias
        )
        blocks = [
            Int8Block(block, inputs, self._heads, self._eps, activation)
            for block, inputs in zip(weights.blocks, largest, strict=True)
        ]
        return blocks, int8_stack(blocks, self._heads, activation, self._bias)

    def _embed(self, tokens: _Tokens) -> Tensor:
        summed = embedding(tokens.ids, self._words).float()
        summed += embedding(tokens.positions, self._positions)
        if self._types is not None:
            summed += embedding(tokens.types, self._types)
        normed = layer_norm(summed, summed.shape[-1:], self._norm.weight, self._norm.bias, self._eps).to(self._dtype)
        return normed if self._project is None else self._project(normed)

    def _place_tokens(self, batch: TokenBatch) -> _Tokens:
        self._check_types(batch)
        numbers = (batch.ids, batch.positions(self._first_position), batch.types, batch.starts)
        return _Tokens(*(self._rows(each) for each in numbers))

    def _check_types(self, batch: TokenBatch) -> None:
        most = int(batch.types.max(initial=0))
        if self._types is not None and most >= len(self._types):
            raise ModelError(
                f"its tokenizer marks tokens as of segment {most}, and the model knows {len(self._types)} (counted "
                f"from 0); it cannot read pairs of texts",
                where=self._name,
            )

    def _rows(self, numbers: NDArray[np.integer]) -> Tensor:
        """Copy numbers to the device; on a CPU without a stack, fill them up with zeros to a usual size."""
        fills_up = self.device.type == "cpu" and self._stack is None
        size = usual_size(len(numbers)) if fills_up else len(numbers)
        padded = np.zeros(size, np.int64)
        padded[: len(numbers)] = numbers
        return move_to_device(padded, self.device)

    def _place(self, table: Tensor) -> Tensor:
        return table.to(self.device, self._dtype)


def _at_sites(block: Block, context: Tensor, residual: Tensor, places: Collection[Place]) -> dict[BlockSite, Tensor]:
    """The output of a block, and its values at the sites of some places."""
    within = [place.site for place in places if place.site is not BlockSite.OUTPUT]
    if not within:
        return {BlockSite.OUTPUT: block.post_attention(context, residual)}
    if not isinstance(block, FloatBlock):
        raise NotImplementedError("blocks of integers give whole layers only")
    return block.post_attention.at_sites(context, residual, within)

"""Tokenized documents → feature matrices: batches go through the encoder, and each layer is pooled as it comes.

Linear pooling commutes with concat, sum and mean of layers, so hidden states are pooled first and combined after.
No more of a batch is kept than the results need.

Shapes: ``T`` tokens of a batch, ``S`` segments of a batch (documents, tokens or words), ``W`` width of a column.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.encoder import Encoder, HiddenState, PendingCopy, is_out_of_memory, move_to_device
from bertfeat.errors import BertfeatError, parameter
from bertfeat.extraction.pooling import POOLING_METHODS
from bertfeat.io import stage
from bertfeat.recipe import FeatureColumn, Operation, Pooling, needed_layers
from bertfeat.tokens import (
    BatchGroups,
    TokenBatch,
    TokenizedDocuments,
    cut_batches,
    groups_in_batch,
)

DTYPES = {"float32": torch.float32, "float16": torch.float16}
BATCHES_BEHIND = {"cuda": 1}
"""Batches whose results are stored after the next was launched, so that the device need not wait for the processor."""


@dataclass(frozen=True, slots=True)
class FeatureMatrices:
    """The feature matrices of tokenized documents."""

    matrices: Mapping[str, NDArray[np.floating]]  # column name → [D, W], or [n, W] for tokens and words
    split_batches: int  # batches that were split because memory ran out
    computed_tokens: int  # tokens that went through the encoder, overlaps included
    padded_tokens: int  # padding that went through it too


def compute_features(
    encoder: Encoder,
    tokenized: TokenizedDocuments,
    columns: Sequence[FeatureColumn],
    *,
    batch_tokens: int,
    batch_size: int | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> FeatureMatrices:
    """Run every window through the encoder and fill the columns' matrices; ``on_batch`` gets each batch's tokens.

    Raises:
        BertfeatError: memory runs out even for a single window.
    """
    return _BatchPass(encoder, tokenized, columns).run(batch_tokens, batch_size, on_batch or (lambda _: None))


class _BatchPass:
    """One pass over the batches of a layout, and the results it fills."""

    def __init__(self, encoder: Encoder, tokenized: TokenizedDocuments, columns: Sequence[FeatureColumn]) -> None:
        self._encoder, self._layout, self._columns = encoder, tokenized.layout, columns
        self._layers = needed_layers(columns)
        poolings = {column.pooling for column in columns}
        self._groups = {pooling: POOLING_METHODS[pooling].groups_of(tokenized.layout) for pooling in poolings}
        self._shares = {
            pooling: 1.0 / np.maximum(self._groups[pooling].counts(), 1)
            for pooling in poolings
            if POOLING_METHODS[pooling].averaged
        }
        deepest = [column for column in columns if self._layers[-1] in column.recipe.layers]
        # the deepest layer's feed-forward is needed for one token a document if no pooling takes the others
        self._first_only = all(self._groups[column.pooling] is tokenized.layout.first_tokens for column in deepest)
        self._results = {column.name: self._new_result(column) for column in columns}
        self._copies: deque[list[tuple[FeatureColumn, Tensor, PendingCopy]]] = deque()  # with their rows of the result
        self._splits = self._tokens = self._padding = 0

    def run(self, batch_tokens: int, batch_size: int | None, on_batch: Callable[[int], None]) -> FeatureMatrices:
        """Run all batches and return the matrices."""
        padded = self._encoder.padded
        for batch in cut_batches(self._layout, batch_tokens, padded=padded, most=batch_size):
            self._run_or_halve(batch)
            self._tokens += len(batch.ids)
            self._padding += int(batch.lengths.max()) * len(batch.lengths) - len(batch.ids) if padded else 0
            on_batch(len(batch.ids))
        self._store_copies(behind=0)
        for column in self._columns:
            POOLING_METHODS[column.pooling].finish(self._results[column.name])
        matrices = {name: result.numpy() for name, result in self._results.items()}
        return FeatureMatrices(matrices, self._splits, self._tokens, self._padding)

    def _run_or_halve(self, batch: TokenBatch) -> None:
        """Run a batch, or its halves where memory runs out."""
        try:
            self._run_batch(batch)
        except (torch.OutOfMemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            if len(batch.windows) == 1:
                raise BertfeatError(
                    f"memory ran out for one window of {len(batch.ids)} tokens",
                    remedy=f"lower {parameter('max_length')}, choose a lower {parameter('precision')}, "
                    f"or free memory on {self._encoder.device}",
                ) from error
        else:  # not inside the try: a batch that is tried again must not be added twice
            self._store_copies(behind=BATCHES_BEHIND.get(self._encoder.device.type, 0))
            return
        if self._encoder.device.type == "cuda":
            torch.cuda.empty_cache()
        self._splits += 1
        for half in batch.halves(self._layout):
            self._run_or_halve(half)

    @torch.inference_mode()
    def _run_batch(self, batch: TokenBatch) -> None:
        segments = {
            pooling: _BatchSegments(groups_in_batch(groups, self._layout, batch), batch, self._encoder.device)
            for pooling, groups in self._groups.items()
        }
        batch_columns = [_BatchColumn(column, segments[column.pooling]) for column in self._columns]
        for state in self._encoder.hidden_states(batch, self._layers, first_token_only=self._first_only):
            with stage("pooling"):
                _add_layer(state, batch_columns, segments)
        # all results before any is stored: a batch that runs out of memory is run again in halves
        with stage("pooling"):
            self._copies.append(
                [(c.column, segments[c.column.pooling].targets, PendingCopy(c.result())) for c in batch_columns]
            )

    @torch.inference_mode()
    def _store_copies(self, behind: int) -> None:
        """Merge the batches that were copied from the device into the results, except the last ``behind``."""
        while len(self._copies) > behind:
            with stage("pooling"):
                for column, rows, copy in self._copies.popleft():
                    self._store(column, copy.values(), rows)

    def _store(self, column: FeatureColumn, values: Tensor, rows: Tensor) -> None:
        result = self._results[column.name]
        if column.pooling in self._shares:
            share = torch.from_numpy(self._shares[column.pooling][rows.numpy()]).float()
            values = values.float() * share[:, None]
        POOLING_METHODS[column.pooling].merge(result, rows, values.to(result.dtype))

    def _new_result(self, column: FeatureColumn) -> Tensor:
        rows = self._groups[column.pooling].size
        return POOLING_METHODS[column.pooling].new_result(rows, column.width, DTYPES[column.dtype])


class _BatchSegments:
    """The groups of tokens of one pooling in a batch, as tensors."""

    def __init__(self, groups: BatchGroups, batch: TokenBatch, device: torch.device) -> None:
        self.rows, self.offsets = move_to_device(groups.tokens, device), move_to_device(groups.offsets, device)
        self.targets = torch.from_numpy(groups.targets)
        # the rows' windows: where only the first token of each window was computed, these are its rows
        self.windows = move_to_device(np.searchsorted(batch.starts, groups.tokens), device)


class _BatchColumn:
    """One column of one batch, while its layers arrive."""

    def __init__(self, column: FeatureColumn, segments: _BatchSegments) -> None:
        self.column, self._segments = column, segments
        self._values: Tensor | None = None
        self._method = POOLING_METHODS[column.pooling]
        # the maximum of a sum is not the sum of maxima: such a column is summed token by token
        self.by_token = column.recipe.operation in (Operation.SUM, Operation.MEAN) and not column.pooling.linear

    def add(self, layer: int, reduced: Tensor) -> None:
        """Add one layer, reduced to segments or, if ``by_token``, as it is. Shape: ``[S, H]`` or ``[T, H]``."""
        recipe = self.column.recipe
        if recipe.operation is Operation.LAYER:
            self._values = reduced
        elif recipe.operation is Operation.CONCAT:
            width = reduced.shape[1]
            if self._values is None:
                # what is still to be divided stays exact
                exact = torch.float32 if self._method.averaged else DTYPES[self.column.dtype]
                self._values = reduced.new_empty(len(reduced), width * len(recipe.layers), dtype=exact)
            at = recipe.layers.index(layer) * width
            self._values[:, at : at + width] = reduced
        else:
            self._values = reduced.float() if self._values is None else self._values + reduced

    def result(self) -> Tensor:
        """The combined layers of each segment. Shape: ``[S, W]``."""
        assert self._values is not None
        values = self._values
        if self.column.recipe.operation is Operation.MEAN:
            values = values / len(self.column.recipe.layers)
        if self.by_token:
            values = self._method.reduce(values, self._segments.rows, self._segments.offsets)
        return values


def _add_layer(state: HiddenState, columns: Iterable[_BatchColumn], segments: Mapping[Pooling, _BatchSegments]) -> None:
    """Reduce one layer once for each pooling, and add it to the columns that contain it."""
    reduced: dict[Pooling, Tensor] = {}
    for column in columns:
        if state.layer not in column.column.recipe.layers:
            continue
        pooling = column.column.pooling
        if column.by_token:
            column.add(state.layer, state.values)
            continue
        if pooling not in reduced:
            groups = segments[pooling]
            rows = groups.windows if state.first_token_only else groups.rows
            reduced[pooling] = POOLING_METHODS[pooling].reduce(state.values, rows, groups.offsets)
        column.add(state.layer, reduced[pooling])

"""Tokenized documents → feature matrices: batches go through the encoder, and each layer is pooled as it comes.

Linear pooling commutes with concat, sum and mean of layers, so hidden states are pooled first and combined after.
No more of a batch is kept than the results need.

Shapes: ``T`` tokens of a batch, ``S`` segments of a batch (documents, tokens or words, or the part of one that lies in
one window), ``H`` hidden width, ``W`` width of a column, ``D`` documents, ``n`` tokens or words.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.core.encoder import Encoder, HiddenState, PendingCopy, is_out_of_memory, move_to_device
from bertfeat.core.extraction.pooling import GATHERING, POOLING_METHODS, PoolingMethod, methods_with, set_rows
from bertfeat.core.extraction.sentence_pooling import OwnModules
from bertfeat.core.recipe import FeatureColumn, Operation, Pooling, needed_layers, needed_places
from bertfeat.core.tokens import (
    BatchGroups,
    Layout,
    TokenBatch,
    TokenGroups,
    TokenizedDocuments,
    cut_batches,
    groups_in_batch,
    split_groups,
    windows_of_groups,
)
from bertfeat.errors import BertfeatError, parameter
from bertfeat.io import stage

DTYPES = {"float32": torch.float32, "float16": torch.float16, "int8": torch.float32}
"""The type of a column's matrix while it is computed, by the number type that is stored."""

BATCHES_BEHIND = {"cuda": 1}
"""By type of device: the batches whose results are stored only after the next one was launched, so that the device need
not wait for the processor."""


@dataclass(frozen=True, slots=True)
class FeatureMatrices:
    """The feature matrices of tokenized documents."""

    matrices: Mapping[str, NDArray[np.floating]]  # column name → [D, W], or [n, W] for tokens and words
    split_batches: int  # batches that were split because memory ran out


OnBatch = Callable[[int, int], None]
"""A function that gets the numbers of tokens and of padding of each batch that was computed."""


def compute_features(
    encoder: Encoder,
    tokenized: TokenizedDocuments,
    columns: Sequence[FeatureColumn],
    *,
    batch_tokens: int,
    batch_size: int | None = None,
    on_batch: OnBatch | None = None,
    own: OwnModules | None = None,
) -> FeatureMatrices:
    """Run every window that the columns read through the encoder, and fill their matrices.

    Tokens of overlapping windows count twice for ``on_batch``. ``own`` are the model's modules after its encoder, where
    a column is made by them.
    """
    return _BatchPass(encoder, tokenized, columns, own).run(batch_tokens, batch_size, on_batch or (lambda *_: None))


def windows_of_columns(layout: Layout, columns: Iterable[FeatureColumn]) -> NDArray[np.int64]:
    """The numbers of the windows that have a token in one of the columns' vectors."""
    poolings = dict.fromkeys(column.pooling for column in columns)
    return windows_of_groups((POOLING_METHODS[pooling].groups_of(layout) for pooling in poolings), layout)


class _BatchPass:
    """One pass over the batches of a layout, and the results it fills."""

    def __init__(
        self,
        encoder: Encoder,
        tokenized: TokenizedDocuments,
        columns: Sequence[FeatureColumn],
        own: OwnModules | None,
    ) -> None:
        self._encoder, self._layout, self._columns, self._own = encoder, tokenized.layout, columns, own
        self._methods = methods_with(None if own is None else own.method)
        self._places = needed_places(columns)
        self._ways: dict[_WayKey, _Way] = {}
        self._spread: dict[Pooling, TokenGroups] = {}  # rows with tokens in several windows that cannot be merged
        self._shares: dict[Pooling, NDArray[np.float64]] = {}
        for pooling in {column.pooling for column in columns}:
            self._add_ways(pooling)
        last = needed_layers(columns)[-1]
        deepest = [column for column in columns if last in column.recipe.layers]
        # if no pooling takes other tokens, the deepest layer's feed-forward is needed for first tokens only
        self._first_only = all(
            self._ways[column.pooling, False].groups is tokenized.layout.first_tokens for column in deepest
        )
        self._targets = [
            _Target(column, key, way.method, way.new_result(column, encoder.hidden_size))
            for column in columns
            for key, way in self._ways.items()
            if key[0] is column.pooling
        ]
        self._copies: deque[list[tuple[_Target, Tensor, PendingCopy]]] = deque()  # with their rows of the result
        self._splits = 0

    def run(self, batch_tokens: int, batch_size: int | None, on_batch: OnBatch) -> FeatureMatrices:
        """Run all batches and return the matrices."""
        padded, windows = self._encoder.padded, windows_of_columns(self._layout, self._columns)
        for batch in cut_batches(self._layout, batch_tokens, padded=padded, most=batch_size, windows=windows):
            self._run_or_halve(batch)
            padding = int(batch.lengths.max()) * len(batch.lengths) - len(batch.ids) if padded else 0
            on_batch(len(batch.ids), padding)
        self._store_copies(behind=0)
        results = {target.column.name: target.result for target in self._targets if not target.gathers}
        for target in self._targets:
            if target.gathers:
                self._reduce_gathered(target, results[target.column.name])
        for column in self._columns:
            self._methods[column.pooling].finish(results[column.name])
        matrices = {name: result.numpy() for name, result in results.items()}
        return FeatureMatrices(matrices, self._splits)

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
            key: _BatchSegments(groups_in_batch(way.groups, self._layout, batch), batch, self._encoder.device)
            for key, way in self._ways.items()
        }
        batch_columns = [_BatchColumn(target, segments[target.key], self._own) for target in self._targets]
        for state in self._encoder.hidden_states(batch, self._places, first_token_only=self._first_only):
            with stage("pooling"):
                _add_layer(state, batch_columns, segments)
        # all results before any is stored: a batch that runs out of memory is run again in halves
        with stage("pooling"):
            self._copies.append(
                [(c.target, segments[c.target.key].targets, PendingCopy(c.result())) for c in batch_columns]
            )

    @torch.inference_mode()
    def _store_copies(self, behind: int) -> None:
        """Merge the batches that were copied from the device into the results, except the last ``behind``."""
        while len(self._copies) > behind:
            with stage("pooling"):
                for target, rows, copy in self._copies.popleft():
                    self._store(target, copy.values(), rows)

    def _store(self, target: "_Target", values: Tensor, rows: Tensor) -> None:
        if target.column.pooling in self._shares and not target.gathers:
            share = torch.from_numpy(self._shares[target.column.pooling][rows.numpy()]).float()
            values = values.float() * share[:, None]
        merge = target.method.merge or set_rows  # rows that cannot be merged have one segment each here
        merge(target.result, rows, values.to(target.result.dtype))

    def _add_ways(self, pooling: Pooling) -> None:
        """Plan how a pooling's tokens become rows.

        Where windows cannot be merged, the tokens of rows that lie in several windows are gathered.
        """
        method = self._methods[pooling]
        groups = method.groups_of(self._layout)
        if method.averaged:
            self._shares[pooling] = 1.0 / np.maximum(groups.counts(), 1)
        if method.merge is None:
            groups, spread = split_groups(groups, self._layout)
            if len(spread.tokens):
                self._spread[pooling] = spread
                each = TokenGroups(spread.tokens, np.arange(len(spread.tokens), dtype=np.int32), len(spread.tokens))
                self._ways[pooling, True] = _Way(each, GATHERING)
        self._ways[pooling, False] = _Way(groups, method)

    def _reduce_gathered(self, target: "_Target", result: Tensor) -> None:
        """Reduce the gathered tokens of rows that lie in several windows; concatenated layers each by itself."""
        column, spread = target.column, self._spread[target.column.pooling]
        rows, begins = np.unique(spread.targets, return_index=True)
        picked, offsets = torch.arange(len(spread.tokens)), torch.from_numpy(begins)
        layers, method = column.recipe.width(1), self._methods[column.pooling]
        values = torch.cat(
            [method.reduce(layer, picked, offsets) for layer in target.result.chunk(layers, dim=1)], dim=1
        )
        whole = replace(target, key=(column.pooling, False), method=method, result=result)
        self._store(whole, values, torch.from_numpy(rows.astype(np.int64)))


_WayKey = tuple[Pooling, bool]  # the second: whether tokens are gathered as they are, and reduced at the end


@dataclass(frozen=True, slots=True)
class _Way:
    """The groups of tokens that go into each row of a result, and the functions that pool them."""

    groups: TokenGroups
    method: PoolingMethod

    def new_result(self, column: FeatureColumn, hidden_size: int) -> Tensor:
        if self.method is GATHERING:
            return self.method.new_result(self.groups.size, column.recipe.width(hidden_size), torch.float32)
        return self.method.new_result(self.groups.size, column.width, DTYPES[column.dtype])


@dataclass(frozen=True, slots=True)
class _Target:
    """The rows of one column, or the tokens that are gathered for some of them."""

    column: FeatureColumn
    key: _WayKey
    method: PoolingMethod
    result: Tensor

    @property
    def gathers(self) -> bool:
        return self.key[1]


class _BatchSegments:
    """The groups of tokens of one pooling in a batch, as tensors."""

    def __init__(self, groups: BatchGroups, batch: TokenBatch, device: torch.device) -> None:
        self.rows, self.offsets = move_to_device(groups.tokens, device), move_to_device(groups.offsets, device)
        self.targets = torch.from_numpy(groups.targets)
        # the rows' windows: where only the first token of each window was computed, these are its rows
        self.windows = move_to_device(np.searchsorted(batch.starts, groups.tokens), device)


class _BatchColumn:
    """One column of one batch, while its layers arrive."""

    def __init__(self, target: _Target, segments: _BatchSegments, own: OwnModules | None) -> None:
        self.target, self.column, self._segments, self._own = target, target.column, segments, own
        self._values: Tensor | None = None
        self._method, column = target.method, target.column
        # the maximum of a sum is not the sum of maxima: such a column is summed token by token
        self.by_token = column.recipe.operation in (Operation.SUM, Operation.MEAN) and not column.pooling.linear

    @property
    def _layer_weights(self) -> Sequence[float] | None:
        """The model's own weights of the layers, whose sum is 1; None where they are summed alike."""
        own = self._own if self.column.pooling is Pooling.SENTENCE else None
        return None if own is None else own.layer_weights

    def add(self, layer: int, reduced: Tensor) -> None:
        """Add one layer, reduced to segments or, if ``by_token``, as it is. Shape: ``[S, H]`` or ``[T, H]``."""
        recipe = self.column.recipe
        if recipe.operation in (Operation.LAYER, Operation.PROJECTION):
            self._values = reduced
        elif recipe.operation is Operation.CONCAT:
            width = reduced.shape[1]
            if self._values is None:
                # what is still to be divided or reduced stays exact
                divided = self._method.averaged or self.target.gathers
                exact = torch.float32 if divided else DTYPES[self.column.dtype]
                self._values = reduced.new_empty(len(reduced), width * len(recipe.layers), dtype=exact)
            at = recipe.layers.index(layer) * width
            self._values[:, at : at + width] = reduced
        elif (weights := self._layer_weights) is not None:
            weighted = reduced.float() * weights[recipe.layers.index(layer)]
            self._values = weighted if self._values is None else self._values + weighted
        else:
            self._values = reduced.float() if self._values is None else self._values + reduced

    def result(self) -> Tensor:
        """The combined layers of each segment. Shape: ``[S, W]``."""
        assert self._values is not None
        values = self._values
        if self.column.recipe.operation is Operation.MEAN and self._layer_weights is None:
            values = values / len(self.column.recipe.layers)
        if self.column.recipe.projected:
            assert self._own is not None
            values = self._own.project(values)
        if self.by_token:
            values = self._method.reduce(values, self._segments.rows, self._segments.offsets)
        return values


def _add_layer(state: HiddenState, columns: Iterable[_BatchColumn], segments: Mapping[_WayKey, _BatchSegments]) -> None:
    """Reduce one layer once for each way, and add it to the columns that contain it."""
    reduced: dict[_WayKey, Tensor] = {}
    for column in columns:
        if state.place not in column.column.recipe.places:
            continue
        key = column.target.key
        if column.by_token:
            column.add(state.place.layer, state.values)
            continue
        if key not in reduced:
            groups = segments[key]
            rows = groups.windows if state.first_token_only else groups.rows
            reduced[key] = column.target.method.reduce(state.values, rows, groups.offsets)
        column.add(state.place.layer, reduced[key])

"""Tokenized documents → feature matrices: batches through the encoder, pooled layer by layer, then combined.

Linear pooling commutes with concat, sum and mean of layers, so hidden states are pooled first and combined after;
what is kept of a batch is never more than the results need.

Shapes: ``T`` tokens of a batch, ``S`` segments of a batch (documents, tokens or words), ``W`` width of a column.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.encoder import Encoder, HiddenState, PendingCopy, is_out_of_memory, to_device
from bertfeat.errors import BertfeatError
from bertfeat.extraction.pooling import pick, segment_max, segment_sum
from bertfeat.io import stage
from bertfeat.recipe import FeatureColumn, Operation, Pooling, needed_layers
from bertfeat.tokens import Batch, BatchPicks, Layout, Picks, Tokenized, batch_picks, batches

DTYPES = {"float32": torch.float32, "float16": torch.float16}
BATCHES_BEHIND = {"cuda": 1}
"""Batches whose results are stored after the next was launched, so that the device need not wait for the processor."""
_REDUCTIONS: Mapping[Pooling, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    Pooling.MEAN: segment_sum,  # divided by the number of tokens at the end, over all windows
    Pooling.WORD: segment_sum,  # likewise by the number of pieces
    Pooling.MAX: segment_max,
    Pooling.CLS: lambda hidden, rows, _: pick(hidden, rows),
    Pooling.TOKEN: lambda hidden, rows, _: pick(hidden, rows),
}


@dataclass(frozen=True, slots=True)
class Computed:
    """The feature matrices of tokenized documents."""

    matrices: Mapping[str, NDArray[np.floating]]  # column name → [D, W], or [n, W] for tokens and words
    split_batches: int  # batches that were split because memory ran out
    computed_tokens: int  # tokens that went through the encoder, overlaps included
    padded_tokens: int  # and the padding that went with them


def compute(
    encoder: Encoder,
    tokenized: Tokenized,
    columns: Sequence[FeatureColumn],
    *,
    batch_tokens: int,
    batch_size: int | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> Computed:
    """Run every window through the encoder and fill the columns' matrices; ``on_batch`` is told each batch's tokens.

    Raises:
        BertfeatError: memory runs out even for a single window.
    """
    return _Run(encoder, tokenized, columns).all(batch_tokens, batch_size, on_batch or (lambda _: None))


class _Run:
    """One pass over the batches of a layout, and the results it fills."""

    def __init__(self, encoder: Encoder, tokenized: Tokenized, columns: Sequence[FeatureColumn]) -> None:
        self._encoder, self._layout, self._columns = encoder, tokenized.layout, columns
        self._layers = needed_layers(columns)
        deepest = [column for column in columns if self._layers[-1] in column.recipe.layers]
        # the deepest layer's feed-forward is needed for one token a document if nobody pools over the others
        self._first_only = all(column.pooling is Pooling.CLS for column in deepest)
        self._picks = {pooling: _picks(tokenized.layout, pooling) for pooling in {each.pooling for each in columns}}
        self._shares = {
            pooling: 1.0 / np.maximum(picks.counts(), 1)
            for pooling, picks in self._picks.items()
            if pooling in (Pooling.MEAN, Pooling.WORD)
        }
        self._results = {column.name: self._empty(column) for column in columns}
        self._landing: deque[list[tuple[FeatureColumn, Tensor, PendingCopy]]] = (
            deque()
        )  # with their rows in the results
        self._splits = self._tokens = self._padding = 0

    def all(self, batch_tokens: int, batch_size: int | None, on_batch: Callable[[int], None]) -> Computed:
        """Run all batches and give the matrices."""
        padded = self._encoder.padded
        for batch in batches(self._layout, batch_tokens, padded=padded, most=batch_size):
            self._with_memory(batch)
            self._tokens += len(batch.ids)
            self._padding += int(batch.lengths.max()) * len(batch.lengths) - len(batch.ids) if padded else 0
            on_batch(len(batch.ids))
        self._store_landed(behind=0)
        for column in self._columns:
            if column.pooling is Pooling.MAX:
                result = self._results[column.name]
                result[torch.isneginf(result)] = 0.0  # a document without a token that counts
        matrices = {name: result.numpy() for name, result in self._results.items()}
        return Computed(matrices, self._splits, self._tokens, self._padding)

    def _with_memory(self, batch: Batch) -> None:
        """Run a batch, or its halves where memory runs out."""
        try:
            self._run(batch)
        except (torch.OutOfMemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            if len(batch.windows) == 1:
                raise BertfeatError(
                    f"memory ran out for one window of {len(batch.ids)} tokens; lower --max-length, "
                    f"choose a lower --precision, or free memory on {self._encoder.device}"
                ) from error
        else:  # outside of what is tried again, lest a batch be added twice
            self._store_landed(behind=BATCHES_BEHIND.get(self._encoder.device.type, 0))
            return
        if self._encoder.device.type == "cuda":
            torch.cuda.empty_cache()
        self._splits += 1
        for half in batch.halves(self._layout):
            self._with_memory(half)

    @torch.inference_mode()
    def _run(self, batch: Batch) -> None:
        segments = {
            pooling: _Segments(batch_picks(picks, self._layout, batch), batch, self._encoder.device)
            for pooling, picks in self._picks.items()
        }
        sums = [_BatchColumn(column, segments[column.pooling]) for column in self._columns]
        for state in self._encoder.hidden_states(batch, self._layers, first_only=self._first_only):
            with stage("pooling"):
                _add(state, sums, segments)
        # all results before any is stored: a batch that memory failed is run again in halves
        with stage("pooling"):
            self._landing.append(
                [(each.column, segments[each.column.pooling].targets, PendingCopy(each.result())) for each in sums]
            )

    @torch.inference_mode()
    def _store_landed(self, behind: int) -> None:
        """Store the results that are on their way, but for those of the last batches."""
        while len(self._landing) > behind:
            with stage("pooling"):
                for column, targets, landing in self._landing.popleft():
                    self._store(column, landing.values(), targets)

    def _store(self, column: FeatureColumn, values: Tensor, targets: Tensor) -> None:
        result = self._results[column.name]
        if column.pooling in self._shares:
            share = torch.from_numpy(self._shares[column.pooling][targets.numpy()]).float()
            # added, since a document or word may have its tokens in several windows
            result.index_add_(0, targets, (values.float() * share[:, None]).to(result.dtype))
        elif column.pooling is Pooling.MAX:
            # index_reduce_ says the same, and warns that it is in beta
            result.scatter_reduce_(0, targets[:, None].expand_as(values), values.float(), "amax")
        else:
            result.index_copy_(0, targets, values.to(result.dtype))

    def _empty(self, column: FeatureColumn) -> Tensor:
        result = torch.empty((self._picks[column.pooling].size, column.width), dtype=DTYPES[column.dtype])
        if column.pooling is Pooling.TOKEN:  # every token is stored, once
            return result
        return result.fill_(-torch.inf if column.pooling is Pooling.MAX else 0.0)


class _Segments:
    """The picks of a batch as tensors, and the reduced layer that several columns share."""

    def __init__(self, picks: BatchPicks, batch: Batch, device: torch.device) -> None:
        self.rows, self.offsets = to_device(picks.rows, device), to_device(picks.offsets, device)
        self.targets = torch.from_numpy(picks.targets)
        # the rows' windows: where only the first token of each window was computed, these are its rows
        self.windows = to_device(np.searchsorted(batch.starts, picks.rows), device)


class _BatchColumn:
    """One column of one batch, while its layers arrive."""

    def __init__(self, column: FeatureColumn, segments: _Segments) -> None:
        self.column, self._segments = column, segments
        self._values: Tensor | None = None
        # the maximum of a sum is not the sum of maxima: such a column is summed token by token
        combined = column.recipe.operation in (Operation.SUM, Operation.MEAN)
        self.by_token = column.pooling is Pooling.MAX and combined

    def add(self, layer: int, reduced: Tensor) -> None:
        """Add one layer, reduced to segments or, if ``by_token``, as it is. Shape: ``[S, H]`` or ``[T, H]``."""
        recipe = self.column.recipe
        if recipe.operation is Operation.LAYER:
            self._values = reduced
        elif recipe.operation is Operation.CONCAT:
            width = reduced.shape[1]
            if self._values is None:
                exact = DTYPES[self.column.dtype] if self.column.pooling is Pooling.TOKEN else torch.float32
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
            values = segment_max(values.float(), self._segments.rows, self._segments.offsets)
        return values


def _add(state: HiddenState, columns: Iterable[_BatchColumn], segments: Mapping[Pooling, _Segments]) -> None:
    """Reduce one layer once for each pooling, and add it to the columns that contain it."""
    reduced: dict[Pooling, Tensor] = {}
    for each in columns:
        if state.layer not in each.column.recipe.layers:
            continue
        pooling = each.column.pooling
        if each.by_token:
            each.add(state.layer, state.values)
            continue
        if pooling not in reduced:
            picks = segments[pooling]
            rows = picks.windows if state.firsts else picks.rows
            values = state.values if pooling in (Pooling.TOKEN, Pooling.CLS) else state.values.float()
            reduced[pooling] = _REDUCTIONS[pooling](values, rows, picks.offsets)
        each.add(state.layer, reduced[pooling])


def _picks(layout: Layout, pooling: Pooling) -> Picks:
    picks = {
        Pooling.MEAN: layout.pooled,
        Pooling.MAX: layout.pooled,
        Pooling.CLS: layout.firsts,
        Pooling.TOKEN: layout.tokens,
        Pooling.WORD: layout.words,
    }[pooling]
    if picks is None:
        raise ValueError(f"the documents were tokenized without what {pooling} pooling needs")
    return picks

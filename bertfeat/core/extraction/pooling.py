"""The computation of each pooling: one table, and the functions on packed tokens that it is made of.

A batch holds the tokens of many documents side by side, without padding. Pooling has three steps: ``groups`` says which
tokens go into which row of the result, ``reduce`` makes one vector of the tokens of each segment (the part of one
result row that lies in one window), and ``merge`` puts the segments of a batch into the result.

The pooling ``sentence`` is made of a model's own modules, which :func:`methods_with` puts into the table
(:mod:`bertfeat.core.extraction.sentence_pooling`).

To add a pooling: a member of :class:`bertfeat.core.recipe.Pooling`, and an entry of :data:`POOLING_METHODS`. It needs
``merge`` only where the result for a whole text follows from those for its windows, as a sum or a maximum does; without
it (a median, say) all tokens of a text of several windows are gathered, and reduced together at the end of the part.

Shapes: ``T`` tokens of a batch, ``H`` hidden width, ``P`` picked tokens, ``S`` segments, ``R`` rows of the result,
``W`` width of a column.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag, pad

from bertfeat.core.recipe import Pooling
from bertfeat.core.tokens import Layout, TokenGroups
from bertfeat.io import use_huge_pages

# ── reduce: the tokens of a batch → one vector per segment ──────────────────────────────────────────────────


Reduce = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Makes one vector of the tokens of each segment: ``hidden [T, H]``, ``picked [P]``, ``offsets [S]`` → ``[S, W]``."""


def segment_sum(hidden: Tensor, picked: Tensor, offsets: Tensor) -> Tensor:
    """Sum the picked rows of each segment, in float32; an empty segment gives zeros.

    Shape: ``hidden [T, H]``, ``picked [P]`` row numbers, ``offsets [S]`` where each segment begins in ``picked`` →
    ``[S, H]``. A row's place in the sum depends on its own segment alone, so batch mates change nothing.
    """
    return embedding_bag(picked, hidden.float(), offsets, mode="sum")


def segment_extreme(hidden: Tensor, picked: Tensor, offsets: Tensor, *, which: Literal["max", "min"]) -> Tensor:
    """Take the largest or smallest value of each dimension over each segment, in float32; no segment may be empty.

    Shape: as :func:`segment_sum`.
    """
    if not len(offsets):  # segment_reduce refuses to reduce nothing
        return hidden.new_empty((0, hidden.shape[1]), dtype=torch.float32)
    lengths = torch.diff(pad(offsets, (0, 1), value=len(picked)))
    rows = torch.index_select(hidden.float(), 0, picked)
    # embedding_bag knows max too, but takes four times as long; "unsafe" leaves out checks that a GPU would wait for
    return torch.segment_reduce(rows, which, lengths=lengths, unsafe=True)


def select_rows(hidden: Tensor, picked: Tensor, _: Tensor) -> Tensor:
    """Take rows as they are, in their own dtype; a segment is one row.

    Shape: ``hidden [T, H]``, ``picked [S]`` → ``[S, H]``.
    """
    return torch.index_select(hidden, 0, picked)


# ── merge: the segments of a batch → rows of the result. Shapes: result [R, W], rows [S], segments [S, W] ───


def add_to_rows(result: Tensor, rows: Tensor, segments: Tensor) -> None:
    """Add each segment to its row: a document or word may have its tokens in several windows."""
    result.index_add_(0, rows, segments)


def keep_extreme(result: Tensor, rows: Tensor, segments: Tensor, *, which: Literal["amax", "amin"]) -> None:
    """Keep the larger or smaller value of each row and segment."""
    # index_reduce_ does the same, but warns that it is in beta
    result.scatter_reduce_(0, rows[:, None].expand_as(segments), segments, which)


def set_rows(result: Tensor, rows: Tensor, segments: Tensor) -> None:
    """Write each segment to its row, which has no other."""
    if result.shape[1] * result.element_size() % 8 == 0:  # eight bytes at a time take half the time of two
        result, segments = result.view(torch.int64), segments.contiguous().view(torch.int64)
    result.index_copy_(0, rows, segments)


# ── the table ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class PoolingMethod:
    """The functions that compute one pooling."""

    groups: Callable[[Layout], TokenGroups | None]  # which tokens go into which row; None if the layout lacks them
    reduce: Reduce  # of one layer, or of a sum of layers if not linear
    merge: Callable[[Tensor, Tensor, Tensor], None] | None = None  # None: windows cannot be merged
    averaged: bool = False  # whether a row is divided by its number of tokens
    initial: float | None = 0.0  # value of a row before any token; None where every row is set

    def groups_of(self, layout: Layout) -> TokenGroups:
        """The tokens of a layout that this pooling takes, by row of the result."""
        groups = self.groups(layout)
        if groups is None:
            raise ValueError("the documents were tokenized without what their pooling needs")
        return groups

    def new_result(self, rows: int, width: int, dtype: torch.dtype) -> Tensor:
        """Make the result, before any segment is merged. Shape: ``[rows, width]``."""
        result = torch.empty((rows, width), dtype=dtype)
        use_huge_pages(result.data_ptr(), result.nbytes)
        return result if self.initial is None else result.fill_(self.initial)

    def finish(self, result: Tensor) -> None:
        """Set rows without tokens to zero."""
        if self.initial is not None and math.isinf(self.initial):
            result[result == self.initial] = 0.0


def _unknown_modules(hidden: Tensor, picked: Tensor, offsets: Tensor) -> Tensor:
    raise ValueError("the model's own modules were not given")


GATHERING = PoolingMethod(lambda layout: layout.tokens, select_rows, set_rows, initial=None)
"""The method that keeps tokens as they are, for rows that are reduced at the end."""

POOLING_METHODS: Mapping[Pooling, PoolingMethod] = {
    Pooling.MEAN: PoolingMethod(lambda layout: layout.pooled, segment_sum, add_to_rows, averaged=True),
    Pooling.CLS: PoolingMethod(lambda layout: layout.first_tokens, select_rows, set_rows),
    Pooling.LAST: PoolingMethod(lambda layout: layout.last_tokens, select_rows, set_rows),
    Pooling.MAX: PoolingMethod(
        lambda layout: layout.pooled,
        partial(segment_extreme, which="max"),
        partial(keep_extreme, which="amax"),
        initial=-math.inf,
    ),
    Pooling.SENTENCE: PoolingMethod(lambda layout: layout.pooled, _unknown_modules),
    Pooling.TOKEN: PoolingMethod(lambda layout: layout.tokens, select_rows, set_rows, initial=None),
    Pooling.WORD: PoolingMethod(lambda layout: layout.words, segment_sum, add_to_rows, averaged=True),
}


def methods_with(sentence: PoolingMethod | None) -> Mapping[Pooling, PoolingMethod]:
    """The methods of all poolings, with that of a model's own modules."""
    return POOLING_METHODS if sentence is None else {**POOLING_METHODS, Pooling.SENTENCE: sentence}

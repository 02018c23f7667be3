"""Windows → batches of like length within a token budget, and the picks of each batch."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.tokens.layout import Int64s, Layout, Picks, ranges


@dataclass(frozen=True, slots=True)
class Batch:
    """Windows of like length side by side, without padding. Shapes: ``T`` tokens, ``S`` windows."""

    windows: Int64s  # [S] their numbers in the layout
    ids: NDArray[np.int32]  # [T]
    types: NDArray[np.int8]  # [T]
    lengths: Int64s  # [S] not ascending

    @property
    def starts(self) -> Int64s:
        """Row of each window's first token. Shape: ``[S]``."""
        return np.cumsum(self.lengths) - self.lengths

    def halves(self, layout: Layout) -> tuple["Batch", "Batch"]:
        """Split a batch of several windows in two, for when memory ran out."""
        middle = len(self.windows) // 2
        return _batch(layout, self.windows[:middle]), _batch(layout, self.windows[middle:])


@dataclass(frozen=True, slots=True)
class BatchPicks:
    """The picks of one batch, its rows counted from the batch's first token."""

    rows: Int64s  # [P]
    offsets: Int64s  # [S] where each segment begins in rows; a segment has at least one row
    targets: Int64s  # [S] result row of each segment


def batches(layout: Layout, budget: int, *, padded: bool, most: int | None = None) -> Iterator[Batch]:
    """Cut the windows, longest first, into batches of at most ``budget`` tokens, but at least one window.

    With ``padded`` every window of a batch counts as long as its longest; ``most`` limits the windows of a batch.
    """
    lengths = np.diff(layout.window_offsets)
    order = np.argsort(-lengths, kind="stable")
    begin, cost = 0, 0
    for at, length in enumerate(lengths[order].tolist()):
        cost += int(lengths[order[begin]]) if padded else length
        if at > begin and (cost > budget or at - begin == most):
            yield _batch(layout, order[begin:at])
            begin, cost = at, length
    if len(order):
        yield _batch(layout, order[begin:])


def _batch(layout: Layout, windows: Int64s) -> Batch:
    starts = layout.window_offsets[windows]
    lengths = layout.window_offsets[windows + 1] - starts
    rows = ranges(starts, lengths)
    return Batch(windows, layout.ids[rows], layout.types[rows], lengths)


def batch_picks(picks: Picks, layout: Layout, batch: Batch) -> BatchPicks:
    """Find the picks that fall into a batch's windows, one segment a result row and window."""
    # of the same type, lest all rows be copied for the comparison
    begins, ends = (
        np.searchsorted(picks.rows, layout.window_offsets[windows].astype(picks.rows.dtype))
        for windows in (batch.windows, batch.windows + 1)
    )
    counts = ends - begins
    at = ranges(begins, counts)
    shifts = np.repeat(batch.starts - layout.window_offsets[batch.windows], counts)
    rows = picks.rows[at].astype(np.int64) + shifts
    targets = picks.targets[at]
    # a new segment begins where the target changes; a document's windows may be neighbours in a batch
    window = np.repeat(np.arange(len(counts)), counts)
    change = np.ones(len(at), bool)
    change[1:] = (targets[1:] != targets[:-1]) | (window[1:] != window[:-1])
    offsets = np.flatnonzero(change)
    return BatchPicks(rows, offsets, targets[offsets].astype(np.int64))

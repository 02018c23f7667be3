"""Windows → batches of similar length within a token budget, and the token groups of each batch."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.core.tokens.layout import Layout, TokenGroups
from bertfeat.ragged import Int64s, offsets_of, ranges


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """Windows of similar length side by side, without padding. Shapes: ``T`` tokens, ``S`` windows."""

    windows: Int64s  # [S] their numbers in the layout
    ids: NDArray[np.int32]  # [T]
    types: NDArray[np.int8]  # [T]
    lengths: Int64s  # [S] the longest first
    unseen: Int64s | None = None  # [S] last tokens of each window that none of its tokens sees; None: there are none

    @property
    def starts(self) -> Int64s:
        """Position of each window's first token in the batch. Shape: ``[S]``."""
        return offsets_of(self.lengths)[:-1]

    def seen(self) -> NDArray[np.bool_]:
        """Whether the other tokens of its window see a token. Shape: ``[T]``."""
        if self.unseen is None:
            return np.ones(len(self.ids), bool)
        within = np.arange(len(self.ids)) - np.repeat(self.starts, self.lengths)
        return within < np.repeat(self.lengths - self.unseen, self.lengths)

    def positions(self, first: int) -> NDArray[np.int64]:
        """Number of each token's position in its window, from ``first`` on. Shape: ``[T]``.

        RoBERTa and its kin count from the number after the id of their padding token, and over all tokens but that one.
        A text can spell out the padding token; the position of such a token is its id.
        """
        within = np.arange(len(self.ids)) - np.repeat(self.starts, self.lengths)
        if first == 0:
            return within
        padding_id = first - 1
        padding = self.ids == padding_id
        before = np.cumsum(padding) - padding
        before -= np.repeat(before[np.minimum(self.starts, len(self.ids) - 1)], self.lengths)
        return np.where(padding, padding_id, within - before + first)

    def cut(self, at: Iterable[int]) -> list["TokenBatch"]:
        """Cut the batch before the windows of these places in it."""
        ends, tokens = [*map(int, at), len(self.lengths)], offsets_of(self.lengths)
        return [
            TokenBatch(
                self.windows[a:b],
                self.ids[tokens[a] : tokens[b]],
                self.types[tokens[a] : tokens[b]],
                self.lengths[a:b],
                None if self.unseen is None else self.unseen[a:b],
            )
            for a, b in zip([0, *ends[:-1]], ends, strict=True)
        ]

    def halves(self, layout: Layout) -> tuple["TokenBatch", "TokenBatch"]:
        """Split a batch of several windows in two, for when memory ran out."""
        middle = len(self.windows) // 2
        return _token_batch(layout, self.windows[:middle]), _token_batch(layout, self.windows[middle:])


@dataclass(frozen=True, slots=True)
class BatchGroups:
    """The token groups of one batch; positions are counted from the batch's first token.

    A segment is the part of one group that lies in one window.
    """

    tokens: Int64s  # [P] positions in the batch
    offsets: Int64s  # [S] where each segment begins in tokens; a segment has at least one token
    targets: Int64s  # [S] result row of each segment


def cut_batches(
    layout: Layout, budget: int, *, padded: bool, most: int | None = None, windows: Int64s | None = None
) -> Iterator[TokenBatch]:
    """Cut the windows, longest first, into batches of at most ``budget`` tokens, but at least one window.

    With ``padded`` every window of a batch counts as long as its longest; ``most`` limits the windows of a batch.
    ``windows`` are the numbers of those to take; None means all.
    """
    lengths = np.diff(layout.window_offsets)
    taken = np.arange(len(lengths)) if windows is None else windows
    order = taken[np.argsort(-lengths[taken], kind="stable")]
    begin, cost = 0, 0
    for at, length in enumerate(lengths[order].tolist()):
        cost += int(lengths[order[begin]]) if padded else length
        if at > begin and (cost > budget or at - begin == most):
            yield _token_batch(layout, order[begin:at])
            begin, cost = at, length
    if len(order):
        yield _token_batch(layout, order[begin:])


def _token_batch(layout: Layout, windows: Int64s) -> TokenBatch:
    starts = layout.window_offsets[windows]
    lengths = layout.window_offsets[windows + 1] - starts
    positions = ranges(starts, lengths)
    unseen = None if layout.unseen is None else layout.unseen[windows]
    return TokenBatch(windows, layout.ids[positions], layout.types[positions], lengths, unseen)


def windows_of_groups(groups: Iterable[TokenGroups], layout: Layout) -> Int64s:
    """The numbers of the windows that have a token in one of the groups."""
    read = np.zeros(len(layout.window_offsets) - 1, bool)
    for each in groups:
        read |= np.diff(np.searchsorted(each.tokens, layout.window_offsets.astype(each.tokens.dtype))) > 0
    return np.flatnonzero(read)


def split_groups(groups: TokenGroups, layout: Layout) -> tuple[TokenGroups, TokenGroups]:
    """Split groups into those that lie in one window, and those whose tokens lie in several."""
    window = np.searchsorted(layout.window_offsets, groups.tokens, side="right")
    goes_on = (groups.targets[1:] == groups.targets[:-1]) & (window[1:] != window[:-1])
    several = np.zeros(groups.size, bool)
    several[groups.targets[1:][goes_on]] = True
    chosen = several[groups.targets]
    return _choose_tokens(groups, ~chosen), _choose_tokens(groups, chosen)


def _choose_tokens(groups: TokenGroups, chosen: NDArray[np.bool_]) -> TokenGroups:
    return TokenGroups(groups.tokens[chosen], groups.targets[chosen], groups.size)


def groups_in_batch(groups: TokenGroups, layout: Layout, batch: TokenBatch) -> BatchGroups:
    """Find the tokens of the groups that fall into a batch's windows, one segment per result row and window."""
    # bounds of the same type as the positions: otherwise all of these would be copied for the comparison
    begins, ends = (
        np.searchsorted(groups.tokens, layout.window_offsets[windows].astype(groups.tokens.dtype))
        for windows in (batch.windows, batch.windows + 1)
    )
    counts = ends - begins
    at = ranges(begins, counts)
    shifts = np.repeat(batch.starts - layout.window_offsets[batch.windows], counts)
    tokens = groups.tokens[at].astype(np.int64) + shifts
    targets = groups.targets[at]
    # a new segment begins where the target changes; a document's windows may be neighbors in a batch
    window = np.repeat(np.arange(len(counts)), counts)
    change = np.ones(len(at), bool)
    change[1:] = (targets[1:] != targets[:-1]) | (window[1:] != window[:-1])
    offsets = np.flatnonzero(change)
    return BatchGroups(tokens, offsets, targets[offsets].astype(np.int64))

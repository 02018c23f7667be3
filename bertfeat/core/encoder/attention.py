"""Self-attention over packed sequences: our own kernel on CPU, Flash Attention 2 on CUDA, or else torch's
attention over groups of similar length.

Shapes: ``T`` tokens of a batch, ``S`` sequences, ``A`` heads, ``d`` head width, ``H = A·d``.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from bertfeat.core.encoder.kernels import TYPES, AttentionStruct, Kernels, find_attention_kernels
from bertfeat.core.encoder.transfer import move_to_device
from bertfeat.ragged import offsets_of

STEP = 16  # CPU attention takes half the time for lengths that are multiples of this


class Attention(Protocol):
    """Attention among the tokens of each sequence of one batch; on CPU, zeros for rows after the last sequence."""

    def __call__(self, qkv: Tensor, heads: int) -> Tensor:
        """Attend. Shape: ``qkv [T, 3H]`` → ``[T, H]``."""

    def for_first_tokens(self, query: Tensor, key_value: Tensor, heads: int) -> Tensor:
        """Attend for the first token of each sequence only. Shape: ``[S, H]``, ``[T, 2H]`` → ``[S, H]``."""


def make_attention(
    lengths: NDArray[np.int64], device: torch.device, dtype: torch.dtype, width: int, bias: Tensor | None = None
) -> Attention:
    """Choose the form of attention for one batch's sequences, which must be sorted by length.

    ``width`` is that of a head; ``bias`` is added to scores by distance, ``[A, 2F + 1]`` (:class:`KernelAttention`).
    """
    if kernels := find_attention_kernels(device, dtype, width):
        return KernelAttention(lengths, kernels, bias)
    if bias is None and has_flash_attention(device, dtype, width):
        bounds = offsets_of(lengths).astype(np.int32)
        return VarlenAttention(move_to_device(bounds, device), int(lengths.max()))
    return GroupedAttention(lengths, device, bias)


# ── our own kernel (CPU) ────────────────────────────────────────────────────────────────────────────────────


class KernelAttention:
    """Attention over sequences of any length side by side, without padding; batch mates change nothing.

    ``bias`` is added to scores, by head and by how far a key is from its query: ``[A, 2F + 1]`` in float32, from the
    key that stands F before the query to the one that stands F after it, where F is the largest distance.
    """

    def __init__(self, lengths: NDArray[np.int64], kernels: Kernels, bias: Tensor | None = None) -> None:
        self._kernels, self._bias = kernels, bias
        self._bounds = offsets_of(lengths)
        self._singles = np.arange(len(lengths) + 1, dtype=np.int64)
        self._longest = int(lengths.max(initial=0))

    def __call__(self, qkv: Tensor, heads: int) -> Tensor:
        """Attend. Shape: ``qkv [T, 3H]`` → ``[T, H]``."""
        query, key, value = qkv.view(len(qkv), 3, heads, qkv.shape[1] // (3 * heads)).unbind(1)
        return self._attend(query, key, value, self._bounds, self._plain(query))

    def for_first_tokens(self, query: Tensor, key_value: Tensor, heads: int) -> Tensor:
        """Attend for the first token of each sequence only. Shape: ``[S, H]``, ``[T, 2H]`` → ``[S, H]``."""
        key, value = key_value.view(len(key_value), 2, heads, key_value.shape[1] // (2 * heads)).unbind(1)
        asked = query.view(len(query), heads, query.shape[1] // heads)
        return self._attend(asked, key, value, self._singles, self._plain(asked))

    def of_heads(self, query: Tensor, key: Tensor, value: Tensor, scale: float, before: int, after: int) -> Tensor:
        """Attend to ``before`` and ``after`` keys around a query's own place; keys may have fewer heads than queries.

        Shape: ``[T, A, d]``, ``[T, A/G, d]``, ``[T, A/G, d]`` → ``[T, H]``, with ``G`` query heads per key head.
        """
        return self._attend(query, key, value, self._bounds, _Reach(scale, before, after))

    def _plain(self, query: Tensor) -> "_Reach":
        return _Reach(query.shape[2] ** -0.5, self._longest, self._longest)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, bounds: NDArray[np.int64], reach: "_Reach") -> Tensor:
        rows, heads, width = query.shape
        form = self._kernels.attention_form(query.dtype, width)
        out = torch.empty(rows, heads * width, dtype=query.dtype)
        out[bounds[-1] :] = 0  # rows after the last sequence, which fill a batch up to a usual size
        query, key, value = (each if each.stride(2) == 1 else each.contiguous() for each in (query, key, value))
        bias = None if self._bias is None else (self._bias / reach.scale).contiguous()  # before scores are scaled
        job = AttentionStruct(
            query=query.data_ptr(),
            key=key.data_ptr(),
            value=value.data_ptr(),
            out=out.data_ptr(),
            bias=None if bias is None else bias.data_ptr(),
            query_bounds=bounds.ctypes.data,
            key_bounds=self._bounds.ctypes.data,
            sequences=len(bounds) - 1,
            heads=heads,
            width=width,
            query_stride=query.stride(0),
            key_stride=key.stride(0),
            value_stride=value.stride(0),
            out_stride=out.stride(0),
            query_step=query.stride(1),
            key_step=key.stride(1),
            value_step=value.stride(1),
            group=heads // key.shape[1],
            before=reach.before,
            after=reach.after,
            farthest=0 if bias is None else bias.shape[1] // 2,
            out_tile=16 * out.stride(0),  # values from 16 rows to the next
            out_column=32,  # values from 32 values of a row to the next
            longest=self._longest,
            type=TYPES[query.dtype],
            form=form,
            scale=reach.scale,
        )
        self._kernels.call("bertfeat_attend", job)
        return out


class _Reach(NamedTuple):
    """The scale of scores, and the number of keys before and after its own that a query sees."""

    scale: float
    before: int
    after: int


# ── groups of like length ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _LengthGroup:
    """Neighboring sequences whose lengths round up to the same multiple of :data:`STEP`."""

    sequences: slice
    rows: slice  # their tokens
    number: int
    length: int  # padded
    spread: Tensor | None  # [number * length] row of each place; None where nothing is padded
    mask: Tensor | None  # [number, 1, 1, length] True where there is a token
    places: Tensor | None  # [tokens] place of each row


class GroupedAttention:
    """Attention group by group; a sequence is padded by its own length alone, so batch mates change nothing."""

    def __init__(self, lengths: NDArray[np.int64], device: torch.device, bias: Tensor | None = None) -> None:
        self._groups, self._bias = _group_by_length(lengths, device), bias
        self._sequences = len(lengths)

    def __call__(self, qkv: Tensor, heads: int) -> Tensor:
        """Attend. Shape: ``qkv [T, 3H]`` → ``[T, H]``."""
        hidden = qkv.shape[1] // 3
        context = qkv.new_zeros(qkv.shape[0], hidden)
        for group in self._groups:
            query, key, value = _split_heads(qkv, group, 3, heads)
            out = scaled_dot_product_attention(query, key, value, attn_mask=self._mask(group, query, group.length))
            flat = out.transpose(1, 2).reshape(-1, hidden)
            context[group.rows] = flat if group.places is None else flat.index_select(0, group.places)
        return context

    def for_first_tokens(self, query: Tensor, key_value: Tensor, heads: int) -> Tensor:
        """Attend for the first token of each sequence only. Shape: ``[S, H]``, ``[T, 2H]`` → ``[S, H]``."""
        context = torch.zeros_like(query)
        for group in self._groups:
            key, value = _split_heads(key_value, group, 2, heads)
            asked = query[group.sequences].view(group.number, heads, 1, -1)
            out = scaled_dot_product_attention(asked, key, value, attn_mask=self._mask(group, asked, 1))
            context[group.sequences] = out.reshape(group.number, -1)
        return context

    def _mask(self, group: _LengthGroup, query: Tensor, queries: int) -> Tensor | None:
        """The mask of the first queries of each sequence, or the bias that is added to their scores."""
        if self._bias is None:
            return group.mask
        apart = torch.arange(group.length)[None] - torch.arange(queries)[:, None]
        bias = self._bias[:, apart + self._bias.shape[1] // 2].to(query.device, query.dtype)  # [A, queries, length]
        return bias[None] if group.mask is None else bias.masked_fill(~group.mask, -torch.inf)


def _split_heads(packed: Tensor, group: _LengthGroup, parts: int, heads: int) -> tuple[Tensor, ...]:
    """Take a group's rows apart. Shape: ``[T, parts·H]`` → ``parts`` × ``[number, A, length, d]``."""
    rows = packed[group.rows] if group.spread is None else packed.index_select(0, group.spread)
    return rows.view(group.number, group.length, parts, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)


def _group_by_length(lengths: NDArray[np.int64], device: torch.device) -> list[_LengthGroup]:
    padded = -(-lengths // STEP) * STEP
    bounds = np.flatnonzero(np.diff(padded, prepend=-1, append=-1))
    rows = offsets_of(lengths)
    return [
        _make_group(slice(int(a), int(b)), slice(int(rows[a]), int(rows[b])), lengths[a:b], int(padded[a]), device)
        for a, b in pairwise(bounds)
        if padded[a]  # a text without tokens has nothing to attend to
    ]


def _make_group(
    sequences: slice, rows: slice, lengths: NDArray[np.int64], length: int, device: torch.device
) -> _LengthGroup:
    number = len(lengths)
    if (lengths == length).all():
        return _LengthGroup(sequences, rows, number, length, None, None, None)
    filled = np.arange(length) < lengths[:, None]  # [number, length]
    starts = rows.start + offsets_of(lengths)[:-1]
    spread = np.where(filled, starts[:, None] + np.arange(length), starts[:, None])
    return _LengthGroup(
        sequences,
        rows,
        number,
        length,
        move_to_device(spread.reshape(-1), device),
        move_to_device(filled[:, None, None, :], device),
        move_to_device(np.flatnonzero(filled), device),
    )


# ── Flash Attention over sequences of any length (CUDA) ─────────────────────────────────────────────────────


def has_flash_attention(device: torch.device, dtype: torch.dtype, width: int) -> bool:
    """Whether Flash Attention 2 serves the device, the format and the width of a head."""
    if device.type != "cuda" or dtype is torch.float32 or width > 256 or width % 8:
        return False
    return torch.cuda.get_device_capability(device) >= (8, 0)


def flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bounds: tuple[Tensor, Tensor],
    longest: tuple[int, int],
    *,
    scale: float | None = None,
    window: tuple[int, int] = (-1, -1),
) -> Tensor:
    """Attend within each sequence. Shape: ``[T, A, d]``, ``[U, B, d]``, ``[U, B, d]`` → ``[T, A, d]``.

    There are ``U`` keys with ``B`` heads. This calls the operator below
    :func:`torch.nn.attention.varlen.varlen_attn`, since the first call of that function takes some 4 seconds to import
    torch's compiler.

    Args:
        bounds: Where each sequence begins among the queries and among the keys, and the end of the last one.
        longest: The largest number of queries, and of keys, in a sequence.
        scale: Of scores; by default ``1 / sqrt(d)``.
        window: The number of keys that a query sees before and after its own place; -1 for all.
    """
    before, after = window
    arguments = (query, key, value, *bounds, *longest, 0.0, False, False)  # no dropout, not causal, no mask to debug
    out: Tensor = torch.ops.aten._flash_attention_forward(
        *arguments, scale=scale, window_size_left=before, window_size_right=after
    )[0]
    return out


class VarlenAttention:
    """Attention over sequences of any length side by side, without padding; rows after the last one are undefined."""

    def __init__(self, bounds: Tensor, longest: int) -> None:
        self._bounds, self._longest = bounds, longest
        self._singles = torch.arange(len(bounds), dtype=torch.int32, device=bounds.device)

    def __call__(self, qkv: Tensor, heads: int) -> Tensor:
        """Attend. Shape: ``qkv [T, 3H]`` → ``[T, H]``."""
        query, key, value = qkv.view(qkv.shape[0], 3, heads, -1).unbind(1)
        out = flash_attention(query, key, value, (self._bounds, self._bounds), (self._longest, self._longest))
        return out.reshape(qkv.shape[0], -1)

    def for_first_tokens(self, query: Tensor, key_value: Tensor, heads: int) -> Tensor:
        """Attend for the first token of each sequence only. Shape: ``[S, H]``, ``[T, 2H]`` → ``[S, H]``."""
        key, value = key_value.view(key_value.shape[0], 2, heads, -1).unbind(1)
        asked = query.view(query.shape[0], heads, -1)
        out = flash_attention(asked, key, value, (self._singles, self._bounds), (1, self._longest))
        return out.reshape(query.shape)

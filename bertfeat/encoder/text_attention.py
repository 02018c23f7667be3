"""Attention within each text of a packed batch, for model families other than BERT.

Grouped-query heads, sliding windows, causal masks, biases by distance, soft caps, attention sinks.
Three forms: our own kernel on CPUs, Flash Attention 2 on CUDA, and torch's products over texts of one
length at a time, for all other cases. In none of them does a text see others of its batch.

Shapes: ``T`` tokens of a batch, ``S`` texts of one length ``n``, ``A`` heads of queries, ``B`` of keys and values,
``d`` head width.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.encoder.attention import flash_attention, has_flash_attention
from bertfeat.encoder.kernels import KernelAttention, find_attention_kernels
from bertfeat.encoder.transfer import move_to_device

_SCORES = 1 << 24  # held in memory at once by torch's products


@dataclass(frozen=True, slots=True)
class AttentionTerms:
    """The terms of attention beside queries, keys and values: scale, window, bias, soft cap, sinks."""

    scale: float  # of scores
    before: int  # keys before a query's own place that it sees
    after: int  # keys after it
    bias: Tensor | None = None  # [A, 2F + 1] added to scores: from the key F before the query to the one F after it
    softcap: float | None = None  # the bound that scores approach
    sinks: Tensor | None = None  # [A] the score of a key without a value

    @property
    def plain(self) -> bool:
        """Whether there are only a scale and a window."""
        return self.bias is None and self.softcap is None and self.sinks is None


class TextAttention:
    """Attention within each text of one batch, whose tokens may be followed by padding rows."""

    def __init__(self, lengths: NDArray[np.int64], device: torch.device) -> None:
        self.lengths, self._device = lengths, device
        self.longest = int(lengths.max(initial=0))
        self._bounds = np.concatenate([[0], np.cumsum(lengths)])
        self._on_device: Tensor | None = None

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, terms: AttentionTerms) -> Tensor:
        """Attend. Shape: ``[T, A, d]``, ``[T, B, d]``, ``[T, B, e]`` → ``[T, A, e]``."""
        width = query.shape[2]
        if value.shape[2] == width and terms.softcap is None and terms.sinks is None:
            if kernels := find_attention_kernels(query.device, query.dtype, width):
                kernel = KernelAttention(self.lengths, kernels, terms.bias)
                mixed = kernel.of_heads(query, key, value, terms.scale, terms.before, terms.after)
                return mixed.view(query.shape)
            if terms.plain and has_flash_attention(query.device, query.dtype, width):
                return self._by_flash_attention(query, key, value, terms)
        return self._by_torch(query, key, value, terms)

    def _by_flash_attention(self, query: Tensor, key: Tensor, value: Tensor, terms: AttentionTerms) -> Tensor:
        if self._on_device is None:
            self._on_device = move_to_device(self._bounds.astype(np.int32), self._device)
        bounds, tokens = self._on_device, int(self._bounds[-1])
        before, after = (-1 if each >= self.longest - 1 else each for each in (terms.before, terms.after))
        out = torch.zeros_like(query)
        out[:tokens] = flash_attention(
            query[:tokens],
            key[:tokens],
            value[:tokens],
            (bounds, bounds),
            (self.longest, self.longest),
            scale=terms.scale,
            window=(before, after),
        )
        return out

    def _by_torch(self, query: Tensor, key: Tensor, value: Tensor, terms: AttentionTerms) -> Tensor:
        out = query.new_zeros(*query.shape[:2], value.shape[2])
        changes = np.flatnonzero(np.diff(self.lengths, prepend=-1, append=-1))
        for first, stop in pairwise(changes.tolist()):
            length, rows = int(self.lengths[first]), slice(int(self._bounds[first]), int(self._bounds[stop]))
            if length:
                own_query, own_key, own_value = (
                    each[rows].view(stop - first, length, *each.shape[1:]) for each in (query, key, value)
                )
                out[rows] = _attend_equal(own_query, own_key, own_value, terms).flatten(0, 1)
        return out


def _attend_equal(query: Tensor, key: Tensor, value: Tensor, terms: AttentionTerms) -> Tensor:
    """Attend in texts of one length, in blocks of queries. Shape: ``[S, n, A, d]``, … → ``[S, n, A, e]``."""
    texts, length, heads = query.shape[:3]
    group = heads // key.shape[2]
    query, key, value = (each.transpose(1, 2) for each in (query, key, value))  # [S, A, n, d]
    if group > 1:
        key, value = (each.repeat_interleave(group, 1) for each in (key, value))
    step = max(1, _SCORES // (texts * heads * length))
    mixed = []
    for first in range(0, length, step):
        stop = min(first + step, length)
        begin, end = max(0, first - terms.before), min(length, stop + terms.after)
        scores = (query[:, :, first:stop] @ key[:, :, begin:end].transpose(2, 3)).float() * terms.scale
        scores = _adjusted(scores, first, begin, terms)
        if terms.sinks is not None:
            sink = terms.sinks.float()[:, None, None].expand(texts, -1, stop - first, 1)
            weights = torch.cat([scores, sink], 3).softmax(3)[..., :-1]
        else:
            weights = scores.softmax(3)
        mixed.append(weights.to(value.dtype) @ value[:, :, begin:end])
    return torch.cat(mixed, 2).transpose(1, 2)


def _adjusted(scores: Tensor, first: int, begin: int, terms: AttentionTerms) -> Tensor:
    """Scores with cap, bias and window; the first is that of query ``first`` and key ``begin``."""
    if terms.softcap is not None:
        scores = torch.tanh(scores / terms.softcap) * terms.softcap
    queries, keys = scores.shape[2:]
    apart = torch.arange(begin, begin + keys, device=scores.device) - torch.arange(
        first, first + queries, device=scores.device
    ).unsqueeze(1)
    if terms.bias is not None:
        scores = scores + terms.bias[:, apart + terms.bias.shape[1] // 2]
    if terms.before >= first + queries - 1 and terms.after >= begin + keys - 1:
        return scores
    return scores.masked_fill((apart < -terms.before) | (apart > terms.after), -torch.inf)

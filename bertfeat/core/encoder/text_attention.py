"""Attention within each text of a packed batch, for the modules of transformers to call.

The texts of a batch go through such a module side by side, as one sequence without padding, and their positions begin
again at each text. transformers lets a program register the function that its modules call for attention, and the one
that makes their masks. The functions here attend text by text and fill no masks: from the rule by which the library
would fill a mask, they find how many keys before and after itself a token may see. Anything that a module asks for and
that is not known here raises :class:`NotPackable`; its texts then do not go side by side.

Known are grouped-query heads, sliding windows, causal masks, biases by distance, soft caps, attention sinks.
Attention has three forms: bertfeat's own kernel on CPUs, Flash Attention 2 on CUDA, and torch's products over texts of
one length at a time, for all other cases. In none of them does a text see others of its batch.

Shapes: ``T`` tokens of a batch, ``S`` texts of one length ``n``, ``A`` heads of queries, ``B`` of keys and values,
``d`` head width.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import pad

from bertfeat.core.encoder.attention import KernelAttention, flash_attention, has_flash_attention
from bertfeat.core.encoder.kernels import ATTENTION_STEP, find_attention_kernels
from bertfeat.core.encoder.transfer import move_to_device
from bertfeat.ragged import offsets_of

REGISTERED = "bertfeat_text_by_text"
"""The name of the attention function among those of transformers."""

_MaskRule = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""Whether a query sees a key, by the numbers of the sequence, the head, the query and the key; elementwise."""

_SCORES = 1 << 24  # scores that torch's products hold in memory at once

_WITHOUT_EFFECT = frozenset(
    {
        "cache_position",
        "deterministic",
        "dropout",  # there is none outside of training
        "is_causal",  # the mask's rule says it
        "output_attentions",
        "output_hidden_states",
        "position_ids",
        "return_dict",
        "sliding_window",  # the mask's rule says it
        "use_cache",
    }
)
"""Arguments of modules' calls that change nothing in the result."""


class NotPackable(Exception):
    """A module asks for something that packed attention does not know."""


class _SideBySide:
    """The texts of one forward pass, and the masks that were made in it."""

    def __init__(self, lengths: NDArray[np.int64], tokens: int, device: torch.device) -> None:
        self.attention = TextAttention(lengths, device)
        self._tokens = tokens
        longest = int(lengths.argmax())
        self._start = int(lengths[:longest].sum())
        self._reaches: list[tuple[Tensor, tuple[int, int]]] = []

    def make_mask(self, rule: _MaskRule, queries: int, keys: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """A mask that stands for its rule; its values mean nothing. Shape: ``[1, 1, T, T]``, one number expanded."""
        if (queries, keys) != (self._tokens, self._tokens):
            raise NotPackable(f"its mask is of {queries} by {keys} tokens, and the batch has {self._tokens}")
        mask = torch.zeros(1, dtype=dtype, device=device).expand(1, 1, queries, keys)
        self._reaches.append((mask, find_reach(rule, self._start, self.attention.longest, device)))
        return mask

    def reach_of(self, mask: Tensor | None) -> tuple[int, int]:
        """The number of keys before and after itself that a query sees."""
        if mask is None:  # every token, as in the library's own eager attention
            return self.attention.longest, self.attention.longest
        for made, reach in self._reaches:
            if made.data_ptr() == mask.data_ptr():
                return reach
        raise NotPackable("its masks are made by the module itself")


_current: ContextVar[_SideBySide] = ContextVar("texts side by side")


@contextmanager
def texts_side_by_side(lengths: NDArray[np.int64], tokens: int, device: torch.device) -> Iterator[None]:
    """Let modules that run in the block attend within texts of these lengths.

    ``tokens`` counts all rows of the batch, those that follow the texts too.
    """
    before = _current.set(_SideBySide(lengths, tokens, device))
    try:
        yield
    finally:
        _current.reset(before)


def register() -> None:
    """Register the functions for attention and masks with transformers."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(REGISTERED, _attend)
    AttentionMaskInterface.register(REGISTERED, _make_mask)


def find_reach(rule: _MaskRule, start: int, length: int, device: torch.device) -> tuple[int, int]:
    """Find how many keys before and after itself a query sees, among the tokens of one text that begins at ``start``.

    Raises:
        NotPackable: these numbers are not the same for all of its tokens, or the keys seen are not its neighbors.
    """
    if length == 0:
        return 0, 0
    places = torch.arange(start, start + length, device=device)
    first, last = places[:1].expand(length), places[-1:].expand(length)
    after_first, before_last = _sees(rule, first, places), _sees(rule, last, places)
    after, before = int(after_first.sum()) - 1, int(before_last.sum()) - 1
    contiguous = bool(after_first[: after + 1].all()) and bool(before_last[length - 1 - before :].all())
    if not contiguous or min(before, after) < 0:
        raise NotPackable("the tokens that a token sees are not neighbors of it")
    for distance in {before, before + 1, 1}:  # all of a diagonal of the mask must be seen, or none of it
        if 0 < distance < length:
            seen = _sees(rule, places[distance:], places[:-distance])
            _check_diagonal(seen, distance <= before)
    for distance in {after, after + 1, 1}:
        if 0 < distance < length:
            seen = _sees(rule, places[:-distance], places[distance:])
            _check_diagonal(seen, distance <= after)
    return before, after


def _check_diagonal(seen: Tensor, expected: bool) -> None:
    if not bool((seen if expected else ~seen).all()):
        raise NotPackable("how far a token sees depends on its place in the text")


def _sees(rule: _MaskRule, query: Tensor, key: Tensor) -> Tensor:
    zero = torch.zeros_like(query)
    return rule(zero, zero, query, key).to(torch.bool).expand(len(query))


# ── what modules call ───────────────────────────────────────────────────────────────────────────────────────


def _make_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int = 0,
    kv_offset: int = 0,
    *,
    mask_function: _MaskRule,
    attention_mask: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device,
    **_: object,
) -> Tensor:
    if batch_size != 1 or q_offset or kv_offset or attention_mask is not None:
        raise NotPackable("its masks are not those of one whole sequence")
    return _current.get().make_mask(mask_function, q_length, kv_length, dtype, torch.device(device))


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    **more: object,
) -> tuple[Tensor, None]:
    """Attend as a module asks. Shape: ``[1, A, T, d]``, ``[1, B, T, d]``, ``[1, B, T, e]`` → ``[1, T, A, e]``."""
    texts = _current.get()
    unknown = sorted(name for name, given in more.items() if given is not None and name not in _WITHOUT_EFFECT)
    if unknown:
        raise NotPackable(f"its attention has {', '.join(unknown)}, which packed attention does not know")
    if attention_mask is None and (more.get("is_causal") or getattr(module, "is_causal", False)):
        raise NotPackable("its attention is causal without a mask")
    if query.shape[0] != 1 or query.shape[2] != key.shape[2]:
        raise NotPackable("its queries are not those of one whole sequence")
    before, after = texts.reach_of(attention_mask)
    terms = AttentionTerms(
        scale=query.shape[3] ** -0.5 if scaling is None else float(scaling),
        before=before,
        after=after,
        bias=_bias_table(position_bias, texts.attention.longest),
        softcap=softcap,
        sinks=s_aux,
    )
    query, key, value = (each[0].transpose(0, 1) for each in (query, key, value))
    return texts.attention(query, key, value, terms)[None], None


# ── biases by distance (T5) ─────────────────────────────────────────────────────────────────────────────────


def make_biases_by_distance(module: nn.Module) -> None:
    """Let the attentions of a T5 compute their bias once for each distance, in a packed forward pass.

    By themselves they compute it for each pair of tokens of a batch, ``[1, A, T, T]``. Here they compute it for one
    query with as many keys before it as after it, which is all that a text of ``n`` tokens needs:
    ``[1, A, 1, 2n - 1]``, for the longest text.
    """
    for attention in module.modules():
        if isinstance(getattr(attention, "relative_attention_bias", None), nn.Embedding):
            attention.compute_bias = _by_distance(attention.compute_bias)  # type: ignore[assignment,arg-type]


def _by_distance(compute: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def by_distance(query_length: int, key_length: int, **more: object) -> Tensor:
        if (texts := _current.get(None)) is None:
            return compute(query_length, key_length, **more)
        farthest = max(0, texts.attention.longest - 1)
        return compute(1, 2 * farthest + 1, **{**more, "past_seen_tokens": farthest})

    return by_distance


def _bias_table(bias: Tensor | None, longest: int) -> Tensor | None:
    if bias is None:
        return None
    if bias.shape[0] != 1 or bias.shape[2:] != (1, 2 * max(0, longest - 1) + 1):
        raise NotPackable("its bias is not one by distance")
    return bias[0, :, 0].float().contiguous()


# ── attention text by text ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class AttentionTerms:
    """The terms of attention besides queries, keys and values: scale, window, bias, soft cap, sinks."""

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
        self._bounds = offsets_of(lengths)
        self._on_device: Tensor | None = None

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, terms: AttentionTerms) -> Tensor:
        """Attend. Shape: ``[T, A, d]``, ``[T, B, d]``, ``[T, B, e]`` → ``[T, A, e]``."""
        width = query.shape[2]
        if value.shape[2] == width and terms.softcap is None and terms.sinks is None:
            added = -width % ATTENTION_STEP  # zeros at the end of a head change neither scores nor other values
            if kernels := find_attention_kernels(query.device, query.dtype, width + added):
                if added:
                    query, key, value = (pad(each, (0, added)) for each in (query, key, value))
                kernel = KernelAttention(self.lengths, kernels, terms.bias)
                mixed = kernel.of_heads(query, key, value, terms.scale, terms.before, terms.after)
                return mixed.view(query.shape)[..., :width]
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
    """Apply soft cap, bias and window to scores, of which the first is that of query ``first`` and key ``begin``."""
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

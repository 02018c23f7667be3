"""The tokens of many documents side by side, each once, and the windows over them.

Shapes: ``D`` documents, ``M`` their tokens, ``W`` windows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from bertfeat.tokens.long_texts import split_texts
from bertfeat.tokens.sequences import NO_TOKENS, TokenSequence, TokenSettings, too_long_reason
from bertfeat.tokens.tokenizer import Tokenizer
from bertfeat.tokens.windows import LongTextPolicy, TextWindow, cut_windows
from bertfeat.words import CharSpans

Int64s = NDArray[np.int64]
Masks = NDArray[np.bool_]
Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True)
class WindowTable:
    """The windows over the bodies of all documents, in order; a body begins after its document's head."""

    document: Int64s  # [W]
    start: Int64s  # [W] first token of the body that is read
    stop: Int64s  # [W]
    take_start: Int64s  # [W] first token of the body whose features are taken from this window
    take_stop: Int64s  # [W]

    @classmethod
    def of_sequences(cls, sequences: Sequence[TokenSequence]) -> Self:
        """The windows of documents that were laid out one by one."""
        return cls(*_window_rows(enumerate(sequence.windows for sequence in sequences)).T)

    @classmethod
    def over_bodies(cls, documents: Int64s, bodies: Int64s, capacity: int) -> Self:
        """Cut the bodies of some documents, of ``bodies`` tokens each, into windows of at most ``capacity``."""
        long = bodies > capacity
        none = np.zeros(len(bodies), np.int64)
        one_each = np.stack([documents, none, bodies, none, bodies], axis=1)[~long]
        numbered = zip(documents[long].tolist(), bodies[long].tolist(), strict=True)
        several = _window_rows((document, cut_windows(body, capacity)) for document, body in numbered)
        rows = np.concatenate([one_each, several])
        return cls(*rows[np.argsort(rows[:, 0], kind="stable")].T)


@dataclass(frozen=True, slots=True)
class FlatTokens:
    """All documents' tokens, each once."""

    ids: NDArray[np.int32]  # [M]
    types: NDArray[np.int8]  # [M] segment ids
    special: Masks  # [M]
    segment: NDArray[np.int8]  # [M] 0 first text, 1 second
    own: Masks  # [M] not a prompt's or a neighbor's
    counted: Masks  # [M] own, or the prompt's, which counts for documents
    spans: CharSpans | None  # [M] character offsets, where they are needed
    lengths: Int64s  # [D]
    heads: Int64s  # [D] tokens before the body, which windows run over
    tails: Int64s  # [D] tokens after it
    windows: WindowTable
    truncated: NDArray[np.int32]  # [D] pieces cut off
    rejected: Mapping[int, str]  # document → why it cannot be embedded; it has neither tokens nor windows

    @property
    def offsets(self) -> Int64s:
        """The first token of each document, and the number of all. Shape: ``[D+1]``."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    @property
    def document(self) -> NDArray[np.int32]:
        """The document of each token. Shape: ``[M]``."""
        return np.repeat(np.arange(len(self.lengths), dtype=np.int32), self.lengths)

    @classmethod
    def of_sequences(cls, sequences: Sequence[TokenSequence]) -> Self:
        """Lay documents side by side that were made one by one."""
        chunks = [chunk for sequence in sequences for chunk in sequence.chunks]
        sizes = np.array([len(chunk.ids) for chunk in chunks], np.int64)
        return cls(
            ids=concatenate([chunk.ids for chunk in chunks], np.int32),
            types=concatenate([chunk.types for chunk in chunks], np.int8),
            special=np.repeat(np.array([chunk.special for chunk in chunks], bool), sizes),
            segment=np.repeat(np.array([chunk.segment for chunk in chunks], np.int8), sizes),
            own=_concatenate_masks([chunk.own for chunk in chunks], sizes),
            counted=_concatenate_masks([chunk.counted for chunk in chunks], sizes),
            spans=_concatenate_spans([chunk.spans for chunk in chunks]),
            lengths=np.array([sum(len(chunk.ids) for chunk in each.chunks) for each in sequences], np.int64),
            heads=np.array([each.head for each in sequences], np.int64),
            tails=np.array([len(each.chunks[-1].ids) if each.chunks else 0 for each in sequences], np.int64),
            windows=WindowTable.of_sequences(sequences),
            truncated=np.array([sequence.truncated for sequence in sequences], np.int32),
            rejected={at: sequence.rejected for at, sequence in enumerate(sequences) if sequence.rejected},
        )

    @classmethod
    def of_plain_texts(cls, texts: Sequence[str], tokenizer: Tokenizer, settings: TokenSettings) -> Self:
        """Lay out single texts all at once: without a prompt, neighbors, and offsets, so for document vectors only."""
        pieces, template = split_texts(tokenizer, texts, offsets=False), tokenizer.single
        capacity = settings.max_length - template.size
        sizes = np.fromiter((len(each.ids) for each in pieces), np.int64, len(pieces))
        excess = np.maximum(0, sizes - capacity)
        rejected = {} if template.size else dict.fromkeys(np.flatnonzero(sizes == 0).tolist(), NO_TOKENS)
        if settings.long is LongTextPolicy.ERROR:
            too_long = np.flatnonzero(excess).tolist()
            rejected |= {at: too_long_reason(int(sizes[at]) + template.size, settings.max_length) for at in too_long}
        truncated = excess if settings.long is LongTextPolicy.TRUNCATE else np.zeros_like(excess)
        read = np.ones(len(sizes), bool)
        read[list(rejected)] = False
        lengths = np.where(read, sizes - truncated + template.size, 0)
        bodies, stops = lengths[read] - template.size, np.cumsum(lengths)[read]
        head, tail = len(template.before), len(template.after)
        own_texts = ranges(stops - tail - bodies, bodies)
        ids, special = np.empty(int(lengths.sum()), np.int32), np.ones(int(lengths.sum()), bool)
        types = np.full(len(ids), template.text_types[0], np.int8)
        special[own_texts] = False
        ids[own_texts] = concatenate([each.ids for each in pieces], np.int32)[
            ranges((np.cumsum(sizes) - sizes)[read], bodies)
        ]
        for begins, tokens, kinds in (
            (stops - bodies - template.size, template.before, template.before_types),
            (stops - tail, template.after, template.after_types),
        ):
            places = begins[:, None] + np.arange(len(tokens))
            ids[places], types[places] = tokens, kinds
        return cls(
            ids=ids,
            types=types,
            special=special,
            segment=np.zeros(len(ids), np.int8),
            own=np.ones(len(ids), bool),
            counted=np.ones(len(ids), bool),
            spans=None,
            lengths=lengths,
            heads=np.full(len(lengths), head),
            tails=np.full(len(lengths), tail),
            windows=WindowTable.over_bodies(np.flatnonzero(read), bodies, capacity),
            truncated=truncated.astype(np.int32),
            rejected=rejected,
        )


def ranges(starts: Int64s, lengths: Int64s) -> Int64s:
    """Concatenate ranges of numbers. Shape: ``[R]``, ``[R]`` → ``[sum of lengths]``."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    shifts: Int64s = np.repeat(starts - (ends - lengths), lengths)
    return np.arange(total) + shifts


def concatenate(arrays: Sequence[NDArray[np.generic]], dtype: type[Scalar]) -> NDArray[Scalar]:
    """Concatenate arrays, none included, as of a type."""
    return np.concatenate(arrays).astype(dtype, copy=False) if arrays else np.zeros(0, dtype)


def _concatenate_masks(masks: Sequence[Masks | None], sizes: Int64s) -> Masks:
    """Concatenate masks, where None means that all are marked."""
    if all(mask is None for mask in masks):
        return np.ones(int(sizes.sum()), bool)
    return np.concatenate([np.ones(n, bool) if m is None else m for m, n in zip(masks, sizes.tolist(), strict=True)])


def _concatenate_spans(spans: Sequence[CharSpans | None]) -> CharSpans | None:
    """Concatenate offsets, if all have them."""
    known = [each for each in spans if each is not None]
    if len(known) < len(spans):
        return None
    start, end = [each.start for each in known], [each.end for each in known]
    return CharSpans(concatenate(start, np.int32), concatenate(end, np.int32))


def _window_rows(windows: Iterable[tuple[int, Sequence[TextWindow]]]) -> Int64s:
    """The windows of numbered documents. Shape: ``[W, 5]``."""
    rows = [(at, w.start, w.stop, w.take_start, w.take_stop) for at, some in windows for w in some]
    return np.array(rows, np.int64).reshape(-1, 5)

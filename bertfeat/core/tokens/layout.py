"""The layout of documents as windows of token ids in one array, and the tokens that make up each vector.

Shapes: ``D`` documents, ``W`` windows, ``M`` tokens of all documents (each once), ``N`` tokens of all windows
(``N > M`` where windows overlap or repeat a pair's first text), ``P`` tokens in groups.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from bertfeat.core.corpus import Document
from bertfeat.core.tokens.long_texts import split_texts
from bertfeat.core.tokens.sequences import (
    NO_TOKENS,
    Subword,
    TokenSequence,
    TokenSettings,
    build_sequences,
    too_long_reason,
)
from bertfeat.core.tokens.tokenizer import Tokenizer
from bertfeat.core.tokens.windows import LongTextPolicy, TextWindow, cut_windows
from bertfeat.core.words import CharSpans, align_each, locate_words, split_each, split_words
from bertfeat.ragged import Int64s, lengths_of, offsets_of, ranges

_Int32s = NDArray[np.int32]  # positions of tokens: half the memory of int64, and a part has fewer than 2³¹
_Masks = NDArray[np.bool_]
_Scalar = TypeVar("_Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True)
class TokenGroups:
    """The tokens of the windows that go into each row of a result: one group of tokens per row."""

    tokens: _Int32s  # [P] positions among the N tokens, ascending
    targets: _Int32s  # [P] result row of each token, non-decreasing
    size: int  # rows of the result

    def counts(self) -> Int64s:
        """Number of tokens of each result row. Shape: ``[size]``."""
        return np.bincount(self.targets, minlength=self.size)


@dataclass(frozen=True, slots=True)
class Layout:
    """The windows of many documents in one array; of each group below: row of the result ← its tokens."""

    ids: NDArray[np.int32]  # [N]
    types: NDArray[np.int8]  # [N] segment ids
    window_offsets: Int64s  # [W+1]
    unseen: Int64s | None  # [W] last tokens of each window that no token of it sees; None: there are none
    first_tokens: TokenGroups  # document ← its first token
    last_tokens: TokenGroups  # document ← its last token
    pooled: TokenGroups  # document ← the tokens of its mean and max
    unprompted: TokenGroups  # document ← these without a prompt's, and without the special ones before it
    tokens: TokenGroups | None  # stored token ← itself
    words: TokenGroups | None  # word ← its subwords, or the first or last of them


@dataclass(frozen=True, slots=True)
class TokenSpans:
    """The tokens or words whose features are stored, document by document."""

    offsets: Int64s  # [D+1]
    strings: list[str]  # [n]
    start: NDArray[np.int32]  # [n] character offsets in the text; zero-width for special tokens
    end: NDArray[np.int32]  # [n]
    segment: NDArray[np.int8]  # [n] 0 first text, 1 second
    aligned: NDArray[np.bool_] | None = None  # [n] words: whether the word has pieces and all of them were read
    places: NDArray[np.int32] | None = None  # [n] of chosen words: their numbers among all words of their text
    ids: NDArray[np.int32] | None = None  # [n] of tokens: their numbers in the vocabulary

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True)
class TokenizedDocuments:
    """Documents as windows of tokens, with their counts."""

    layout: Layout
    n_tokens: NDArray[np.int32]  # [D] tokens of the document and the special ones, each once
    n_unknown: NDArray[np.int32]  # [D] those of them that are the tokenizer's unknown token
    n_truncated: NDArray[np.int32]  # [D] pieces cut off
    rejected: Mapping[int, str]  # document → why it cannot be embedded; it has no windows
    tokens: TokenSpans | None
    words: TokenSpans | None


def tokenize(documents: Sequence[Document], tokenizer: Tokenizer, settings: TokenSettings) -> TokenizedDocuments:
    """Turn documents into windows of at most ``settings.max_length`` tokens; token ids are taken as they are.

    With ``long="error"`` a longer document is rejected; with ``long="window"``, a pair whose first text leaves no room
    for the second. A prompt that says in which role a model reads a text (:meth:`Tokenizer.in_role`) is no part of it.
    """
    if (in_role := tokenizer.in_role(settings.prompt)) is not None:
        tokenizer, settings = in_role, replace(settings, prompt="")
    if _are_plain(documents, tokenizer, settings):
        flat = _FlatTokens.of_plain_texts([document.text for document in documents], tokenizer, settings)
    else:
        flat = _FlatTokens.of_sequences(build_sequences(documents, tokenizer, settings))
    windows = _WindowLayout(flat)
    eligible = ~flat.special | settings.special_tokens
    pooled, stored = eligible & flat.counted, eligible & flat.own & ~np.isin(flat.ids, tokenizer.role.skipped)
    words = _WordLayout(documents, flat, settings) if settings.with_words else None
    embedded = np.flatnonzero(flat.lengths)  # the documents that are not rejected
    ends = (
        TokenGroups(windows.place(at[embedded]), embedded.astype(np.int32), len(documents))
        for at in (flat.offsets[:-1], flat.offsets[1:] - 1)
    )
    first_tokens, last_tokens = ends
    of_means = TokenGroups(windows.place(np.flatnonzero(pooled)), flat.document[pooled], len(documents))
    layout = Layout(
        ids=flat.ids[windows.source],
        types=flat.types[windows.source],
        window_offsets=windows.offsets,
        unseen=flat.unseen[flat.windows.document] if flat.unseen.any() else None,
        first_tokens=first_tokens,
        last_tokens=last_tokens,
        pooled=of_means,
        unprompted=of_means
        if not settings.prompt
        else _without_prompt(flat, eligible, windows, tokenizer, settings.prompt),
        tokens=windows.one_group_each(stored) if settings.with_tokens else None,
        words=TokenGroups(windows.place(words.tokens), words.targets, len(words.spans)) if words else None,
    )
    return TokenizedDocuments(
        layout=layout,
        n_tokens=_count(flat, flat.counted),
        n_unknown=_count(flat, flat.own & (flat.ids == tokenizer.unknown_id) & ~flat.special),
        n_truncated=flat.truncated,
        rejected=flat.rejected,
        tokens=_token_spans(flat, stored, tokenizer) if settings.with_tokens else None,
        words=words.spans if words else None,
    )


def _without_prompt(
    flat: "_FlatTokens", eligible: _Masks, windows: "_WindowLayout", tokenizer: Tokenizer, prompt: str
) -> TokenGroups:
    """The tokens of documents but the first ones: as many as the prompt alone has, with the special ones before it."""
    alone = len(tokenizer.single.before) + len(tokenizer.pieces([prompt], offsets=False).ids)
    leading = ranges(flat.offsets[:-1], np.minimum(flat.lengths, alone))
    counted = eligible & flat.counted
    counted[leading] = False
    return TokenGroups(windows.place(np.flatnonzero(counted)), flat.document[counted], len(flat.lengths))


def _are_plain(documents: Sequence[Document], tokenizer: Tokenizer, settings: TokenSettings) -> bool:
    """Whether all are single texts without a prompt, neighbors or filler, read in whole windows."""
    if settings.prompt or settings.left_words is not None or tokenizer.role.length:
        return False
    return not any(
        document.pair is not None or document.ids is not None or document.before or document.after
        for document in documents
    )


# ── all documents' tokens, each once ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _WindowTable:
    """The windows over the bodies of all documents, in order.

    A document's tokens are its head (special tokens, a pair's first text), its body, and its tail (special tokens).
    """

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
    def over_bodies(cls, documents: Int64s, bodies: Int64s, capacity: int, *, causal: bool) -> Self:
        """Cut the bodies of ``documents``, which have ``bodies`` tokens each, into windows of at most ``capacity``."""
        long = bodies > capacity
        zeros = np.zeros(len(bodies), np.int64)
        one_each = np.stack([documents, zeros, bodies, zeros, bodies], axis=1)[~long]
        numbered = zip(documents[long].tolist(), bodies[long].tolist(), strict=True)
        several = _window_rows((document, cut_windows(body, capacity, causal=causal)) for document, body in numbered)
        rows = np.concatenate([one_each, several])
        return cls(*rows[np.argsort(rows[:, 0], kind="stable")].T)


@dataclass(frozen=True, slots=True)
class _ReadTexts:
    """The texts of all documents that are not rejected, and the pieces of each before anything was cut off."""

    document: Int64s  # [T]
    segment: NDArray[np.int8]  # [T] 0 first text, 1 second
    spans: CharSpans  # [P] character offsets of the pieces, text after text
    counts: Int64s  # [T] pieces of each text
    start: Int64s  # [T] first piece of the text that is read
    stop: Int64s  # [T]
    token: Int64s  # [T] number of that piece among all M tokens

    @classmethod
    def of_sequences(cls, sequences: Sequence[TokenSequence], offsets: Int64s) -> Self:
        """The texts of documents that were laid out one by one; ``offsets`` are the numbers of their first tokens."""
        rows = [
            # every other chunk of a sequence is a text
            (at, segment, *read, first + sum(len(chunk.ids) for chunk in sequence.chunks[: 2 * segment + 1]))
            for at, (sequence, first) in enumerate(zip(sequences, offsets[:-1].tolist(), strict=True))
            for segment, read in enumerate(sequence.read)
        ]
        document, segment, start, stop, token = np.array(rows, np.int64).reshape(-1, 5).T
        spans = [text for sequence in sequences for text in sequence.texts]
        counts = lengths_of(spans)
        return cls(document, segment.astype(np.int8), CharSpans.join(spans), counts, start, stop, token)


@dataclass(frozen=True, slots=True)
class _FlatTokens:
    """All documents' tokens, each once."""

    ids: NDArray[np.int32]  # [M]
    types: NDArray[np.int8]  # [M] segment ids
    special: _Masks  # [M]
    segment: NDArray[np.int8]  # [M] 0 first text, 1 second
    own: _Masks  # [M] not a prompt's or a neighbor's
    counted: _Masks  # [M] own, or the prompt's: the tokens of document vectors
    spans: CharSpans | None  # [M] character offsets, where they are needed
    texts: _ReadTexts | None  # where offsets are needed
    lengths: Int64s  # [D]
    heads: Int64s  # [D] tokens before the body, which windows run over
    tails: Int64s  # [D] tokens after it
    unseen: Int64s  # [D] of these, those that no token sees
    windows: _WindowTable
    truncated: NDArray[np.int32]  # [D] pieces cut off
    rejected: Mapping[int, str]  # document → why it cannot be embedded; it has neither tokens nor windows

    @property
    def offsets(self) -> Int64s:
        """The first token of each document, and the number of all. Shape: ``[D+1]``."""
        return offsets_of(self.lengths)

    @property
    def document(self) -> NDArray[np.int32]:
        """The document of each token. Shape: ``[M]``."""
        return np.repeat(np.arange(len(self.lengths), dtype=np.int32), self.lengths)

    @classmethod
    def of_sequences(cls, sequences: Sequence[TokenSequence]) -> Self:
        """Concatenate the tokens of documents that were laid out one by one."""
        chunks = [chunk for sequence in sequences for chunk in sequence.chunks]
        sizes = np.array([len(chunk.ids) for chunk in chunks], np.int64)
        lengths = np.array([sum(len(chunk.ids) for chunk in each.chunks) for each in sequences], np.int64)
        spans = [chunk.spans for chunk in chunks if chunk.spans is not None]
        known = len(spans) == len(chunks)
        return cls(
            ids=_concatenate([chunk.ids for chunk in chunks], np.int32),
            types=_concatenate([chunk.types for chunk in chunks], np.int8),
            special=_concatenate([np.broadcast_to(chunk.special, len(chunk.ids)) for chunk in chunks], np.bool_),
            segment=np.repeat(np.array([chunk.segment for chunk in chunks], np.int8), sizes),
            own=_concatenate_masks([chunk.own for chunk in chunks], sizes),
            counted=_concatenate_masks([chunk.counted for chunk in chunks], sizes),
            spans=CharSpans.join(spans) if known else None,
            texts=_ReadTexts.of_sequences(sequences, offsets_of(lengths)) if known else None,
            lengths=lengths,
            heads=np.array([each.head for each in sequences], np.int64),
            tails=np.array([len(each.chunks[-1].ids) if each.chunks else 0 for each in sequences], np.int64),
            unseen=np.array([sequence.unseen for sequence in sequences], np.int64),
            windows=_WindowTable.of_sequences(sequences),
            truncated=np.array([sequence.truncated for sequence in sequences], np.int32),
            rejected={at: sequence.rejected for at, sequence in enumerate(sequences) if sequence.rejected},
        )

    @classmethod
    def of_plain_texts(cls, texts: Sequence[str], tokenizer: Tokenizer, settings: TokenSettings) -> Self:
        """Lay out all single texts at once, without prompts or neighbors."""
        split = split_texts(tokenizer, texts, offsets=settings.with_tokens or settings.with_words)
        template, sizes = tokenizer.single, split.counts
        rejected, truncated = _reject_or_truncate(sizes, template.size, settings)
        cut_before = truncated * (settings.long is LongTextPolicy.TRUNCATE_LEFT)
        read = np.ones(len(sizes), bool)
        read[list(rejected)] = False
        lengths = np.where(read, sizes - truncated + template.size, 0)
        bodies, stops = lengths[read] - template.size, np.cumsum(lengths)[read]
        head, tail = len(template.before), len(template.after)
        text_tokens = ranges(stops - tail - bodies, bodies)  # where the texts' pieces go among all tokens
        pieces = ranges((split.starts + cut_before)[read], bodies)
        ids, special = np.empty(int(lengths.sum()), np.int32), np.ones(int(lengths.sum()), bool)
        types = np.full(len(ids), template.text_types[0], np.int8)
        special[text_tokens] = False
        ids[text_tokens] = split.ids[pieces]
        heads = (stops - bodies - template.size)[:, None] + np.arange(head)
        tails = (stops - tail)[:, None] + np.arange(tail)
        for places, tokens, kinds in (
            (heads, template.before, template.before_types),
            (tails, template.after, template.after_types),
        ):
            ids[places], types[places] = tokens, kinds
        spans, read_texts = None, None
        if split.spans is not None:
            spans = CharSpans(np.zeros(len(ids), np.int32), np.zeros(len(ids), np.int32))
            spans.start[text_tokens], spans.end[text_tokens] = split.spans.start[pieces], split.spans.end[pieces]
            characters = lengths_of(texts)[read]
            spans.start[tails] = spans.end[tails] = characters[:, None]
            read_texts = _ReadTexts(
                document=np.flatnonzero(read),
                segment=np.zeros(len(bodies), np.int8),
                spans=split.spans.take(np.repeat(read, sizes)),
                counts=sizes[read],
                start=cut_before[read],
                stop=cut_before[read] + bodies,
                token=stops - tail - bodies,
            )
        return cls(
            ids=ids,
            types=types,
            special=special,
            segment=np.zeros(len(ids), np.int8),
            own=np.ones(len(ids), bool),
            counted=np.ones(len(ids), bool),
            spans=spans,
            texts=read_texts,
            lengths=lengths,
            heads=np.full(len(lengths), head),
            tails=np.full(len(lengths), tail),
            unseen=np.zeros(len(lengths), np.int64),
            windows=_WindowTable.over_bodies(
                np.flatnonzero(read), bodies, settings.max_length - template.size, causal=settings.causal
            ),
            truncated=truncated.astype(np.int32),
            rejected=rejected,
        )


def _reject_or_truncate(sizes: Int64s, special: int, settings: TokenSettings) -> tuple[dict[int, str], Int64s]:
    """The texts that are rejected, with the reasons, and how many pieces of each text are cut.

    ``sizes [D]`` are their pieces, to which so many special tokens come.
    """
    rejected = {} if special else dict.fromkeys(np.flatnonzero(sizes == 0).tolist(), NO_TOKENS)
    excess = np.maximum(0, sizes + special - settings.max_length)
    if settings.long is LongTextPolicy.ERROR:
        too_long = np.flatnonzero(excess).tolist()
        rejected |= {at: too_long_reason(int(sizes[at]) + special, settings.max_length) for at in too_long}
    if settings.long in (LongTextPolicy.TRUNCATE, LongTextPolicy.TRUNCATE_LEFT):
        return rejected, excess
    return rejected, np.zeros_like(excess)


def _concatenate(arrays: Sequence[NDArray[np.generic]], dtype: type[_Scalar]) -> NDArray[_Scalar]:
    """Concatenate arrays into one of a type; of no arrays, into an empty one."""
    return np.concatenate(arrays).astype(dtype, copy=False) if arrays else np.zeros(0, dtype)


def _concatenate_masks(masks: Sequence[_Masks | None], sizes: Int64s) -> _Masks:
    """Concatenate masks; None stands for a mask that marks all."""
    if all(mask is None for mask in masks):
        return np.ones(int(sizes.sum()), bool)
    return np.concatenate([np.ones(n, bool) if m is None else m for m, n in zip(masks, sizes.tolist(), strict=True)])


def _window_rows(windows: Iterable[tuple[int, Sequence[TextWindow]]]) -> Int64s:
    """The windows of numbered documents, with the columns of :class:`_WindowTable`. Shape: ``[W, 5]``."""
    rows = [(at, w.start, w.stop, w.take_start, w.take_stop) for at, some in windows for w in some]
    return np.array(rows, np.int64).reshape(-1, 5)


# ── tokens and words in windows ─────────────────────────────────────────────────────────────────────────────


def _count(flat: _FlatTokens, marked: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Count the marked tokens of each document. Shape: ``[M]`` → ``[D]``."""
    return np.bincount(flat.document[marked], minlength=len(flat.lengths)).astype(np.int32)


def _token_spans(flat: _FlatTokens, stored: NDArray[np.bool_], tokenizer: Tokenizer) -> TokenSpans:
    """The stored tokens with their offsets."""
    assert flat.spans is not None
    return TokenSpans(
        offsets=offsets_of(_count(flat, stored)),
        strings=tokenizer.strings(flat.ids[stored]),
        start=flat.spans.start[stored],
        end=flat.spans.end[stored],
        segment=flat.segment[stored],
        ids=flat.ids[stored],
    )


class _WindowLayout:
    """The windows over all documents, and from which window each token is taken."""

    def __init__(self, flat: _FlatTokens) -> None:
        windows, document = flat.windows, flat.windows.document
        heads, tails, ends = flat.heads[document], flat.tails[document], flat.offsets[1:][document]
        bodies = flat.offsets[:-1][document] + heads
        read = np.stack([heads, windows.stop - windows.start, tails], axis=1)  # [W, 3] tokens of head, body, tail
        starts = np.stack([bodies - heads, bodies + windows.start, ends - tails], axis=1)
        self.source = ranges(starts.ravel(), read.ravel()).astype(np.int32)  # [N] positions among the M tokens
        self.offsets: Int64s = offsets_of(read.sum(axis=1))
        # the head is taken from a document's first window, the tail from its last one
        first, last = (np.ones(len(document), bool) for _ in range(2))
        first[1:] = last[:-1] = document[1:] != document[:-1]
        begins = self.offsets[:-1]
        places = np.stack(
            [begins, begins + heads + windows.take_start - windows.start, self.offsets[1:] - tails], axis=1
        )
        taken = np.stack([heads * first, windows.take_stop - windows.take_start, tails * last], axis=1)
        self._taken = ranges(places.ravel(), taken.ravel()).astype(np.int32)  # [M] positions among the N tokens

    def place(self, tokens: Int64s) -> _Int32s:
        """Find where in the windows each token is taken from. Shape: ``[n]`` of the M tokens → ``[n]`` of the N."""
        return self._taken[tokens]

    def one_group_each(self, marked: NDArray[np.bool_]) -> TokenGroups:
        """Give every marked token a result row of its own."""
        at = np.flatnonzero(marked)
        return TokenGroups(self.place(at), np.arange(len(at), dtype=np.int32), len(at))


class _WordLayout:
    """The words of all documents and the tokens that give their vectors."""

    def __init__(self, documents: Sequence[Document], flat: _FlatTokens, settings: TokenSettings) -> None:
        texts = flat.texts
        assert texts is not None
        numbered = [*zip(texts.document.tolist(), texts.segment.tolist(), strict=True)]
        strings = [documents[at].pair or "" if segment else documents[at].text for at, segment in numbered]
        given = [None if segment else documents[at].words for at, segment in numbered]
        spans, counts, places = _find_words(strings, given, settings)
        first, stop = align_each(spans, counts, texts.spans, texts.counts)
        text = np.repeat(np.arange(len(strings)), counts)  # of each word
        begins = offsets_of(texts.counts)[:-1]
        start, end = (begins + texts.start)[text], (begins + texts.stop)[text]
        aligned = (stop > first) & (first >= start) & (stop <= end)
        self.spans = TokenSpans(
            offsets=offsets_of(np.bincount(texts.document, weights=counts, minlength=len(documents)).astype(np.int64)),
            strings=[
                strings[at][a:b]
                for at, a, b in zip(text.tolist(), spans.start.tolist(), spans.end.tolist(), strict=True)
            ],
            start=spans.start,
            end=spans.end,
            segment=texts.segment[text],
            aligned=aligned,
            places=places,
        )
        at = np.flatnonzero(aligned)
        first, stop = ((each - start + texts.token[text])[at] for each in (first, stop))
        if settings.subword is Subword.MEAN:
            self.tokens: Int64s = ranges(first, stop - first)
            self.targets: _Int32s = np.repeat(at.astype(np.int32), stop - first)
        else:
            self.tokens = first if settings.subword is Subword.FIRST else stop - 1
            self.targets = at.astype(np.int32)


def _find_words(
    texts: Sequence[str], given: Sequence[Sequence[str] | None], settings: TokenSettings
) -> tuple[CharSpans, Int64s, _Int32s | None]:
    """The words of texts that get vectors: their spans, how many each text has, and, if chosen, their numbers in it."""
    if all(words is None for words in given):
        spans, counts = split_each(texts, settings.words)
    else:
        each = [
            split_words(text, settings.words) if words is None else locate_words(words)
            for text, words in zip(texts, given, strict=True)
        ]
        spans, counts = CharSpans.join(each), lengths_of(each)
    if settings.only is None:
        return spans, counts, None
    chosen = [
        settings.only.places(text, own, settings.words) for text, own in zip(texts, spans.cut(counts), strict=True)
    ]
    places, chosen_counts = _concatenate(chosen, np.int32), lengths_of(chosen)
    return spans.take(places + np.repeat(offsets_of(counts)[:-1], chosen_counts)), chosen_counts, places

"""Documents → windows of token ids side by side, and which of their tokens make up which vector.

Shapes: ``D`` documents, ``W`` windows, ``M`` tokens of all documents (each once), ``N`` tokens of all windows
(``N > M`` where windows overlap or repeat a pair's first text), ``P`` tokens in groups.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bertfeat.corpus import Document
from bertfeat.tokens.sequences import Subword, TokenSequence, TokenSettings, build_sequences
from bertfeat.tokens.tokenizer import Tokenizer
from bertfeat.words import CharSpans, align_words, locate_words, split_words

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]  # positions of tokens: half the memory of int64, and a part has fewer than 2³¹
Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True)
class TokenGroups:
    """Which tokens of the windows go into which row of a result: one group of tokens a row."""

    tokens: Int32s  # [P] positions in N, ascending
    targets: Int32s  # [P] result row of each token, non-decreasing
    size: int  # rows of the result

    def counts(self) -> Int64s:
        """Number of tokens of each result row. Shape: ``[size]``."""
        return np.bincount(self.targets, minlength=self.size)


@dataclass(frozen=True, slots=True)
class Layout:
    """The windows of many documents side by side."""

    ids: NDArray[np.int32]  # [N]
    types: NDArray[np.int8]  # [N] segment ids
    window_offsets: Int64s  # [W+1]
    first_tokens: TokenGroups  # document ← its first token
    last_tokens: TokenGroups  # document ← its last token
    pooled: TokenGroups  # document ← the tokens of its mean and max
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

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True)
class TokenizedDocuments:
    """Documents as windows of tokens, with their counts."""

    layout: Layout
    n_tokens: NDArray[np.int32]  # [D] tokens of the document and the special ones, each once
    n_unknown: NDArray[np.int32]  # [D] of them the tokenizer's unknown token
    n_truncated: NDArray[np.int32]  # [D] pieces cut off
    rejected: Mapping[int, str]  # document → why it cannot be embedded; it has no windows
    tokens: TokenSpans | None
    words: TokenSpans | None


def tokenize(documents: Sequence[Document], tokenizer: Tokenizer, settings: TokenSettings) -> TokenizedDocuments:
    """Turn documents into windows of at most ``settings.max_length`` tokens.

    With ``long="error"`` a longer document is rejected; so is a pair whose first text leaves no room for the second.
    """
    sequences = build_sequences(documents, tokenizer, settings)
    flat = _FlatTokens(sequences)
    windows = _WindowLayout(sequences, flat)
    eligible = ~flat.special | settings.special_tokens
    pooled, stored = eligible & flat.counted, eligible & flat.own
    words = _WordLayout(documents, sequences, flat, settings.subword) if settings.with_words else None
    embedded = np.flatnonzero(flat.lengths)  # the documents that are not rejected
    ends = (
        TokenGroups(windows.place(at[embedded]), embedded.astype(np.int32), len(documents))
        for at in (flat.offsets[:-1], flat.offsets[1:] - 1)
    )
    first_tokens, last_tokens = ends
    layout = Layout(
        ids=flat.ids[windows.source],
        types=flat.types[windows.source],
        window_offsets=windows.offsets,
        first_tokens=first_tokens,
        last_tokens=last_tokens,
        pooled=TokenGroups(windows.place(np.flatnonzero(pooled)), flat.document[pooled], len(documents)),
        tokens=windows.one_group_each(stored) if settings.with_tokens else None,
        words=TokenGroups(windows.place(words.tokens), words.targets, len(words.spans)) if words else None,
    )
    return TokenizedDocuments(
        layout=layout,
        n_tokens=flat.count(flat.counted),
        n_unknown=flat.count(flat.own & (flat.ids == tokenizer.unknown_id) & ~flat.special),
        n_truncated=np.array([sequence.truncated for sequence in sequences], np.int32),
        rejected={at: sequence.rejected for at, sequence in enumerate(sequences) if sequence.rejected},
        tokens=flat.spans_of(stored, tokenizer) if settings.with_tokens else None,
        words=words.spans if words else None,
    )


class _FlatTokens:
    """All documents' tokens side by side, each once."""

    def __init__(self, sequences: Sequence[TokenSequence]) -> None:
        chunks = [chunk for sequence in sequences for chunk in sequence.chunks]
        sizes = np.array([len(chunk.ids) for chunk in chunks], np.int64)
        self.chunks = chunks
        self.ids = _concatenate([chunk.ids for chunk in chunks], np.int32)
        self.types = _concatenate([chunk.types for chunk in chunks], np.int8)
        self.special = np.repeat(np.array([chunk.special for chunk in chunks], bool), sizes)
        self.segment = np.repeat(np.array([chunk.segment for chunk in chunks], np.int8), sizes)
        self.own = _concatenate_masks([chunk.own for chunk in chunks], sizes)
        # a prompt counts for documents, a neighbouring sentence does not
        self.counted = _concatenate_masks([chunk.counted for chunk in chunks], sizes)
        self.lengths = np.array([sum(len(chunk.ids) for chunk in sequence.chunks) for sequence in sequences], np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        self.document = np.repeat(np.arange(len(sequences), dtype=np.int32), self.lengths)

    def count(self, mask: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Count the marked tokens of each document."""
        return np.bincount(self.document[mask], minlength=len(self.lengths)).astype(np.int32)

    def spans_of(self, stored: NDArray[np.bool_], tokenizer: Tokenizer) -> TokenSpans:
        """The stored tokens with their offsets."""
        spans = [chunk.spans for chunk in self.chunks if chunk.spans is not None]
        return TokenSpans(
            offsets=np.concatenate([[0], np.cumsum(self.count(stored), dtype=np.int64)]),
            strings=tokenizer.strings(self.ids[stored]),
            start=_concatenate([text.start for text in spans], np.int32)[stored],
            end=_concatenate([text.end for text in spans], np.int32)[stored],
            segment=self.segment[stored],
        )


class _WindowLayout:
    """The windows over all documents, and from which window each token is taken."""

    def __init__(self, sequences: Sequence[TokenSequence], flat: _FlatTokens) -> None:
        if all(len(sequence.windows) <= 1 for sequence in sequences):  # every document is one window
            self.source: Int32s = np.arange(len(flat.ids), dtype=np.int32)
            self.offsets = np.concatenate([[0], np.cumsum(flat.lengths[flat.lengths > 0])])
            self._taken = self.source
            return
        sources, masks = [], []
        for sequence, begin, end in zip(sequences, flat.offsets[:-1], flat.offsets[1:], strict=True):
            body, tail = begin + sequence.head, end - (len(sequence.chunks[-1].ids) if sequence.chunks else 0)
            for number, window in enumerate(sequence.windows):
                positions = np.r_[begin:body, body + window.start : body + window.stop, tail:end]
                sources.append(positions.astype(np.int32))
                mask = np.zeros(len(positions), bool)
                at = body - begin
                mask[at + window.take_start - window.start : at + window.take_stop - window.start] = True
                mask[:at] = number == 0
                mask[at + window.stop - window.start :] = number == len(sequence.windows) - 1
                masks.append(mask)
        self.source = _concatenate(sources, np.int32)
        self.offsets = np.concatenate([[0], np.cumsum([len(source) for source in sources], dtype=np.int64)])
        self._taken = np.flatnonzero(_concatenate(masks, np.bool_)).astype(np.int32)

    def place(self, tokens: Int64s) -> Int32s:
        """Find the position among all windows from which each token is taken. Shape: ``[n]`` in M → ``[n]`` in N."""
        return self._taken[tokens]

    def one_group_each(self, marked: NDArray[np.bool_]) -> TokenGroups:
        """Give every marked token a result row of its own."""
        at = np.flatnonzero(marked)
        return TokenGroups(self.place(at), np.arange(len(at), dtype=np.int32), len(at))


class _WordLayout:
    """The words of all documents and the tokens that give their vectors."""

    def __init__(
        self, documents: Sequence[Document], sequences: Sequence[TokenSequence], flat: _FlatTokens, subword: Subword
    ) -> None:
        by_document = [_words_of(document, sequence) for document, sequence in zip(documents, sequences, strict=True)]
        counts = np.array([sum(len(text.spans) for text in texts) for texts in by_document], np.int64)
        texts = [text for texts in by_document for text in texts]
        shift = np.repeat(flat.offsets[:-1], counts)
        first = _concatenate([text.first for text in texts], np.int64) + shift
        stop = _concatenate([text.stop for text in texts], np.int64) + shift
        aligned = _concatenate([text.aligned for text in texts], np.bool_)
        self.spans = TokenSpans(
            offsets=np.concatenate([[0], np.cumsum(counts)]),
            strings=[string for text in texts for string in text.strings],
            start=_concatenate([text.spans.start for text in texts], np.int32),
            end=_concatenate([text.spans.end for text in texts], np.int32),
            segment=np.repeat(np.array([t.segment for t in texts], np.int8), [len(t.spans) for t in texts]),
            aligned=aligned,
        )
        at = np.flatnonzero(aligned)
        if subword is Subword.MEAN:
            self.tokens: Int64s = ranges(first[at], stop[at] - first[at])
            self.targets: Int32s = np.repeat(at.astype(np.int32), stop[at] - first[at])
        else:
            self.tokens = first[at] if subword is Subword.FIRST else stop[at] - 1
            self.targets = at.astype(np.int32)


@dataclass(frozen=True, slots=True)
class _AlignedWords:
    """The words of one text of a document; ``first`` and ``stop`` count from the document's first token."""

    strings: Sequence[str]
    spans: CharSpans
    segment: int
    first: Int64s
    stop: Int64s
    aligned: NDArray[np.bool_]


def _words_of(document: Document, sequence: TokenSequence) -> list[_AlignedWords]:
    if sequence.rejected:
        return []
    result, at = [], 0
    texts = (document.text,) if document.pair is None else (document.text, document.pair)
    for segment, text in enumerate(texts):
        at += len(sequence.chunks[2 * segment].ids)  # the special tokens before this text
        own_words = document.words if segment == 0 else None
        spans = locate_words(own_words) if own_words is not None else split_words(text)
        strings = (
            own_words
            if own_words is not None
            else [text[s:e] for s, e in zip(spans.start.tolist(), spans.end.tolist(), strict=True)]
        )
        first, stop = align_words(spans, sequence.texts[segment])
        start, end = sequence.read[segment]
        aligned = (stop > first) & (first >= start) & (stop <= end)
        result.append(_AlignedWords(strings, spans, segment, first - start + at, stop - start + at, aligned))
        at += end - start
    return result


def ranges(starts: Int64s, lengths: Int64s) -> Int64s:
    """Concatenate ranges of numbers. Shape: ``[R]``, ``[R]`` → ``[sum of lengths]``."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    shifts: Int64s = np.repeat(starts - (ends - lengths), lengths)
    return np.arange(total) + shifts


def _concatenate_masks(masks: Sequence[NDArray[np.bool_] | None], sizes: Int64s) -> NDArray[np.bool_]:
    """Concatenate masks, where None means that all are marked."""
    if all(mask is None for mask in masks):
        return np.ones(int(sizes.sum()), bool)
    return np.concatenate([np.ones(n, bool) if m is None else m for m, n in zip(masks, sizes.tolist(), strict=True)])


def _concatenate(arrays: Sequence[NDArray[np.generic]], dtype: type[Scalar]) -> NDArray[Scalar]:
    return np.concatenate(arrays).astype(dtype, copy=False) if arrays else np.zeros(0, dtype)

"""Documents → windows of token ids side by side, and which of their tokens make up which vector.

Shapes: ``D`` documents, ``W`` windows, ``M`` tokens of all documents (each once), ``N`` tokens of all windows
(``N > M`` where windows overlap or repeat a pair's first text), ``P`` tokens in groups.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.corpus import Document
from bertfeat.tokens.flat_tokens import FlatTokens, Int64s, concatenate, ranges
from bertfeat.tokens.sequences import Subword, TokenSequence, TokenSettings, build_sequences
from bertfeat.tokens.tokenizer import Tokenizer
from bertfeat.words import CharSpans, align_words, locate_words, split_words

Int32s = NDArray[np.int32]  # positions of tokens: half the memory of int64, and a part has fewer than 2³¹


@dataclass(frozen=True, slots=True)
class TokenGroups:
    """The tokens of the windows that go into each row of a result: one group of tokens a row."""

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
    sequences: Sequence[TokenSequence] = ()
    if _are_plain(documents, settings):
        flat = FlatTokens.of_plain_texts([document.text for document in documents], tokenizer, settings)
    else:
        sequences = build_sequences(documents, tokenizer, settings)
        flat = FlatTokens.of_sequences(sequences)
    windows = _WindowLayout(flat)
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
        n_tokens=_count(flat, flat.counted),
        n_unknown=_count(flat, flat.own & (flat.ids == tokenizer.unknown_id) & ~flat.special),
        n_truncated=flat.truncated,
        rejected=flat.rejected,
        tokens=_token_spans(flat, stored, tokenizer) if settings.with_tokens else None,
        words=words.spans if words else None,
    )


def _are_plain(documents: Sequence[Document], settings: TokenSettings) -> bool:
    """Whether all are single texts of which document vectors are wanted, without a prompt or neighbors."""
    if settings.with_tokens or settings.with_words or settings.prompt or settings.left_words is not None:
        return False
    return not any(document.pair is not None or document.before or document.after for document in documents)


def _count(flat: FlatTokens, marked: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Count the marked tokens of each document. Shape: ``[M]`` → ``[D]``."""
    return np.bincount(flat.document[marked], minlength=len(flat.lengths)).astype(np.int32)


def _token_spans(flat: FlatTokens, stored: NDArray[np.bool_], tokenizer: Tokenizer) -> TokenSpans:
    """The stored tokens with their offsets."""
    assert flat.spans is not None
    return TokenSpans(
        offsets=np.concatenate([[0], np.cumsum(_count(flat, stored), dtype=np.int64)]),
        strings=tokenizer.strings(flat.ids[stored]),
        start=flat.spans.start[stored],
        end=flat.spans.end[stored],
        segment=flat.segment[stored],
    )


class _WindowLayout:
    """The windows over all documents, and from which window each token is taken."""

    def __init__(self, flat: FlatTokens) -> None:
        windows, of = flat.windows, flat.windows.document
        heads, tails, ends = flat.heads[of], flat.tails[of], flat.offsets[1:][of]
        bodies = flat.offsets[:-1][of] + heads
        read = np.stack([heads, windows.stop - windows.start, tails], axis=1)  # [W, 3] tokens of head, body, tail
        starts = np.stack([bodies - heads, bodies + windows.start, ends - tails], axis=1)
        self.source = ranges(starts.ravel(), read.ravel()).astype(np.int32)  # [N] in M
        self.offsets: Int64s = np.concatenate([[0], np.cumsum(read.sum(axis=1))])
        # the head is taken from a document's first window, the tail from its last one
        first, last = (np.ones(len(of), bool) for _ in range(2))
        first[1:] = last[:-1] = of[1:] != of[:-1]
        begins = self.offsets[:-1]
        places = np.stack(
            [begins, begins + heads + windows.take_start - windows.start, self.offsets[1:] - tails], axis=1
        )
        taken = np.stack([heads * first, windows.take_stop - windows.take_start, tails * last], axis=1)
        self._taken = ranges(places.ravel(), taken.ravel()).astype(np.int32)  # [M] in N

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
        self, documents: Sequence[Document], sequences: Sequence[TokenSequence], flat: FlatTokens, subword: Subword
    ) -> None:
        by_document = [_words_of(document, sequence) for document, sequence in zip(documents, sequences, strict=True)]
        counts = np.array([sum(len(text.spans) for text in texts) for texts in by_document], np.int64)
        texts = [text for texts in by_document for text in texts]
        shift = np.repeat(flat.offsets[:-1], counts)
        first = concatenate([text.first for text in texts], np.int64) + shift
        stop = concatenate([text.stop for text in texts], np.int64) + shift
        aligned = concatenate([text.aligned for text in texts], np.bool_)
        self.spans = TokenSpans(
            offsets=np.concatenate([[0], np.cumsum(counts)]),
            strings=[string for text in texts for string in text.strings],
            start=concatenate([text.spans.start for text in texts], np.int32),
            end=concatenate([text.spans.end for text in texts], np.int32),
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

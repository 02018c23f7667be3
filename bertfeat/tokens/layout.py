"""Documents → windows of token ids side by side, and which of their rows make up which result.

Shapes: ``D`` documents, ``W`` windows, ``M`` tokens of all documents (each once), ``N`` tokens of all windows
(``N > M`` where windows overlap or repeat a pair's first text), ``P`` picks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bertfeat.corpus import Document
from bertfeat.tokens.sequences import Subword, TokenSequence, TokenSettings, sequences
from bertfeat.tokens.tokenizer import Tokenizer
from bertfeat.words import Spans, align, given_words, split_words

Int64s = NDArray[np.int64]
Numbers = NDArray[np.int32]  # of rows and tokens: half the memory, and a part has fewer than 2³¹
Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Picks:
    """Which rows of the packed windows go into which rows of a result."""

    rows: Numbers  # [P] into N, ascending
    targets: Numbers  # [P] non-decreasing
    size: int  # rows of the result

    def counts(self) -> Int64s:
        """Number of picks of each result row. Shape: ``[size]``."""
        return np.bincount(self.targets, minlength=self.size)


@dataclass(frozen=True, slots=True)
class Layout:
    """The windows of many documents side by side."""

    ids: NDArray[np.int32]  # [N]
    types: NDArray[np.int8]  # [N] segment ids
    window_offsets: Int64s  # [W+1]
    firsts: Picks  # document ← its first token
    pooled: Picks  # document ← the tokens that its mean and max are taken over
    tokens: Picks | None  # stored token ← itself
    words: Picks | None  # word ← its pieces, or the first or last of them


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
class Tokenized:
    """Documents as tokens, ready for batches."""

    layout: Layout
    n_tokens: NDArray[np.int32]  # [D] tokens of the document and the special ones, each once
    n_unknown: NDArray[np.int32]  # [D] of them the tokenizer's unknown token
    n_truncated: NDArray[np.int32]  # [D] pieces cut off
    rejected: Mapping[int, str]  # document → why it cannot be embedded; it has no windows
    tokens: TokenSpans | None
    words: TokenSpans | None


def tokenize(documents: Sequence[Document], tokenizer: Tokenizer, settings: TokenSettings) -> Tokenized:
    """Turn documents into windows of at most ``settings.max_length`` tokens.

    With ``long="error"`` a longer document is rejected; so is a pair whose first text leaves no room for the second.
    """
    made = sequences(documents, tokenizer, settings)
    flat = _Flat(made)
    windows = _Windows(made, flat)
    wanted = ~flat.special | settings.special_tokens
    pooled, stored = wanted & flat.counted, wanted & flat.own
    words = _Words(documents, made, flat, settings.subword) if settings.with_words else None
    read = np.flatnonzero(flat.lengths)
    layout = Layout(
        ids=flat.ids[windows.source],
        types=flat.types[windows.source],
        window_offsets=windows.offsets,
        firsts=Picks(windows.place(flat.offsets[read]), read.astype(np.int32), len(documents)),
        pooled=Picks(windows.place(np.flatnonzero(pooled)), flat.document[pooled], len(documents)),
        tokens=windows.each(stored) if settings.with_tokens else None,
        words=Picks(windows.place(words.rows), words.targets, len(words.listing)) if words else None,
    )
    return Tokenized(
        layout=layout,
        n_tokens=flat.count(flat.counted),
        n_unknown=flat.count(flat.own & (flat.ids == tokenizer.unknown_id) & ~flat.special),
        n_truncated=np.array([sequence.truncated for sequence in made], np.int32),
        rejected={at: sequence.rejected for at, sequence in enumerate(made) if sequence.rejected},
        tokens=flat.listing(stored, tokenizer) if settings.with_tokens else None,
        words=words.listing if words else None,
    )


class _Flat:
    """All documents' tokens side by side, each once."""

    def __init__(self, made: Sequence[TokenSequence]) -> None:
        chunks = [chunk for sequence in made for chunk in sequence.chunks]
        sizes = np.array([len(chunk.ids) for chunk in chunks], np.int64)
        self.chunks = chunks
        self.ids = _joined([chunk.ids for chunk in chunks], np.int32)
        self.types = _joined([chunk.types for chunk in chunks], np.int8)
        self.special = np.repeat(np.array([chunk.special for chunk in chunks], bool), sizes)
        self.segment = np.repeat(np.array([chunk.segment for chunk in chunks], np.int8), sizes)
        self.own = _marks([chunk.own for chunk in chunks], sizes)
        # a prompt counts for documents, a neighbouring sentence does not
        self.counted = _marks([chunk.counted for chunk in chunks], sizes)
        self.lengths = np.array([sum(len(chunk.ids) for chunk in sequence.chunks) for sequence in made], np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        self.document = np.repeat(np.arange(len(made), dtype=np.int32), self.lengths)

    def count(self, mask: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Count the marked tokens of each document."""
        return np.bincount(self.document[mask], minlength=len(self.lengths)).astype(np.int32)

    def listing(self, stored: NDArray[np.bool_], tokenizer: Tokenizer) -> TokenSpans:
        """List the stored tokens with their offsets."""
        spans = [chunk.spans for chunk in self.chunks if chunk.spans is not None]
        return TokenSpans(
            offsets=np.concatenate([[0], np.cumsum(self.count(stored), dtype=np.int64)]),
            strings=tokenizer.strings(self.ids[stored]),
            start=_joined([each.start for each in spans], np.int32)[stored],
            end=_joined([each.end for each in spans], np.int32)[stored],
            segment=self.segment[stored],
        )


class _Windows:
    """The windows over all documents, and where each token is kept."""

    def __init__(self, made: Sequence[TokenSequence], flat: _Flat) -> None:
        if all(len(sequence.cuts) <= 1 for sequence in made):  # every document is one window
            self.source: Numbers = np.arange(len(flat.ids), dtype=np.int32)
            self.offsets = np.concatenate([[0], np.cumsum(flat.lengths[flat.lengths > 0])])
            self._kept = self.source
            return
        sources, kept = [], []
        for sequence, begin, end in zip(made, flat.offsets[:-1], flat.offsets[1:], strict=True):
            body, tail = begin + sequence.head, end - (len(sequence.chunks[-1].ids) if sequence.chunks else 0)
            for number, cut in enumerate(sequence.cuts):
                head_kept, tail_kept = number == 0, number == len(sequence.cuts) - 1
                places = np.r_[begin:body, body + cut.start : body + cut.stop, tail:end]
                sources.append(places.astype(np.int32))
                mask = np.zeros(len(sources[-1]), bool)
                at = body - begin
                mask[at + cut.keep_start - cut.start : at + cut.keep_stop - cut.start] = True
                mask[:at] = head_kept
                mask[at + cut.stop - cut.start :] = tail_kept
                kept.append(mask)
        self.source = _joined(sources, np.int32)
        self.offsets = np.concatenate([[0], np.cumsum([len(source) for source in sources], dtype=np.int64)])
        self._kept = np.flatnonzero(_joined(kept, np.bool_)).astype(np.int32)

    def place(self, tokens: Int64s) -> Numbers:
        """Find the row among all windows from which each token is kept. Shape: ``[n]`` into M → ``[n]`` into N."""
        return self._kept[tokens]

    def each(self, marked: NDArray[np.bool_]) -> Picks:
        """Give every marked token a result row of its own."""
        at = np.flatnonzero(marked)
        return Picks(self.place(at), np.arange(len(at), dtype=np.int32), len(at))


class _Words:
    """The words of all documents and the tokens that give their vectors."""

    def __init__(
        self, documents: Sequence[Document], made: Sequence[TokenSequence], flat: _Flat, subword: Subword
    ) -> None:
        found = [_words_of(document, sequence) for document, sequence in zip(documents, made, strict=True)]
        counts = np.array([sum(len(text.spans) for text in texts) for texts in found], np.int64)
        texts = [text for each in found for text in each]
        shift = np.repeat(flat.offsets[:-1], counts)
        first = _joined([text.first for text in texts], np.int64) + shift
        stop = _joined([text.stop for text in texts], np.int64) + shift
        aligned = _joined([text.aligned for text in texts], np.bool_)
        self.listing = TokenSpans(
            offsets=np.concatenate([[0], np.cumsum(counts)]),
            strings=[string for text in texts for string in text.strings],
            start=_joined([text.spans.start for text in texts], np.int32),
            end=_joined([text.spans.end for text in texts], np.int32),
            segment=np.repeat(np.array([t.segment for t in texts], np.int8), [len(t.spans) for t in texts]),
            aligned=aligned,
        )
        at = np.flatnonzero(aligned)
        if subword is Subword.MEAN:
            self.rows: Int64s = ranges(first[at], stop[at] - first[at])
            self.targets: Numbers = np.repeat(at.astype(np.int32), stop[at] - first[at])
        else:
            self.rows = first[at] if subword is Subword.FIRST else stop[at] - 1
            self.targets = at.astype(np.int32)


@dataclass(frozen=True, slots=True)
class _TextWords:
    """The words of one text of a document; ``first`` and ``stop`` count from the document's first token."""

    strings: Sequence[str]
    spans: Spans
    segment: int
    first: Int64s
    stop: Int64s
    aligned: NDArray[np.bool_]


def _words_of(document: Document, sequence: TokenSequence) -> list[_TextWords]:
    if sequence.rejected:
        return []
    found, at = [], 0
    texts = (document.text,) if document.pair is None else (document.text, document.pair)
    for segment, text in enumerate(texts):
        at += len(sequence.chunks[2 * segment].ids)  # the special tokens before this text
        given = document.words if segment == 0 else None
        spans = given_words(given) if given is not None else split_words(text)
        strings = (
            given
            if given is not None
            else [text[s:e] for s, e in zip(spans.start.tolist(), spans.end.tolist(), strict=True)]
        )
        first, stop = align(spans, sequence.texts[segment])
        start, end = sequence.read[segment]
        aligned = (stop > first) & (first >= start) & (stop <= end)
        found.append(_TextWords(strings, spans, segment, first - start + at, stop - start + at, aligned))
        at += end - start
    return found


def ranges(starts: Int64s, lengths: Int64s) -> Int64s:
    """Set ranges side by side. Shape: ``[R]``, ``[R]`` → ``[sum of lengths]``."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    shifts: Int64s = np.repeat(starts - (ends - lengths), lengths)
    return np.arange(total) + shifts


def _marks(marks: Sequence[NDArray[np.bool_] | None], sizes: Int64s) -> NDArray[np.bool_]:
    """Set marks side by side, where none means that all are marked."""
    if all(each is None for each in marks):
        return np.ones(int(sizes.sum()), bool)
    return np.concatenate([np.ones(n, bool) if m is None else m for m, n in zip(marks, sizes.tolist(), strict=True)])


def _joined(arrays: Sequence[NDArray[Any]], dtype: type[Scalar]) -> NDArray[Scalar]:
    return np.concatenate(arrays).astype(dtype, copy=False) if arrays else np.zeros(0, dtype)

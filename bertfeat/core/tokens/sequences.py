"""One document as a sequence of tokens: special tokens, a pair's first text, and the body that windows run over.

Of a document of token ids they are the body, as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from bertfeat.core.corpus import Document
from bertfeat.core.tokens.long_texts import split_texts
from bertfeat.core.tokens.pieces import TextPieces
from bertfeat.core.tokens.tokenizer import Template, TextRole, Tokenizer
from bertfeat.core.tokens.windows import LongTextPolicy, TextWindow, cut_left_windows, cut_windows, fit_context
from bertfeat.core.words import CharSpans, WordList, WordRule, align_words, locate_words, split_words
from bertfeat.errors import shell_spelling
from bertfeat.ragged import offsets_of

NO_TOKENS = "it has no tokens, and the model's tokenizer sets none around texts"


class Subword(StrEnum):
    """The pieces of a word that give its vector (the paper takes the first)."""

    FIRST = "first"
    MEAN = "mean"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """The settings that decide how documents become windows of tokens, and which features these get."""

    max_length: int
    long: LongTextPolicy = LongTextPolicy.WINDOW
    prompt: str = ""
    special_tokens: bool = True  # whether [CLS] and [SEP] count in pooling over all tokens and in token features
    subword: Subword = Subword.FIRST
    with_tokens: bool = False
    with_words: bool = False
    only: WordList | None = None  # the words that get vectors; None: all
    context: str | None = None  # "left:8": a word's vector knows of the 8 words before it; None: of the whole window
    words: WordRule = WordRule.SPACES  # how running text is split
    causal: bool = False  # whether the model's tokens see only those before them

    @property
    def left_words(self) -> int | None:
        """Words before a word that its vector may know of; None: the whole window."""
        return None if self.context is None else int(self.context.removeprefix("left:"))

    @property
    def needs_text(self) -> tuple[str, str] | None:
        """The setting that token ids have no text for, and its value; None where they are enough."""
        if self.prompt:
            return "prompt", self.prompt
        if self.context is not None:
            return "context", self.context
        return ("pooling", "word") if self.with_words else None


@dataclass(frozen=True, slots=True)
class Chunk:
    """Neighboring tokens of one origin: the special tokens at one place, or pieces of one text."""

    ids: NDArray[np.int32]  # [n]
    types: NDArray[np.int8]  # [n] segment ids
    special: bool | NDArray[np.bool_]  # all of them, or [n]
    segment: int  # 0 first text, 1 second
    spans: CharSpans | None  # [n] character offsets in the document's own text, where they are needed
    own: NDArray[np.bool_] | None = None  # [n] False for a prompt's or a neighbor's pieces; None: all own
    counted: NDArray[np.bool_] | None = None  # [n] own, or the prompt's, which counts for documents; None: all


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """One document's tokens, each once: ``chunks`` are the head, the body (its last text) and the tail."""

    chunks: tuple[Chunk, ...] = ()
    windows: tuple[TextWindow, ...] = ()  # windows over the body
    texts: tuple[CharSpans, ...] = ()  # spans of each text's pieces, before anything was cut off
    read: tuple[tuple[int, int], ...] = ()  # the range of each text's pieces that is read
    truncated: int = 0  # pieces cut off
    unseen: int = 0  # last tokens that no token sees: what fills a query up, in a model that compares tokens
    rejected: str = ""  # why the document cannot be embedded

    @property
    def head(self) -> int:
        """Tokens before the body."""
        return sum(len(chunk.ids) for chunk in self.chunks[:-2])


@dataclass(frozen=True, slots=True)
class _Text:
    """A text's pieces, and where its own characters lie between a prompt or its neighbors."""

    pieces: TextPieces
    lead: int = 0  # characters before its own: of a prompt and of the neighbor before it
    stop: int | None = None  # the end of its own characters; None: nothing follows them
    length: int = 0  # its own characters
    prompt: int = 0  # characters of the prompt, with which the lead begins
    segment: int = 0
    kind: int = 0  # segment id of its tokens

    @property
    def size(self) -> int:
        return len(self.pieces.ids)

    def own(self) -> NDArray[np.bool_] | None:
        spans = self.pieces.spans
        if spans is None or (self.lead == 0 and self.stop is None):
            return None
        # white space may be a piece of no width; without neighbors it belongs to the text even at its edge
        begun = spans.end > self.lead if self.lead else np.ones(len(spans), bool)
        return begun if self.stop is None else begun & (spans.start < self.stop)

    def counted(self) -> NDArray[np.bool_] | None:
        own, spans = self.own(), self.pieces.spans
        if own is None or spans is None or not self.prompt:
            return own
        return own | (spans.start < self.prompt) | (spans.end <= self.prompt)

    def offsets(self) -> CharSpans | None:
        """Offsets in the own text; a piece that begins in the prompt or ends in a neighbor is cut to it."""
        spans = self.pieces.spans
        if spans is None or (self.lead == 0 and self.stop is None):
            return spans
        # the other pieces stay before and after the own text, where the search for words expects them
        reaches_in, reaches_out = spans.end > self.lead, spans.start < self.lead + self.length
        start = np.where(reaches_in, np.maximum(spans.start, self.lead), spans.start)
        end = np.where(reaches_out, np.minimum(spans.end, self.lead + self.length), spans.end)
        return CharSpans(start - np.int32(self.lead), end - np.int32(self.lead))

    def chunk(self, start: int, stop: int) -> Chunk:
        spans, own, counted = self.offsets(), self.own(), self.counted()
        return Chunk(
            self.pieces.ids[start:stop],
            np.full(stop - start, self.kind, np.int8),
            False,
            self.segment,
            None if spans is None else CharSpans(spans.start[start:stop], spans.end[start:stop]),
            None if own is None else own[start:stop],
            None if counted is None else counted[start:stop],
        )


def build_sequences(
    documents: Sequence[Document], tokenizer: Tokenizer, settings: TokenSettings
) -> list[TokenSequence]:
    """Tokenize documents and lay out each one's tokens and windows."""
    context = bool(settings.prompt) or any(document.before or document.after for document in documents)
    offsets = settings.with_tokens or settings.with_words or context or settings.left_words is not None
    embedded = [_embedded(document, settings.prompt) for document in documents]
    firsts = split_texts(tokenizer, embedded, offsets=offsets)
    seconds = iter(split_texts(tokenizer, [d.pair for d in documents if d.pair is not None], offsets=offsets))
    result = []
    for document, pieces in zip(documents, firsts, strict=True):
        if document.ids is not None:
            result.append(_given_sequence(document.ids, tokenizer, settings))
            continue
        template = tokenizer.single if document.pair is None else tokenizer.pair
        lead = len(_lead(document, settings.prompt))
        stop = lead + len(document.text) if document.after else None
        first = _Text(pieces, lead, stop, len(document.text), len(settings.prompt), kind=template.text_types[0])
        if settings.left_words is not None:
            result.append(_left_sequence(document, first, template, settings))
        elif document.pair is None:
            sequence = _single_sequence(first, template, settings, context=bool(document.before or document.after))
            result.append(_fill_up(sequence, len(document.text), tokenizer.role, settings))
        else:
            second = _Text(next(seconds), length=len(document.pair), segment=1, kind=template.text_types[1])
            result.append(_pair_sequence(first, second, template, settings))
    return [_refuse_nothing(sequence) for sequence in result]


def _refuse_nothing(sequence: TokenSequence) -> TokenSequence:
    """Reject a document without a token, such as an empty text where the tokenizer sets no special tokens around it."""
    if sequence.rejected or any(len(chunk.ids) for chunk in sequence.chunks):
        return sequence
    return TokenSequence(rejected=NO_TOKENS)


def _embedded(document: Document, prompt: str) -> str:
    """The string that is split into pieces for a document's first text; empty for token ids, which need none."""
    if document.ids is not None:
        return ""
    return _lead(document, prompt) + document.text + (f" {document.after}" if document.after else "")


def _lead(document: Document, prompt: str) -> str:
    return prompt + (f"{document.before} " if document.before else "")


def _single_sequence(text: _Text, template: Template, settings: TokenSettings, *, context: bool) -> TokenSequence:
    capacity = settings.max_length - template.size
    start, stop = _fit_neighbors(text, capacity) if context else (0, text.size)
    excess = max(0, stop - start - capacity)
    if excess and settings.long is LongTextPolicy.ERROR:
        return TokenSequence(rejected=too_long_reason(stop - start + template.size, settings.max_length))
    read = settings.long.read(start, stop, capacity)
    if read[0] > start and text.prompt:
        return TokenSequence(rejected=_CUT_PROMPT)
    chunks = (
        _special(template.before, template.before_types, 0, 0),
        text.chunk(*read),
        _special(template.after, template.after_types, text.length, 0),
    )
    return _sequence(chunks, (text,), (read,), capacity, (stop - start) - (read[1] - read[0]), causal=settings.causal)


def _given_sequence(given: Sequence[int], tokenizer: Tokenizer, settings: TokenSettings) -> TokenSequence:
    """Lay out token ids as they are: no special tokens are set around them, and offsets are those of their numbers."""
    ids = np.array(given, np.int64)
    unknown = ids[(ids < 0) | (ids >= tokenizer.size)]
    if tokenizer.marks_texts:
        return TokenSequence(rejected="it is token ids, and the model marks texts as queries and documents")
    if setting := settings.needs_text:
        return TokenSequence(rejected=f"it is token ids, and {shell_spelling(*setting)} needs a text; leave that out")
    if not len(ids):
        return TokenSequence(rejected="it has no token ids")
    if len(unknown):
        return TokenSequence(rejected=f"the model has the tokens 0 to {tokenizer.size - 1}, and not {unknown[0]}")
    excess = max(0, len(ids) - settings.max_length)
    if excess and settings.long is LongTextPolicy.ERROR:
        return TokenSequence(rejected=too_long_reason(len(ids), settings.max_length))
    start, stop = read = settings.long.read(0, len(ids), settings.max_length)
    special = np.isin(ids, tokenizer.special_ids)
    digits = np.searchsorted(10 ** np.arange(1, 11), ids, side="right") + 1
    begins = offsets_of(digits + 1)[:-1].astype(np.int32)  # the text is the numbers, joined by spaces
    spans = CharSpans(begins, np.where(special, begins, begins + digits).astype(np.int32))
    types = np.full(stop - start, tokenizer.single.text_types[0], np.int8)
    cut = slice(start, stop)
    body = Chunk(ids[cut].astype(np.int32), types, special[cut], 0, spans.take(cut))
    nothing = _special((), (), 0, 0)
    windows = cut_windows(stop - start, settings.max_length, causal=settings.causal)
    return TokenSequence((nothing, body, nothing), tuple(windows), (spans,), (read,), len(ids) - (stop - start))


def _fill_up(sequence: TokenSequence, characters: int, role: TextRole, settings: TokenSettings) -> TokenSequence:
    """Fill a short text of so many characters up to the number of tokens that its role has."""
    tokens = sum(len(chunk.ids) for chunk in sequence.chunks)
    missing = min(role.length, settings.max_length) - tokens
    if missing <= 0 or sequence.rejected:
        return sequence
    tail = sequence.chunks[-1]
    ids, types = (*tail.ids.tolist(), *[role.filler] * missing), (*tail.types.tolist(), *[0] * missing)
    filled = _special(ids, types, characters, 0)
    return replace(sequence, chunks=(*sequence.chunks[:-1], filled), unseen=0 if role.filler_is_seen else missing)


def _left_sequence(document: Document, text: _Text, template: Template, settings: TokenSettings) -> TokenSequence:
    """Lay out a text in which each word is read with the words before it, and with none after it."""
    if document.pair is not None:
        return TokenSequence(rejected=f"it is a pair, and {shell_spelling('context')} is for single texts")
    if settings.prompt:
        return TokenSequence(rejected=f"it has a prompt, which {shell_spelling('context')} leaves no place for")
    policy = LongTextPolicy.WINDOW if settings.long is LongTextPolicy.ERROR else settings.long
    sequence = _single_sequence(text, template, replace(settings, long=policy), context=False)
    own_words = document.words
    words = locate_words(own_words) if own_words is not None else split_words(document.text, settings.words)
    ((start, end),) = sequence.read
    first, stop = (np.clip(ends, start, end) - start for ends in align_words(words, sequence.texts[0]))
    left, capacity = settings.left_words or 0, settings.max_length - template.size
    begins = np.concatenate([np.zeros(min(left, len(first)), np.int64), first[: max(0, len(first) - left)]])
    longest = int((stop - begins).max(initial=0))
    if longest > capacity and settings.long is LongTextPolicy.ERROR:
        return TokenSequence(rejected=too_long_reason(longest + template.size, settings.max_length))
    return replace(sequence, windows=tuple(cut_left_windows(begins.tolist(), stop.tolist(), end - start, capacity)))


def _fit_neighbors(text: _Text, capacity: int) -> tuple[int, int]:
    """The range of pieces that holds the text and as much of its neighbors as there is room for."""
    own = text.own()
    at = np.flatnonzero(own) if own is not None else np.arange(text.size)
    if not len(at):
        return 0, 0
    first, after = int(at[0]), int(at[-1]) + 1
    left, right = fit_context(first, after - first, text.size - after, capacity)
    return first - left, after + right


_CUT_PROMPT = (
    f"it is too long, and to cut off its beginning would cut off its prompt; use "
    f"{shell_spelling('long', 'window')} or {shell_spelling('long', 'truncate')}"
)
_LEAST_ROOM = 16  # pieces of a pair's second text that a window must have room for


def _pair_sequence(first: _Text, second: _Text, template: Template, settings: TokenSettings) -> TokenSequence:
    capacity = settings.max_length - template.size
    excess = max(0, first.size + second.size - capacity)
    room = capacity - first.size
    if excess and settings.long is LongTextPolicy.ERROR:
        return TokenSequence(rejected=too_long_reason(first.size + second.size + template.size, settings.max_length))
    if excess and settings.long is LongTextPolicy.WINDOW and room < min(second.size, _LEAST_ROOM):
        return TokenSequence(
            rejected=f"the pair's first text has {first.size} tokens and leaves no room for its second within "
            f"{settings.max_length}; shorten it, swap the two, or use {shell_spelling('long', 'truncate')}"
        )
    first_read = settings.long.read(0, first.size, capacity)
    kept = first_read[1] - first_read[0]
    second_read = settings.long.read(0, second.size, capacity - kept)
    if first_read[0] and first.prompt:
        return TokenSequence(rejected=_CUT_PROMPT)
    chunks = (
        _special(template.before, template.before_types, 0, 0),
        first.chunk(*first_read),
        _special(template.between, template.between_types, first.length, 0),
        second.chunk(*second_read),
        _special(template.after, template.after_types, second.length, 1),
    )
    truncated = (first.size - kept) + (second.size - (second_read[1] - second_read[0]))
    return _sequence(
        chunks, (first, second), (first_read, second_read), capacity - kept, truncated, causal=settings.causal
    )


def _sequence(
    chunks: tuple[Chunk, ...],
    texts: tuple[_Text, ...],
    read: tuple[tuple[int, int], ...],
    capacity: int,
    truncated: int,
    *,
    causal: bool,
) -> TokenSequence:
    windows = tuple(cut_windows(len(chunks[-2].ids), capacity, causal=causal))
    spans = tuple(offsets for text in texts if (offsets := text.offsets()) is not None)
    return TokenSequence(chunks, windows, spans, read, truncated)


@lru_cache(maxsize=4096)  # most texts have one of a few lengths
def _special(ids: tuple[int, ...], types: tuple[int, ...], at: int, segment: int) -> Chunk:
    """Special tokens, at one place in the text, of no width."""
    place = np.full(len(ids), at, np.int32)
    return Chunk(np.array(ids, np.int32), np.array(types, np.int8), True, segment, CharSpans(place, place))


def too_long_reason(tokens: int, limit: int) -> str:
    """The reason to reject a document that is too long and must not be cut."""
    remedy = f"use {shell_spelling('long', 'window')} or {shell_spelling('long', 'truncate')}"
    return f"it has {tokens} tokens and the model reads {limit}; {remedy}"

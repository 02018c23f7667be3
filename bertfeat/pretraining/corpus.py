"""The corpus of a pre-training: its texts, their pieces in flat files, and the part that is held out.

The files are mapped into memory, so that only parts that are read take up room. ``pieces.bin`` has all pieces, one
document after the other, 4 bytes each, of which the highest bit says that a piece continues a word. ``sentences.bin``
and ``documents.bin`` say at which pieces sentences and documents begin.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as FastTokenizer

from bertfeat.core import (
    BlankLine,
    CharSpans,
    CorpusSettings,
    Failure,
    FileCorpus,
    Row,
    TextPieces,
    check_readable,
    open_corpus,
    split_texts,
)
from bertfeat.errors import CorpusError, UsageError, parameter, quote_names
from bertfeat.io import Location, storage_errors

# ── texts ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class CorpusText:
    """A row of a corpus: a sentence or a paragraph."""

    text: str
    begins: bool  # whether a document begins with it


class CorpusTexts:
    """The texts of a corpus, which can be read from the start any number of times.

    A document is: consecutive rows with one value in ``document_column``; else, in text files, the rows between blank
    lines; else a file. After a reading, ``failed``, ``first_failure`` and ``digest`` are those of its rows.
    """

    def __init__(
        self, corpus: str | Path | Sequence[str | Location], settings: CorpusSettings, document_column: str | None
    ) -> None:
        for name in ("pair_column", "pairs", "keep"):  # a text is one text, and only its document is kept
            if getattr(settings, name):
                raise UsageError(f"{parameter(name)} means nothing for pre-training", remedy="leave it out")
        paths = [corpus] if isinstance(corpus, str | Path) else list(corpus)
        if any(str(path) == "-" for path in paths):
            problem = "standard input can be read once, and pre-training reads a corpus several times"
            raise UsageError(problem, remedy="write it to a file")
        self._corpus = open_corpus(paths, settings)
        if document_column is not None:
            _check_column(self._corpus, document_column)
            self._corpus = open_corpus(paths, replace(settings, keep=(f"{document_column}:string",)))
        self._by_column = document_column is not None
        self.failed, self.first_failure, self.digest = 0, "", ""

    @property
    def fraction(self) -> float:
        """Share of the corpus that the newest reading has read, 0 to 1."""
        return self._corpus.fraction

    @property
    def stamps(self) -> tuple[str, ...]:
        """Name, size and time of each file: while they are equal, so is the corpus."""
        return tuple(f"{file.source.name} {file.source.stamp}" for file in self._corpus.files)

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the files."""
        return self._corpus.sources

    def __iter__(self) -> Iterator[CorpusText]:
        """Read the texts."""
        self.failed, self.first_failure = 0, ""
        begins, before, digest = True, None, hashlib.sha256()
        for file, row in self._rows():
            if isinstance(row, Failure):
                self.failed, self.first_failure = self.failed + 1, self.first_failure or row.reason
                continue
            if isinstance(row, BlankLine):
                begins = begins or not self._by_column
                continue
            if row.ids is not None:
                raise CorpusError("its rows are token ids, and texts are needed", where=", ".join(self.sources))
            key = (row.kept if self._by_column else (), None if self._by_column else file)
            begins = begins or key != before
            digest.update(f"{begins:d}{len(row.text)} {row.text}".encode("utf-8", "surrogatepass"))
            yield CorpusText(row.text, begins)
            begins, before = False, key
        self.digest = digest.hexdigest()

    def _rows(self) -> Iterator[tuple[int, Row]]:
        """The rows with the number of their file."""
        at = [0]

        def rows() -> Iterator[Row]:
            row = 0
            for number, read in enumerate(self._corpus.readings()):
                at[0] = number
                for each in read(row):
                    yield each
                    row = each.row + 1

        for row in check_readable(rows(), self._corpus):
            yield at[0], row


def _check_column(corpus: FileCorpus, column: str) -> None:
    for file in corpus.files:
        if not file.source.format.records:
            problem = f"{file.name} has no columns; blank lines separate its documents"
            raise UsageError(problem, where=parameter("document_column", column), remedy="leave it out")
    if column not in corpus.columns:
        remedy = f"the columns that there are: {quote_names(corpus.columns)}"
        raise UsageError("there is no such column", where=parameter("document_column", column), remedy=remedy)


# ── pieces ──────────────────────────────────────────────────────────────────────────────────────────────────


CONTINUES = np.uint32(1 << 31)
"""Marks a piece that continues the word of the piece before it."""

_ID = np.uint32(CONTINUES - 1)
_ROWS = 1000  # rows that are tokenized at a time
_BLOCK = 1 << 22  # pieces that are counted at a time
_ENDS, _CLOSERS = ".!?…。！？", "\"'”’)]»」』"
STORE_FILES = ("pieces.bin", "sentences.bin", "documents.bin")

Number = TypeVar("Number", np.uint32, np.int64)
Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TokenStore:
    """The pieces of a corpus, and where its sentences and documents begin."""

    pieces: NDArray[np.uint32]  # [P]
    sentences: Positions  # [S], ascending; 0 is the first
    documents: Positions  # [D], ascending; each begins a sentence too

    @classmethod
    def open(cls, folder: Path) -> "TokenStore":
        """Map the files of a folder."""
        pieces, sentences, documents = (folder / name for name in STORE_FILES)
        return cls(_mapped(pieces, np.uint32), _mapped(sentences, np.int64), _mapped(documents, np.int64))

    def ids(self, start: int, end: int) -> NDArray[np.int64]:
        """The ids of the pieces of a range."""
        return (self.pieces[start:end] & _ID).astype(np.int64)

    def starts(self, start: int, end: int) -> NDArray[np.bool_]:
        """Whether each piece of a range begins a word."""
        return np.asarray(self.pieces[start:end] < CONTINUES)

    def counts(self, start: int, end: int, size: int) -> Positions:
        """Number of times that each id occurs in a range, which is read in blocks. Shape: ``[V]``."""
        counts = np.zeros(size, np.int64)
        for at in range(start, end, _BLOCK):
            counts += np.bincount(self.ids(at, min(at + _BLOCK, end)), minlength=size)
        return counts


def _mapped(path: Path, dtype: type[Number]) -> NDArray[Number]:
    if not path.stat().st_size:  # which cannot be mapped
        return np.empty(0, dtype)
    return np.memmap(path, dtype, mode="r")


def write_tokens(texts: Iterable[CorpusText], tokenizer: FastTokenizer, folder: Path, longest: int) -> None:
    """Tokenize texts into the files of a store; sentences have at most ``longest`` pieces.

    A text is a sentence, or several, which end after full stops and the like. Texts without a piece are left out.
    """
    cutter, reader, stream = SentenceCutter(tokenizer, longest), _MarkingReader(tokenizer), iter(texts)
    count, begins = 0, True
    with storage_errors(folder), ExitStack() as opened:
        files = (opened.enter_context((folder / name).open("wb")) for name in STORE_FILES)
        pieces, sentences, documents = files
        while rows := list(islice(stream, _ROWS)):
            split = split_texts(reader, [row.text for row in rows], offsets=False)
            for row, text in zip(rows, split, strict=True):
                begins = begins or row.begins
                if not len(text.ids):
                    continue
                marked = text.ids.view(np.uint32)
                pieces.write(marked.tobytes())
                sentences.write((count + cutter.starts(marked)).tobytes())
                if begins:
                    documents.write(np.int64(count).tobytes())
                count, begins = count + len(marked), False
        for file in (pieces, sentences, documents):
            file.flush()
            os.fsync(file.fileno())


@dataclass(frozen=True, slots=True)
class _MarkingReader:
    """A tokenizer that marks the pieces that continue a word by :data:`CONTINUES` in their ids."""

    tokenizer: FastTokenizer

    def pieces(self, texts: Sequence[str], *, offsets: bool) -> TextPieces:
        """Split texts into pieces."""
        result = []
        # encode_batch_fast gives no word ids
        for encoding in self.tokenizer.encode_batch(list(texts), add_special_tokens=False):
            ids = np.array(encoding.ids, np.uint32)
            words = np.array([-1 if word is None else word for word in encoding.word_ids], np.int64)
            ids[1:][(words[1:] == words[:-1]) & (words[1:] >= 0)] |= CONTINUES
            spans = np.array(encoding.offsets, np.int32).reshape(-1, 2) if offsets else None
            chars = None if spans is None else CharSpans(spans[:, 0], spans[:, 1])
            result.append(TextPieces.of_one(ids.view(np.int32), chars))
        return TextPieces.join(result, offsets=offsets)


class SentenceCutter:
    """Finds where the sentences of a text begin, as far as full stops tell."""

    def __init__(self, tokenizer: FastTokenizer, longest: int) -> None:
        size = tokenizer.get_vocab_size(with_added_tokens=True)
        self._ends, self._closers = (_table(tokenizer, signs, size) for signs in (_ENDS, _CLOSERS))
        self._longest = longest

    def starts(self, pieces: NDArray[np.uint32]) -> Positions:
        """Find the starts of sentences in the pieces of a text; the first is 0."""
        ids = pieces & _ID
        ends, closers = self._ends[ids], self._closers[ids]
        ends = ends | (closers & np.concatenate(([False], ends[:-1])))
        begins = ends[:-1] & ~ends[1:] & ~closers[1:] & (pieces[1:] < CONTINUES)
        starts = np.concatenate(([0], np.flatnonzero(begins) + 1)).astype(np.int64)
        if np.diff(starts, append=len(pieces)).max() <= self._longest:
            return starts
        return np.array(list(self._shortened(starts.tolist(), pieces)), np.int64)

    def _shortened(self, starts: list[int], pieces: NDArray[np.uint32]) -> Iterator[int]:
        """Starts of sentences of at most ``longest`` pieces: longer ones are cut, before a word where possible."""
        for start, end in zip(starts, [*starts[1:], len(pieces)], strict=True):
            yield start
            while end - start > self._longest:
                start = last_word_start(pieces, start, start + self._longest)
                yield start


def last_word_start(pieces: NDArray[np.uint32], start: int, end: int) -> int:
    """The last place up to ``end`` and after ``start`` where a word begins; ``end`` where none does."""
    words = np.flatnonzero(pieces[start + 1 : end + 1] < CONTINUES)
    return start + 1 + int(words[-1]) if len(words) else end


def _table(tokenizer: FastTokenizer, signs: str, size: int) -> NDArray[np.bool_]:
    table = np.zeros(size, bool)
    table[[number for sign in signs if (number := tokenizer.token_to_id(sign)) is not None]] = True
    return table


# ── what is held out ────────────────────────────────────────────────────────────────────────────────────────


_FEWEST_WHOLE = 20
"""The fewest whole documents that are held out; where the share gives fewer, the ends of documents are held out."""


@dataclass(frozen=True, slots=True)
class DocumentRanges:
    """Stretches of pieces, each of one document. Shapes: ``[D]``."""

    starts: Positions
    ends: Positions

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def lengths(self) -> Positions:
        """Pieces of each."""
        return self.ends - self.starts

    @property
    def pieces(self) -> int:
        """Pieces of all."""
        return int(self.lengths.sum())

    def where(self, chosen: NDArray[np.bool_]) -> "DocumentRanges":
        """Return the ranges whose place in ``chosen`` is true."""
        return DocumentRanges(self.starts[chosen], self.ends[chosen])


@dataclass(frozen=True, slots=True)
class CorpusSplit:
    """The ranges that are learned from, and those that are held out."""

    training: DocumentRanges
    held_out: DocumentRanges
    described: str  # for people: what is held out


def split_corpus(store: TokenStore, share: float, seed: int) -> CorpusSplit:
    """Hold a share of the corpus out: whole documents drawn at random, or the last sentences of each document."""
    if not len(store.pieces):
        raise CorpusError("the corpus is empty: none of its rows has a text", remedy="check the files and their column")
    documents = DocumentRanges(np.asarray(store.documents), np.append(store.documents[1:], len(store.pieces)))
    if share == 0:
        return CorpusSplit(documents, documents.where(np.zeros(len(documents), bool)), "nothing")
    enough = share * len(documents) >= _FEWEST_WHOLE
    found = _hold_out_whole(documents, share, seed) if enough else _hold_out_ends(store, documents, share)
    if not len(found.held_out) or not len(found.training):
        problem = f"the corpus is too small to hold out {share:g} of it"
        raise CorpusError(problem, remedy=f"give more text, or {parameter('held_out', 0)}")
    return found


def _hold_out_whole(documents: DocumentRanges, share: float, seed: int) -> CorpusSplit:
    count = round(share * len(documents))
    held = np.zeros(len(documents), bool)
    held[np.random.default_rng(np.random.SeedSequence((seed, 0))).choice(len(documents), count, replace=False)] = True
    described = f"{count:,} of {len(documents):,} documents"
    return CorpusSplit(documents.where(~held), documents.where(held), described)


def _hold_out_ends(store: TokenStore, documents: DocumentRanges, share: float) -> CorpusSplit:
    """Hold out the sentences from that in which the last share of a document begins; none if these are all it has."""
    wanted = documents.ends - np.maximum(1, (share * documents.lengths).astype(np.int64))
    at = np.searchsorted(store.sentences, wanted, side="right") - 1
    cuts = np.asarray(store.sentences)[at]
    cuts = np.where(cuts > documents.starts, cuts, documents.ends)
    ends = DocumentRanges(cuts, documents.ends)
    held = ends.where(ends.lengths > 0)
    described = f"the last sentences of {len(held):,} of {len(documents):,} documents"
    return CorpusSplit(DocumentRanges(documents.starts, cuts), held, described)


def refuse_few_pairs(held_out: DocumentRanges, share: float) -> None:
    """Refuse held-out ranges of which fewer than two have two pieces: they give no pairs of segments."""
    if len(held_out) and (held_out.lengths >= 2).sum() < 2:
        problem = f"the {share:g} of the corpus that is held out is of one document, and next sentences need two"
        raise CorpusError(problem, remedy=f"give a larger {parameter('held_out')}, or {parameter('held_out', 0)}")

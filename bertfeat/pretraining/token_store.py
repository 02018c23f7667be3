"""The pieces of a corpus in flat files, which are mapped into memory: what is read of them is all that takes room.

``pieces.bin`` has all pieces, one document after the other, 4 bytes each, of which the highest bit says that a piece
continues a word. ``sentences.bin`` and ``documents.bin`` say at which pieces sentences and documents begin.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as FastTokenizer

from bertfeat.io import storage_errors
from bertfeat.pretraining.texts import CorpusText
from bertfeat.tokens import TextPieces, split_texts
from bertfeat.words import CharSpans

CONTINUES = np.uint32(1 << 31)
"""Marks a piece that continues the word of the piece before it."""

_ID = np.uint32(CONTINUES - 1)
_ROWS = 1000  # that are tokenized at a time
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
        """Number of times that each id occurs in a range, of which a block is read at a time. Shape: ``[V]``."""
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
    """A tokenizer that marks the pieces that continue a word, in their ids."""

    tokenizer: FastTokenizer

    def pieces(self, texts: Sequence[str], *, offsets: bool) -> list[TextPieces]:
        """Split texts into pieces."""
        result = []
        for encoding in self.tokenizer.encode_batch(list(texts), add_special_tokens=False):  # the fast one has no words
            ids = np.array(encoding.ids, np.uint32)
            words = np.array([-1 if word is None else word for word in encoding.word_ids], np.int64)
            ids[1:][(words[1:] == words[:-1]) & (words[1:] >= 0)] |= CONTINUES
            spans = np.array(encoding.offsets, np.int32).reshape(-1, 2) if offsets else None
            chars = None if spans is None else CharSpans(spans[:, 0], spans[:, 1])
            result.append(TextPieces(ids.view(np.int32), chars))
        return result


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
        """Starts between which there are at most as many pieces as are allowed, at words where that can be."""
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

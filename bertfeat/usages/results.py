"""The results of usage searches: usages in their contexts, and senses that group them."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from bertfeat.core import Value
from bertfeat.display import Cells, ToTheRight, displayed
from bertfeat.where import Slice

_AROUND = 60  # characters that a table shows on either side of the word

CONTEXT = 300
"""Characters that a usage keeps to the left and to the right of the word, by default, where it keeps no span."""


@displayed
@dataclass(frozen=True, slots=True)
class Usage:
    """One occurrence of the word in its context."""

    row: int  # of the document in its corpus
    id: str
    left: str  # the text before the word, as it is
    word: str  # as it is written in the text
    right: str
    start: int  # character offsets in the text
    end: int
    in_pair: bool  # in the second text of a pair
    score: float | None  # cosine to the meaning asked for, or to the mean of its sense; None in corpus order
    values: Mapping[str, Value]  # of the kept columns

    def cells(self) -> Cells:
        """The row of a table that shows the usage: the word between its contexts, as in a concordance."""
        left, right = ToTheRight(self.left[-_AROUND:]), self.right[:_AROUND]
        return {
            "left": left,
            "word": self.word,
            "right": right,
            "score": self.score,
            "id": self.id,
            "values": self.values,
        }


@displayed
@dataclass(frozen=True, slots=True)
class Usages:
    """The usages of a word."""

    word: str
    like: str | None  # the sentence that they are compared with, as it was given
    column: str  # the feature column that says how near they are
    documents: int  # searched; with a condition, those that meet it
    words: int | None  # in these documents, without punctuation marks; None by an index, which has no frequency
    found: int  # usages in these documents; by an index, all of its words and marks in them
    per_million: float | None  # usages in a million words; None by an index
    skipped: int  # those without a vector, of the usages that were to be compared
    usages: tuple[Usage, ...]  # nearest first, or in the order that was asked for
    warnings: tuple[str, ...] = ()  # about the language of the sentence
    near: str | None = None  # the word that stands near each usage, where one was asked for
    spans: str | None = None  # what the usages are shown in, such as sentences; None: so many characters


@displayed
@dataclass(frozen=True, slots=True)
class SliceUsages:
    """The usages of a word in one slice."""

    slice: Slice  # with its documents; with a condition, those that meet it
    words: int  # in these documents, without punctuation marks
    found: int
    per_million: float  # usages in a million words
    skipped: int  # those without a vector, of the usages that were to be compared
    score: float | None  # mean cosine of all compared usages to the meaning asked for; None if there is no such mean
    usages: tuple[Usage, ...]  # nearest first, or in the order that was asked for


@displayed
@dataclass(frozen=True, slots=True)
class SlicedUsages:
    """The usages of a word, slice by slice of a kept column."""

    word: str
    like: str | None
    column: str
    by: str  # the kept column
    documents: int  # searched, in slices or outside of them
    outside: int  # usages in documents that are in no slice
    slices: tuple[SliceUsages, ...]
    warnings: tuple[str, ...] = ()  # about the language of the sentence
    near: str | None = None  # the word that stands near each usage, where one was asked for
    spans: str | None = None  # what the usages are shown in, such as sentences; None: so many characters


@displayed
@dataclass(frozen=True, slots=True)
class Sense:
    """Usages with similar vectors."""

    count: int
    usages: tuple[Usage, ...]  # the most central ones first
    counts: tuple[int, ...] = ()  # its usages in each slice; empty without slices

    def cells(self) -> Cells:
        """The row of a table that shows the sense by its most central usage."""
        return {"count": self.count, "counts": self.counts, **(self.usages[0].cells() if self.usages else {})}


@displayed
@dataclass(frozen=True, slots=True)
class Senses:
    """The usages of a word, grouped."""

    word: str
    column: str
    documents: int  # searched; with a condition, those that meet it
    found: int
    skipped: int  # those without a vector, of the usages that were to be grouped
    grouped: int  # usages with a vector that were grouped: all, one per document, or a random sample of very many
    senses: tuple[Sense, ...]  # the largest first
    by: str | None = None  # the kept column whose slices the senses were counted in
    slices: tuple[Slice, ...] = ()
    outside: int = 0  # usages in documents that are in no slice, which are neither found nor grouped
    near: str | None = None  # the word that stands near each usage, where one was asked for
    spans: str | None = None  # what the usages are shown in, such as sentences; None: so many characters


@dataclass(frozen=True, slots=True)
class Site:
    """A range of characters in a document, from which a usage is made."""

    row: int
    id: str
    text: str  # the one of the document's texts that the word is in
    in_pair: bool
    start: int
    end: int
    values: Mapping[str, Value]

    def usage(self, context: int, score: float | None = None, first: int = 0, last: int = sys.maxsize) -> Usage:
        """The usage with that many characters on either side, from the character ``first`` to ``last`` at most."""
        return Usage(
            row=self.row,
            id=self.id,
            left=self.text[max(first, self.start - context) : self.start],
            word=self.text[self.start : self.end],
            right=self.text[self.end : min(last, self.end + context)],
            start=self.start,
            end=self.end,
            in_pair=self.in_pair,
            score=None if score is None else round(float(score), 6),
            values=self.values,
        )


def per_million(found: int, words: int) -> float:
    """A frequency in a million words; 0 where there are none."""
    return round(1e6 * found / words, 2) if words else 0.0

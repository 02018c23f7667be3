"""The rows of corpora and feature sets that examples are read from, their gold values, and the tokens of passages."""

import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.core import (
    CharSpans,
    Corpus,
    Document,
    DocumentPieces,
    Failure,
    FeatureSet,
    MemoryFeatures,
    PiecePositions,
    Pooling,
    locate_words,
    split_words,
)
from bertfeat.errors import HeadError, UsageError, did_you_mean, parameter, quote_names, shorten
from bertfeat.learning.example_store import describe_source
from bertfeat.learning.tag_files import TaggedText
from bertfeat.ragged import offsets_of, ranges

# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────


FeatureRows = FeatureSet | MemoryFeatures
"""Rows with features: a feature set on disk, or features in memory of a part of a corpus."""

TextRow = tuple[str, str, str | None]
"""Id, text, and second text of a row."""


class FeatureTable:
    """The rows of a feature set; a second set with the same rows holds the second texts of pairs.

    Raises:
        HeadError: ``reads`` are words, and the set keeps the vectors of some of them only.
    """

    def __init__(self, sets: Sequence[FeatureRows], reads: Pooling | None = None) -> None:
        self._sets = sets
        if reads is Pooling.WORD and isinstance(sets[0], FeatureSet) and (only := sets[0].header.settings.only):
            raise HeadError(
                f"it holds the vectors of some words only ({shorten(', '.join(only))}), and a tagger reads all",
                where=describe_source(sets[0]),
                remedy=f"extract it again without {parameter('only')}",
            )
        self.where = describe_source(sets[0])
        self.kept = tuple(column.name for column in sets[0].kept)
        self.has_tags = "tags" in sets[0].names
        single = False if "text" in sets[0].names else None  # a set without texts does not say whether it is of pairs
        self.has_pairs = True if len(sets) == 2 or "pair" in sets[0].names else single
        failures = {failure.row: failure for features in reversed(sets) for failure in features.failures()}
        self.failures = tuple(failures[row] for row in sorted(failures))

    def ids(self) -> Iterator[str]:
        """The id of each row."""
        for batch in self._sets[0].stream(["id"], batch_rows=8192):
            yield from batch.column("id").to_pylist()

    def column(self, name: str) -> Iterator[tuple[int, object]]:
        """The values of a kept column, each after its row; nothing else is read."""
        for batch in self._sets[0].stream(["row", name], batch_rows=8192):
            yield from zip(batch.column("row").to_pylist(), batch.column(name).to_pylist(), strict=True)

    def tags(self) -> Iterator[tuple[str, ...]]:
        """The tags of each row's words; nothing else is read."""
        for batch in self._sets[0].stream(["tags"], batch_rows=8192):
            for tags in batch.column("tags").to_pylist():
                yield tuple(map(sys.intern, tags or ()))

    def sentences(self) -> Iterator[TaggedText]:
        """Each row with its words, and with the tags that are stored for them."""
        known = self._sets[0].names
        read = [name for name in ("row", "id", "text", "words", "tags") if name in known]
        for batch in self._sets[0].stream([*read, *PiecePositions.columns("word", known)]):
            places = PiecePositions.read(batch, "word")
            for number, row in enumerate(batch.select(read).to_pylist()):
                stored = places.of_document(number)
                yield _sentence(row["row"], row["id"], row.get("text"), row.get("words"), stored, row.get("tags"))

    def texts(self) -> Iterator[TextRow]:
        """The texts of each row."""
        for features in self._sets:
            if "text" not in features.names:
                raise HeadError("it holds no texts", where=describe_source(features), remedy="give the corpus")
            if isinstance(features, FeatureSet) and features.holds_ids:
                raise _no_texts(describe_source(features))
        first = self._sets[0]
        names = [name for name in ("id", "text", "pair") if name in first.names]
        seconds = (text for batch in self._sets[-1].stream(["text"]) for text in batch.column("text").to_pylist())
        for batch in first.stream(names):
            for row in batch.to_pylist():
                yield row["id"], row["text"], next(seconds) if len(self._sets) == 2 else row.get("pair")


def _no_texts(where: str) -> HeadError:
    return HeadError("its documents are token ids, and texts are needed", where=where, remedy="give the texts")


class CorpusTable:
    """The documents of a corpus, in memory; rows that cannot be read are ``failures``."""

    def __init__(self, corpus: Corpus) -> None:
        self.where = ", ".join(corpus.sources[:3]) or "the list"
        self.kept = tuple(column.name for column in corpus.kept)
        self.has_tags = corpus.has_tags
        self.has_pairs = corpus.has_pairs
        rows = list(corpus.rows())
        self.failures = tuple(row for row in rows if isinstance(row, Failure))
        self._documents = [row for row in rows if isinstance(row, Document)]
        if any(document.ids is not None for document in self._documents):
            raise _no_texts(self.where)
        if not self._documents:
            reason = f": {self.failures[0].reason}" if self.failures else ""
            raise HeadError(f"there is no row in it that can be read{reason}", where=self.where)

    def ids(self) -> Iterator[str]:
        """The id of each row."""
        for document in self._documents:
            yield document.id

    def column(self, name: str) -> Iterator[tuple[int, object]]:
        """The values of a kept column, each after its row."""
        at = self.kept.index(name)
        for document in self._documents:
            yield document.row, document.kept[at]

    def tags(self) -> Iterator[tuple[str, ...]]:
        """The tags of each row's words."""
        for document in self._documents:
            yield tuple(map(sys.intern, document.tags or ()))

    def sentences(self) -> Iterator[TaggedText]:
        """Each row with its words, and with the tags that the corpus has for them."""
        for document in self._documents:
            text, words = document.text, document.words
            places = split_words(text) if words is None else locate_words(words)
            strings = words or [text[start:end] for start, end in zip(places.start, places.end, strict=True)]
            yield _sentence(document.row, document.id, text, strings, places, document.tags)

    def texts(self) -> Iterator[TextRow]:
        """The texts of each row."""
        for document in self._documents:
            yield document.id, document.text, document.pair


ExampleTable = FeatureTable | CorpusTable
"""Rows, in order, from which labels and texts are read."""


def check_pairs(has_pairs: bool | None, where: object, *, needed: bool, other: str) -> None:
    """Refuse pairs where ``other`` is of single texts, and single texts where it is of pairs.

    ``has_pairs`` is None for rows that do not say which they are.
    """
    if has_pairs is None or has_pairs == needed:
        return
    given, held = ("single texts", "pairs") if needed else ("pairs", "single texts")
    named = f"name the column of the second texts with {parameter('pair_column')}"
    remedy = named if needed else "give single texts, or train it anew on a set with its texts, if those are pairs"
    raise HeadError(f"these are {given}, and {other} is of {held}", where=where, remedy=remedy)


def _sentence(
    row: int,
    owner: str,
    text: str | None,
    words: Sequence[str] | None,
    places: DocumentPieces | CharSpans,
    tags: Sequence[str] | None,
) -> TaggedText:
    """A row with the tags of its source as gold tags; ``places`` say where its words begin and end."""
    strings = None if words is None else tuple(words)
    start, end = tuple(places.start.tolist()), tuple(places.end.tolist())
    gold = None if tags is None else tuple(map(sys.intern, tags))
    return TaggedText(row, owner, text, strings, start, end, (), gold)


# ── gold values ───────────────────────────────────────────────────────────────────────────────────────────


ANSWERS = "answers"  # a kept column: a JSON list of {"text": …, "start": …}, as the format squad has it
QUESTION, RIGHT = "question", "right"  # kept columns of choices: the question's id, and whether the choice is right


@dataclass(frozen=True, slots=True)
class GoldAnswer:
    """An answer to a question: a stretch of its passage."""

    text: str
    start: int  # characters


Gold = str | float | int | tuple[GoldAnswer, ...] | tuple[str, ...]
"""The gold value of an example: a label; a number; the number of the right choice, from 0; all answers to a question
(empty if it has none); or all labels or tags."""


def label_columns(label: str, known: Collection[str]) -> tuple[str, ...]:
    """The columns that ``label`` names: one, or several with commas between them, unless one has that whole name."""
    return (label,) if label in known or "," not in label else tuple(name.strip() for name in label.split(","))


def gold_values(table: ExampleTable, name: str) -> Iterator[tuple[int, object]]:
    """The values of a kept column, each after its row."""
    if name not in table.kept:
        raise UsageError(
            f"there is no column {name!r}; kept are {quote_names(table.kept) or 'none'}",
            where=table.where,
            remedy=f"{did_you_mean(name, table.kept)}extract with {parameter('keep', (name,))}",
        )
    yield from table.column(name)


def labels_of(gold: Gold | None) -> tuple[str, ...]:
    """The labels of an example as a tuple: one, or any number of them."""
    return tuple(map(str, gold)) if isinstance(gold, tuple) else (str(gold),)


# ── tokens of passages ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class PassageTokens:
    """The tokens of E questions with their passages, flat: N tokens."""

    offsets: NDArray[np.int64]  # [E+1]
    start: NDArray[np.int32]  # [N] characters
    end: NDArray[np.int32]  # [N]
    allowed: NDArray[np.bool_]  # [N] tokens of the passage, and [CLS], which stands for no answer

    @classmethod
    def of(cls, pieces: list[PiecePositions]) -> "PassageTokens":
        """The tokens of documents, from the token positions of batches."""
        counts = np.concatenate([np.diff(batch.offsets) for batch in pieces])
        offsets = offsets_of(counts)
        segments = [batch.segment for batch in pieces]
        assert all(segment is not None for segment in segments)
        segment = np.concatenate([part for part in segments if part is not None])
        start, end = (np.concatenate([getattr(batch, name) for batch in pieces]) for name in ("start", "end"))
        allowed = (segment == 1) & (end > start)
        allowed[offsets[:-1]] = True
        return cls(offsets, start, end, allowed)

    @classmethod
    def read(cls, features: FeatureSet | MemoryFeatures) -> "PassageTokens":
        """The tokens of a feature set."""
        names = PiecePositions.columns("token", features.names)
        if "token_segment" not in names:
            raise HeadError(
                "it holds no tokens of pairs",
                where=features.folder,
                remedy=f"extract questions and passages as pairs, with {parameter('pooling', 'token')}",
            )
        if isinstance(features, FeatureSet) and not features.header.settings.special_tokens:
            raise HeadError(
                "it holds no vector of [CLS], which stands for no answer",
                where=features.folder,
                remedy=f"extract it without {parameter('special_tokens', False)}",
            )
        return cls.of([PiecePositions.read(batch, "token") for batch in features.stream(names)])

    def passage(self, example: int) -> NDArray[np.int64]:
        """The tokens of an example's passage, numbered from the example's first token ([CLS], 0)."""
        first, last = int(self.offsets[example]), int(self.offsets[example + 1])
        return 1 + np.flatnonzero(self.allowed[first + 1 : last])

    def part(self, examples: NDArray[np.int64]) -> "PassageTokens":
        """The tokens of some examples alone."""
        lengths = np.diff(self.offsets)[examples]
        numbers = ranges(self.offsets[examples], lengths)
        return PassageTokens(offsets_of(lengths), self.start[numbers], self.end[numbers], self.allowed[numbers])

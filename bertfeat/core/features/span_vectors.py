"""Vectors of spans of texts, pooled from stored vectors of tokens or words when they are read ("late chunking").

A token knows its whole text, since the model read that; so does a span that is pooled from tokens, unlike one that is
embedded alone (Günther et al. 2024, arXiv:2409.04701).

Shapes: N tokens or words of some documents, S spans, W width of a vector.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from bertfeat.core.corpus import KeptColumn
from bertfeat.core.features.columns import ReadableColumn, find_column
from bertfeat.core.features.record_batches import PiecePositions, PieceRanges, RecordBatch
from bertfeat.core.recipe import LayerSpec, Pooling, Recipe
from bertfeat.core.spans import SpanRule
from bertfeat.core.words import CharSpans, align_each
from bertfeat.display import displayed
from bertfeat.errors import FeatureSetError, NotDerivableError, UsageError, did_you_mean, parameter
from bertfeat.ragged import lengths_of, offsets_of

if TYPE_CHECKING:
    from bertfeat.core.features.reader import FeatureSet

_ENDLESS = 10_000  # characters of a sentence that is told as one without an end
_log = logging.getLogger(__name__)

SpanPooling = Literal["mean", "max", "first"]
"""The way in which the vectors of a span's tokens or words become one."""


@displayed
@dataclass(frozen=True, slots=True)
class SpanBatch:
    """Spans of some documents with their vectors; a span without a token or word of its own has a zero vector."""

    rows: NDArray[np.int64]  # [S] row of the document
    ids: Sequence[str]  # [S] its id
    positions: NDArray[np.int64]  # [S] number of the span in its document
    start: NDArray[np.int32]  # [S] character offsets in the text
    end: NDArray[np.int32]  # [S]
    strings: Sequence[str]  # [S] what the text has there
    pieces: NDArray[np.int64]  # [S] number of tokens or words that were pooled
    matrix: NDArray[np.float32]  # [S, W]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, kw_only=True, slots=True)
class SpanPositions(PiecePositions):
    """The positions of the spans of some documents, and the tokens or words of each.

    These lie in the first text and have a vector of their own; one that reaches over two spans belongs to both.
    ``aligned`` says whether a span has any.
    """

    members: PieceRanges

    def ranges(self, _: Recipe) -> PieceRanges:
        """The tokens or words of each span."""
        return self.members

    def pool(self, matrix: NDArray[np.float32], pooling: SpanPooling = "mean") -> NDArray[np.float32]:
        """The vectors of the spans, ``[S, W]``, from those of all tokens or words, ``[N, W]``; zero where it has none.

        Shape: ``matrix [N, W]``.
        """
        members = self.members
        result = np.zeros((len(members.first), matrix.shape[1]), np.float32)
        filled = np.flatnonzero(members.sizes)
        if len(filled):
            rows = matrix if len(members.rows) == len(matrix) else matrix[members.rows]
            result[filled] = _REDUCTIONS[pooling](rows, members.first[filled], members.stop[filled])
        return result


class SpanCutter:
    """Cuts the texts of a feature set into spans by a ``rule``.

    Raises:
        FeatureSetError: the set holds no texts.
        UsageError: the kept column that would list the spans is missing.
    """

    def __init__(self, features: "FeatureSet", rule: SpanRule) -> None:
        self.rule, self._words, self._folder = rule, features.header.settings.word_rule, features.folder
        _check_cuttable(features, rule)
        self.names = ("row", "text", *([rule.column] if rule.column else []))
        """The columns of a record batch that :meth:`cut` reads."""
        self._told = False

    def cut(self, batch: RecordBatch) -> list[CharSpans]:
        """The spans of the first text of each document; a sentence without an end is warned of once.

        Raises:
            FeatureSetError: the kept column lists no spans, or such as are empty or outside the text.
            MissingLibraryError: words of Korean texts are counted, and what found them is not installed.
        """
        texts = batch.column("text").to_pylist()
        listed = batch.column(self.rule.column).to_pylist() if self.rule.column else [None] * len(texts)
        found = []
        for at, (text, cell) in enumerate(zip(texts, listed, strict=True)):
            try:
                found.append(self.rule.split(text, self._words, cell))
            except ValueError as error:
                if not self.rule.column:
                    raise
                where = f"{self._folder}, row {batch.column('row')[at]}, column {self.rule.column}"
                remedy = "correct the corpus, and extract again"
                raise FeatureSetError(str(error), where=where, remedy=remedy) from error
            self._tell_of_endless(found[-1], batch, at)
        return found

    def _tell_of_endless(self, spans: CharSpans, batch: RecordBatch, at: int) -> None:
        longest = int((spans.end - spans.start).max(initial=0))
        if self.rule.kind == "sentences" and longest > _ENDLESS and not self._told:
            self._told = True
            _log.warning(
                "%s, row %s: a sentence of %s characters, so that hardly one ends there; %s cuts texts without marks",
                *(self._folder, batch.column("row")[at], f"{longest:,}", parameter("spans", "words:200")),
            )

    def cut_pairs(self, batch: RecordBatch) -> list[CharSpans]:
        """The spans of the second text of each document, where a set has pairs; a column lists none of these."""
        if self.rule.column:
            return [self.rule.split("")] * len(batch)
        return [self.rule.split(text, self._words) for text in batch.column("pair").to_pylist()]


class SpanReader:
    """Cuts the texts of a feature set into spans, and finds the tokens or words that their vectors are pooled from.

    Of tokens, where both are stored and ``column`` and ``pooling`` name neither.

    Raises:
        NotDerivableError: there are no such vectors of tokens or words.
        FeatureSetError: the set holds no texts.
        UsageError: the kept column that would list the spans is missing.
    """

    def __init__(
        self, features: "FeatureSet", rule: SpanRule, column: LayerSpec | None = None, pooling: str | None = None
    ) -> None:
        self._cutter = SpanCutter(features, rule)
        self.column = find_pieces(features, column, pooling, use="spans are pooled from")
        """The column of tokens or words."""
        self.names = (*self._cutter.names, *PiecePositions.columns(self.column.pooling, features.names))
        """The columns of a record batch that :meth:`find` reads."""

    def find(self, batch: RecordBatch) -> SpanPositions:
        """The spans of a record batch, with the tokens or words of each.

        Raises:
            FeatureSetError: the kept column lists no spans, or such as are empty or outside the text.
            MissingLibraryError: words of Korean texts are counted, and what found them is not installed.
        """
        pieces, spans = PiecePositions.read(batch, self.column.pooling), self._cutter.cut(batch)
        joined, counts = CharSpans.join(spans), lengths_of(spans)
        counted = np.flatnonzero(pieces.usable if pieces.segment is None else pieces.usable & (pieces.segment == 0))
        own = np.searchsorted(counted, pieces.offsets)  # where each document's counted pieces begin
        first, stop = align_each(joined, counts, CharSpans(pieces.start[counted], pieces.end[counted]), np.diff(own))
        return SpanPositions(
            offsets=offsets_of(counts),
            start=joined.start,
            end=joined.end,
            segment=None,
            aligned=stop > first,
            members=PieceRanges(counted, first, stop),
        )


def _check_cuttable(features: "FeatureSet", rule: SpanRule) -> None:
    """Check that a set has the texts that a rule cuts, and the column that lists spans."""
    if "text" not in features.names:
        remedy = f"extract it without {parameter('keep_text', False)}"
        raise FeatureSetError("the set holds no texts, which are cut into spans", where=features.folder, remedy=remedy)
    if rule.column and KeptColumn(rule.column, "string") not in features.kept:
        kept = [column.name for column in features.kept if column.type == "string"]
        raise UsageError(
            f"no column {rule.column!r} of texts was kept, which would list the spans",
            where=features.folder,
            remedy=f"{did_you_mean(rule.column, kept)}extract with {parameter('keep', (rule.column,))}",
        )


def find_pieces(
    features: "FeatureSet", column: LayerSpec | None, pooling: str | None = None, *, use: str
) -> ReadableColumn:
    """The column of tokens or words with a name or recipe; tokens, where both are stored and it names neither.

    Raises:
        NotDerivableError: there are none of all tokens or words; ``use`` says what needs them.
    """
    some = bool(features.header.settings.only)
    whole = (Pooling.TOKEN,) if some else (Pooling.TOKEN, Pooling.WORD)
    pieces = [known for known in features.columns if known.pooling in whole]
    if not pieces:
        there = "vectors of some words only" if some else "no vectors of tokens or words"
        raise NotDerivableError(
            f"there are {there}, and {use} those of all tokens or words",
            where=features.folder,
            remedy=f"extract with {parameter('pooling', str(Pooling.TOKEN))}",
        )
    named = str(column).rpartition("_")[2]
    names_pooling = named in list(Pooling) and str(column) != Pooling.SENTENCE  # which may be that of tokens
    if names_pooling and Pooling(named).per_document:
        raise NotDerivableError(
            f"{column} has one vector of each text, and {use} those of all tokens or words",
            where=features.folder,
            remedy=f"there are {', '.join(known.name for known in pieces)}",
        )
    if pooling is None and not names_pooling:
        pieces = [known for known in pieces if known.pooling is Pooling.TOKEN] or pieces
    return find_column(pieces, features.header.model.num_layers, column, pooling, task="search")


def span_batch(batch: RecordBatch, spans: SpanPositions, matrix: NDArray[np.float32]) -> SpanBatch:
    """The spans of a record batch with their vectors, ``[S, W]``."""
    owners = spans.owners
    ids, texts = batch.column("id").to_pylist(), batch.column("text").to_pylist()
    places = zip(owners.tolist(), spans.start.tolist(), spans.end.tolist(), strict=True)
    return SpanBatch(
        rows=batch.column("row").to_numpy()[owners],
        ids=[ids[owner] for owner in owners.tolist()],
        positions=spans.numbers,
        start=spans.start,
        end=spans.end,
        strings=[texts[owner][start:end] for owner, start, end in places],
        pieces=spans.members.sizes,
        matrix=matrix,
    )


def _mean(rows: NDArray[np.float32], first: NDArray[np.int64], stop: NDArray[np.int64]) -> NDArray[np.float32]:
    means: NDArray[np.float32] = _reduce(np.add, rows, first, stop) / (stop - first).astype(np.float32)[:, np.newaxis]
    return means


def _reduce(
    operation: np.ufunc, rows: NDArray[np.float32], first: NDArray[np.int64], stop: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Reduce the rows of each range, none of which is empty. Ranges may overlap."""
    padded = np.concatenate([rows, np.zeros_like(rows[:1])])  # reduceat takes no end that is the number of rows
    reduced: NDArray[np.float32] = operation.reduceat(padded, np.stack([first, stop], axis=1).ravel(), axis=0)[::2]
    return reduced


_REDUCTIONS: Mapping[str, Callable[..., NDArray[np.float32]]] = {
    "mean": _mean,
    "max": lambda rows, first, stop: _reduce(np.maximum, rows, first, stop),
    "first": lambda rows, first, stop: rows[first],
}

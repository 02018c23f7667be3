"""The documents, tokens or words that two feature sets over the same rows have in common, and their vectors.

Rows are read side by side; in those that both have, items are matched by the characters that they stand for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bertfeat.core import (
    FeatureColumn,
    FeatureSet,
    PiecePositions,
    Pooling,
    ReadableColumn,
    RecordBatch,
    Unit,
    list_offsets,
    piece_offsets,
    stored_matrices,
)
from bertfeat.errors import DamagedError, FeatureSetError
from bertfeat.ragged import lengths_of, offsets_of

# ── rows side by side ───────────────────────────────────────────────────────────────────────────────────────


_DAMAGE_REMEDY = "bertfeat verify says what else is damaged"
_SHOWN = 40  # characters of a text in a message
_CONTENT = ("id", "text", "pair")  # what makes two rows the same, as far as both sets store it


class _MatchedRows:
    """The rows that two feature sets have in common, which have to be all but those that failed in one of them."""

    def __init__(self, first: FeatureSet, second: FeatureSet) -> None:
        self.sets = (first, second)
        self.failed = [0, 0]
        """For each set, documents of the other one that failed in it, as far as rows were read in the last reading."""
        self._content = [name for name in _CONTENT if all(name in features.names for features in self.sets)]
        self._failures = [
            np.fromiter((failure.row for failure in features.failures()), np.int64) for features in self.sets
        ]

    @property
    def by_text(self) -> bool:
        """Whether both sets hold texts, which are then compared."""
        return "text" in self._content

    def batches(self, first: Sequence[str], second: Sequence[str]) -> Iterator[tuple[RecordBatch, RecordBatch]]:
        """The common rows in their order, with columns of the first and of the second set, a row group at a time.

        The first row that only one set has, or whose id or text differs between them, is refused by its number.
        """
        self.failed = [0, 0]
        names = (list(dict.fromkeys(["row", *self._content, *wanted])) for wanted in (first, second))
        streams = (_ascending(features, columns) for features, columns in zip(self.sets, names, strict=True))
        for pair in _stretches(*streams):
            rows = [batch.column("row").to_numpy() for batch in pair]
            _, *places = np.intersect1d(rows[0], rows[1], assume_unique=True, return_indices=True)
            common = [
                batch if len(kept) == len(batch) else batch.take(kept) for batch, kept in zip(pair, places, strict=True)
            ]
            if problems := [*self._lone_rows(rows), *self._other_contents(*common)]:
                row, problem = min(problems)
                raise FeatureSetError(
                    f"not of the same rows as {self.sets[0].folder}: row {row:,} {problem}",
                    where=self.sets[1].folder,
                    remedy="extract both from the same corpus, read in the same way",
                )
            for lacking, having in ((0, 1), (1, 0)):
                self.failed[lacking] += len(rows[having]) - len(common[having])
            if len(common[0]):
                yield common[0], common[1]

    def _lone_rows(self, rows: Sequence[NDArray[np.int64]]) -> Iterator[tuple[int, str]]:
        """The first row of each set that the other one lacks, though it did not fail there."""
        for lacking, having in ((0, 1), (1, 0)):
            missing = np.setdiff1d(rows[having], rows[lacking], assume_unique=True)
            for row in np.setdiff1d(missing, self._failures[lacking])[:1].tolist():
                yield row, f"is in {self.sets[having].folder} only"

    def _other_contents(self, first: RecordBatch, second: RecordBatch) -> Iterator[tuple[int, str]]:
        """The first row whose id, and the first one whose text, is not the same in both."""
        for name in self._content if len(first) else ():
            ours, theirs = first.column(name), second.column(name)
            if not ours.equals(theirs):
                values = zip(first.column("row").to_pylist(), ours.to_pylist(), theirs.to_pylist(), strict=True)
                row, *differing = next(value for value in values if value[1] != value[2])
                shown = " and ".join(repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…") for text in differing)
                yield row, f"has another {name} in each: {shown}"


def _ascending(features: FeatureSet, names: Sequence[str]) -> Iterator[RecordBatch]:
    """The rows of a set, refused where they are in another order, as in a damaged part."""
    last = -1
    for batch in features.stream(names):
        rows = batch.column("row").to_numpy()
        if np.any(np.diff(rows, prepend=last) <= 0):
            raise DamagedError("its rows are not in their order", where=features.folder, remedy=_DAMAGE_REMEDY)
        if len(rows):
            last = int(rows[-1])
            yield batch


def _stretches(
    first: Iterator[RecordBatch], second: Iterator[RecordBatch]
) -> Iterator[tuple[RecordBatch, RecordBatch]]:
    """Batches of two sets cut so that each pair is of the same range of rows."""
    ours, theirs = next(first, None), next(second, None)
    while ours is not None and theirs is not None:
        stop = min(batch.column("row")[-1].as_py() for batch in (ours, theirs)) + 1
        (our_head, our_rest), (their_head, their_rest) = _cut_at_row(ours, stop), _cut_at_row(theirs, stop)
        yield our_head, their_head
        ours, theirs = our_rest or next(first, None), their_rest or next(second, None)
    while ours is not None:
        yield ours, ours.slice(0, 0)
        ours = next(first, None)
    while theirs is not None:
        yield theirs.slice(0, 0), theirs
        theirs = next(second, None)


def _cut_at_row(batch: RecordBatch, stop: int) -> tuple[RecordBatch, RecordBatch | None]:
    """The rows below ``stop``, and the others, if there are any."""
    at = int(np.searchsorted(batch.column("row").to_numpy(), stop))
    return batch.slice(0, at), batch.slice(at) if at < len(batch) else None


# ── pieces of the same characters ───────────────────────────────────────────────────────────────────────────


def without_blanks(batch: RecordBatch, tokens: PiecePositions) -> PiecePositions:
    """Move starts of tokens behind white space, which some tokenizers count as a part of the next token.

    Without texts in the batch, tokens stay as they are.
    """
    segment, start = _segments(tokens), tokens.start.copy()
    for number, name in enumerate(name for name in ("text", "pair") if name in batch.schema.names):
        texts = batch.column(name).to_pylist()
        begins = offsets_of(lengths_of(texts))
        own = segment == number
        begin = begins[:-1][tokens.owners[own]]
        after = _next_characters("".join(texts))[np.clip(begin + start[own], 0, begins[-1])]
        start[own] = np.minimum(after - begin, tokens.end[own])
    return replace(tokens, start=start)


def _next_characters(text: str) -> NDArray[np.int64]:
    """For each place in a text, and its end, the next one that holds no white space, ``[n+1]``."""
    characters = np.frombuffer(text.encode("utf-32-le"), "<U1")
    places = np.where(np.char.isspace(characters), len(characters), np.arange(len(characters)))
    return np.minimum.accumulate(np.append(places, len(characters))[::-1])[::-1]


def match_characters(positions: Sequence[PiecePositions]) -> list[NDArray[np.int64]]:
    """The numbers of the usable pieces of two sets that have the same characters of the same document, ``[n]`` of each.

    Where several pieces are of the same characters, as the bytes of an emoji may be, the first of them counts.
    """
    numbers = [np.flatnonzero(each.usable) for each in positions]
    spans = [
        np.stack([each.owners, _segments(each), each.start, each.end], axis=1)[usable]
        for each, usable in zip(positions, numbers, strict=True)
    ]
    _, keys = np.unique(np.concatenate(spans), axis=0, return_inverse=True)
    ours, theirs = np.split(keys.reshape(-1), [len(spans[0])])
    _, *places = np.intersect1d(ours, theirs, return_indices=True)
    return [usable[place] for usable, place in zip(numbers, places, strict=True)]


def _segments(positions: PiecePositions) -> NDArray[np.int8]:
    return np.zeros(len(positions.start), np.int8) if positions.segment is None else positions.segment


# ── matched items ───────────────────────────────────────────────────────────────────────────────────────────


_AT_ONCE = 1024  # vectors of each layer

Vectors = list[NDArray[np.float32]]
"""The vectors of n items: ``[n, W]`` of each column."""


@dataclass(frozen=True, slots=True)
class ItemCounts:
    """The numbers of documents and items that two sets have in common, and of those left out of each."""

    documents: int
    items: int
    failed: tuple[int, int]  # of each set
    without_vector: tuple[int, int]
    unmatched: tuple[int, int]


class MatchedItems:
    """The documents, tokens or words that have vectors of the same pooling in two sets over the same rows."""

    def __init__(self, first: FeatureSet, second: FeatureSet, pooling: Pooling) -> None:
        self._rows, self._pooling = _MatchedRows(first, second), pooling
        self.by_text = self._rows.by_text

    @cached_property
    def counts(self) -> ItemCounts:
        """The counts of what the sets have in common; both are read through, without their vectors."""
        documents = items = 0
        without_vector, unmatched = [0, 0], [0, 0]
        for batches in self._rows.batches(*self._position_names()):
            self._check_pieces(batches)
            usable, places = self._match(batches)
            documents += len(batches[0])
            items += len(places[0])
            for number, each in enumerate(usable):
                without_vector[number] += int((~each).sum())
                unmatched[number] += int(each.sum()) - len(places[0])
        of_each_set = (self._rows.failed, without_vector, unmatched)
        return ItemCounts(documents, items, *((first, second) for first, second in of_each_set))

    def vectors(
        self, first: Sequence[ReadableColumn], second: Sequence[ReadableColumn]
    ) -> Iterator[tuple[Vectors, Vectors]]:
        """The vectors of the matched items in their order, at most 1,024 at a time, in the columns of each set."""
        columns = (first, second)
        names = [
            [*positions, *(name for column in wanted for name in column.derivation.columns)]
            for positions, wanted in zip(self._position_names(), columns, strict=True)
        ]
        for batches in self._rows.batches(*names):
            self._check_pieces(batches, columns)
            _, places = self._match(batches)
            for at in range(0, len(places[0]), _AT_ONCE):
                ours, theirs = (
                    _vectors_at(features, batch, wanted, place[at : at + _AT_ONCE])
                    for features, batch, wanted, place in zip(self._rows.sets, batches, columns, places, strict=True)
                )
                yield ours, theirs

    def _position_names(self) -> list[list[str]]:
        unit = self._pooling.unit
        return [
            [] if self._pooling.per_document else PiecePositions.columns(unit, features.names)
            for features in self._rows.sets
        ]

    def _match(self, batches: Sequence[RecordBatch]) -> tuple[list[NDArray[np.bool_]], list[NDArray[np.int64]]]:
        """Return masks of each batch's items with a vector, ``[N]``, and numbers of those that both have, ``[n]``."""
        if self._pooling.per_document:
            every = np.arange(len(batches[0]))
            return [np.ones(len(every), np.bool_)] * 2, [every, every]
        positions = [PiecePositions.read(batch, self._pooling.unit) for batch in batches]
        if self._pooling.unit is Unit.TOKEN:
            positions = [without_blanks(batch, tokens) for batch, tokens in zip(batches, positions, strict=True)]
        return [each.usable for each in positions], match_characters(positions)

    def _check_pieces(
        self, batches: Sequence[RecordBatch], columns: Sequence[Sequence[ReadableColumn]] = ((), ())
    ) -> None:
        """Refuse a damaged part, in which a token or word lacks its place or a vector."""
        if self._pooling.per_document:
            return
        unit = self._pooling.unit
        for features, batch, wanted in zip(self._rows.sets, batches, columns, strict=True):
            offsets = [list_offsets(batch, name) for name in PiecePositions.columns(unit, features.names)]
            offsets += [piece_offsets(batch, column) for column in _stored_columns(features, wanted)]
            if any(not np.array_equal(offsets[0], other) for other in offsets[1:]):
                raise DamagedError(
                    f"not every {unit} has a place and a vector", where=features.folder, remedy=_DAMAGE_REMEDY
                )


def _vectors_at(
    features: FeatureSet, batch: RecordBatch, columns: Sequence[ReadableColumn], places: NDArray[np.int64]
) -> Vectors:
    """The vectors of the items at some places of a batch, a matrix for each column; they must be finite."""
    matrices = stored_matrices(batch, _stored_columns(features, columns))
    taken = {name: matrix[places] for name, matrix in matrices.items()}
    vectors = [column.derivation.apply(taken) for column in columns]
    for column, matrix in zip(columns, vectors, strict=True):
        if not np.isfinite(matrix).all():
            remedy = "bertfeat verify tells whether the model gives them"
            raise FeatureSetError(
                f"{column.name} holds values that are not finite", where=features.folder, remedy=remedy
            )
    return vectors


def _stored_columns(features: FeatureSet, columns: Sequence[ReadableColumn]) -> list[FeatureColumn]:
    """The stored columns from which the given ones are derived."""
    needed = {name for column in columns for name in column.derivation.columns}
    return [column for column in features.columns if column.name in needed]

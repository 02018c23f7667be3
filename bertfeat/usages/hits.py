"""The hits of a word in a feature set: found by the word index, then read with their texts and vectors.

Shapes: D documents of the set, n hits, W width of the feature column.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertfeat.core import (
    FeatureSet,
    PiecePositions,
    ReadableColumn,
    RecordBatch,
    WordList,
    fold_word,
    stored_matrices,
    unit_vectors,
)
from bertfeat.errors import FeatureSetError, errors_within, parameter, shell_value
from bertfeat.io import Address
from bertfeat.usages.match import TextWords, VectorPicks, combine_vectors
from bertfeat.usages.pattern import Pattern
from bertfeat.usages.pattern_search import find_pattern
from bertfeat.usages.results import Site
from bertfeat.usages.word_index import Hits, WordIndex
from bertfeat.where import Condition

_NO_VECTORS = np.empty((0, 0), np.float32)


@dataclass(frozen=True, slots=True)
class ReadHits:
    """Some hits whose documents are in one row group, in the order of the corpus."""

    numbers: NDArray[np.int64]  # [n] of each among all hits that were asked for
    sites: Sequence[Site]  # [n]
    matrix: NDArray[np.float32]  # [n, W] of length 1; [0, 0] where vectors were not asked for


def find_hits(features: FeatureSet, index: WordIndex, pattern: Pattern) -> Hits:
    """Find a pattern in a feature set; any word of a set that keeps some words only is one of those."""
    only = features.header.settings.only
    return index.find_listed(WordList(only)) if only and pattern.is_every_word else find_pattern(index, pattern)


def open_with_texts(features: FeatureSet | str | Path | Address) -> FeatureSet:
    """Open a feature set that keeps its texts.

    Raises:
        FeatureSetError: it has none; or see :class:`bertfeat.FeatureSet`.
    """
    opened = features if isinstance(features, FeatureSet) else FeatureSet(features)
    require_texts(opened)
    return opened


def require_texts(features: FeatureSet) -> None:
    """Refuse a feature set without texts.

    Raises:
        FeatureSetError: it has none.
    """
    if "text" not in features.names:
        raise FeatureSetError(
            f"{features.folder} was made with {parameter('keep_text', False)}, so there are no words to look for",
            remedy="extract it again with texts",
        )


def documents_that_meet(features: FeatureSet, condition: Condition | None) -> NDArray[np.bool_]:
    """Mask of the documents that meet a condition, ``[D]``; without one, of all."""
    if condition is None:
        return np.ones(len(features), bool)
    names = dict.fromkeys(["row", *condition.names])
    return np.concatenate([np.empty(0, bool), *map(condition.mask, features.stream(list(names)))])


def read_hits(features: FeatureSet, index: WordIndex, hits: Hits, column: ReadableColumn | None) -> Iterator[ReadHits]:
    """Read the documents of ascending hits, a row group at a time; with a column, those hits that have a vector in it.

    Raises:
        DamagedError: the word index or a part does not hold what it should.
        FeatureSetError: a vector is not finite.
    """
    rows = index.rows[index.document_of(hits.first)]
    own = [name for name in ("row", "id", "text", "pair") if name in features.names]
    names = [*own, *(kept.name for kept in features.kept)]
    if column is not None:
        names += [*PiecePositions.columns(column.pooling.unit, features.names), *column.derivation.columns]
    at = 0
    for batch in features.stream_rows(np.unique(rows).tolist(), names):
        stop = int(np.searchsorted(rows, batch.column("row")[-1].as_py(), side="right"))
        placed = _place_hits(features, index, batch, hits[at:stop], rows[at:stop])
        if column is not None:
            chosen, matrix = _vectors_of_hits(features, column, batch, placed)
            yield ReadHits(at + chosen, [placed[one].site for one in chosen], matrix)
        else:
            yield ReadHits(np.arange(at, stop), [one.site for one in placed], _NO_VECTORS)
        at = stop
    if at < len(hits):
        raise index.damaged("documents that do not exist")


@dataclass(frozen=True, slots=True)
class _PlacedHit:
    """A hit in a batch of documents."""

    document: int  # its number in the batch
    words: range  # the numbers of the hit's words in their text
    site: Site


def _place_hits(
    features: FeatureSet, index: WordIndex, batch: RecordBatch, hits: Hits, rows: NDArray[np.int64]
) -> list[_PlacedHit]:
    """Find hits in their documents, which lie in ``rows`` ``[n]``."""
    stored = batch.column("row").to_numpy()
    documents = np.searchsorted(stored, rows)
    if (stored[documents] != rows).any():
        raise index.damaged("documents that do not exist")
    ids: list[str] = batch.column("id").to_pylist()
    columns = [batch.column(name).to_pylist() for name in ("text", "pair") if name in batch.schema.names]
    kept = {kept.name: batch.column(kept.name).to_pylist() for kept in features.kept}
    texts = index.text_of(hits.first)
    firsts, second = hits.first - index.texts[texts], texts % index.texts_per_document
    first_end = index.starts[hits.first].astype(np.int64) + index.lengths[hits.first]
    arrays = (documents, rows, second, firsts, firsts + hits.length, *index.characters(hits).T, first_end)
    placed = []
    for (document, row, pair, first, stop, start, end, first_end), string in zip(
        np.stack(arrays, axis=1).tolist(), index.strings(hits.first), strict=True
    ):
        text = columns[pair][document]
        if text is None or fold_word(text[start:first_end]) != string:
            raise index.damaged("other words than the texts")
        values = {name: column[document] for name, column in kept.items()}
        site = Site(row, ids[document], text, bool(pair), start, end, values)
        placed.append(_PlacedHit(document, range(first, stop), site))
    return placed


def _vectors_of_hits(
    features: FeatureSet, column: ReadableColumn, batch: RecordBatch, placed: Sequence[_PlacedHit]
) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """The numbers of those hits that have a vector, and these vectors ``[n, W]`` of length 1."""
    unit, settings = column.pooling.unit, features.header.settings
    with errors_within(features.folder):
        pieces = PiecePositions.read(batch, unit)

    @cache
    def words_of(document: int, text: str, in_pair: bool) -> TextWords:
        return TextWords.of_text(text, pieces.of_document(document), unit, settings, in_pair=in_pair)

    picks = []
    for hit in placed:
        words = words_of(hit.document, hit.site.text, hit.site.in_pair)
        picks.append(words.picks(hit.words).moved(int(pieces.offsets[hit.document])))
    chosen = np.flatnonzero([bool(pick.numbers) for pick in picks])
    vectors = _combine(features, column, batch, [pick for pick in picks if pick.numbers])
    for at in np.flatnonzero(~np.isfinite(vectors).all(axis=1))[:1]:
        problem = f"a vector of {column.name} in row {placed[chosen[at]].site.row:,} is not finite"
        raise FeatureSetError(
            problem, where=features.folder, remedy=f"bertfeat verify {shell_value(features.folder)} says more"
        )
    nonzero = np.flatnonzero(vectors.any(axis=1))
    return chosen[nonzero], unit_vectors(vectors[nonzero])


def _combine(
    features: FeatureSet, column: ReadableColumn, batch: RecordBatch, picks: Sequence[VectorPicks]
) -> NDArray[np.float32]:
    """The vectors of a batch that make up each hit, combined: ``[n, W]``."""
    if not picks:
        return np.empty((0, column.width), np.float32)
    numbers = [number for pick in picks for number in pick.numbers]
    stored = stored_matrices(batch, column.derivation.inputs(features.columns))
    matrices = {name: matrix[numbers] for name, matrix in stored.items()}
    return combine_vectors(column.derivation.apply(matrices), picks)

"""The words of texts that are nearest to the words of a query, by stored vectors of words or tokens."""

import contextlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import DamagedError
from bertfeat.features import DocumentFeatures, unit_vectors
from bertfeat.recipe import FeatureColumn, Pooling
from bertfeat.search import unmark_words
from bertfeat.server.service import Service

Highlight = tuple[int, int, float]
"""Characters of a text, and the largest cosine of the word there to a word of the query."""

_MOST = 5  # words of a text
_LEAST = 0.5  # cosine


def highlight_texts(
    service: Service, query: str, rows: Sequence[int], texts: Sequence[str | None]
) -> list[list[Highlight]]:
    """For each text, of that row of the corpus, the words that match the query best, in their order.

    They are those of the first set with words or tokens; a text that it does not have in that row has none.
    """
    sets = [each for each in service.features if any(not column.pooling.per_document for column in each.columns)]
    wanted = {row: text for row, text in zip(rows, texts, strict=True) if text}
    if not sets or not wanted:
        return [[] for _ in rows]
    encoder = service.encoder_of(sets[0])
    column = _highlighting_column(encoder.wanted.columns)
    (asked,) = encoder.features([unmark_words(query)[0]])
    words = _word_vectors(asked, column)[1]
    found: dict[int, list[Highlight]] = {}
    with contextlib.suppress(DamagedError):  # a search is answered whatever became of the set
        for document in sets[0].documents_at(wanted, [column.name]):
            if document.text == wanted[document.row]:
                found[document.row] = _best_words(document, column, words)
    return [found.get(row, []) if text == wanted.get(row) else [] for row, text in zip(rows, texts, strict=True)]


def _highlighting_column(columns: Sequence[FeatureColumn]) -> FeatureColumn:
    """The column of words, else of tokens, whose layers are the deepest: in the first layers all equal words match."""
    return max(columns, key=lambda column: (column.pooling is Pooling.WORD, column.recipe.layers[::-1]))


def _best_words(document: DocumentFeatures, column: FeatureColumn, asked: NDArray[np.float32]) -> list[Highlight]:
    spans, vectors = _word_vectors(document, column)
    if not len(spans) or not len(asked):
        return []
    nearest = (vectors @ asked.T).max(axis=1)
    best = [at for at in np.argsort(-nearest)[:_MOST].tolist() if nearest[at] >= _LEAST]
    return [(*spans[at], round(float(nearest[at]), 4)) for at in sorted(best)]


def _word_vectors(
    document: DocumentFeatures, column: FeatureColumn
) -> tuple[list[tuple[int, int]], NDArray[np.float32]]:
    """The words of a text, without punctuation, and their vectors of length 1. Shape: ``[n, W]``."""
    pieces = document.pieces_of(column)
    assert pieces is not None
    text = document.text or ""
    spans = list(zip(pieces.start.tolist(), pieces.end.tolist(), strict=True))
    in_pair = np.zeros(len(spans), np.bool_) if pieces.segment is None else pieces.segment == 1
    own = [at for at, (start, end) in enumerate(spans) if not in_pair[at] and any(map(str.isalnum, text[start:end]))]
    return [spans[at] for at in own], unit_vectors(document.matrix(column.name)[own])

"""The words of hits that are nearest to the words of a query, by stored vectors of words or tokens."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import BertfeatError
from bertfeat.features import DocumentFeatures, FeatureSet, unit_vectors
from bertfeat.search import Hit
from bertfeat.server.encoder import SharedEncoder

Highlight = tuple[int, int, float]
"""Characters of a text, and the largest cosine of the word there to a word of the query."""

_MOST = 5  # words of a hit
_LEAST = 0.5  # cosine


def highlight_hits(
    features: FeatureSet, encoder: SharedEncoder, query: str, hits: Sequence[Hit]
) -> list[list[Highlight]]:
    """For each hit the words that match the query best, in the order of its text; none where it is not in the set."""
    column = encoder.wanted.columns[-1].name  # the deepest: in the first layers all equal words match
    (asked,) = encoder.features([query])
    words = _word_vectors(asked, column)[1]
    return [_best_words(document, column, words) if document else [] for document in _documents_of_hits(features, hits)]


def _documents_of_hits(features: FeatureSet, hits: Sequence[Hit]) -> list[DocumentFeatures | None]:
    """The documents of hits; None for one that the set does not have, or has with another text."""
    found: list[DocumentFeatures | None] = []
    for hit in hits:
        try:
            document = features[hit.row]
        except (BertfeatError, LookupError):
            document = None
        found.append(document if document is not None and document.text == hit.text else None)
    return found


def _best_words(document: DocumentFeatures, column: str, asked: NDArray[np.float32]) -> list[Highlight]:
    spans, vectors = _word_vectors(document, column)
    if not len(spans) or not len(asked):
        return []
    nearest = (vectors @ asked.T).max(axis=1)
    best = [at for at in np.argsort(-nearest)[:_MOST].tolist() if nearest[at] >= _LEAST]
    return [(*spans[at], round(float(nearest[at]), 4)) for at in sorted(best)]


def _word_vectors(document: DocumentFeatures, column: str) -> tuple[list[tuple[int, int]], NDArray[np.float32]]:
    """The words of a text, without punctuation, and their vectors of length 1. Shape: ``[n, W]``."""
    pieces = document.words or document.tokens
    assert pieces is not None
    text = document.text or ""
    spans = list(zip(np.asarray(pieces.start).tolist(), np.asarray(pieces.end).tolist(), strict=True))
    own = [at for at, (start, end) in enumerate(spans) if any(map(str.isalnum, text[start:end]))]
    return [spans[at] for at in own], unit_vectors(document.matrix(column)[own])

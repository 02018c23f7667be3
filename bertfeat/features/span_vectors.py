"""Vectors of spans of texts, pooled from stored vectors of tokens or words when they are read ("late chunking").

A token knows its whole text, since the model read that; so does a span that is pooled from tokens, unlike one that is
embedded alone (Günther et al. 2024, arXiv:2409.04701).

Shapes: D documents of a batch, N their tokens or words, S spans, W width of a vector.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bertfeat.display import displayed
from bertfeat.features.record_batches import PiecePositions, RecordBatch, number_pieces, piece_owners
from bertfeat.words import CharSpans, align_words

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


def span_batch(
    batch: RecordBatch,
    texts: Sequence[str],
    spans: Sequence[CharSpans],
    matrix: NDArray[np.float32],
    pieces: NDArray[np.int64],
) -> SpanBatch:
    """The spans of the documents of a record batch, with what :func:`pool_spans` gives for them."""
    offsets = np.concatenate([[0], np.cumsum([len(each) for each in spans], dtype=np.int64)])
    owners = piece_owners(offsets)
    ids = batch.column("id").to_pylist()
    start, end = (
        np.concatenate([np.empty(0, np.int32), *(getattr(each, name) for each in spans)]) for name in ("start", "end")
    )
    places = zip(owners.tolist(), start.tolist(), end.tolist(), strict=True)
    return SpanBatch(
        rows=batch.column("row").to_numpy()[owners],
        ids=[ids[owner] for owner in owners.tolist()],
        positions=number_pieces(offsets),
        start=start,
        end=end,
        strings=[texts[owner][a:b] for owner, a, b in places],
        pieces=pieces,
        matrix=matrix,
    )


def pool_spans(
    matrix: NDArray[np.float32], pieces: PiecePositions, spans: Sequence[CharSpans], pooling: SpanPooling
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Pool the tokens or words that have a character in a span: vectors ``[S, W]``, and the number of pieces ``[S]``.

    Pieces of no width, of a pair's second text and without a vector of their own do not count. A piece that reaches
    over two spans belongs to both.

    Shape: ``matrix [N, W]``, and spans of the first text of each of the D documents.
    """
    counted = pieces.usable if pieces.segment is None else pieces.usable & (pieces.segment == 0)
    at = np.flatnonzero(counted)
    own = np.searchsorted(at, pieces.offsets)  # where each document's counted pieces begin
    ranges = [
        np.add(align_words(each, CharSpans(pieces.start[at[a:b]], pieces.end[at[a:b]])), a)
        for each, a, b in zip(spans, own[:-1].tolist(), own[1:].tolist(), strict=True)
    ]
    first, stop = np.concatenate([np.empty((2, 0), np.int64), *ranges], axis=1)
    counts, result = stop - first, np.zeros((len(first), matrix.shape[1]), np.float32)
    filled = np.flatnonzero(counts)
    if len(filled):
        rows = matrix if len(at) == len(matrix) else matrix[at]
        result[filled] = _REDUCTIONS[pooling](rows, first[filled], stop[filled])
    return result, counts


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

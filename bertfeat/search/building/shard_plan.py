"""The division of feature sets' vectors into shards of whole parts, in order, the same for any number of processes.

Shapes: W values in a vector.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from bertfeat.search.vectors.vector_blocks import BLOCK_BYTES

LEAST_BYTES = 2 * BLOCK_BYTES
"""Vectors of a shard, but for the last one; a shard has one part at least."""

MOST_BYTES = 1 << 30
_SHARDS = 256  # as long as they are neither smaller nor larger than that


@dataclass(frozen=True, slots=True)
class SourcePart:
    """A part of one of the feature sets."""

    features: int  # which of the sets
    first_row: int
    last_row: int
    documents: int
    vectors: int


@dataclass(frozen=True, slots=True)
class SourceRows:
    """Rows of one of the feature sets."""

    features: int  # which of the sets
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class PlannedShard:
    """Parts that follow one another: the unit of work of a build by several processes."""

    number: int
    rows: tuple[SourceRows, ...]  # of each set
    first_document: int
    first_vector: int
    vectors: int


def plan_shards(parts: Sequence[SourcePart], width: int) -> tuple[PlannedShard, ...]:
    """Divide all parts of all sets, whose vectors are ``[n, W]``: as many as are worth while, each of bounded size."""
    total = sum(part.vectors for part in parts) * width * 4
    size = min(max(total // _SHARDS, LEAST_BYTES), MOST_BYTES)
    shards: list[PlannedShard] = []
    document = vector = 0
    for chosen in _divide(parts, size // (width * 4)):
        vectors = sum(part.vectors for part in chosen)
        shards.append(PlannedShard(len(shards), _source_rows(chosen), document, vector, vectors))
        document, vector = document + sum(part.documents for part in chosen), vector + vectors
    return tuple(shards)


def _divide(parts: Sequence[SourcePart], most: int) -> Iterator[list[SourcePart]]:
    """Parts of at most so many vectors together, or a larger one alone; none has no vectors, unless all have none."""
    chosen: list[SourcePart] = []
    count = 0
    for part in parts:
        if count and part.vectors and count + part.vectors > most:
            yield chosen
            chosen, count = [], 0
        chosen.append(part)
        count += part.vectors
    if chosen:
        yield chosen


def _source_rows(parts: Sequence[SourcePart]) -> tuple[SourceRows, ...]:
    sets = (list(group) for _, group in groupby(parts, lambda part: part.features))
    return tuple(SourceRows(group[0].features, group[0].first_row, group[-1].last_row) for group in sets)

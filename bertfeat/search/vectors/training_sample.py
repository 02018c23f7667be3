"""The vectors that are read before an index is filled: a sample to train on, and queries that judge the index.

Shapes: n vectors, Q queries, W values.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import IndexFolderError
from bertfeat.io import prefetched
from bertfeat.search.options import BuildOptions
from bertfeat.search.vectors.faiss_import import FaissIndex
from bertfeat.search.vectors.faiss_index import flat_storage
from bertfeat.search.vectors.index_types import POINTS_PER_CLUSTER, IndexChoice
from bertfeat.search.vectors.metric import Metric
from bertfeat.search.vectors.vector_blocks import VectorSource

SEED = 4171
SAMPLE_WITHOUT_CLUSTERS = 65_536  # vectors to train codes on
QUERIES = 1000  # half of them tune, the other half measures recall


@dataclass(slots=True)
class TrainingSample:
    """Vectors of a first pass, ready for FAISS."""

    training: NDArray[np.float32]  # [n, W]
    queries: NDArray[np.float32]  # [Q, W] for exact search; none where the index itself can do it
    own: NDArray[np.int64]  # [Q] their numbers


def sample_vectors(
    source: VectorSource,
    index: FaissIndex,
    choice: IndexChoice,
    options: BuildOptions,
    done: Callable[[int], None],
    *,
    judged: bool,
) -> TrainingSample:
    """Read the vectors that must be known before the index is filled, in one pass; no pass where none must.

    Where it is ``judged`` by its own vectors, some are queries, unless the index itself has them all.
    """
    training_size = 0 if index.is_trained else choice.clusters * POINTS_PER_CLUSTER or SAMPLE_WITHOUT_CLUSTERS
    judged = judged and flat_storage(index) is None
    numbers = sample_numbers(source.count, training_size + (QUERIES if judged else 0))
    if not len(numbers):
        empty = np.empty((0, source.width), np.float32)
        return TrainingSample(empty, empty, numbers)
    vectors, start = np.empty((len(numbers), source.width), np.float32), 0
    for block in prefetched(source.blocks(documents=False), join=True):
        first, last = np.searchsorted(numbers, (start, start + len(block.vectors)))
        vectors[first:last] = block.vectors[numbers[first:last] - start]
        start += len(block.vectors)
        done(start)
    prepare_vectors(options.preparation, vectors, numbers)
    if not judged:
        return TrainingSample(vectors, vectors[:0], numbers[:0])
    # the queries are left out of the training where there are enough others
    chosen = np.sort(np.random.default_rng(SEED).permutation(len(numbers))[:QUERIES])
    queries, own = vectors[chosen], numbers[chosen]
    if len(numbers) < source.count:
        vectors = _drop_rows(vectors, chosen)
    return TrainingSample(vectors[:training_size], queries, own)


def raw_vectors(source: VectorSource, done: Callable[[int], None]) -> Iterator[NDArray[np.float32]]:
    """All vectors of a source as they are, block by block.

    Raises:
        IndexFolderError: a vector that is not finite.
    """
    start = 0
    for block in prefetched(source.blocks(documents=False), join=True):
        prepare_vectors(Metric.IP, block.vectors, start)
        yield block.vectors
        start += len(block.vectors)
        done(start)


def sample_numbers(count: int, size: int) -> NDArray[np.int64]:
    """Numbers of a random sample, ascending; all of them where there are no more."""
    if size >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng(SEED).choice(count, size, replace=False, shuffle=False))


def prepare_vectors(
    metric: Metric, vectors: NDArray[np.float32], numbers: NDArray[np.int64] | int
) -> NDArray[np.bool_]:
    """Prepare vectors ``[n, W]`` for FAISS in place; ``numbers`` are theirs, or that of the first one.

    Returns:
        Which of them are zero vectors, ``[n]``.

    Raises:
        IndexFolderError: a vector that is not finite.
    """
    try:
        return metric.prepare(vectors)
    except ValueError as error:
        at = int(error.args[0])
        number = numbers + at if isinstance(numbers, int) else int(numbers[at])
        raise IndexFolderError(
            f"vector {number} is not finite (NaN, infinite, or too large to square)",
            remedy="bertfeat verify finds the cause",
        ) from error


def _drop_rows(vectors: NDArray[np.float32], dropped: NDArray[np.int64]) -> NDArray[np.float32]:
    """All other rows, in place: rows from the end fill the gaps."""
    rest = len(vectors) - len(dropped)
    tail = np.setdiff1d(np.arange(rest, len(vectors)), dropped)
    vectors[dropped[dropped < rest]] = vectors[tail]
    return vectors[:rest]

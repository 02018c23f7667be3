"""Token pooling: fewer vectors for a text, each the mean of tokens that are alike (Clavié et al. 2024, section 3).

The tokens of a text are clustered by Ward's linkage of their directions, until there are so many times fewer. What many
tokens say alike takes one vector then, and a token that stands alone keeps its own.

Shapes: n tokens of one document, N tokens of all of them, W values in a vector.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bertfeat.core import unit_vectors
from bertfeat.errors import needed_library
from bertfeat.ragged import offsets_of

LONGEST_RUN = 1024
"""Most tokens that are clustered together, since time and memory grow with their square; of a longer text, each run."""


def pool_documents(
    vectors: NDArray[np.float32], lengths: NDArray[np.int64], factor: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Pool the tokens ``[N, W]`` of documents with these ``lengths``; returns the vectors, and the new lengths.

    Raises:
        MissingLibraryError: SciPy is not installed.
        ValueError: a value is not finite.
    """
    if factor == 1 or not len(vectors):
        return vectors, lengths
    units = unit_vectors(vectors)
    if not np.isfinite(units).all():
        raise ValueError("a token has a value that is not finite")
    pooled = [
        [pool_tokens(units[start:stop], factor) for start, stop in _runs(*bounds)]
        for bounds in pairwise(offsets_of(lengths).tolist())
    ]
    new_lengths = np.array([sum(map(len, runs)) for runs in pooled], np.int64)
    return np.concatenate([run for runs in pooled for run in runs]), new_lengths


def pool_tokens(units: NDArray[np.float32], factor: int) -> NDArray[np.float32]:
    """The means of clusters of vectors of length 1, ``[n, W]``: n / factor of them, rounded up, or fewer.

    They stand in the order of each cluster's first token. Ties may give fewer, since equal vectors are in one cluster.
    """
    wanted = -(-len(units) // factor)
    if wanted == len(units):
        return units
    require_scipy()
    from scipy.cluster.hierarchy import fcluster, linkage

    cosines = (units @ units.T)[np.triu_indices(len(units), 1)].astype(np.float64)
    distances = np.sqrt(np.maximum(2 - 2 * cosines, 0))  # of vectors of length 1; one without values is far from all
    labels = fcluster(linkage(distances, "ward"), wanted, "maxclust")
    _, first, clusters = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))
    sums = np.zeros((len(first), units.shape[1]), np.float32)
    np.add.at(sums, order[clusters], units)
    return sums / np.bincount(order[clusters]).astype(np.float32)[:, None]


def require_scipy() -> None:
    """Check that what clusters tokens is installed.

    Raises:
        MissingLibraryError: SciPy is not.
    """
    with needed_library("pooling of tokens needs SciPy", "bertfeat[analysis]"):
        import scipy.cluster.hierarchy  # noqa: F401


def _runs(begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Divide the tokens of a document into runs of about the same length, none longer than :data:`LONGEST_RUN`."""
    bounds = np.linspace(begin, end, max(1, -(-(end - begin) // LONGEST_RUN)) + 1).round().astype(int).tolist()
    return pairwise(bounds)

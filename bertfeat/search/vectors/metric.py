"""The metric of an index, and how its copy of the vectors is prepared: under cosine each is scaled to length 1.

Feature sets keep vectors as the model gives them.

Shapes: n vectors, W values in each.
"""

import math
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the shell makes an option of the metrics, and its help imports no NumPy
    import numpy as np
    from numpy.typing import NDArray

_MOST_SQUARE = (2 - 2**-23) * 2.0**127 / 4  # of the largest float32, so that no distance between two vectors overflows


class Metric(StrEnum):
    """The meaning of a score."""

    COSINE = "cosine"  # of the angle, -1..1, larger is nearer; a zero vector scores 0 with everything
    IP = "ip"  # inner product, larger is nearer
    L2 = "l2"  # Euclidean distance (not its square), smaller is nearer

    @property
    def faiss_metric(self) -> int:
        """FAISS's own number for what its index computes."""
        from bertfeat.search.vectors.faiss_import import faiss

        return int(faiss.METRIC_L2 if self is Metric.L2 else faiss.METRIC_INNER_PRODUCT)

    @property
    def worst(self) -> float:
        """A score that is worse than every other one."""
        return math.inf if self is Metric.L2 else -math.inf

    def prepare(self, vectors: "NDArray[np.float32]") -> "NDArray[np.bool_]":
        """Prepare vectors for FAISS, in place: cosine scales each to length 1, zero vectors stay zero.

        Shape: ``[n, W]`` → which of them are zero vectors ``[n]``.

        Raises:
            ValueError: a vector is not finite, or so long that distances overflow; ``args[0]`` is its number.
        """
        import numpy as np

        from bertfeat.search.vectors.faiss_import import faiss

        squares = np.einsum("ij,ij->i", vectors, vectors)
        fit = squares <= _MOST_SQUARE  # NaN is not
        if not fit.all():
            raise ValueError(int(np.flatnonzero(~fit)[0]))
        if self is Metric.COSINE:
            faiss.normalize_L2(vectors)
        zero: NDArray[np.bool_] = squares == 0.0
        return zero

    def scores(self, computed: "NDArray[np.float32]") -> "NDArray[np.float32]":
        """Turn what FAISS computes into scores: under L2 it gives squared distances."""
        import numpy as np

        return np.sqrt(np.maximum(computed, 0.0)) if self is Metric.L2 else computed

    def nearness(self, scores: "NDArray[np.float32]") -> "NDArray[np.float32]":
        """Scores signed so that larger is nearer."""
        return -scores if self is Metric.L2 else scores


def copy_as_float32(vectors: "NDArray[np.floating]") -> "NDArray[np.float32]":
    """A float32 copy in C order, which may be changed in place."""
    import numpy as np

    return np.array(vectors, np.float32, order="C")

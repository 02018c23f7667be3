"""The metric by which an index compares vectors, and the whitening that may come before the comparison.

An index prepares its copy of the vectors: under cosine each is scaled to length 1. Feature sets keep vectors as the
model gives them. Whitenings are only named here; ``faiss_transforms.py`` computes them.

Shapes: n vectors, W values in each.
"""

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from bertfeat.arguments import checked
from bertfeat.errors import UsageError, shorten

if TYPE_CHECKING:  # the shell offers the metrics as an option, and its help imports no NumPy
    import numpy as np
    from numpy.typing import NDArray

NONE = "none"  # the name of no whitening
_VECTORS_PER_VALUE = 4  # at least, for full whitening: vectors per value of the whitened width
_MOST_SQUARE = (2 - 2**-23) * 2.0**127 / 4  # a quarter of the largest float32: no squared distance overflows


class Metric(StrEnum):
    """The meaning of a score."""

    COSINE = "cosine"  # cosine of the angle, -1..1, larger is nearer; a zero vector scores 0 with everything
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


class WhiteningKind(StrEnum):
    """The degree to which a whitening makes variances equal: in full, or halfway."""

    WHITEN = "whiten"
    HALF_WHITEN = "half-whiten"

    @property
    def power(self) -> float:
        """The power of the variances by which directions are multiplied."""
        return -0.5 if self is WhiteningKind.WHITEN else -0.25


@dataclass(frozen=True, slots=True)
class Whitening:
    """A way to whiten: ``whiten``, ``half-whiten``, or one of them with a width, such as ``whiten:128``."""

    kind: WhiteningKind
    width: int | None = None  # None: every direction in which the vectors vary

    def __str__(self) -> str:
        return str(self.kind) if self.width is None else f"{self.kind}:{self.width}"

    @property
    def power(self) -> float:
        """See :class:`WhiteningKind`."""
        return self.kind.power

    def is_wide_for(self, count: int) -> bool:
        """Whether the width is too large for ``count`` vectors: full whitening makes noise of the last directions."""
        return self.kind is WhiteningKind.WHITEN and (self.width or 0) * _VECTORS_PER_VALUE > count


@checked
def as_whitening(name: Whitening | str | None) -> Whitening | None:
    """Parse a whitening's name: ``whiten``, ``half-whiten``, ``whiten:128``, ``half-whiten:128``; ``none`` is None.

    Raises:
        UsageError: the name is none of these.
    """
    if name is None or isinstance(name, Whitening):
        return name
    if name == NONE:
        return None
    found = re.fullmatch(r"(half-whiten|whiten)(?::([0-9]{1,9}))?", name)
    width = int(found[2]) if found and found[2] else None
    if found is None or width == 0:
        raise UsageError(
            f"transform {shorten(name)!r} is unknown",
            remedy="there are: none, whiten, half-whiten, the last two also with a width, as in whiten:128",
        )
    return Whitening(WhiteningKind(found[1]), width)


def preparing_metric(metric: Metric, whitening: Whitening | None) -> Metric:
    """The metric for which vectors are prepared before FAISS gets them: whitened ones are scaled to length 1 later."""
    return metric if whitening is None else Metric.IP

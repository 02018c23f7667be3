"""The names of transforms: which whitening, to which width; ``whitening.py`` computes them."""

import re
from dataclasses import dataclass
from enum import StrEnum

from bertfeat.arguments import checked
from bertfeat.errors import UsageError, shorten
from bertfeat.search.vectors.metric import Metric

NONE = "none"  # the name of no transform
_VECTORS_PER_VALUE = 4  # that full whitening needs at least
_NAME = r"(half-whiten|whiten)(?::([0-9]{1,9}))?"


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
        """Whether so few vectors say too little of so many directions, and full whitening makes noise of the last."""
        return self.kind is WhiteningKind.WHITEN and (self.width or 0) * _VECTORS_PER_VALUE > count


@checked
def as_whitening(name: Whitening | str | None) -> Whitening | None:
    """The whitening of a name: ``whiten``, ``half-whiten``, ``whiten:128``, ``half-whiten:128``; ``none`` is None.

    Raises:
        UsageError: it is something else.
    """
    if name is None or isinstance(name, Whitening):
        return name
    if name == NONE:
        return None
    found = re.fullmatch(_NAME, name)
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

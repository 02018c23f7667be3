"""The choice of usages to show: the first ones, or those nearest to a meaning, as a feature set streams by."""

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import UsageError
from bertfeat.usages.results import Usage
from bertfeat.usages.scan import ScannedGroup


def check_numbers(k: int, context: int) -> None:
    """Refuse a ``k`` below 1 and a negative ``context``."""
    if k < 1:
        raise UsageError(f"k is {k}, but at least one usage must be asked for")
    if context < 0:
        raise UsageError(f"a context of {context} characters cannot be", remedy="0 keeps none")


def first_of_each(order: NDArray[np.int64], owners: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first occurrence of each document, in the given order."""
    _, first = np.unique(owners[order], return_index=True)
    return order[np.sort(first)]


class UsageRanking:
    """The ``k`` usages that come first, or that are nearest to ``vector`` ``[W]``, of groups in the corpus's order."""

    def __init__(self, vector: NDArray[np.float32] | None, k: int, one_per_document: bool, context: int) -> None:
        self._vector, self._k, self._one_per_document, self._context = vector, k, one_per_document, context
        self._sum, self._compared = 0.0, 0
        self._best: list[tuple[float, Usage]] = []

    @property
    def usages(self) -> tuple[Usage, ...]:
        """The usages chosen from the groups so far."""
        return tuple(usage for _, usage in self._best)

    @property
    def score(self) -> float | None:
        """The mean cosine of all usages to the vector; None where there is no vector or no usage."""
        return round(self._sum / self._compared, 6) if self._compared else None

    def add(self, group: ScannedGroup) -> None:
        """Take the usages of a group, or not."""
        if not len(group.sites):
            return
        if self._vector is None:
            order = np.arange(len(group.sites))
            if self._one_per_document:
                order = first_of_each(order, group.rows)
            chosen = order[: self._k - len(self._best)].tolist()
            self._best.extend((0.0, group.sites[number].usage(self._context)) for number in chosen)
            return
        scores = group.matrix @ self._vector
        self._sum += float(scores.sum(dtype=np.float64))
        self._compared += len(scores)
        order = np.argsort(-scores, kind="stable")  # of equal ones the earlier in the corpus
        if self._one_per_document:
            order = first_of_each(order, group.rows)
        self._best.extend(
            (scores[number], group.sites[number].usage(self._context, scores[number]))
            for number in order[: self._k].tolist()
        )
        self._best = sorted(self._best, key=lambda scored: -scored[0])[: self._k]

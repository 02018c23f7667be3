"""A map before it is drawn: the points, their colors, and the texts around them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.corpus import Value
from bertfeat.display import Cells, displayed
from bertfeat.plots.coloring import NONE, OTHER, Coloring, NameColors
from bertfeat.plots.texts import one_line


@displayed
@dataclass(frozen=True, slots=True)
class DocumentMap:
    """Documents as points in the plane, with all that a picture or a page of them shows."""

    flat: NDArray[np.float64]  # [n, 2]
    title: str
    note: str  # what a point is, how many there are, and how they were laid out
    axis_names: tuple[str, str]
    coloring: Coloring | None
    values: Sequence[Value] | None  # [n] of the column that gives the colors
    fields: Mapping[str, Sequence[Value]]  # [n] of each column that a page shows
    of: int  # documents in the feature set
    explained: float | None  # share of the variance that the two dimensions keep, under PCA

    def cells(self) -> Cells:
        """The facts that a line or a table shows of the map."""
        return {"title": self.title, "points": len(self), "of": self.of, "explained": self.explained}

    def __len__(self) -> int:
        return len(self.flat)

    def codes(self) -> NDArray[np.int64]:
        """The group of each point: a place in the palette (0 where there are no colors), or OTHER, or NONE."""
        if self.coloring is None or self.values is None:
            return np.zeros(len(self.flat), np.int64)
        if isinstance(self.coloring, NameColors):
            return self.coloring.codes(self.values)
        return np.where(np.isfinite(self.coloring.numbers(self.values)), 0, NONE)

    def numbers(self) -> NDArray[np.float64] | None:
        """The number of each point, NaN where it has none; None where colors are no scale."""
        if self.coloring is None or self.values is None or isinstance(self.coloring, NameColors):
            return None
        return self.coloring.numbers(self.values)

    def label(self, code: int) -> str:
        """The name of a group in the legend."""
        if code == NONE:
            return "no value" if isinstance(self.coloring, NameColors) else "no number"
        assert isinstance(self.coloring, NameColors)  # only names have a legend
        if code == OTHER:
            return f"{self.coloring.others:,} other value{'' if self.coloring.others == 1 else 's'}"
        name = one_line(self.coloring.frequent[code])
        return name or "(empty)"

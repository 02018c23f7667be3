"""The content of a map before it is drawn: the points, the texts around them, and the colors of their values.

Colors are decided from all documents of a feature set, so that they are the same in all its pictures.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.core import FeatureSet, Value
from bertfeat.display import Cells, displayed
from bertfeat.errors import UsageError, did_you_mean, parameter
from bertfeat.plots.clusters import Cluster, Clustering
from bertfeat.plots.palette import NAMED
from bertfeat.plots.texts import one_line

_FREQUENT = len(NAMED) - 1  # values with a color of their own, where there are more values than colors
MOST_VALUES = 100_000  # different ones that are counted at most
_LEAST_SHARE = 0.2  # of the documents with a value: the values that get a color must cover at least this share

OTHER, NONE = -1, -2
"""Codes of a document whose value has no color of its own, and of one without a value."""

_AS_NAMES = ":string"  # after a column's name: take its numbers for names
_BATCH = 8192  # rows that are read at a time


@dataclass(frozen=True, slots=True)
class NameColors:
    """A column of names: the most frequent ones have a color each, in the order of the palette."""

    column: str
    frequent: tuple[str, ...]
    others: int  # number of further different values, all in one gray

    def codes(self, values: Sequence[Value]) -> NDArray[np.int64]:
        """The place of each value among the frequent ones, or :data:`OTHER` or :data:`NONE`."""
        places = {name: place for place, name in enumerate(self.frequent)}
        return np.array([NONE if value is None else places.get(_as_name(value), OTHER) for value in values], np.int64)


@dataclass(frozen=True, slots=True)
class NumberScale:
    """A column of numbers, from the lowest to the highest of the whole set."""

    column: str
    low: float
    high: float
    whole: bool  # whether they are all integers

    def numbers(self, values: Sequence[Value]) -> NDArray[np.float64]:
        """The values as numbers, NaN where there is none or it is not finite."""
        return np.array(
            [math.nan if (number := _finite_number(value)) is None else number for value in values], np.float64
        )


@displayed
@dataclass(frozen=True, slots=True)
class DocumentMap:
    """Documents as points in the plane, with all that a picture or a page of them shows."""

    flat: NDArray[np.float32]  # [n, 2]
    title: str
    note: str  # what a point is, how many there are, and how they were laid out
    axis_names: tuple[str, str]
    coloring: NameColors | NumberScale | None
    values: Sequence[Value] | None  # [n] of what gives the colors
    labels: tuple[Cluster, ...]  # of the clusters, in the order in which they are given room
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
        """The name of a group in the legend: by its number among the frequent values, OTHER or NONE."""
        if code == NONE:
            return "no value" if isinstance(self.coloring, NameColors) else "no number"
        assert isinstance(self.coloring, NameColors)  # of a scale of numbers the legend has NONE alone
        if code == OTHER:
            return f"{self.coloring.others:,} other value{'' if self.coloring.others == 1 else 's'}"
        return one_line(self.coloring.frequent[code]) or "(empty)"


def cluster_colors(clustering: Clustering) -> tuple[NameColors, Sequence[Value]]:
    """The colors of clusters, and what gives each point its color: the name of its cluster, ``[n]``."""
    names = [f"{at}. {cluster.name}".rstrip(". ") for at, cluster in enumerate(clustering.clusters, 1)]
    return NameColors("clusters", tuple(names), 0), [names[code] for code in clustering.codes.tolist()]


def decide_colors(features: FeatureSet, spec: str) -> NameColors | NumberScale:
    """Look through a kept column, ``row`` or ``id`` of the whole set, and assign colors to its values.

    Numbers get a scale; ``COL:string`` takes them for names. Of more than ten names the nine most frequent get a
    color; of equally frequent ones, those that sort first.

    Raises:
        UsageError: there is no such column, or it has too many different names for colors.
    """
    known = ["row", "id", *(kept.name for kept in features.kept)]
    as_names = spec not in known and spec.endswith(_AS_NAMES)
    column = spec.removesuffix(_AS_NAMES) if as_names else spec
    if column not in known:
        keep = f"extract with {parameter('keep')} to keep columns of the corpus"
        remedy = did_you_mean(spec, known).rstrip() if features.kept else keep
        raise UsageError(f"there is no kept column {spec!r} to color by; there are: {', '.join(known)}", remedy=remedy)
    types = {kept.name: kept.type for kept in features.kept} | {"row": "int64", "id": "string"}
    if types[column] in ("int64", "float64") and not as_names:
        return _decide_scale(features, column) or NameColors(column, (), 0)
    return _decide_names(features, column)


def _decide_scale(features: FeatureSet, column: str) -> NumberScale | None:
    """The scale of a column of numbers; None where it has none at all."""
    low, high, whole = math.inf, -math.inf, True
    for values in _color_values(features, column):
        numbers = [number for value in values if (number := _finite_number(value)) is not None]
        low, high = min([low, *numbers]), max([high, *numbers])
        whole = whole and all(number.is_integer() for number in numbers)
    return NumberScale(column, low, high, whole) if low <= high else None


def _decide_names(features: FeatureSet, column: str) -> NameColors:
    counted: Counter[str] = Counter()
    for values in _color_values(features, column):
        counted.update(_as_name(value) for value in values if value is not None)
        if len(counted) > MOST_VALUES:
            raise _too_many(features, column, f"more than {MOST_VALUES:,} different values")
    ordered = sorted(counted, key=lambda name: (-counted[name], name))
    if len(ordered) <= len(NAMED):
        return NameColors(column, tuple(ordered), 0)
    share = sum(counted[name] for name in ordered[:_FREQUENT]) / counted.total()
    if share < _LEAST_SHARE:
        summary = (
            f"{len(ordered):,} different values, and the {_FREQUENT} most frequent are {share:.1%} of the documents"
        )
        raise _too_many(features, column, summary)
    return NameColors(column, tuple(ordered[:_FREQUENT]), len(ordered) - _FREQUENT)


def _too_many(features: FeatureSet, column: str, values: str) -> UsageError:
    return UsageError(
        f"{column} has {values}: too many for colors to tell anything",
        where=features.folder,
        remedy="color by a column with fewer values or with numbers, or draw a page (map.html), which shows and finds "
        "the values",
    )


def _color_values(features: FeatureSet, column: str) -> Iterator[list[Value]]:
    for batch in features.stream([column], batch_rows=_BATCH):
        yield batch.column(0).to_pylist()


def _as_name(value: Value) -> str:
    """A value as a picture names it; truth values as JSON writes them."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _finite_number(value: Value) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None

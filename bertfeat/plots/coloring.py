"""The colors of values: decided from all documents of a feature set, so that they are the same in all its pictures."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.corpus import Value
from bertfeat.errors import UsageError, did_you_mean, parameter
from bertfeat.features import FeatureSet
from bertfeat.plots.palette import NAMED

FREQUENT = len(NAMED) - 1  # values with a color of their own, where there are more values than colors
MOST_VALUES = 100_000  # different ones that are counted
LEAST_SHARE = 0.2  # of the documents with a value, that the values with a color must have
OTHER, NONE = -1, -2
"""Codes of a document whose value has no color of its own, and of one without a value."""

_AS_NAMES = ":string"
_BATCH = 8192


@dataclass(frozen=True, slots=True)
class NameColors:
    """A column of names: the most frequent ones have a color each, in the order of the palette."""

    column: str
    frequent: tuple[str, ...]
    others: int  # further different values, all in one grey

    def codes(self, values: Sequence[Value]) -> NDArray[np.int64]:
        """The place of each value among the frequent ones, or :data:`OTHER` or :data:`NONE`."""
        places = {name: place for place, name in enumerate(self.frequent)}
        return np.array([NONE if value is None else places.get(as_name(value), OTHER) for value in values], np.int64)


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


Coloring = NameColors | NumberScale


def as_name(value: Value) -> str:
    """A value as a picture names it; truth values as JSON writes them."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def decide_colors(features: FeatureSet, spec: str) -> Coloring:
    """Look through a kept column, ``row`` or ``id`` of the whole set, and assign colors to its values.

    Numbers get a scale; ``COL:string`` takes them for names. Of more than ten names the nine most frequent get a
    color; of equally frequent ones those first in the order of characters.

    Raises:
        UsageError: there is no such column, or it has too many different names for colors.
    """
    column, as_names = _color_column(features, spec)
    types = {kept.name: kept.type for kept in features.kept} | {"row": "int64", "id": "string"}
    if types[column] in ("int64", "float64") and not as_names:
        return _decide_scale(features, column) or NameColors(column, (), 0)
    return _decide_names(features, column)


def _color_column(features: FeatureSet, spec: str) -> tuple[str, bool]:
    known = ["row", "id", *(kept.name for kept in features.kept)]
    if spec in known:
        return spec, False
    if spec.endswith(_AS_NAMES) and (column := spec.removesuffix(_AS_NAMES)) in known:
        return column, True
    keep = f"extract with {parameter('keep')} to keep columns of the corpus"
    remedy = did_you_mean(spec, known).rstrip() if features.kept else keep
    raise UsageError(f"there is no kept column {spec!r} to color by; there are: {', '.join(known)}", remedy=remedy)


def _color_values(features: FeatureSet, column: str) -> Iterator[list[Value]]:
    for batch in features.stream([column], batch_rows=_BATCH):
        yield batch.column(0).to_pylist()


def _decide_scale(features: FeatureSet, column: str) -> NumberScale | None:
    """The scale of a column of numbers; None where it has none at all."""
    low, high, whole = math.inf, -math.inf, True
    for values in _color_values(features, column):
        numbers = [number for value in values if (number := _finite_number(value)) is not None]
        low, high = min([low, *numbers]), max([high, *numbers])
        whole = whole and all(number.is_integer() for number in numbers)
    return NumberScale(column, low, high, whole) if low <= high else None


def _finite_number(value: Value) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _decide_names(features: FeatureSet, column: str) -> NameColors:
    counted: Counter[str] = Counter()
    for values in _color_values(features, column):
        counted.update(as_name(value) for value in values if value is not None)
        if len(counted) > MOST_VALUES:
            raise _too_many(features, column, f"more than {MOST_VALUES:,} different values")
    ordered = sorted(counted, key=lambda name: (-counted[name], name))
    if len(ordered) <= len(NAMED):
        return NameColors(column, tuple(ordered), 0)
    share = sum(counted[name] for name in ordered[:FREQUENT]) / counted.total()
    if share < LEAST_SHARE:
        summary = (
            f"{len(ordered):,} different values, and the {FREQUENT} most frequent are {share:.1%} of the documents"
        )
        raise _too_many(features, column, summary)
    return NameColors(column, tuple(ordered[:FREQUENT]), len(ordered) - FREQUENT)


def _too_many(features: FeatureSet, column: str, values: str) -> UsageError:
    return UsageError(
        f"{column} has {values}: too many for colors to tell anything",
        where=features.folder,
        remedy="color by a column with fewer values or with numbers, or draw a page (map.html), which shows and finds "
        "the values",
    )

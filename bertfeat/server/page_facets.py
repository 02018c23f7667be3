"""The kept columns of an index, by which the page filters documents and colors the points of its map.

A color is a code for each point, beside a legend of what the codes stand for.
"""

import base64
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bertfeat.core import Value
from bertfeat.search import Index, living_values
from bertfeat.where import column_kinds, dictionary_key, number_range

_MOST_VALUES = 50
"""The most different values of a column that are offered one by one."""

MOST_NAMES = 10
"""The most values with a color of their own, as many as the palette has; of more values, all but nine share one."""

_SHADES = 9
"""The most steps of the color scale for numbers."""


@dataclass(frozen=True, slots=True)
class _FacetValue:
    """A value of a column."""

    value: Value
    count: int  # of documents


@dataclass(frozen=True, slots=True)
class Facet:
    """The content of a kept column: its values, or the range of its numbers."""

    name: str
    kind: str  # "string" | "int64" | "float64" | "bool"
    values: tuple[_FacetValue, ...] | None  # the most frequent first; None for numbers, and for too many values
    low: float | None  # of numbers
    high: float | None

    def to_json(self) -> dict[str, object]:
        """The facet as JSON values."""
        values = self.values and [{"value": each.value, "count": each.count} for each in self.values]
        return {"name": self.name, "kind": self.kind, "values": values, "min": self.low, "max": self.high}


def read_facets(index: Index) -> tuple[Facet, ...]:
    """Read the kept columns of an index, one after the other; removed documents are not counted."""
    kinds = column_kinds(index.vectors.documents.schema)
    facets = []
    for name in index.kept:
        if kinds.get(name) in ("int64", "float64"):
            low, high = number_range(living_values(index, name))
            facets.append(Facet(name, kinds[name], None, low, high))
        elif name in kinds:
            facets.append(Facet(name, kinds[name], _count_values(index, name), None, None))
    return tuple(facets)


def _count_values(index: Index, name: str) -> tuple[_FacetValue, ...] | None:
    counts: Counter[Value] = Counter()
    for values in living_values(index, name):
        for each in pc.value_counts(values.drop_null()):
            counts[each["values"].as_py()] += each["counts"].as_py()
        if len(counts) > _MOST_VALUES:
            return None
    ordered = sorted(counts.items(), key=lambda item: (-item[1], dictionary_key(str(item[0]))))
    return tuple(_FacetValue(value, count) for value, count in ordered)


@dataclass(frozen=True, slots=True)
class ColorEntry:
    """An entry of the map's legend: the values that a color stands for."""

    label: str
    paint: str  # "name" | "shade" | "others" | "none": the part of the palette
    number: int  # within that part
    count: int = 0  # of points

    def to_json(self) -> dict[str, object]:
        """The entry as JSON values."""
        return {"label": self.label, "paint": self.paint, "number": self.number, "count": self.count}


@dataclass(frozen=True, slots=True)
class PointColors:
    """The colors of all points of a map."""

    column: str
    entries: tuple[ColorEntry, ...]
    codes: NDArray[np.uint8]  # [n] the place of each point's entry among the entries

    def to_json(self) -> dict[str, object]:
        """Return the colors as JSON values; the codes are bytes in base64."""
        codes = base64.b64encode(self.codes.tobytes()).decode("ascii")
        return {"column": self.column, "entries": [entry.to_json() for entry in self.entries], "codes": codes}


def can_color(facet: Facet) -> bool:
    """Whether points can be colored by a column: it has few values, or finite numbers."""
    return bool(facet.values) or (facet.low is not None and facet.high is not None)


def color_points(index: Index, numbers: NDArray[np.int64], facet: Facet) -> PointColors:
    """Give each vector of those numbers ``[n]`` the entry of its document's value, or the last one if it has none.

    The column must be one for which :func:`can_color` is true.
    """
    entries, code = _code_values(facet) if facet.values else _code_numbers(facet)
    blocks = [code(batch.column(0)) for batch in index.vectors.documents.batches([facet.name])]
    of_documents = np.concatenate(blocks) if blocks else np.empty(0, np.uint8)
    codes = of_documents[index.vectors.document_numbers(numbers)]
    counts = np.bincount(codes, minlength=len(entries)).tolist()
    counted = [ColorEntry(each.label, each.paint, each.number, n) for each, n in zip(entries, counts, strict=True)]
    return PointColors(facet.name, tuple(counted), codes)


_Coding = tuple[list[ColorEntry], Callable[[pa.Array], NDArray[np.uint8]]]


def _code_values(facet: Facet) -> _Coding:
    assert facet.values
    own = facet.values if len(facet.values) <= MOST_NAMES else facet.values[: MOST_NAMES - 1]
    entries = [ColorEntry(_shown(each.value), "name", number) for number, each in enumerate(own)]
    entries += [ColorEntry("other values", "others", 0), ColorEntry("no value", "none", 0)]
    known = [each.value for each in own]

    def code(values: pa.Array) -> NDArray[np.uint8]:
        found = pc.fill_null(pc.index_in(values, pa.array(known, values.type)), len(own))
        numbers: NDArray[np.uint8] = found.to_numpy(zero_copy_only=False).astype(np.uint8)
        numbers[values.is_null().to_numpy(zero_copy_only=False)] = len(own) + 1
        return numbers

    return entries, code


def _code_numbers(facet: Facet) -> _Coding:
    assert facet.low is not None
    assert facet.high is not None
    low, high = facet.low, facet.high
    whole = facet.kind == "int64"
    width = -(-(high - low + 1) // _SHADES) if whole else (high - low) / _SHADES or 1.0
    steps = int((high - low) // width) + 1 if whole else _SHADES if high > low else 1
    ends = [(low + at * width, low + (at + 1) * width) for at in range(steps)]
    labels = [_whole_range(a, min(high, b - 1)) if whole else f"{a:.3g} – {b:.3g}" for a, b in ends]
    shades = np.linspace(0, _SHADES - 1, steps).round().astype(int).tolist() if steps > 1 else [_SHADES // 2]
    entries = [ColorEntry(label, "shade", shade) for label, shade in zip(labels, shades, strict=True)]
    entries.append(ColorEntry("no value", "none", 0))

    def code(values: pa.Array) -> NDArray[np.uint8]:
        if whole:  # in unsigned 64 bits, which hold the difference of any two int64
            above = pc.fill_null(values, int(low)).to_numpy().astype(np.uint64) - np.array(int(low)).astype(np.uint64)
            missing = values.is_null().to_numpy(zero_copy_only=False)
            return np.where(missing, steps, np.minimum(above // np.uint64(width), steps - 1)).astype(np.uint8)
        numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
        finite = np.isfinite(numbers)
        at = np.clip((np.where(finite, numbers, low) - low) // width, 0, steps - 1)
        codes: NDArray[np.uint8] = np.where(finite, at, steps).astype(np.uint8)
        return codes

    return entries, code


def _whole_range(low: float, high: float) -> str:
    return f"{int(low)}" if low == high else f"{int(low)} – {int(high)}"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "(empty)" if value == "" else str(value)

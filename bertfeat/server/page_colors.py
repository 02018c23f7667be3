"""Colors of the map's points by a kept column: a code for each point, and what the codes stand for."""

import base64
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bertfeat.search import Index
from bertfeat.server.page_facets import Facet
from bertfeat.server.page_map import MapLayout

MOST_NAMES = 10
"""Values that have a color of their own, as many as the palette has; what is left shares one."""

SHADES = 9
"""Steps of the scale that numbers are shown by."""


@dataclass(frozen=True, slots=True)
class ColorEntry:
    """An entry of the map's legend: the values that a color stands for."""

    label: str
    paint: str  # "name" | "shade" | "others" | "none": by which part of the palette
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
    codes: NDArray[np.uint8]  # [n] the place of each point's entry

    def to_json(self) -> dict[str, object]:
        """Return the colors as JSON values; the codes are bytes in base64."""
        codes = base64.b64encode(self.codes.tobytes()).decode("ascii")
        return {"column": self.column, "entries": [entry.to_json() for entry in self.entries], "codes": codes}


def can_color(facet: Facet) -> bool:
    """Whether points can be told apart by a column: it has few values, or finite numbers."""
    return bool(facet.values) or (facet.low is not None and facet.high is not None)


def color_points(index: Index, layout: MapLayout, facet: Facet) -> PointColors:
    """Give each point of a map the entry of its document's value, and the last entry where that has none.

    The column must be one of those that :func:`can_color` is true of.
    """
    entries, code = _of_values(facet) if facet.values else _of_numbers(facet)
    blocks = [code(batch.column(0)) for batch in index.vectors.documents.batches([facet.name])]
    of_documents = np.concatenate(blocks) if blocks else np.empty(0, np.uint8)
    codes = of_documents[index.vectors.document_numbers(layout.numbers)]
    counts = np.bincount(codes, minlength=len(entries)).tolist()
    counted = [ColorEntry(each.label, each.paint, each.number, n) for each, n in zip(entries, counts, strict=True)]
    return PointColors(facet.name, tuple(counted), codes)


_Coding = tuple[list[ColorEntry], Callable[[pa.Array], NDArray[np.uint8]]]


def _of_values(facet: Facet) -> _Coding:
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


def _of_numbers(facet: Facet) -> _Coding:
    assert facet.low is not None
    assert facet.high is not None
    low, high = facet.low, facet.high
    whole = facet.kind == "int64"
    width = -(-(high - low + 1) // SHADES) if whole else (high - low) / SHADES or 1.0
    steps = int((high - low) // width) + 1 if whole else SHADES if high > low else 1
    ends = [(low + at * width, low + (at + 1) * width) for at in range(steps)]
    labels = [_whole_range(a, min(high, b - 1)) if whole else f"{a:.3g} – {b:.3g}" for a, b in ends]
    shades = np.linspace(0, SHADES - 1, steps).round().astype(int).tolist() if steps > 1 else [SHADES // 2]
    entries = [ColorEntry(label, "shade", shade) for label, shade in zip(labels, shades, strict=True)]
    entries.append(ColorEntry("no value", "none", 0))

    def code(values: pa.Array) -> NDArray[np.uint8]:
        if whole:  # in 64 bits without a sign, where every difference has its place
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

"""The values of kept columns that the page offers as filters."""

from collections import Counter
from dataclasses import dataclass

import pyarrow.compute as pc

from bertfeat.corpus import Value
from bertfeat.search import Index, living_values
from bertfeat.where import column_kinds, number_range

MOST_VALUES = 50
"""Different values of a column that are offered one by one."""

_NUMBERS = ("int64", "float64")


@dataclass(frozen=True, slots=True)
class FacetValue:
    """A value of a column."""

    value: Value
    count: int  # of documents


@dataclass(frozen=True, slots=True)
class Facet:
    """The content of a kept column: its values, or the range of its numbers."""

    name: str
    kind: str  # "string" | "int64" | "float64" | "bool"
    values: tuple[FacetValue, ...] | None  # the most frequent first; None of numbers, and where there are too many
    low: float | None  # of numbers
    high: float | None

    def to_json(self) -> dict[str, object]:
        """The facet as JSON values."""
        values = self.values and [{"value": each.value, "count": each.count} for each in self.values]
        return {"name": self.name, "kind": self.kind, "values": values, "min": self.low, "max": self.high}


def read_facets(index: Index) -> tuple[Facet, ...]:
    """Read the kept columns of an index, one after the other; removed documents are not counted."""
    kinds = column_kinds(index.vectors.documents.schema)
    return tuple(_read_facet(index, name, kinds[name]) for name in index.kept if name in kinds)


def _read_facet(index: Index, name: str, kind: str) -> Facet:
    if kind in _NUMBERS:
        low, high = number_range(living_values(index, name))
        return Facet(name, kind, None, low, high)
    return Facet(name, kind, _count_values(index, name), None, None)


def _count_values(index: Index, name: str) -> tuple[FacetValue, ...] | None:
    counts: Counter[Value] = Counter()
    for values in living_values(index, name):
        for each in pc.value_counts(values.drop_null()):
            counts[each["values"].as_py()] += each["counts"].as_py()
        if len(counts) > MOST_VALUES:
            return None
    ordered = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
    return tuple(FacetValue(value, count) for value, count in ordered)

"""Slices of a corpus by the values of a kept column, such as years: ranges of numbers, or categories."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.corpus import Value
from bertfeat.errors import UsageError, did_you_mean, parameter
from bertfeat.features import FeatureSet
from bertfeat.where.condition import Condition

_MOST_CATEGORIES = 50  # slices at most of a column of names
_MOST_VALUES = 100_000  # different values at most of a column of names
_SCAN = 8192  # rows that are read at a time
_NUMBER = r"-?\d+(?:\.\d+)?"
_RANGE = re.compile(rf"({_NUMBER})(?:\s*[-–]\s*({_NUMBER}))?")  # with a hyphen, or a dash as in print


@dataclass(frozen=True, slots=True)
class Slice:
    """The documents whose value lies between two ends, both included; for a category, both ends are its value."""

    name: str
    first: str | float
    last: str | float
    documents: int = 0

    def holds(self, value: Value) -> bool:
        """Whether a document with that value is in the slice; null and NaN are in no slice."""
        return value is not None and self.first <= value <= self.last  # type: ignore[operator]  # a column has one type


def cut_slices(
    features: FeatureSet, by: str, spec: str | int | None = None, condition: Condition | None = None
) -> tuple[Slice, ...]:
    """Cut a feature set into two or more slices by a kept column.

    ``spec`` gives inclusive ranges of numbers (``1839-1895,1896-1937``) or single values, in the order in which they
    are compared; or the number of slices of a column of numbers, which then have about the same number of tokens, and
    no value is in two. By default numbers are cut into two slices, and each value of a column of texts, or of true and
    false, is a slice. With a ``condition`` only documents that meet it are counted; the cuts are those of the whole
    set.

    Raises:
        UsageError: no such kept column, fewer than two slices or more than there are values, slices that overlap or
            have no document, something that is no range of numbers, or too many or unknown names of categories.
    """
    types = {column.name: column.type for column in features.kept}
    if by not in types:
        raise UsageError(
            f"there is no kept column {by!r}; there are: {', '.join(types) or 'none'}",
            where=features.folder,
            remedy=f"{did_you_mean(by, types)}extract with {parameter('keep')} to have more",
        )
    given = "" if spec is None else str(spec).strip()
    if types[by] in ("int64", "float64"):
        whole = not given or re.fullmatch(r"[0-9]{1,9}", given)
        slices = _equal_slices(features, by, int(given or 2)) if whole else _parse_ranges(by, given)
    else:
        slices = _name_categories(features, by, given)
    if len(slices) < 2:
        raise UsageError(f"{by!r} in one slice leaves nothing to compare", remedy=f"give two or more: {_example(by)}")
    for one, other in combinations(slices, 2):
        if other.holds(one.first) or one.holds(other.first):
            raise UsageError(f"the slices {one.name} and {other.name} overlap", where=parameter("slices", given))
    counted = _count_documents(features, by, slices)
    for one in counted:
        if not one.documents:
            raise UsageError(f"no document has a value in {one.name}", where=parameter("slices"))
    return counted if condition is None else _count_documents(features, by, slices, condition)


def _count_documents(
    features: FeatureSet, by: str, slices: Sequence[Slice], condition: Condition | None = None
) -> tuple[Slice, ...]:
    """The slices with the numbers of their documents; with a condition, of those that meet it."""
    counts = np.zeros(len(slices), np.int64)
    names = list(dict.fromkeys([by, *(condition.names if condition else ())]))
    for batch in features.stream(names, batch_rows=_SCAN):
        if condition is not None:
            batch = condition.filter(batch)
        numbers = _slices_of_values(batch.column(by), slices)
        counts += np.bincount(numbers[numbers >= 0], minlength=len(slices))
    return tuple(replace(one, documents=int(count)) for one, count in zip(slices, counts, strict=True))


def number_slices(features: FeatureSet, by: str, slices: Sequence[Slice]) -> NDArray[np.int64]:
    """The number of the slice that holds each document, ``[documents]``; -1 where none does."""
    batches = features.stream([by], batch_rows=_SCAN)
    numbers = (_slices_of_values(batch.column(0), slices) for batch in batches)
    return np.concatenate([np.empty(0, np.int64), *numbers])


def _slices_of_values(values: pa.Array, slices: Sequence[Slice]) -> NDArray[np.int64]:
    """The number of the slice that holds each value, or -1; every different value is compared once."""
    encoded = values.dictionary_encode(null_encoding="encode")
    numbers = [slice_number(slices, value) for value in encoded.dictionary.to_pylist()]
    known = np.array([-1 if number is None else number for number in numbers], np.int64)
    return known[encoded.indices.to_numpy()] if len(known) else known


def slice_number(slices: Sequence[Slice], value: Value) -> int | None:
    """The number of the slice that holds a value; None where none does."""
    return next((number for number, one in enumerate(slices) if one.holds(value)), None)


def _parse_ranges(by: str, spec: str) -> list[Slice]:
    slices = []
    for item in map(str.strip, spec.split(",")):
        match = _RANGE.fullmatch(item)
        if match is None:
            raise UsageError(f"{item!r} is no range of numbers, which {by!r} holds", remedy=f"write {_example(by)}")
        first, last = _number(match[1]), _number(match[2] or match[1])
        if first > last:
            raise UsageError(f"the slice {item} ends before it begins", remedy=f"write {match[2]}-{match[1]}")
        slices.append(Slice(item, first, last))
    return slices


def _number(text: str) -> int | float:
    """Convert a text to a number; whole numbers stay exact."""
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def _equal_slices(features: FeatureSet, by: str, number: int) -> list[Slice]:
    """Cut between values into ``number`` slices, each cut as near as possible to an equal share of the tokens."""
    batches = [batch.drop_null() for batch in features.stream([by, "n_tokens"], batch_rows=_SCAN)]
    if not batches:
        raise UsageError("there are no documents in it, and so no slices", where=features.folder)
    table = pa.concat_tables([pa.Table.from_batches([batch]) for batch in batches], promote_options="default")
    values, tokens = (table[name].to_numpy() for name in (by, "n_tokens"))  # whole numbers of 64 bits stay exact
    known = np.isfinite(values)
    different, members = np.unique(values[known], return_inverse=True)
    if not 2 <= number <= len(different):
        raise UsageError(
            f"{by!r} has {len(different)} different values, which do not make {number} slices",
            remedy=f"give a number from 2 to {len(different)}, or ranges: {_example(by)}" if len(different) > 1 else "",
        )
    until = np.cumsum(np.bincount(members, tokens[known]))
    cuts = [0]  # the index of the first value of each slice
    for at in range(1, number):
        nearest = int(np.abs(until - until[-1] * at / number).argmin()) + 1
        cuts.append(min(max(nearest, cuts[-1] + 1), len(different) - number + at))
    ends = [*cuts[1:], len(different)]
    return [_name_range(*different[[first, stop - 1]].tolist()) for first, stop in zip(cuts, ends, strict=True)]


def _name_range(first: int | float, last: int | float) -> Slice:
    names = [str(end) if isinstance(end, int) else f"{end:.15g}" for end in (first, last)]
    return Slice("-".join(names) if last > first else names[0], first, last)


def _name_categories(features: FeatureSet, by: str, spec: str) -> list[Slice]:
    """A slice for each value, in the order of ``spec``, else sorted."""
    found: set[str | bool] = set()
    for batch in features.stream([by], batch_rows=_SCAN):
        found.update(value for value in batch.column(by).to_pylist() if value not in (None, ""))
        if len(found) > _MOST_VALUES:
            raise UsageError(f"{by!r} has more than {_MOST_VALUES:,} different values, which are no slices")
    values = {str(value).lower() if isinstance(value, bool) else value: value for value in sorted(found)}
    names = [name.strip() for name in spec.split(",")] if spec else list(values)
    if len(names) > _MOST_CATEGORIES:
        problem = f"{by!r} has {len(names):,} different values, and at most {_MOST_CATEGORIES} are compared"
        raise UsageError(problem, remedy=f"name some of them with {parameter('slices')}")
    if missing := [name for name in names if name not in values]:
        shown = ", ".join(list(values)[:_MOST_CATEGORIES])
        raise UsageError(
            f"{by!r} does not hold numbers but names, and no document has {missing[0]!r}", remedy=f"there are: {shown}"
        )
    return [Slice(name, values[name], values[name]) for name in names]


def _example(by: str) -> str:
    return f"{parameter('by', by)} {parameter('slices', '1839-1895,1896-1937')}"

"""Slices of a corpus by the values of a kept column, such as years: ranges of numbers, or categories.

Shapes: D documents.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bertfeat.core import FeatureSet, Value
from bertfeat.errors import UsageError, did_you_mean, parameter
from bertfeat.where.collation import dictionary_key

_MOST_VALUES = 100_000  # different values at most of a column of names
_MOST_SLICES = 1000
_SHOWN = 50  # names in a message at most
_FEW_STEPS = 25  # the most steps that ``every`` alone makes
_SCAN = 8192  # rows that are read at a time
_NUMBER = r"-?\d{1,30}(?:\.\d{1,30})?"
_RANGE = re.compile(rf"({_NUMBER})(?:\s*[-–]\s*({_NUMBER}))?")  # with a hyphen, or a dash as in print
_STEPS = re.compile(r"every(?:\s*:\s*(.*))?")


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


@dataclass(frozen=True, slots=True)
class Cut:
    """The slices of a feature set, and which of them each document is in."""

    slices: tuple[Slice, ...]
    of_documents: NDArray[np.int64]  # [D] the number of each document's slice; -1 where none holds it

    def among(self, documents: NDArray[np.bool_]) -> "Cut":
        """The same cut, whose slices count only some of the documents, a mask ``[D]``."""
        counts = np.bincount(self.of_documents[documents & (self.of_documents >= 0)], minlength=len(self.slices))
        counted = (replace(one, documents=int(count)) for one, count in zip(self.slices, counts, strict=True))
        return replace(self, slices=tuple(counted))


def cut_slices(features: FeatureSet, by: str, spec: str | int | None = None) -> Cut:
    """Cut a feature set into two or more slices by a kept column, which is read once.

    ``spec`` gives inclusive ranges of numbers (``1839-1895,1896-1937``) or single values, in the order in which they
    are compared; or the number of slices of a column of numbers, which then have about the same number of tokens, and
    no value is in two; or ``every:10``, steps of that width from a multiple of it, such as decades, of which those with
    documents are slices. ``every`` chooses a power of ten as the step, of which there are no more than 25. By default
    numbers are cut into two slices, and each value of a column of texts, or of true and false, is a slice.

    Raises:
        UsageError: no such kept column, fewer than two slices or more than there are values, slices that overlap or
            have no document, something that is no range of numbers, or too many or unknown names of categories.
    """
    given = "" if spec is None else str(spec).strip()
    if _holds_numbers(features, by):
        numbers = _NumberColumn.read(features, by)
        slices = numbers.cut(given)
        _check_slices(by, given, slices)
        of_documents = numbers.place(slices)
    else:
        codes, values = _read_categories(features, by)
        slices = _name_categories(by, given, values)
        _check_slices(by, given, slices)
        of_documents = _place_categories(codes, values, slices)
    cut = Cut(tuple(slices), of_documents).among(np.ones(len(of_documents), bool))
    for one in cut.slices:
        if not one.documents:
            raise UsageError(f"no document has a value in {one.name}", where=parameter("slices"))
    return cut


def refuse_slices_of_nothing(by: str | None, slices: str | int | None) -> None:
    """Refuse slices of no column.

    Raises:
        UsageError: there are slices, and no column is named.
    """
    if by is None and slices is not None:
        problem = f"{parameter('slices', slices)} are slices of a kept column"
        raise UsageError(problem, remedy=f"name it: {parameter('by', 'year')}")


def cut_values(features: FeatureSet, by: str, inside: NDArray[np.bool_]) -> Cut:
    """Cut some documents, a mask ``[D]``, by each of their values of a kept column; those without one are in no slice.

    Raises:
        UsageError: no such kept column, or more than 100,000 different texts.
    """
    if _holds_numbers(features, by):
        column = _NumberColumn.read(features, by)
        different, members = np.unique(column.values[column.known], return_inverse=True)
        slices = [_name_range(value, value) for value in different.tolist()]
        of_documents = np.full(len(column.values), -1, np.int64)
        of_documents[column.known] = members
    else:
        codes, values = _read_categories(features, by)
        slices = _name_categories(by, "", values)
        of_documents = _place_categories(codes, values, slices)
    cut = Cut(tuple(slices), np.where(inside, of_documents, -1)).among(inside)
    filled = np.array([one.documents > 0 for one in cut.slices], bool)
    numbers = np.append(np.where(filled, np.cumsum(filled) - 1, -1), -1)
    return Cut(tuple(one for one in cut.slices if one.documents), numbers[cut.of_documents])


def _holds_numbers(features: FeatureSet, by: str) -> bool:
    """Whether a kept column has numbers.

    Raises:
        UsageError: there is no such column.
    """
    types = {column.name: column.type for column in features.kept}
    if by not in types:
        raise UsageError(
            f"there is no kept column {by!r}; there are: {', '.join(types) or 'none'}",
            where=features.folder,
            remedy=f"{did_you_mean(by, types)}extract with {parameter('keep')} to have more",
        )
    return types[by] in ("int64", "float64")


def _check_slices(by: str, given: str, slices: Sequence[Slice]) -> None:
    if len(slices) < 2:
        raise UsageError(f"{by!r} in one slice leaves nothing to compare", remedy=f"give two or more: {_example(by)}")
    if len(slices) > _MOST_SLICES:
        problem = f"{len(slices):,} slices of {by!r} are too many, and at most {_MOST_SLICES:,} are compared"
        raise UsageError(problem, remedy=f"give fewer, or wider ones, with {parameter('slices')}")
    places = {id(one): place for place, one in enumerate(slices)}
    for pair in pairwise(sorted(slices, key=lambda one: one.first)):
        if pair[0].holds(pair[1].first):
            one, other = sorted(pair, key=lambda each: places[id(each)])
            raise UsageError(f"the slices {one.name} and {other.name} overlap", where=parameter("slices", given))


def slice_number(slices: Sequence[Slice], value: Value) -> int | None:
    """The number of the slice that holds a value; None where none does."""
    return next((number for number, one in enumerate(slices) if one.holds(value)), None)


def _example(by: str) -> str:
    return f"{parameter('by', by)} {parameter('slices', '1839-1895,1896-1937')}"


# ── numbers ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _NumberColumn:
    """A kept column of numbers. Whole numbers of 64 bits stay exact."""

    features: FeatureSet
    name: str
    values: NDArray[np.int64] | NDArray[np.float64]  # [D]
    known: NDArray[np.bool_]  # [D] whether a document has a finite number
    tokens: NDArray[np.int64]  # [D]

    @classmethod
    def read(cls, features: FeatureSet, name: str) -> "_NumberColumn":
        """Read the column."""
        columns = [batch.columns for batch in features.stream([name, "n_tokens"], batch_rows=_SCAN)]
        if not columns:
            raise UsageError("there are no documents in it, and so no slices", where=features.folder)
        values = np.concatenate([column.fill_null(0).to_numpy() for column, _ in columns])
        valid = np.concatenate([np.asarray(column.is_valid()) for column, _ in columns])
        tokens = np.concatenate([each.to_numpy().astype(np.int64) for _, each in columns])
        return cls(features, name, values, valid & np.isfinite(values), tokens)

    def cut(self, spec: str) -> list[Slice]:
        """The slices of a specification; see :func:`cut_slices`."""
        if steps := _STEPS.fullmatch(spec):
            return self._cut_steps(steps[1])
        if not spec or re.fullmatch(r"[0-9]{1,9}", spec):
            return self._cut_equally(int(spec or 2))
        return _parse_ranges(self.name, spec)

    def place(self, slices: Sequence[Slice]) -> NDArray[np.int64]:
        """The number of the slice that holds each document, ``[D]``; -1 where none does."""
        numbers = np.full(len(self.values), -1, np.int64)
        for number, one in enumerate(slices):
            first, last = one.first, one.last
            assert not isinstance(first, str)
            assert not isinstance(last, str)
            if self.values.dtype == np.int64:  # compared as whole numbers: a float64 does not hold all of them
                first, last = math.ceil(first), math.floor(last)
            numbers[self.known & (self.values >= first) & (self.values <= last)] = number
        return numbers

    def _cut_equally(self, number: int) -> list[Slice]:
        """Cut between values into ``number`` slices, each cut as near as possible to an equal share of the tokens."""
        different, members = np.unique(self.values[self.known], return_inverse=True)
        most = min(len(different), _MOST_SLICES)
        if not 2 <= number <= most:
            several = f"give a number from 2 to {most}, or ranges: {_example(self.name)}"
            raise UsageError(
                f"{self.name!r} has {len(different)} different values, which do not make {number} slices",
                remedy=several if len(different) > 1 else "",
            )
        until = np.cumsum(np.bincount(members, self.tokens[self.known]))
        cuts = [0]  # the index of the first value of each slice
        for at in range(1, number):
            nearest = int(np.abs(until - until[-1] * at / number).argmin()) + 1
            cuts.append(min(max(nearest, cuts[-1] + 1), len(different) - number + at))
        ends = [*cuts[1:], len(different)]
        return [_name_range(*different[[first, stop - 1]].tolist()) for first, stop in zip(cuts, ends, strict=True)]

    def _cut_steps(self, width: str | None) -> list[Slice]:
        """Cut into steps of one width, from a multiple of it; steps without documents are left out."""
        values, whole = self.values[self.known], self.values.dtype == np.int64
        if not len(values):
            return []
        low, high = values.min().item(), values.max().item()
        step = _round_step(low, high, whole=whole) if width is None else self._read_step(width)
        if not _count_steps(low, high, step) <= _MOST_SLICES:
            problem = (
                f"{parameter('slices', f'every:{step:g}')} makes more than {_MOST_SLICES:,} slices of {self.name!r}"
            )
            raise UsageError(problem, remedy="give a wider step")
        if whole:
            edges = [number * step for number in range(low // step, high // step + 2)]
            slices = [_name_range(start, stop - 1) for start, stop in pairwise(edges)]
        else:
            slices = self._real_steps(low, high, step)
        numbers = self.place(slices)
        places = np.bincount(numbers[numbers >= 0], minlength=len(slices))
        return [one for one, documents in zip(slices, places, strict=True) if documents]

    def _real_steps(self, low: float, high: float, step: float) -> list[Slice]:
        """The slices of one width that hold two numbers and all between them; the end of each is left out."""
        multiples = range(math.floor(low / step) - 1, math.floor(high / step) + 3)  # one more: a quotient is rounded
        # 0.3, and not 0.30000000000000004, so that a value is in the slice that its digits name
        ends = list(pairwise(float(f"{number * step:.15g}") for number in multiples))
        if any(start >= stop for start, stop in ends):
            problem = f"the numbers of {self.name!r} are too large for a step of {step:g}"
            raise UsageError(problem, remedy="give a wider step")
        return [Slice(f"{start:.15g}-{stop:.15g}", start, math.nextafter(stop, -math.inf)) for start, stop in ends]

    def _read_step(self, width: str) -> int | float:
        whole = self.values.dtype == np.int64
        step = _number(width) if re.fullmatch(_NUMBER, width) else 0
        if step <= 0 or (whole and not isinstance(step, int)):
            kind = "whole number" if whole else "number"
            problem = f"{width!r} is no step of {self.name!r}, but a {kind} above 0 is"
            raise UsageError(problem, where=parameter("slices"), remedy="write every:10, or every alone")
        return step


def _count_steps(low: float, high: float, step: float) -> float:
    """The number of steps from a multiple of ``step`` that hold two numbers and all between them."""
    return high // step - low // step + 1 if abs(low / step) < math.inf > abs(high / step) else math.inf


def _round_step(low: float, high: float, *, whole: bool) -> int | float:
    """The least power of ten of which :data:`_FEW_STEPS` steps hold two numbers; of whole numbers, 1 or more."""
    power, base = 0, 10 if whole else 10.0
    if not whole and high > low:
        power = math.floor(math.log10(high / _FEW_STEPS - low / _FEW_STEPS))
    while _count_steps(low, high, base**power) > _FEW_STEPS:
        power += 1
    step: int | float = base**power
    return step


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


def _name_range(first: int | float, last: int | float) -> Slice:
    names = [str(end) if isinstance(end, int) else f"{end:.15g}" for end in (first, last)]
    return Slice("-".join(names) if last > first else names[0], first, last)


# ── categories ──────────────────────────────────────────────────────────────────────────────────────────────


def _read_categories(features: FeatureSet, by: str) -> tuple[NDArray[np.int64], list[str | bool]]:
    """For each document the number of its value ``[D]``, -1 for none; and the different values."""
    numbers: dict[str | bool, int] = {}
    codes = []
    for batch in features.stream([by], batch_rows=_SCAN):
        encoded = batch.column(0).dictionary_encode(null_encoding="encode")
        own = [
            -1 if value in (None, "") else numbers.setdefault(value, len(numbers))
            for value in encoded.dictionary.to_pylist()
        ]
        codes.append(np.array(own, np.int64)[encoded.indices.to_numpy()])
        if len(numbers) > _MOST_VALUES:
            raise UsageError(
                f"{by!r} has more than {_MOST_VALUES:,} different values, which are no slices",
                remedy=f"name some with {parameter('slices')}, or another column",
            )
    return np.concatenate([np.empty(0, np.int64), *codes]), list(numbers)


def _name_categories(by: str, spec: str, found: Sequence[str | bool]) -> list[Slice]:
    """A slice for each value, in the order of ``spec``, else of a dictionary."""
    ordered = sorted(found, key=lambda value: dictionary_key(str(value)))
    values = {str(value).lower() if isinstance(value, bool) else value: value for value in ordered}
    names = [name.strip() for name in spec.split(",")] if spec else list(values)
    if missing := [name for name in names if name not in values]:
        shown = ", ".join(list(values)[:_SHOWN])
        raise UsageError(
            f"{by!r} does not hold numbers but names, and no document has {missing[0]!r}", remedy=f"there are: {shown}"
        )
    return [Slice(name, values[name], values[name]) for name in names]


def _place_categories(
    codes: NDArray[np.int64], values: Sequence[str | bool], slices: Sequence[Slice]
) -> NDArray[np.int64]:
    """The number of the slice that holds each document, ``[D]``, by the numbers of their values; -1 where none does."""
    places = {one.first: number for number, one in enumerate(slices)}
    numbers: NDArray[np.int64] = np.array([*(places.get(value, -1) for value in values), -1], np.int64)[codes]
    return numbers

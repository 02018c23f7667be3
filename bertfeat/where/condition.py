"""Conditions on the rows of a table, and the range of its numbers, to be told where no row meets one.

A row meets a condition that is true of it, neither false nor null. NaN counts as null.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bertfeat.errors import WrongTypeError, parameter
from bertfeat.where.lexer import spell_column
from bertfeat.where.parse import parse_condition
from bertfeat.where.tree import NamedColumns

ReadColumn: TypeAlias = Callable[[str], Iterable[pa.Array]]
"""A function that gives the values of a column by its name, block by block."""


class RowBatches(Protocol):
    """A table that conditions select rows of, such as an index's store of documents."""

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        ...

    def batches(self, names: Sequence[str], /) -> Iterable[pa.RecordBatch]:
        """All rows in order, with the columns of those names."""
        ...


class Condition:
    """A condition on columns of known kinds (``string``, ``int64``, ``float64``, ``bool``).

    Raises:
        UsageError: it does not parse, names a column that does not exist, or compares values of different kinds.
    """

    def __init__(self, text: str, kinds: Mapping[str, str]) -> None:
        if not isinstance(text, str):
            raise WrongTypeError(f"a condition is a text, and this is {type(text).__name__}", where=parameter("where"))
        self.text = text
        self._tree = parse_condition(text)
        columns = NamedColumns(kinds)
        self._tree.check(columns)
        self.kinds = columns.read
        """The columns that it reads, with their kinds."""
        self.names = tuple(columns.read)

    def mask(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Mask of the rows of a batch that meet it, ``[rows]``; the batch has at least the columns :attr:`names`."""
        truth = self._tree.compute({name: _normalize_numbers(batch.column(name)) for name in self.names})
        mask: NDArray[np.bool_] = truth.fill_null(False).to_numpy(zero_copy_only=False)
        return mask

    def filter(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that meet it."""
        return batch.filter(pa.array(self.mask(batch)))


def parse_where(rows: RowBatches, where: str, *, but: Sequence[str] = ()) -> Condition:
    """Parse a condition on the columns of a table, except those ``but``; no row is read.

    Raises:
        UsageError: see :class:`Condition`.
    """
    return Condition(where, {name: kind for name, kind in column_kinds(rows.schema).items() if name not in but})


def find_matching_rows(rows: RowBatches, where: str, *, but: Sequence[str] = ()) -> NDArray[np.bool_]:
    """Find the rows that meet a condition, ``[rows]``; it cannot name the columns ``but``.

    Raises:
        UsageError: see :class:`Condition`.
    """
    condition = parse_where(rows, where, but=but)
    masks = [condition.mask(batch) for batch in rows.batches(condition.names)]
    return np.concatenate(masks) if masks else np.zeros(0, bool)


def column_kinds(schema: pa.Schema) -> dict[str, str]:
    """The kind of each column that conditions can name."""
    kinds = {field.name: _kind_of_type(field.type) for field in schema}
    return {name: kind for name, kind in kinds.items() if kind}


def _kind_of_type(type_: pa.DataType) -> str:
    if pa.types.is_integer(type_):
        return "int64"
    if pa.types.is_floating(type_):
        return "float64"
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return "string"
    return "bool" if pa.types.is_boolean(type_) else ""


def _normalize_numbers(array: pa.Array) -> pa.Array:
    """Numbers as 64 bits, with null for NaN and 0 for -0."""
    if pa.types.is_integer(array.type):
        return array.cast(pa.int64())
    if pa.types.is_floating(array.type):
        array = pc.add(array.cast(pa.float64()), 0.0)  # -0 becomes 0, as is_in tells the two apart
        return pc.if_else(pc.is_nan(array), pa.scalar(None, pa.float64()), array)
    return array


def describe_ranges(condition: Condition, read: ReadColumn) -> str:
    """The range of each column of numbers that a condition reads."""
    told = []
    for name, kind in condition.kinds.items():
        low, high = number_range(read(name)) if kind in ("int64", "float64") else (None, None)
        if low is not None and high is not None:
            told.append(f"{spell_column(name)} goes from {low} to {high}")
    return ", ".join(told)


def number_range(blocks: Iterable[pa.Array]) -> tuple[float | None, float | None]:
    """The least and the greatest number of a column, None where it is not finite or there is no number."""
    ends = [end for end in (pc.min_max(block).as_py() for block in blocks) if end["min"] is not None]
    low, high = min((end["min"] for end in ends), default=None), max((end["max"] for end in ends), default=None)
    return _finite(low), _finite(high)


def _finite(value: float | None) -> float | None:
    return value if value is None or math.isfinite(value) else None

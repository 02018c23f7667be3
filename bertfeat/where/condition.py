"""Which rows of a table meet a condition, by SQL's logic of three values: true, false and null.

A comparison with null is null, and so is its negation: neither is met. NaN counts as null.
"""

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bertfeat.errors import UsageError, parameter
from bertfeat.where.check import check_condition
from bertfeat.where.parse import parse_condition
from bertfeat.where.tree import (
    Column,
    Comparison,
    Constant,
    Junction,
    Membership,
    Negation,
    Node,
    NullTest,
    Operand,
    TextTest,
)

Values: TypeAlias = "pa.Array | pa.Scalar"
"""The values of a column, or one value."""

_COMPARE: Mapping[str, Callable[[Values, Values], pa.BooleanArray]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_PAST_INT64 = 2.0**63
_REGEX_SIGN = re.compile(r"[\\.^$*+?{}\[\]|()]")


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
            raise UsageError(f"a condition is a text, and this is {type(text).__name__}", where=parameter("where"))
        self.text = text
        self._tree = parse_condition(text)
        self.names = check_condition(text, self._tree, kinds)
        """The columns that it reads."""

    def mask(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Which rows of a batch meet it, ``[rows]``; the batch has at least the columns :attr:`names`."""
        truth = _evaluate(self._tree, {name: _normalize_numbers(batch.column(name)) for name in self.names})
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


def _evaluate(node: Node, columns: Mapping[str, pa.Array]) -> pa.BooleanArray:
    """True, false or null for each row."""
    if isinstance(node, Junction):
        join = pc.and_kleene if node.every else pc.or_kleene
        return functools.reduce(join, (_evaluate(part, columns) for part in node.parts))
    if isinstance(node, Negation):
        return pc.invert(_evaluate(node.part, columns))
    if isinstance(node, Comparison):
        return _compare_values(node, columns)
    if isinstance(node, Column):
        return columns[node.name]
    assert not isinstance(node, Constant)  # the check let none stand alone
    column = _operand_values(node.operand, columns)
    if isinstance(node, NullTest):
        return pc.is_null(column)
    if isinstance(node, Membership):
        return _is_member(column, [value.value for value in node.values])
    return _test_text(node, column)


def _compare_values(node: Comparison, columns: Mapping[str, pa.Array]) -> pa.BooleanArray:
    left, right = _operand_values(node.left, columns), _operand_values(node.right, columns)
    if pa.types.is_null(left.type) or pa.types.is_null(right.type):
        return pa.nulls(len(next(iter(columns.values()))), pa.bool_())
    if pa.types.is_floating(left.type) and pa.types.is_int64(right.type):
        return _compare_int_and_float(_MIRRORED[node.sign], right, left)
    if pa.types.is_int64(left.type) and pa.types.is_floating(right.type):
        return _compare_int_and_float(node.sign, left, right)
    return _COMPARE[node.sign](left, right)


def _operand_values(operand: Operand, columns: Mapping[str, pa.Array]) -> Values:
    return columns[operand.name] if isinstance(operand, Column) else pa.scalar(operand.value)


def _compare_int_and_float(sign: str, whole: Values, real: Values) -> pa.BooleanArray:
    """Compare whole numbers with real ones exactly; a cast would round whole ones past 2⁵³."""
    # a whole number is below a real one where it is below the next whole number above that, and so on
    near = pc.ceil(real) if sign in ("<", ">=") else pc.floor(real)
    fits = pc.and_(pc.greater_equal(near, -_PAST_INT64), pc.less(near, _PAST_INT64))
    number = pc.if_else(fits, near, 0.0).cast(pa.int64())
    if sign == "!=":
        return pc.invert(_compare_int_and_float("=", whole, real))
    result = _COMPARE[sign](whole, number)
    if sign == "=":
        result = pc.and_(result, pc.equal(near, real))
    any_whole = pc.if_else(pc.is_valid(whole), 0.0, pa.scalar(None, pa.float64()))
    return pc.if_else(fits, result, _COMPARE[sign](any_whole, near))


def _is_member(column: pa.Array, values: Sequence[str | float | None]) -> pa.BooleanArray:
    """``in``: true where a value is equal; else null where the column is null, or the list holds a null."""
    allowed = [value for value in values if value is not None]
    numbers = [value for value in allowed if not isinstance(value, str)]
    if pa.types.is_int64(column.type):
        allowed = [int(value) for value in numbers if int(value) == value and -_PAST_INT64 <= value < _PAST_INT64]
    elif pa.types.is_floating(column.type):
        allowed = [float(value) + 0.0 for value in numbers if float(value) == value]  # no -0 here either
    inside = pc.is_in(column, value_set=pa.array(allowed, column.type))
    unknown = pc.invert(inside) if None in values else pc.is_null(column)
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), inside)


def _test_text(node: TextTest, column: pa.Array) -> pa.BooleanArray:
    pattern = node.pattern.value if not isinstance(node.pattern, Column) else None
    if not isinstance(pattern, str):
        return pa.nulls(len(column), pa.bool_())
    if node.test == "contains":
        return pc.match_substring(column, pattern)
    if node.test == "starts":
        return pc.starts_with(column, pattern)
    if node.test == "ends":
        return pc.ends_with(column, pattern)
    return pc.match_substring_regex(column, _like_regex(pattern), ignore_case=node.test == "ilike")


def _like_regex(pattern: str) -> str:
    r"""The regular expression of a ``like`` pattern: % any text, _ any one character, ``\%`` and ``\_`` themselves."""
    pieces = re.findall(r"\\[%_\\]|.", pattern, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    signs = (wild.get(piece) or _REGEX_SIGN.sub(r"\\\g<0>", piece[-1]) for piece in pieces)
    return f"(?s)\\A{''.join(signs)}\\z"

"""The tree of a condition: each node checks that it fits the columns, and computes in which rows it is true.

The logic is SQL's, with three values: true, false and null. A comparison with null is null, and so is its negation.
"""

import difflib
import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from bertfeat.errors import UsageError
from bertfeat.where.lexer import LiteralValue, SourceRange, spell_column

_MAX_PATTERN = 1_000
"""Characters of a text that like, ilike, contains, starts with and ends with look for."""

Values: TypeAlias = "pa.Array | pa.Scalar"
"""The values of a column, or one value."""

Arrays: TypeAlias = Mapping[str, pa.Array]
"""The columns that a condition reads, by name: numbers of 64 bits, with null for NaN and 0 for -0."""

_NUMBERS = ("int64", "float64")
_NOUNS = {"string": "texts", "int64": "whole numbers", "float64": "numbers", "bool": "true or false"}
_COMPARED = {"string": "= 'de'", "int64": "> 1900", "float64": "> 0.5"}  # an example of a comparison, by kind
_LITERALS = {"string": (str,), "bool": (bool,), "int64": (int, float), "float64": (int, float)}
_INT64 = range(-(2**63), 2**63)
_PAST_INT64 = 2.0**63
_MOST = 30  # names that an error lists
_LONG = 60  # characters of a name that it shows
_REGEX_SIGN = re.compile(r"[\\.^$*+?{}\[\]|()]")
_COMPARE: Mapping[str, Callable[[Values, Values], pa.BooleanArray]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(slots=True)
class NamedColumns:
    """The columns that a condition can name, and those that it does name, with their kinds."""

    kinds: Mapping[str, str]  # string, int64, float64, bool
    read: dict[str, str] = field(default_factory=dict)


class Node(Protocol):
    """A condition, or a part of one."""

    def check(self, columns: NamedColumns) -> None:
        """Check that it is true or false, that its columns exist, and that it compares values of one kind."""
        ...

    def compute(self, arrays: Arrays) -> Values:
        """Its value in each row: true, false or null; or what a column or a constant holds."""
        ...


@dataclass(frozen=True, slots=True)
class Column:
    """A column, by its name."""

    name: str
    span: SourceRange

    def check(self, columns: NamedColumns) -> None:
        """Check that it can be a condition by itself: it holds truth values."""
        kind = self.kind(columns)
        if kind != "bool":
            example = f"{spell_column(self.name)} {_COMPARED[kind]}"
            raise self.span.refused(f"{self.name} holds {_NOUNS[kind]}; compare it: {example}")

    def kind(self, columns: NamedColumns, *, beside_texts: bool = False) -> str:
        """The kind of the column, which is added to those read; beside texts it may be a text without quotes."""
        if self.name in columns.kinds:
            return columns.read.setdefault(self.name, columns.kinds[self.name])
        names = list(columns.kinds)
        near = difflib.get_close_matches(self.name[:_LONG], names, 1)
        meant = f"; did you mean {spell_column(near[0])}?" if near else ""
        if beside_texts and not near:
            meant = "; a text stands between quotes"
        listed = ", ".join(map(spell_column, names[:_MOST])) + f" and {len(names) - _MOST} more" * (len(names) > _MOST)
        shown = self.name if len(self.name) <= _LONG else f"{self.name[: _LONG - 1]}…"
        raise self.span.refused(f"there is no column {shown!r}; there are: {listed}{meant}")

    def compute(self, arrays: Arrays) -> pa.Array:
        """The values of the column."""
        return arrays[self.name]


@dataclass(frozen=True, slots=True)
class Constant:
    """A value in the text of a condition."""

    value: LiteralValue
    span: SourceRange

    def check(self, columns: NamedColumns) -> NoReturn:
        """Refuse it, as it stands alone."""
        raise self.refused("a value alone is no condition", columns, with_help=True)

    def check_beside(self, column: Column, columns: NamedColumns) -> None:
        """Check that it can be compared with a column."""
        kind = column.kind(columns)
        if self.value is None:
            return
        if type(self.value) in _LITERALS[kind]:
            if isinstance(self.value, int) and self.value not in _INT64:
                problem = f"{column.name} holds {_NOUNS[kind]}, and this one passes 64 bits"
                raise self.span.refused(f"{problem}; write it as {float(self.value):g}")
            return
        noun = {str: "a text", bool: "true or false"}.get(type(self.value), "a number")
        remedy = {
            "string": f"write it between quotes: '{self.span.text}'",
            "bool": f"write {spell_column(column.name)} or not {spell_column(column.name)}",
        }.get(kind, "write a number, without quotes")
        raise self.refused(f"{column.name} holds {_NOUNS[kind]}, and this is {noun}", columns, remedy)

    def refused(self, problem: str, columns: NamedColumns, remedy: str = "", *, with_help: bool = False) -> UsageError:
        """An error about the value, with a remedy; if the value is the name of a column, the remedy says so."""
        remedy = self.hint(columns) or remedy
        return self.span.refused(f"{problem}; {remedy}" if remedy else problem, with_help=with_help)

    def hint(self, columns: NamedColumns) -> str:
        """The spelling of a column whose name was written between quotes; else an empty string."""
        if isinstance(self.value, str) and self.value in columns.kinds:
            return f"the column of that name is written {spell_column(self.value)}"
        return ""

    def compute(self, arrays: Arrays) -> pa.Scalar:
        """The value itself."""
        return pa.scalar(self.value)


Operand = Column | Constant


@dataclass(frozen=True, slots=True)
class Comparison:
    """``left < right``."""

    sign: str  # one of _COMPARE
    left: Operand
    right: Operand

    def check(self, columns: NamedColumns) -> None:
        """Check that a column is compared with a column or a value of its kind."""
        left, right = self.left, self.right
        both = left.span.until(right.span)
        if isinstance(left, Constant) and isinstance(right, Constant):
            hint = left.hint(columns) or right.hint(columns) or "one side must be a column"
            raise both.refused(f"this compares two values; {hint}")
        column, other = (left, right) if isinstance(left, Column) else (right, left)
        assert isinstance(column, Column)
        kind = column.kind(columns)
        if isinstance(other, Constant):
            other.check_beside(column, columns)
        else:
            theirs = other.kind(columns, beside_texts=kind == "string")
            if theirs != kind and not (theirs in _NUMBERS and kind in _NUMBERS):
                problem = f"{column.name} holds {_NOUNS[kind]} and {other.name} {_NOUNS[theirs]}"
                raise both.refused(f"{problem}, which cannot be compared")
        if kind == "bool" and self.sign not in ("=", "!="):
            raise column.span.refused(f"{column.name} holds true or false, which have no order; use = or !=")

    def compute(self, arrays: Arrays) -> pa.BooleanArray:
        """Compare both sides in each row; null where either is null."""
        left, right = self.left.compute(arrays), self.right.compute(arrays)
        if pa.types.is_floating(left.type) and pa.types.is_int64(right.type):
            return _compare_int_and_float(_MIRRORED[self.sign], right, left)
        if pa.types.is_int64(left.type) and pa.types.is_floating(right.type):
            return _compare_int_and_float(self.sign, left, right)
        return _COMPARE[self.sign](left, right)


def _compare_int_and_float(sign: str, whole: Values, real: Values) -> pa.BooleanArray:
    """Compare whole numbers with real ones exactly; a cast would round whole ones past 2⁵³."""
    if sign == "!=":
        return pc.invert(_compare_int_and_float("=", whole, real))
    # whole < real exactly where whole < ceil(real), and whole <= real where whole <= floor(real); >=, > likewise
    near = pc.ceil(real) if sign in ("<", ">=") else pc.floor(real)
    fits = pc.and_(pc.greater_equal(near, -_PAST_INT64), pc.less(near, _PAST_INT64))
    result = _COMPARE[sign](whole, pc.if_else(fits, near, 0.0).cast(pa.int64()))
    if sign == "=":
        result = pc.and_(result, pc.equal(near, real))
    # past 64 bits every whole number compares alike, so that 0 stands for all of them
    any_whole = pc.if_else(pc.is_valid(whole), 0.0, pa.scalar(None, pa.float64()))
    return pc.if_else(fits, result, _COMPARE[sign](any_whole, near))


@dataclass(frozen=True, slots=True)
class Membership:
    """``operand in (…)``."""

    operand: Operand
    values: tuple[Constant, ...]

    def check(self, columns: NamedColumns) -> None:
        """Check that a column is tested, and that the values are of its kind."""
        column = _tested_column(self.operand, columns)
        for value in self.values:
            value.check_beside(column, columns)

    def compute(self, arrays: Arrays) -> pa.BooleanArray:
        """Test in each row whether a value is equal; if none is, null where the column or one of the values is null."""
        column = self.operand.compute(arrays)
        values = [value.value for value in self.values]
        allowed = [value for value in values if value is not None]
        numbers = [value for value in allowed if not isinstance(value, str)]
        if pa.types.is_int64(column.type):
            allowed = [int(number) for number in numbers if int(number) == number and int(number) in _INT64]
        elif pa.types.is_floating(column.type):
            allowed = [float(number) + 0.0 for number in numbers if float(number) == number]  # -0 becomes 0
        inside = pc.is_in(column, value_set=pa.array(allowed, column.type))
        unknown = pc.invert(inside) if None in values else pc.is_null(column)
        return pc.if_else(unknown, pa.scalar(None, pa.bool_()), inside)


@dataclass(frozen=True, slots=True)
class TextTest:
    """``operand like 'D%'``, and the same with ``ilike``, ``contains``, ``starts with`` and ``ends with``."""

    test: str  # like, ilike, contains, starts, ends
    operand: Operand
    pattern: Operand

    def check(self, columns: NamedColumns) -> None:
        """Check that a text is looked for in a column of texts."""
        column = _tested_column(self.operand, columns)
        kind = column.kind(columns)
        if kind != "string":
            problem = f"{column.name} holds {_NOUNS[kind]}, but {self.test} looks at texts"
            raise column.span.refused(f"{problem}; compare it by =, <, > or between")
        if not isinstance(self.pattern, Constant) or not isinstance(self.pattern.value, str | None):
            raise self.pattern.span.refused(f"{self.test} takes a text between quotes: like 'The %'")
        if len(self.pattern.value or "") > _MAX_PATTERN:
            raise self.pattern.span.refused(f"{self.test} takes at most {_MAX_PATTERN:,} characters")

    def compute(self, arrays: Arrays) -> pa.BooleanArray:
        """Test in each row whether the text matches the pattern; null where either is null."""
        column, pattern = self.operand.compute(arrays), self.pattern.compute(arrays).as_py()
        if pattern is None:
            return pa.nulls(len(column), pa.bool_())
        if self.test == "contains":
            return pc.match_substring(column, pattern)
        if self.test == "starts":
            return pc.starts_with(column, pattern)
        if self.test == "ends":
            return pc.ends_with(column, pattern)
        return pc.match_substring_regex(column, _like_regex(pattern), ignore_case=self.test == "ilike")


def _like_regex(pattern: str) -> str:
    r"""The regular expression of a ``like`` pattern: % any text, _ any one character, ``\%`` and ``\_`` themselves."""
    pieces = re.findall(r"\\[%_\\]|.", pattern, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    signs = (wild.get(piece) or _REGEX_SIGN.sub(r"\\\g<0>", piece[-1]) for piece in pieces)
    return f"(?s)\\A{''.join(signs)}\\z"


@dataclass(frozen=True, slots=True)
class NullTest:
    """``operand is null``."""

    operand: Operand

    def check(self, columns: NamedColumns) -> None:
        """Check that a column is tested, of any kind."""
        _tested_column(self.operand, columns)

    def compute(self, arrays: Arrays) -> pa.BooleanArray:
        """Test whether the column is null in each row."""
        return pc.is_null(self.operand.compute(arrays))


def _tested_column(operand: Operand, columns: NamedColumns) -> Column:
    """The column that is tested; refuse a constant, and a column that does not exist."""
    if isinstance(operand, Constant):
        raise operand.refused("a column must stand here", columns)
    operand.kind(columns)
    return operand


@dataclass(frozen=True, slots=True)
class Negation:
    """``not part``."""

    part: Node

    def check(self, columns: NamedColumns) -> None:
        """Check what is negated."""
        self.part.check(columns)

    def compute(self, arrays: Arrays) -> pa.BooleanArray:
        """Negate the part in each row; null stays null."""
        return pc.invert(self.part.compute(arrays))


@dataclass(frozen=True, slots=True)
class Junction:
    """Parts joined by ``and`` or by ``or``."""

    joint: str
    parts: tuple[Node, ...]

    def check(self, columns: NamedColumns) -> None:
        """Check every part, from left to right."""
        for part in self.parts:
            part.check(columns)

    def compute(self, arrays: Arrays) -> pa.BooleanArray:
        """Join the parts in each row: true where every part is, or any."""
        join = pc.and_kleene if self.joint == "and" else pc.or_kleene
        return functools.reduce(join, (part.compute(arrays) for part in self.parts))

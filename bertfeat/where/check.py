"""Whether a condition fits the columns: they exist, and values of one kind are compared."""

import difflib
from collections.abc import Iterator, Mapping

from bertfeat.errors import UsageError
from bertfeat.where.lexer import SourceRange, condition_error, spell_column
from bertfeat.where.tree import (
    Column,
    Comparison,
    Constant,
    Junction,
    Membership,
    Negation,
    Node,
    NullTest,
    TextTest,
)

MAX_PATTERN = 1_000
"""Characters of a text that like, ilike, contains, starts with and ends with look for."""

_NUMBERS = ("int64", "float64")
_NOUNS = {"string": "texts", "int64": "whole numbers", "float64": "numbers", "bool": "true or false"}
_INT64 = range(-(2**63), 2**63)
_MOST = 30  # names that an error lists
_LONG = 60  # characters of a name that it shows


def check_condition(condition: str, tree: Node, kinds: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the columns that a condition reads.

    ``kinds`` are those of the existing columns: ``string``, ``int64``, ``float64``, ``bool``.

    Raises:
        UsageError: a column does not exist, or values of different kinds are compared.
    """
    checker = _Checker(condition, kinds)
    checker.truth(tree)
    return tuple(dict.fromkeys(column.name for column in _columns_in(tree)))


def _columns_in(node: Node) -> Iterator[Column]:
    if isinstance(node, Column):
        yield node
    elif isinstance(node, Comparison):
        yield from (side for side in (node.left, node.right) if isinstance(side, Column))
    elif isinstance(node, Membership | TextTest | NullTest):
        yield from _columns_in(node.operand)
    elif isinstance(node, Negation):
        yield from _columns_in(node.part)
    elif isinstance(node, Junction):
        for part in node.parts:
            yield from _columns_in(part)


class _Checker:
    def __init__(self, condition: str, kinds: Mapping[str, str]) -> None:
        self._condition, self._kinds = condition, kinds

    def truth(self, node: Node) -> None:
        """Check that a node is true or false."""
        if isinstance(node, Junction):
            for part in node.parts:
                self.truth(part)
        elif isinstance(node, Negation):
            self.truth(node.part)
        elif isinstance(node, Column):
            if (kind := self._kind(node)) != "bool":
                example = {"string": "= 'de'", "int64": "> 1900", "float64": "> 0.5"}[kind]
                raise self._refused(
                    node.span, f"{node.name} holds {_NOUNS[kind]}; compare it: {spell_column(node.name)} {example}"
                )
        elif isinstance(node, Constant):
            raise self._refused(
                node.span, f"a value alone is no condition{_appended(self._column_hint(node))}", with_help=True
            )
        else:
            self._test(node)

    def _test(self, node: Comparison | Membership | TextTest | NullTest) -> None:
        if isinstance(node, Comparison):
            self._comparison(node)
            return
        column = node.operand
        if not isinstance(column, Column):
            raise self._refused(column.span, f"a column must stand here{_appended(self._column_hint(column))}")
        kind = self._kind(column)
        if isinstance(node, Membership):
            for value in node.values:
                self._fits(column, kind, value)
        elif isinstance(node, TextTest):
            self._text_test(node, column, kind)

    def _comparison(self, node: Comparison) -> None:
        left, right = node.left, node.right
        if isinstance(left, Constant) and isinstance(right, Constant):
            hint = self._column_hint(left) or self._column_hint(right) or "one side must be a column"
            raise self._refused(SourceRange(left.span.start, right.span.end), f"this compares two values; {hint}")
        column, other = (left, right) if isinstance(left, Column) else (right, left)
        assert isinstance(column, Column)
        kind = self._kind(column)
        if isinstance(other, Constant):
            self._fits(column, kind, other)
        elif (theirs := self._kind(other, beside=kind == "string")) != kind and not (
            kind in _NUMBERS and theirs in _NUMBERS
        ):
            raise self._refused(
                SourceRange(left.span.start, right.span.end),
                f"{column.name} holds {_NOUNS[kind]} and {other.name} {_NOUNS[theirs]}, which cannot be compared",
            )
        if kind == "bool" and node.sign not in ("=", "!="):
            raise self._refused(column.span, f"{column.name} holds true or false, which have no order; use = or !=")

    def _text_test(self, node: TextTest, column: Column, kind: str) -> None:
        if kind != "string":
            problem = f"{column.name} holds {_NOUNS[kind]}, but {node.test} looks at texts"
            raise self._refused(column.span, f"{problem}; compare it by =, <, > or between")
        if not isinstance(node.pattern, Constant) or not isinstance(node.pattern.value, str | None):
            raise self._refused(node.pattern.span, f"{node.test} takes a text between quotes: like 'The %'")
        if len(node.pattern.value or "") > MAX_PATTERN:
            raise self._refused(node.pattern.span, f"{node.test} takes at most {MAX_PATTERN:,} characters")

    def _kind(self, column: Column, *, beside: bool = False) -> str:
        """The kind of a column; ``beside`` a column of texts, a name may be meant as a text."""
        if column.name in self._kinds:
            return self._kinds[column.name]
        names = list(self._kinds)
        near = difflib.get_close_matches(column.name[:_LONG], names, 1)
        meant = f"; did you mean {spell_column(near[0])}?" if near else "; a text stands between quotes" * beside
        listed = ", ".join(map(spell_column, names[:_MOST])) + f" and {len(names) - _MOST} more" * (len(names) > _MOST)
        name = column.name if len(column.name) <= _LONG else f"{column.name[: _LONG - 1]}…"
        raise self._refused(column.span, f"there is no column {name!r}; there are: {listed}{meant}")

    def _fits(self, column: Column, kind: str, value: Constant) -> None:
        """Check that a value can be compared with a column."""
        literal = value.value
        shown = self._condition[value.span.start : value.span.end]
        fit = {"string": str, "bool": bool, "int64": int | float, "float64": int | float}[kind]
        if literal is None:
            return
        if isinstance(literal, fit) and (kind == "bool" or not isinstance(literal, bool)):
            if isinstance(literal, int) and literal not in _INT64:
                problem = f"{column.name} holds {_NOUNS[kind]}, and this one passes 64 bits"
                raise self._refused(value.span, f"{problem}; write it as {float(literal):g}")
            return
        what = {str: "a text", bool: "true or false"}.get(type(literal), "a number")
        remedy = {
            "string": f"write it between quotes: '{shown}'",
            "bool": f"write {spell_column(column.name)} or not {spell_column(column.name)}",
        }.get(kind, "write a number, without quotes")
        problem = f"{column.name} holds {_NOUNS[kind]}, and this is {what}"
        raise self._refused(value.span, f"{problem}; {self._column_hint(value) or remedy}")

    def _column_hint(self, value: Column | Constant) -> str:
        """How to write a column, where its name was written between quotes."""
        if isinstance(value, Constant) and isinstance(value.value, str) and value.value in self._kinds:
            return f"the column of that name is written {spell_column(value.value)}"
        return ""

    def _refused(self, span: SourceRange, problem: str, *, with_help: bool = False) -> UsageError:
        return condition_error(self._condition, span, problem, with_help=with_help)


def _appended(hint: str) -> str:
    return f"; {hint}" if hint else ""

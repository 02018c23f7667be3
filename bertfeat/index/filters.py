"""``--where``: conditions on kept columns, in the words of Python or SQL, as a pyarrow expression."""

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bertfeat.errors import UsageError
from bertfeat.index.store import SOURCE, Store

HELP = (
    "write conditions such as year > 1900 and lang in ('de', 'en'), not (rating <= 3), author is not null; "
    "a name with other signs is written col('publication year')"
)
_NUMBER = "_number"
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: lambda left, right: left == right,
    ast.NotEq: lambda left, right: left != right,
    ast.Lt: lambda left, right: left < right,
    ast.LtE: lambda left, right: left <= right,
    ast.Gt: lambda left, right: left > right,
    ast.GtE: lambda left, right: left >= right,
}
_SQL_WORDS = {"null": None, "true": True, "false": False}


def parse_where(where: str, columns: tuple[str, ...]) -> pc.Expression:
    """Parse a condition on the columns of those names.

    Raises:
        UsageError: it is no condition, or names a column that there is not.
    """
    try:
        tree = ast.parse(_python(where), mode="eval")
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"--where {where!r} cannot be read ({error}); {HELP}") from error
    return _Condition(where, columns).of(tree.body)


def select(store: Store, where: str) -> NDArray[np.bool_]:
    """Which rows of a store meet a condition; a comparison with null is not met.

    Raises:
        UsageError: see :func:`parse_where`; or values of different types are compared.
    """
    names = tuple(name for name in store.schema.names if name != SOURCE)
    condition = parse_where(where, names)
    selected = np.zeros(len(store), bool)
    start = 0
    try:
        for batch in store.batches(names):
            table = pa.Table.from_batches([batch])
            numbers = pa.array(np.arange(start, start + len(batch)))
            selected[table.append_column(_NUMBER, numbers).filter(condition)[_NUMBER].to_numpy()] = True
            start += len(batch)
    except pa.ArrowException as error:
        kinds = ", ".join(f"{name} ({store.schema.field(name).type})" for name in names)
        raise UsageError(f"--where {where!r} does not fit the columns, which are {kinds}: {error}") from error
    return selected


def _python(where: str) -> str:
    """SQL's spelling of =, <>, AND, OR, NOT, IN, IS, outside of quotes, as Python's."""
    pieces = re.split(r"('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")", where.strip())
    for at in range(0, len(pieces), 2):
        code = re.sub(r"(?<![<>=!])=(?!=)", "==", pieces[at]).replace("<>", "!=")
        pieces[at] = re.sub(r"\b(AND|OR|NOT|IN|IS|NULL)\b", lambda word: word[0].lower(), code)
    return "".join(pieces)


class _Condition:
    """Turns the syntax tree of a condition into an expression, node by node; what is not known is refused."""

    def __init__(self, where: str, columns: tuple[str, ...]) -> None:
        self._where, self._columns = where, columns

    def of(self, node: ast.expr) -> pc.Expression:
        """The expression for a node that is true or false."""
        if isinstance(node, ast.BoolOp):
            first, *others = map(self.of, node.values)
            for other in others:
                first = first & other if isinstance(node.op, ast.And) else first | other
            return first
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ~self.of(node.operand)
        if isinstance(node, ast.Compare):
            return self._compared(node)
        if isinstance(node, (ast.Name, ast.Call)):
            return self._column(node)  # a column of truth values
        return self._refuse(node)

    def _compared(self, node: ast.Compare) -> pc.Expression:
        """``1900 < year <= 2000`` is two comparisons, both of which must hold."""
        sides = [node.left, *node.comparators]
        found = [
            self._comparison(left, sign, right) for left, sign, right in zip(sides, node.ops, sides[1:], strict=False)
        ]
        whole = found[0]
        for each in found[1:]:
            whole = whole & each
        return whole

    def _comparison(self, left: ast.expr, sign: ast.cmpop, right: ast.expr) -> pc.Expression:
        if isinstance(sign, (ast.In, ast.NotIn)):
            if not isinstance(right, (ast.Tuple, ast.List, ast.Set)):
                right = ast.List(elts=[right])
            inside = self._column(left).isin([self._constant(each) for each in right.elts])
            return ~inside if isinstance(sign, ast.NotIn) else inside
        if isinstance(sign, (ast.Is, ast.IsNot)):
            if not _is_null(right):
                return self._refuse(right)
            return self._column(left).is_valid() if isinstance(sign, ast.IsNot) else self._column(left).is_null()
        return _COMPARISONS[type(sign)](self._side(left), self._side(right))

    def _side(self, node: ast.expr) -> Any:
        """A column or a constant."""
        if isinstance(node, ast.Call) or (isinstance(node, ast.Name) and node.id.lower() not in _SQL_WORDS):
            return self._column(node)
        return pc.scalar(self._constant(node))

    def _column(self, node: ast.expr) -> pc.Expression:
        name = None
        if isinstance(node, ast.Name):
            name = node.id
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "col"
            and len(node.args) == 1
            and isinstance(node.args[0], ast.Constant)
            and not node.keywords
        ):
            name = str(node.args[0].value)
        if name is None:
            return self._refuse(node)
        if name not in self._columns:
            raise UsageError(
                f"--where {self._where!r}: there is no column {name!r}; there are: {', '.join(self._columns)}"
            )
        return pc.field(name)

    def _constant(self, node: ast.expr) -> str | int | float | bool | None:
        if isinstance(node, ast.Name) and node.id.lower() in _SQL_WORDS:
            return _SQL_WORDS[node.id.lower()]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self._constant(node.operand)
            if isinstance(value, (int, float)):
                return -value
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, int, float, bool, type(None))):
            return node.value
        self._refuse(node)
        return None

    def _refuse(self, node: ast.expr) -> pc.Expression:
        raise UsageError(f"--where {self._where!r}: {ast.unparse(node)!r} is no part of a condition; {HELP}")


def _is_null(node: ast.expr) -> bool:
    named = isinstance(node, ast.Name) and node.id.lower() == "null"
    return named or (isinstance(node, ast.Constant) and node.value is None)

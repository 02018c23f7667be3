"""Conditions on the rows of a table: parsed from a text, they select the rows that meet them.

A row meets a condition if the condition is true for it, neither false nor null. NaN counts as null. If no row meets a
condition, :func:`describe_ranges` says which numbers its columns hold.

The text becomes a tree by recursive descent; its length and depth are limited. The parser is written by hand, because
an error has to point at its place and say what was meant. A generated parser knows only which lexemes it would have
accepted, and has to be built first, which takes a hundred times as long as parsing.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bertfeat.errors import WrongTypeError, parameter
from bertfeat.where.lexer import Lexeme, read_lexemes, spell_column
from bertfeat.where.tree import (
    Column,
    Comparison,
    Constant,
    Junction,
    Membership,
    NamedColumns,
    Negation,
    Node,
    NullTest,
    Operand,
    TextTest,
)

_MAX_COMPARISONS = 1_000
_MAX_DEPTH = 50
"""Parentheses within parentheses."""

_SIGN_OF = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_TEXT_TESTS = {"like": "", "ilike": "", "contains": "", "starts": "with", "ends": "with"}  # and the word that follows

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
        self._tree = _Parser(read_lexemes(text)).whole()
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
    """Cast numbers to 64 bits, with null for NaN and 0 for -0; other arrays stay as they are."""
    if pa.types.is_integer(array.type):
        return array.cast(pa.int64())
    if pa.types.is_floating(array.type):
        array = pc.add(array.cast(pa.float64()), 0.0)  # -0 becomes 0, because is_in distinguishes the two
        return pc.if_else(pc.is_nan(array), pa.scalar(None, pa.float64()), array)
    return array


def describe_ranges(condition: Condition, read: ReadColumn) -> str:
    """The range of each column of numbers that a condition reads."""
    ranges = []
    for name, kind in condition.kinds.items():
        low, high = number_range(read(name)) if kind in ("int64", "float64") else (None, None)
        if low is not None and high is not None:
            ranges.append(f"{spell_column(name)} goes from {low} to {high}")
    return ", ".join(ranges)


def number_range(blocks: Iterable[pa.Array]) -> tuple[float | None, float | None]:
    """The least and the greatest number of a column, None where it is not finite or there is no number."""
    ends = [end for end in (pc.min_max(block).as_py() for block in blocks) if end["min"] is not None]
    low, high = min((end["min"] for end in ends), default=None), max((end["max"] for end in ends), default=None)
    return _finite(low), _finite(high)


def _finite(value: float | None) -> float | None:
    return value if value is None or math.isfinite(value) else None


class _Parser:
    """A recursive-descent parser: each method reads one kind of node and stops at the lexeme after it.

    It does not check whether the columns exist and fit; :meth:`Node.check` does.
    """

    def __init__(self, lexemes: list[Lexeme]) -> None:
        self._lexemes = lexemes
        self._at = self._depth = self._comparisons = 0

    @property
    def _next(self) -> Lexeme:
        return self._lexemes[self._at]

    def _step(self) -> Lexeme:
        """Step over the next lexeme, but not over the end."""
        lexeme = self._next
        self._at = min(self._at + 1, len(self._lexemes) - 1)
        return lexeme

    def _take(self, *words: str) -> Lexeme | None:
        """Step over the next lexeme and return it if it is one of ``words``; else return None."""
        return self._step() if self._next.word in words else None

    def _expect(self, word: str, problem: str, place: Lexeme | None = None) -> Lexeme:
        """Step over the next lexeme, which must be ``word``; else raise the problem, marked there or at ``place``."""
        if self._next.word != word:
            raise (place or self._next).span.refused(problem)
        return self._step()

    def whole(self) -> Node:
        """The whole condition, and nothing after it."""
        if self._next.kind == "end":
            raise self._next.span.refused("the condition is empty", with_help=True)
        node = self._condition()
        if self._next.kind != "end":
            raise self._next.span.refused("this cannot follow here; conditions are joined by and, or")
        return node

    def _condition(self) -> Node:
        return self._joined("or", self._conjunction)

    def _conjunction(self) -> Node:
        return self._joined("and", self._negation)

    def _joined(self, joint: str, read_part: Callable[[], Node]) -> Node:
        parts = [read_part()]
        while self._take(joint):
            parts.append(read_part())
        return parts[0] if len(parts) == 1 else Junction(joint, tuple(parts))

    def _negation(self) -> Node:
        negated = False
        while self._take("not"):
            negated = not negated
        node = self._predicate()
        return Negation(node) if negated else node

    def _predicate(self) -> Node:
        """A comparison or a test; or a side that stands alone: a column of truth values, or a parenthesis."""
        left = self._side()
        if self._next.word in _SIGN_OF:
            return self._chain(left)
        asks_for_null = self._take("is")
        negated = self._take("not")
        node = self._null_test(left) if asks_for_null else self._test(left)
        if node is not None:
            return Negation(node) if negated else node
        if negated:
            tests = "in, between, like, ilike, contains, starts with or ends with"
            raise self._next.span.refused(f"after a column, not is followed by {tests}")
        return self._counted(left) if isinstance(left, Column | Constant) else left

    def _chain(self, left: Node) -> Node:
        """``1900 < year <= 2000`` is two comparisons, both of which must hold."""
        parts: list[Node] = []
        while self._next.word in _SIGN_OF:
            sign = self._step()
            right = self._side()
            sides = _operand(left, sign), _operand(right, sign)
            parts.append(self._counted(Comparison(_SIGN_OF[sign.word], *sides)))
            left = right
        return parts[0] if len(parts) == 1 else Junction("and", tuple(parts))

    def _null_test(self, left: Node) -> Node:
        null = self._take("null", "none")
        if null is None:
            raise self._next.span.refused("is and is not take null; everything else is compared by = and !=")
        return self._counted(NullTest(_operand(left, null)))

    def _test(self, left: Node) -> Node | None:
        """The node of ``in``, ``between`` or a text test, with the column before it; None where there is none."""
        if word := self._take("in"):
            return self._counted(Membership(_operand(left, word), self._list()))
        if word := self._take("between"):
            low = _operand(self._side(), word)
            self._expect("and", "between takes two values: year between 1850 and 1900")
            high, middle = _operand(self._side(), word), _operand(left, word)
            both = self._counted(Comparison(">=", middle, low)), self._counted(Comparison("<=", middle, high))
            return Junction("and", both)
        if word := self._take(*_TEXT_TESTS):
            if second := _TEXT_TESTS[word.word]:
                self._expect(second, f"write {word.span.text} {second} 'text'")
            pattern = _operand(self._side(), word)
            return self._counted(TextTest(word.word, _operand(left, word), pattern))
        return None

    def _side(self) -> Node:
        """A column, a value, or a parenthesis with anything in it."""
        lexeme = self._step()
        if lexeme.kind == "value":
            return Constant(lexeme.value, lexeme.span)
        if lexeme.kind == "name" and self._next.word == "(":
            return self._called(lexeme)
        if lexeme.kind in ("name", "quoted"):
            return Column(str(lexeme.value), lexeme.span)
        if lexeme.word == "(":
            return self._enclosed(lexeme)
        if lexeme.word in ("-", "+"):
            return self._signed(lexeme)
        what = "it ends too early" if lexeme.kind == "end" else "this cannot stand here"
        raise lexeme.span.refused(f"{what}: a column or a value is missing")

    def _called(self, function: Lexeme) -> Column:
        """``col('any name')``."""
        if function.word != "col":
            raise function.span.refused("there are no functions; a column is called by its name alone")
        opening, name, closing = self._step(), self._step(), self._step()
        if not isinstance(name.value, str) or name.kind != "value" or closing.word != ")":
            raise opening.span.refused("col takes one name between quotes: col('publication year')")
        return Column(name.value, function.span.until(closing.span))

    def _enclosed(self, opening: Lexeme) -> Node:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise opening.span.refused(f"more than {_MAX_DEPTH} parentheses within one another")
        node = self._condition()
        self._expect(")", "this parenthesis is not closed", opening)
        self._depth -= 1
        return node

    def _signed(self, sign: Lexeme) -> Constant:
        number = self._step()
        value = number.value
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise sign.span.refused("there is no arithmetic; a sign stands only before a number")
        return Constant(-value if sign.word == "-" else value, sign.span.until(number.span))

    def _list(self) -> tuple[Constant, ...]:
        opening = self._next
        if opening.word not in _CLOSING:
            raise opening.span.refused("in takes values in parentheses: lang in ('de', 'en')")
        self._step()
        closing = _CLOSING[opening.word]
        stops = (closing, "")  # the lexeme at the end of a condition has an empty text
        values: list[Constant] = []
        while self._next.word not in stops:
            lexeme, value = self._next, self._side()
            if not isinstance(value, Constant):
                raise lexeme.span.refused("a list takes values, no columns and no conditions")
            values.append(value)
            if not self._take(",") and self._next.word not in stops:
                raise self._next.span.refused("values in a list are separated by commas")
        self._expect(closing, "this list is not closed", opening)
        if not values:
            raise opening.span.refused("this list is empty, so nothing can be in it")
        return tuple(values)

    def _counted(self, node: Node) -> Node:
        self._comparisons += 1
        if self._comparisons > _MAX_COMPARISONS:
            listed = "many values of one column are asked for by a list: id in ('1', '2')"
            raise self._next.span.refused(f"more than {_MAX_COMPARISONS:,} comparisons; {listed}")
        return node


def _operand(node: Node, word: Lexeme) -> Operand:
    if not isinstance(node, Column | Constant):
        raise word.span.refused(f"{word.span.text} takes columns and values; what stands beside it is a condition")
    return node

"""The text of a condition → its tree, by recursive descent; its length and depth are limited.

The parser is written by hand, as an error has to say at its very place what was meant. A generated one knows only which
lexemes it would have taken, and has to be built first, which takes a hundred times as long as parsing.
"""

from collections.abc import Callable

from bertfeat.where.lexer import Lexeme, read_lexemes
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

MAX_COMPARISONS = 1_000
MAX_DEPTH = 50
"""Parentheses within parentheses."""

_SIGN_OF = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_TEXT_TESTS = {"like": "", "ilike": "", "contains": "", "starts": "with", "ends": "with"}


def parse_condition(text: str) -> Node:
    """Parse a condition; whether its columns exist and fit is not checked.

    Raises:
        UsageError: it does not parse, or is longer or deeper than ``MAX_LENGTH``, :data:`MAX_COMPARISONS` and
            :data:`MAX_DEPTH` allow.
    """
    return _Parser(read_lexemes(text)).whole()


class _Parser:
    """Reads lexemes from left to right; each method reads one kind of node and leaves what follows it."""

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
        """Step over the next lexeme if it is one of those."""
        return self._step() if self._next.word in words else None

    def _expect(self, word: str, problem: str, place: Lexeme | None = None) -> Lexeme:
        """Step over the next lexeme, which must be that one; else the problem lies there, or at another place."""
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
        """A comparison or a test; or what stands alone: a column of truth values, or a parenthesis."""
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
        if self._depth > MAX_DEPTH:
            raise opening.span.refused(f"more than {MAX_DEPTH} parentheses within one another")
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
        stops = (closing, "")  # the end of a condition is written with nothing
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
        if self._comparisons > MAX_COMPARISONS:
            listed = "many values of one column are asked for by a list: id in ('1', '2')"
            raise self._next.span.refused(f"more than {MAX_COMPARISONS:,} comparisons; {listed}")
        return node


def _operand(node: Node, word: Lexeme) -> Operand:
    if not isinstance(node, Column | Constant):
        raise word.span.refused(f"{word.span.text} takes columns and values; what stands beside it is a condition")
    return node

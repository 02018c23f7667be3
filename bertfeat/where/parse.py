"""The text of a condition → its tree, by recursive descent; its length and depth are limited."""

from bertfeat.errors import UsageError
from bertfeat.where.lexer import END, KEYWORDS, VALUES, Lexeme, SourceRange, condition_error, read_lexemes
from bertfeat.where.tree import (
    SIGNS,
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

_SIGN_OF = {"==": "=", "<>": "!="} | {sign: sign for sign in SIGNS}
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_TEXT_TESTS = {"like": "", "ilike": "", "contains": "", "starts": "with", "ends": "with"}


def parse_condition(text: str) -> Node:
    """Parse a condition; whether its columns exist and fit is not checked.

    Raises:
        UsageError: it does not parse, or is longer or deeper than ``MAX_LENGTH``, :data:`MAX_COMPARISONS` and
            :data:`MAX_DEPTH` allow.
    """
    return _Parser(text).whole()


class _Parser:
    """Reads lexemes from left to right; each method reads one kind of node and leaves what follows it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lexemes = read_lexemes(text)
        self._at = 0
        self._depth = self._comparisons = 0

    def whole(self) -> Node:
        """The whole condition, and nothing after it."""
        if self._next.kind == END:
            raise self._refused(self._next, "the condition is empty", with_help=True)
        node = self._condition()
        if self._next.kind != END:
            raise self._refused(self._next, "this cannot follow here; conditions are joined by and, or")
        return node

    @property
    def _next(self) -> Lexeme:
        return self._lexemes[self._at]

    def _take(self, *names: str) -> Lexeme | None:
        """Step over the next lexeme if it is one of those."""
        return self._step() if self._next.is_one_of(*names) else None

    def _step(self) -> Lexeme:
        word = self._next
        if word.kind != END:
            self._at += 1
        return word

    def _condition(self) -> Node:
        return self._joined("or")

    def _joined(self, joint: str) -> Node:
        parts = [self._joined("and") if joint == "or" else self._negation()]
        while self._take(joint):
            parts.append(self._joined("and") if joint == "or" else self._negation())
        return parts[0] if len(parts) == 1 else Junction(joint == "and", tuple(parts))

    def _negation(self) -> Node:
        negated = False
        while self._take("not"):
            negated = not negated
        node = self._predicate()
        return Negation(node) if negated else node

    def _predicate(self) -> Node:
        """A comparison or a test; or what stands alone: a column of truth values, or a parenthesis."""
        left = self._side()
        if self._next.text in _SIGN_OF and self._next.kind == "sign":
            return self._chain(left)
        if self._take("is"):
            return self._is_null(left)
        negated = self._take("not")
        node = self._tested(left)
        if node is None and negated:
            tests = "in, between, like, ilike, contains, starts with or ends with"
            raise self._refused(self._next, f"after a column, not is followed by {tests}")
        if node is None:
            return self._counted(left) if isinstance(left, Column | Constant) else left
        return Negation(node) if negated else node

    def _tested(self, left: Node) -> Node | None:
        """The node of ``in``, ``between`` or a text test, with the column before it."""
        word = self._next
        if self._take("in"):
            return self._counted(Membership(self._operand(left, word), self._list()))
        if self._take("between"):
            low = self._operand(self._side(), word)
            if not self._take("and"):
                raise self._refused(self._next, "between takes two values: year between 1850 and 1900")
            high, middle = self._operand(self._side(), word), self._operand(left, word)
            both = (Comparison(">=", middle, low), Comparison("<=", middle, high))
            return Junction(True, tuple(map(self._counted, both)))
        if self._take(*_TEXT_TESTS):
            second = _TEXT_TESTS[word.text.lower()]
            if second and not self._take(second):
                raise self._refused(self._next, f"write {word.text} {second} 'text'")
            pattern = self._operand(self._side(), word)
            return self._counted(TextTest(word.text.lower(), self._operand(left, word), pattern))
        return None

    def _chain(self, left: Node) -> Node:
        """``1900 < year <= 2000`` is two comparisons, both of which must hold."""
        parts: list[Node] = []
        while self._next.kind == "sign" and self._next.text in _SIGN_OF:
            sign = self._step()
            right = self._side()
            sides = self._operand(left, sign), self._operand(right, sign)
            parts.append(self._counted(Comparison(_SIGN_OF[sign.text], *sides)))
            left = right
        return parts[0] if len(parts) == 1 else Junction(True, tuple(parts))

    def _is_null(self, left: Node) -> Node:
        negated = self._take("not")
        word = self._step()
        if not word.is_one_of("null", "none"):
            raise self._refused(word, "is and is not take null; everything else is compared by = and !=")
        node = self._counted(NullTest(self._operand(left, word)))
        return Negation(node) if negated else node

    def _side(self) -> Node:
        """A column, a value, or a parenthesis with anything in it."""
        word = self._step()
        name = word.text.lower()
        if word.kind == "sign":
            if word.text == "(":
                return self._enclosed(word)
            if word.text in ("-", "+"):
                return self._signed(word)
        elif word.kind in ("number", "text"):
            return Constant(word.value, word.span)
        elif word.kind == "quoted":
            return Column(str(word.value), word.span)
        elif word.kind == "name" and name in VALUES:
            return Constant(VALUES[name], word.span)
        elif word.kind == "name" and name not in KEYWORDS:
            return self._called(word) if self._next.text == "(" else Column(word.text, word.span)
        what = "it ends too early" if word.kind == END else "this cannot stand here"
        raise self._refused(word, f"{what}: a column or a value is missing")

    def _enclosed(self, opening: Lexeme) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._refused(opening, f"more than {MAX_DEPTH} parentheses within one another")
        node = self._condition()
        if not self._take(")"):
            raise self._refused(opening, "this parenthesis is not closed")
        self._depth -= 1
        return node

    def _signed(self, sign: Lexeme) -> Constant:
        number = self._step()
        if number.kind != "number" or not isinstance(number.value, int | float):
            raise self._refused(sign, "there is no arithmetic; a sign stands only before a number")
        return Constant(
            -number.value if sign.text == "-" else number.value, SourceRange(sign.span.start, number.span.end)
        )

    def _called(self, word: Lexeme) -> Column:
        """``col('any name')``."""
        if word.text.lower() != "col":
            raise self._refused(word, "there are no functions; a column is called by its name alone")
        opening, name, closing = self._step(), self._step(), self._step()
        if name.kind != "text" or closing.text != ")":
            raise self._refused(opening, "col takes one name between quotes: col('publication year')")
        return Column(str(name.value), SourceRange(word.span.start, closing.span.end))

    def _list(self) -> tuple[Constant, ...]:
        opening = self._step()
        if opening.kind != "sign" or opening.text not in _CLOSING:
            raise self._refused(opening, "in takes values in parentheses: lang in ('de', 'en')")
        values: list[Constant] = []
        while not (closed := self._take(_CLOSING[opening.text])) and self._next.kind != END:
            values.append(self._listed())
            if not self._take(",") and not self._next.is_one_of(_CLOSING[opening.text]) and self._next.kind != END:
                raise self._refused(self._next, "values in a list are separated by commas")
        if not closed:
            raise self._refused(opening, "this list is not closed")
        if not values:
            raise self._refused(opening, "this list is empty, so nothing can be in it")
        return tuple(values)

    def _listed(self) -> Constant:
        word = self._next
        value = self._side()
        if not isinstance(value, Constant):
            raise self._refused(word, "a list takes values, no columns and no conditions")
        return value

    def _operand(self, node: Node, word: Lexeme) -> Operand:
        if not isinstance(node, Column | Constant):
            raise self._refused(word, f"{word.text} takes columns and values; what stands beside it is a condition")
        return node

    def _counted(self, node: Node) -> Node:
        self._comparisons += 1
        if self._comparisons > MAX_COMPARISONS:
            listed = "many values of one column are asked for by a list: id in ('1', '2')"
            raise self._refused(self._next, f"more than {MAX_COMPARISONS:,} comparisons; {listed}")
        return node

    def _refused(self, word: Lexeme, problem: str, *, with_help: bool = False) -> UsageError:
        return condition_error(self._text, word.span, problem, with_help=with_help)

"""The lexemes of a condition: numbers, texts, names and signs, each with its place; and errors that point at one."""

import re
import unicodedata
from dataclasses import dataclass

import regex

from bertfeat.errors import UsageError, parameter

MAX_LENGTH = 100_000
"""Characters that a condition may have."""

HELP = (
    "Write conditions such as year > 1900 and lang in ('de', 'en'), not (rating <= 3), author is not null, "
    "year between 1850 and 1900, title like 'The %'; a name with other signs is written col('publication year')."
)
VALUES = {"null": None, "none": None, "true": True, "false": False}
"""Names that stand for values."""

KEYWORDS = ("and", "or", "not", "in", "is")
"""Names that stand between conditions and columns."""

_NAME = r"[^\W\d][\w.\p{M}]*"
_LEXEME = regex.compile(
    rf"""(?P<number>\.?[0-9](?:[eE][+-]|[\w.])*)
      | (?P<text>'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*")
      | (?P<quoted>`(?:[^`]|``)+`)
      | (?P<name>{_NAME})
      | (?P<sign><=|>=|<>|!=|==|&&|\|\||.)
    """,
    regex.VERBOSE | regex.DOTALL,
)
_SPACE = re.compile(r"\s*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_WHOLE = re.compile(r"[0-9]+(?:_[0-9]+)*")
_REAL = re.compile(r"(?:[0-9]+(?:_[0-9]+)*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_KNOWN = frozenset(("=", "==", "!=", "<>", "<", "<=", ">", ">=", "(", ")", "[", "]", "{", "}", ",", "+", "-"))
_MEANT = {
    "&": "and", "&&": "and", "|": "or", "||": "or", "!": "not", "~": "not", "≤": "<=", "≥": ">=", "≠": "!=",
    "“": '"', "”": '"', "‘": "'", "’": "'",
}  # fmt: skip
_ESCAPES = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t"}
_DIGITS = 40  # of a whole number; more than any that could fit
_AROUND = 40  # characters that an error shows on either side of its place

END = "end"


@dataclass(frozen=True, slots=True)
class SourceRange:
    """Where something stands in the text of a condition."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A number, text, name or sign of a condition, or its end."""

    kind: str  # number, text, quoted (a name), name, sign, end
    text: str  # as it is written
    span: SourceRange
    value: str | int | float | None = None  # what a number, a text or a quoted name stands for

    def is_one_of(self, *names: str) -> bool:
        """Whether it is one of those signs or names, in upper or lower case; never if it is quoted."""
        return self.kind in ("name", "sign") and self.text.lower() in names


def read_lexemes(condition: str) -> list[Lexeme]:
    """Split a condition into lexemes, the last of which is its end.

    Raises:
        UsageError: it is too long, or a part of it is no lexeme.
    """
    if len(condition) > MAX_LENGTH:
        raise UsageError(
            f"a condition of {len(condition):,} characters is too long; {MAX_LENGTH:,} are allowed",
            where=parameter("where"),
        )
    if surrogate := _SURROGATE.search(condition):
        raise condition_error(
            condition,
            SourceRange(*surrogate.span()),
            "this is no character, but a byte that is not UTF-8 or half of a pair",
        )
    lexemes, at = [], _end_of_space(condition, 0)
    while at < len(condition):
        lexemes.append(_read_lexeme(condition, at))
        at = _end_of_space(condition, lexemes[-1].span.end)
    return [*lexemes, Lexeme(END, "", SourceRange(at, at))]


def condition_error(condition: str, span: SourceRange, problem: str, *, with_help: bool = False) -> UsageError:
    """An error that shows the condition, a mark under the place, and what is wrong there."""
    lines = [_printable(problem)]
    if condition.strip():
        start, end = max(0, span.start - _AROUND), min(len(condition), span.start + 2 * _AROUND)
        before, after = "…" if start else "", "…" if end < len(condition) else ""
        indent = " " * _display_width(before + condition[start : span.start])
        mark = "^" * max(1, _display_width(condition[span.start : min(span.end, end)]))
        lines += [f"    {before}{_printable(condition[start:end])}{after}", f"    {indent}{mark}"]
    return UsageError("\n".join([*lines, HELP] if with_help else lines), where=parameter("where"))


def spell_column(name: str) -> str:
    """A column's name as a condition can say it: as it is, or ``col('any name')``."""
    if regex.fullmatch(_NAME, name) and name.lower() not in (*VALUES, *KEYWORDS):
        return name
    return "col('{}')".format(name.replace("\\", "\\\\").replace("'", "''"))


def _end_of_space(condition: str, at: int) -> int:
    space = _SPACE.match(condition, at)
    return space.end() if space else at


def _read_lexeme(condition: str, at: int) -> Lexeme:
    match = _LEXEME.match(condition, at)
    span, text, kind = SourceRange(*match.span()), str(match[0]), str(match.lastgroup)
    if kind == "number":
        return Lexeme(kind, text, span, _read_number(condition, span))
    if kind == "text":
        return Lexeme(kind, text, span, _unquote(text))
    if kind == "quoted":
        return Lexeme(kind, text, span, text[1:-1].replace("``", "`"))
    if kind == "sign" and text not in _KNOWN:
        problem = _sign_problem(text)
        raise condition_error(condition, span, problem or "this sign is unknown", with_help=not problem)
    return Lexeme(kind, text, span)


def _read_number(condition: str, span: SourceRange) -> int | float:
    text = condition[span.start : span.end]
    if _WHOLE.fullmatch(text):
        if len(text) > _DIGITS:
            raise condition_error(condition, span, "this number has too many digits")
        return int(text)
    if not _REAL.fullmatch(text):
        raise condition_error(
            condition, span, f"this is no number; a name that begins with a digit is written col('{text}')"
        )
    number = float(text)
    if number == float("inf"):
        raise condition_error(condition, span, "this number is too large")
    return number


def _unquote(text: str) -> str:
    """The text between the quotes; a quote inside is doubled or has a backslash before it."""
    quote = text[0]

    def meant(escape: re.Match[str]) -> str:
        return quote if escape[0] == 2 * quote else _ESCAPES.get(escape[0][1], escape[0])

    return re.sub(rf"{quote}{quote}|\\.", meant, text[1:-1], flags=re.DOTALL)


def _sign_problem(sign: str) -> str:
    """A hint for a sign that has no meaning here, or an empty string."""
    if sign in ("'", '"', "`"):
        return "this quote is not closed"
    if sign in _MEANT:
        return f"{sign} is unknown; write {_MEANT[sign]}"
    if sign in "*/%^":
        return "there is no arithmetic in conditions"
    return ""


def _printable(text: str) -> str:
    """A text for a terminal, with a space for each character that cannot be printed."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _display_width(text: str) -> int:
    """Columns that a text takes on a terminal: two for wide signs, none for combining marks."""
    wide = sum(unicodedata.east_asian_width(sign) in "WF" for sign in text)
    return len(text) + wide - sum(unicodedata.combining(sign) > 0 for sign in text)

"""The lexemes of a condition: numbers, texts, names and signs, each with its place; and errors that point at one."""

import re
import unicodedata
from dataclasses import dataclass

import regex

from bertfeat.errors import UsageError, parameter

_MAX_LENGTH = 100_000
"""Characters that a condition may have."""

HELP = (
    "Write conditions such as year > 1900 and lang in ('de', 'en'), not (rating <= 3), author is not null, "
    "year between 1850 and 1900, title like 'The %'; a name with other signs is written col('publication year')."
)
_VALUES = {"null": None, "none": None, "true": True, "false": False}  # names that stand for values
_KEYWORDS = ("and", "or", "not", "in", "is")  # names that stand between conditions and columns

_NAME = r"[^\W\d][\w.\p{M}]*"
_LEXEME = regex.compile(
    rf"""(?P<space>[\s\x1c-\x1f]+)
      | (?P<number>\.?[0-9](?:[eE][+-]|[\w.])*)
      | (?P<text>'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*")
      | (?P<quoted>`(?:[^`]|``)+`)
      | (?P<name>{_NAME})
      | (?P<sign><=|>=|<>|!=|==|&&|\|\||.)
    """,
    regex.VERBOSE | regex.DOTALL,
)
_WHOLE = re.compile(r"[0-9]+(?:_[0-9]+)*")
_REAL = re.compile(r"(?:[0-9]+(?:_[0-9]+)*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_KNOWN = frozenset(("=", "==", "!=", "<>", "<", "<=", ">", ">=", "(", ")", "[", "]", "{", "}", ",", "+", "-"))
_MEANT = {
    "&": "and", "&&": "and", "|": "or", "||": "or", "!": "not", "~": "not", "≤": "<=", "≥": ">=", "≠": "!=",
    "“": '"', "”": '"', "‘": "'", "’": "'",
}  # fmt: skip
_WRONG_SIGNS = {
    **{sign: f"{sign} is unknown; write {meant}" for sign, meant in _MEANT.items()},
    **dict.fromkeys("'\"`", "this quote is not closed"),
    **dict.fromkeys("*/%^", "there is no arithmetic in conditions"),
}
_ESCAPES = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t"}
_AROUND = 40  # characters that an error shows before its place; from the start of the place on, it shows 80

LiteralValue = str | int | float | bool | None
"""A value that can be written in a condition."""


def point_at(text: str, start: int, end: int) -> list[str]:
    """The lines of a message that show a text, or what is near, and a mark under some of its characters."""
    if not text.strip():
        return []
    first, stop = max(0, start - _AROUND), min(len(text), start + 2 * _AROUND)
    before, after = "…" if first else "", "…" if stop < len(text) else ""
    indent = " " * _display_width(before + text[first:start])
    mark = "^" * max(1, _display_width(text[start : min(end, stop)]))
    return [f"    {before}{_printable(text[first:stop])}{after}", f"    {indent}{mark}"]


@dataclass(frozen=True, slots=True)
class SourceRange:
    """A range of characters in the text of a condition."""

    condition: str
    start: int
    end: int

    @property
    def text(self) -> str:
        """The text of the place, as it is written."""
        return self.condition[self.start : self.end]

    def until(self, other: "SourceRange") -> "SourceRange":
        """The range from here to the end of another place."""
        return SourceRange(self.condition, self.start, other.end)

    def refused(self, problem: str, *, with_help: bool = False) -> UsageError:
        """An error that shows the condition, a mark under the place, and what is wrong there."""
        lines = [_printable(problem), *point_at(self.condition, self.start, self.end)]
        return UsageError("\n".join([*lines, HELP] if with_help else lines), where=parameter("where"))


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A number, text, name or sign of a condition, or its end."""

    kind: str  # value, name, quoted (a name), keyword, sign, end
    span: SourceRange
    value: LiteralValue = None  # for a value, the value itself; for a name, the column that it names

    @property
    def word(self) -> str:
        """The lexeme in lower case, for comparison with the words and signs of the language."""
        return self.span.text.lower()


def read_lexemes(condition: str) -> list[Lexeme]:
    """Split a condition into lexemes, the last of which is its end."""
    if len(condition) > _MAX_LENGTH:
        raise UsageError(
            f"a condition of {len(condition):,} characters is too long; {_MAX_LENGTH:,} are allowed",
            where=parameter("where"),
        )
    if surrogate := re.search("[\ud800-\udfff]", condition):
        place = SourceRange(condition, *surrogate.span())
        raise place.refused("this is no character, but a byte that is not UTF-8 or half of a pair")
    lexemes = [
        _read_lexeme(str(match.lastgroup), SourceRange(condition, *match.span()))
        for match in _LEXEME.finditer(condition)
        if match.lastgroup != "space"
    ]
    return [*lexemes, Lexeme("end", SourceRange(condition, len(condition), len(condition)))]


def spell_column(name: str) -> str:
    """A column's name as it is written in a condition: as it is, or ``col('any name')``."""
    if regex.fullmatch(_NAME, name) and name.lower() not in (*_VALUES, *_KEYWORDS):
        return name
    return "col('{}')".format(name.replace("\\", "\\\\").replace("'", "''"))


def _read_lexeme(kind: str, span: SourceRange) -> Lexeme:
    """The lexeme in a range in which the pattern found a ``kind``: a number, text, quoted name, name or sign."""
    text = span.text
    if kind == "number":
        return Lexeme("value", span, _read_number(span))
    if kind == "text":
        return Lexeme("value", span, _unquote(text))
    if kind == "quoted":
        return Lexeme("quoted", span, text[1:-1].replace("``", "`"))
    if kind == "name" and text.lower() in _VALUES:
        return Lexeme("value", span, _VALUES[text.lower()])
    if kind == "name":
        return Lexeme("keyword" if text.lower() in _KEYWORDS else "name", span, text)
    if text not in _KNOWN:
        raise span.refused(_WRONG_SIGNS.get(text, "this sign is unknown"), with_help=text not in _WRONG_SIGNS)
    return Lexeme("sign", span)


def _read_number(span: SourceRange) -> int | float:
    if _WHOLE.fullmatch(span.text):
        if len(span.text) > 40:  # 64 bits need at most 19 digits, with underscores 37 characters
            raise span.refused("this number has too many digits")
        return int(span.text)
    if not _REAL.fullmatch(span.text):
        raise span.refused(f"this is no number; a name that begins with a digit is written col('{span.text}')")
    number = float(span.text)
    if number == float("inf"):
        raise span.refused("this number is too large")
    return number


def _unquote(text: str) -> str:
    """The text between the quotes; a quote inside is doubled or has a backslash before it."""
    quote = text[0]

    def meant(escape: re.Match[str]) -> str:
        return quote if escape[0] == 2 * quote else _ESCAPES.get(escape[0][1], escape[0])

    return re.sub(rf"{quote}{quote}|\\.", meant, text[1:-1], flags=re.DOTALL)


def _printable(text: str) -> str:
    """A text for a terminal, with a space for each character that cannot be printed."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _display_width(text: str) -> int:
    """Columns that a text takes on a terminal: two for wide signs, none for combining marks."""
    wide = sum(unicodedata.east_asian_width(sign) in "WF" for sign in text)
    return len(text) + wide - sum(unicodedata.combining(sign) > 0 for sign in text)

"""The tree of a condition: what is compared, tested, negated and joined."""

from dataclasses import dataclass

from bertfeat.where.lexer import SourceRange

SIGNS = ("=", "!=", "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class Column:
    """A column, by its name."""

    name: str
    span: SourceRange


@dataclass(frozen=True, slots=True)
class Constant:
    """A value in the text of a condition."""

    value: str | int | float | bool | None
    span: SourceRange


Operand = Column | Constant


@dataclass(frozen=True, slots=True)
class Comparison:
    """``left < right``."""

    sign: str  # one of SIGNS
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Membership:
    """``operand in (…)``."""

    operand: Operand
    values: tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class TextTest:
    """``operand like 'D%'`` and its kin."""

    test: str  # like, ilike, contains, starts, ends
    operand: Operand
    pattern: Operand


@dataclass(frozen=True, slots=True)
class NullTest:
    """``operand is null``."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Negation:
    """``not part``."""

    part: "Node"


@dataclass(frozen=True, slots=True)
class Junction:
    """Parts joined by ``and`` (``every``) or by ``or``."""

    every: bool
    parts: tuple["Node", ...]


Node = Column | Constant | Comparison | Membership | TextTest | NullTest | Negation | Junction

"""The tree of a condition: what is compared, tested, negated and joined."""

from dataclasses import dataclass

from bertfeat.where.words import Span

SIGNS = ("=", "!=", "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class Column:
    """A column, by its name."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class Value:
    """A value that is written down."""

    value: str | int | float | bool | None
    span: Span


Operand = Column | Value


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
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class TextTest:
    """``operand like 'D%'`` and its kin."""

    test: str  # like, ilike, contains, starts, ends
    operand: Operand
    pattern: Operand


@dataclass(frozen=True, slots=True)
class Nothing:
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


Node = Column | Value | Comparison | Membership | TextTest | Nothing | Negation | Junction

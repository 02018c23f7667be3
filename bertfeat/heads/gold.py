"""Gold values: labels, numbers, answers or choices that are to be predicted, as kept columns hold them."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from bertfeat.errors import UsageError, did_you_mean, parameter
from bertfeat.heads.tables import ExampleTable
from bertfeat.io import quote_names

ANSWERS = "answers"  # a kept column: a JSON list of {"text": …, "start": …}, as the format squad has it
QUESTION, RIGHT = "question", "right"  # kept columns of choices: which question, and whether it is the right one


@dataclass(frozen=True, slots=True)
class GoldAnswer:
    """An answer to a question: a stretch of its passage."""

    text: str
    start: int  # characters


Gold = str | float | int | tuple[GoldAnswer, ...] | tuple[str, ...]
"""A label, a number, the number of the right choice, the answers to a question (none: it has none), or the labels."""


def label_columns(label: str, known: Collection[str]) -> tuple[str, ...]:
    """The columns that ``label`` names: one, or several with commas between them, unless one has that whole name."""
    return (label,) if label in known or "," not in label else tuple(name.strip() for name in label.split(","))


def gold_values(table: ExampleTable, name: str) -> Iterator[tuple[int, object]]:
    """The values of a kept column, each after its row.

    Raises:
        UsageError: there is no such column.
    """
    if name not in table.kept:
        raise UsageError(
            f"there is no column {name!r}; kept are {quote_names(table.kept) or 'none'}",
            where=table.where,
            remedy=f"{did_you_mean(name, table.kept)}extract with {parameter('keep', (name,))}",
        )
    yield from table.column(name)


def labels_of(gold: Gold | None) -> tuple[str, ...]:
    """The labels of an example: one, or any number."""
    return tuple(map(str, gold)) if isinstance(gold, tuple) else (str(gold),)

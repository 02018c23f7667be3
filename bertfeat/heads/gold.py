"""What is to be predicted, from the kept columns of feature sets: labels, numbers, answers, right choices."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import HeadError, UsageError, parameter
from bertfeat.heads.kinds import HeadKind
from bertfeat.heads.tables import ExampleTable
from bertfeat.io import quote_names

ANSWERS = "answers"  # a kept column: a JSON list of {"text": …, "start": …}, as the format squad has it
QUESTION, RIGHT = "question", "right"  # kept columns of choices: which question, and whether it is the right one


@dataclass(frozen=True, slots=True)
class GoldAnswer:
    """An answer to a question: a stretch of its passage."""

    text: str
    start: int  # characters


Gold = str | float | int | tuple[GoldAnswer, ...]
"""A label, a number, the number of the right choice, or the answers to a question (none: it has none)."""


def has_gold(table: ExampleTable, kind: HeadKind, label: str | None) -> bool:
    """Whether a table says what is to be predicted."""
    return {HeadKind.CLASSIFY: label, HeadKind.ANSWER: ANSWERS, HeadKind.CHOOSE: RIGHT}[kind] in table.kept


def read_gold(kind: HeadKind, table: ExampleTable, label: str | None, *, regression: bool) -> tuple[Gold, ...]:
    """What is to be predicted of each example; empty where the table does not say it.

    Raises:
        HeadError: a row does not say it as it should.
    """
    if not has_gold(table, kind, label):
        return ()
    if kind is HeadKind.ANSWER:
        return tuple(read_answers(table))
    if kind is HeadKind.CHOOSE:
        return read_choices(table).right
    assert label is not None
    return tuple(read_numbers(table, label)) if regression else tuple(read_labels(table, label))


def read_labels(table: ExampleTable, label: str) -> Iterator[str]:
    """The label of each row, as a string; of whole numbers without a point.

    Raises:
        HeadError: a row without one.
    """
    for row, value in _column(table, label):
        if value is None or value != value or value == "":
            problem, remedy = f"row {row:,} has no {label}", "give each row one, or leave the row out of the corpus"
            raise HeadError(problem, where=table.where, remedy=remedy)
        whole = isinstance(value, float) and value.is_integer()  # 1.0 in one file and 1 in another are one label
        yield f"{value:.0f}" if whole else str(value)


def read_numbers(table: ExampleTable, label: str) -> Iterator[float]:
    """The number of each row.

    Raises:
        HeadError: a row whose value is no finite number.
    """
    for row, value in _column(table, label):
        try:
            number = float(value) if isinstance(value, str | int | float) else math.nan
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise HeadError(
                f"the {label} of row {row:,} is {value!r}, which is no finite number",
                where=table.where,
                remedy=f"correct it; labels that are names are learnt without {parameter('regression', True)}",
            )
        yield number


def read_answers(table: ExampleTable) -> Iterator[tuple[GoldAnswer, ...]]:
    """The answers to each question.

    Raises:
        HeadError: a row whose answers are not a JSON list of objects with text and start.
    """
    for row, value in _column(table, ANSWERS):
        try:
            yield _parse_answers(value)
        except (ValueError, TypeError, KeyError) as error:
            raise HeadError(
                f"the {ANSWERS} of row {row:,} are {value!r}",
                where=table.where,
                remedy='write them as a JSON list: [{"text": "in May", "start": 17}], or [] for none',
            ) from error


@dataclass(frozen=True, slots=True)
class ChoiceRows:
    """The rows of questions with choices: Q questions."""

    first: NDArray[np.int64]  # [Q] row of the first choice
    stop: NDArray[np.int64]  # [Q]
    counts: NDArray[np.int32]  # [Q] choices
    right: tuple[int, ...]  # [Q] number of the right choice; -1 where none is known
    questions: tuple[str, ...]  # [Q]


def read_choices(table: ExampleTable) -> ChoiceRows:
    """The questions of a table that has a row for each choice, those of a question one after the other.

    Raises:
        HeadError: unequal numbers of choices, a question that has a single choice, or more than one right one.
    """
    if QUESTION not in table.kept:
        raise HeadError(
            f"it has no column {QUESTION!r} that says which rows are choices of one question; kept are "
            f"{quote_names(table.kept) or 'none'}",
            where=table.where,
            remedy=f"give the corpus, or extract one row a choice with {parameter('keep', (QUESTION, RIGHT))}",
        )
    runs: list[tuple[str, list[int], list[bool]]] = []
    rights = (bool(right) for _, right in table.column(RIGHT)) if RIGHT in table.kept else repeat(False)
    for (row, question), right in zip(table.column(QUESTION), rights, strict=False):
        if not runs or runs[-1][0] != str(question):
            runs.append((str(question), [], []))
        runs[-1][1].append(row)
        runs[-1][2].append(right)
    _check_choices(table, runs)
    rows = [run[1] for run in runs]
    return ChoiceRows(
        np.array([listed[0] for listed in rows], np.int64),
        np.array([listed[-1] + 1 for listed in rows], np.int64),
        np.array([len(listed) for listed in rows], np.int32),
        tuple(run[2].index(True) if any(run[2]) else -1 for run in runs),
        tuple(run[0] for run in runs),
    )


def _check_choices(table: ExampleTable, runs: Sequence[tuple[str, list[int], list[bool]]]) -> None:
    where = table.where
    if not runs:
        raise HeadError("there is no question in it", where=where)
    usual = len(runs[0][1])
    for question, rows, right in runs:
        if len(rows) != usual or usual < 2:
            raise HeadError(
                f"question {question!r} (row {rows[0]:,}) has {len(rows)} choices, and the first one {usual}",
                where=where,
                remedy="give every question equally many, at least two; a choice that failed is listed in its set",
            )
        if sum(right) > 1:
            raise HeadError(f"question {question!r} (row {rows[0]:,}) has {sum(right)} right choices", where=where)


def _column(table: ExampleTable, name: str) -> Iterator[tuple[int, object]]:
    """The values of a kept column with their rows.

    Raises:
        UsageError: there is no such column.
    """
    if name not in table.kept:
        raise UsageError(
            f"there is no column {name!r}; kept are {quote_names(table.kept) or 'none'}",
            where=table.where,
            remedy=f"extract with {parameter('keep', (name,))}",
        )
    yield from table.column(name)


def _parse_answers(value: object) -> tuple[GoldAnswer, ...]:
    """Answers as the format squad keeps them, or as Hugging Face data sets have them.

    Raises:
        ValueError, TypeError, KeyError: neither.
    """
    listed = json.loads(str(value))
    if isinstance(listed, dict):
        pairs = list(zip(listed["text"], listed["answer_start"], strict=True))
    else:
        pairs = [(item["text"], item["start"]) for item in listed]
    if not all(type(text) is str and type(start) is int for text, start in pairs):
        raise TypeError
    return tuple(GoldAnswer(text, start) for text, start in pairs)

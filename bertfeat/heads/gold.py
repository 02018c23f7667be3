"""What is to be predicted, from the kept columns of feature sets: labels, numbers, answers, right choices."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import HeadError, UsageError, parameter
from bertfeat.features import FeatureSet
from bertfeat.heads.kinds import HeadKind
from bertfeat.io import quote_names
from bertfeat.training import describe_source

ANSWERS = "answers"  # a kept column: a JSON list of {"text": …, "start": …}, as the format squad has it
QUESTION, RIGHT = "question", "right"  # kept columns of choices: which question, and whether it is the right one


@dataclass(frozen=True, slots=True)
class GoldAnswer:
    """An answer to a question: a stretch of its passage."""

    text: str
    start: int  # characters


Gold = str | float | int | tuple[GoldAnswer, ...]
"""A label, a number, the number of the right choice, or the answers to a question (none: it has none)."""


def has_gold(features: FeatureSet, kind: HeadKind, label: str | None) -> bool:
    """Whether a feature set says what is to be predicted."""
    kept = {column.name for column in features.kept}
    return {HeadKind.CLASSIFY: label, HeadKind.ANSWER: ANSWERS, HeadKind.CHOOSE: RIGHT}[kind] in kept


def read_labels(features: FeatureSet, label: str) -> Iterator[str]:
    """The label of each row, as a string.

    Raises:
        HeadError: a row without one.
    """
    for row, value in _column(features, label):
        if value is None or value != value or value == "":
            problem, remedy = f"row {row:,} has no {label}", "give each row one, or leave the row out of the corpus"
            raise HeadError(problem, where=describe_source(features), remedy=remedy)
        yield str(value)


def read_numbers(features: FeatureSet, label: str) -> Iterator[float]:
    """The number of each row.

    Raises:
        HeadError: a row whose value is no finite number.
    """
    for row, value in _column(features, label):
        try:
            number = float(value) if isinstance(value, str | int | float) else math.nan
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise HeadError(
                f"the {label} of row {row:,} is {value!r}, which is no finite number",
                where=describe_source(features),
                remedy=f"correct it; labels that are names are learnt without {parameter('regression', True)}",
            )
        yield number


def read_answers(features: FeatureSet) -> Iterator[tuple[GoldAnswer, ...]]:
    """The answers to each question.

    Raises:
        HeadError: a row whose answers are not a JSON list of objects with text and start.
    """
    for row, value in _column(features, ANSWERS):
        try:
            yield _parse_answers(value)
        except (ValueError, TypeError, KeyError) as error:
            raise HeadError(
                f"the {ANSWERS} of row {row:,} are {value!r}",
                where=describe_source(features),
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


def read_choices(features: FeatureSet) -> ChoiceRows:
    """The questions of a feature set that has a row for each choice, those of a question one after the other.

    Raises:
        HeadError: unequal numbers of choices, a question that has a single choice, or more than one right one.
    """
    names = [name for name in ("row", QUESTION, RIGHT) if name in features.names]
    if QUESTION not in names:
        there = quote_names(tuple(column.name for column in features.kept)) or "none"
        raise HeadError(
            f"it has no column {QUESTION!r} that says which rows are choices of one question; kept are {there}",
            where=features.folder,
            remedy=f"give the corpus, or extract one row a choice with {parameter('keep', (QUESTION, RIGHT))}",
        )
    runs: list[tuple[str, list[int], list[bool]]] = []
    for batch in features.stream(names):
        for values in batch.to_pylist():
            question = str(values[QUESTION])
            if not runs or runs[-1][0] != question:
                runs.append((question, [], []))
            runs[-1][1].append(values["row"])
            runs[-1][2].append(bool(values.get(RIGHT)))
    _check_choices(features, runs)
    rows = [run[1] for run in runs]
    return ChoiceRows(
        np.array([listed[0] for listed in rows], np.int64),
        np.array([listed[-1] + 1 for listed in rows], np.int64),
        np.array([len(listed) for listed in rows], np.int32),
        tuple(run[2].index(True) if any(run[2]) else -1 for run in runs),
        tuple(run[0] for run in runs),
    )


def _check_choices(features: FeatureSet, runs: Sequence[tuple[str, list[int], list[bool]]]) -> None:
    where = describe_source(features)
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


def _column(features: FeatureSet, name: str) -> Iterator[tuple[int, object]]:
    """The values of a kept column with their rows.

    Raises:
        UsageError: there is no such column.
    """
    kept = tuple(column.name for column in features.kept)
    if name not in kept:
        raise UsageError(
            f"there is no column {name!r}; kept are {quote_names(kept) or 'none'}",
            where=features.folder,
            remedy=f"extract with {parameter('keep', (name,))}",
        )
    for batch in features.stream(["row", name]):
        yield from zip(batch.column("row").to_pylist(), batch.column(name).to_pylist(), strict=True)


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

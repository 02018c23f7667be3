"""The settings of a measurement of change, and its result."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from bertfeat.errors import UsageError, parameter
from bertfeat.search import Interval
from bertfeat.usages import Usage
from bertfeat.where import Slice

MOST_COMPARED = 10_000
"""Usages of a slice that are compared at most, since resamples of them are held at once."""


class ChangeMeasure(StrEnum):
    """How the change of a word is measured; greater is more change."""

    APD = "apd"  # average pairwise distance
    PRT = "prt"  # prototype distance: inverted cosine similarity
    JSD = "jsd"  # Jensen-Shannon divergence over senses


@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """How change is measured.

    Raises:
        UsageError: a number that cannot be right.
    """

    slices: str | int | None = None  # "1839-1895,1896-1937", names of categories, or a number of slices
    column: str | None = None  # of words or tokens, or a recipe that the stored ones contain; None: the only one
    measure: ChangeMeasure | str = ChangeMeasure.PRT  # by which words are ranked, first slice against last
    senses: int = 4  # that usages are grouped into for the JSD
    least: int = 20  # usages that a word must have in every slice
    most: int = 100  # usages that are compared of every slice, a random sample of equal size
    usages: int = 3  # shown of the first slice and of the last, those that moved most
    context: int = 300  # characters of them on either side
    seed: int = 1

    def __post_init__(self) -> None:
        for name, value, smallest in (
            ("senses", self.senses, 2),
            ("least", self.least, 2),
            ("most", self.most, 2),
            ("usages", self.usages, 0),
            ("context", self.context, 0),
            ("seed", self.seed, 0),
        ):
            if value < smallest:
                raise UsageError(f"{parameter(name, value)} is too few", remedy=f"give at least {smallest}")
        if self.most > MOST_COMPARED:
            problem = f"{parameter('most', self.most)} is more than the {MOST_COMPARED:,} usages that are compared"
            raise UsageError(problem, remedy="give fewer: intervals are narrow by then")
        if self.senses > 2 * min(self.least, self.most):
            raise UsageError(
                f"{self.senses} senses cannot be told apart in {2 * min(self.least, self.most)} usages",
                remedy=f"give fewer {parameter('senses')}, or a greater {parameter('least')} and {parameter('most')}",
            )
        try:
            ChangeMeasure(self.measure)
        except ValueError as error:
            there = ", ".join(ChangeMeasure)
            raise UsageError(f"measure {self.measure!r} is unknown", remedy=f"there are: {there}") from error


@dataclass(frozen=True, slots=True)
class SliceDistance:
    """How far the usages of a word in one slice are from those in another."""

    first: str  # names of the slices
    last: str
    apd: Interval
    prt: Interval
    jsd: Interval


@dataclass(frozen=True, slots=True)
class WordChange:
    """How a word changed."""

    word: str
    counts: Mapping[str, int]  # usages with a vector, by slice
    compared: int  # of each slice
    overall: SliceDistance  # first slice against last
    steps: tuple[SliceDistance, ...]  # each slice against the next one
    senses: Mapping[str, tuple[int, ...]]  # of the compared usages those of each sense, by slice
    before: tuple[Usage, ...]  # of the first slice, farthest from the last one's prototype; scores are cosines to it
    after: tuple[Usage, ...]  # of the last slice, farthest from the first one's prototype


@dataclass(frozen=True, slots=True)
class UnmeasuredWord:
    """A word that could not be measured."""

    word: str
    counts: Mapping[str, int]  # usages with a vector, by slice
    reason: str


@dataclass(frozen=True, slots=True)
class ChangeReport:
    """How words changed over a kept column, the most changed first."""

    features: str
    by: str
    column: str  # the feature column whose vectors were compared
    measure: ChangeMeasure  # that ranks the words
    slices: tuple[Slice, ...]
    outside: int  # documents in no slice: their value lies outside, or they have none
    words: tuple[WordChange, ...]
    unmeasured: tuple[UnmeasuredWord, ...]

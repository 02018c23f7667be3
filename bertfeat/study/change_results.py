"""The result of a measurement of change."""

from collections.abc import Mapping
from dataclasses import dataclass

from bertfeat.display import Cells, displayed
from bertfeat.search import Interval as Interval  # exported from here
from bertfeat.study.settings import ChangeMeasure
from bertfeat.usages import Usage
from bertfeat.where import Slice


@dataclass(frozen=True, slots=True)
class SliceDistance:
    """The distance between the usages of a word in two slices, by every measure."""

    first: str  # names of the slices
    last: str
    prt: Interval
    apd: Interval
    jsd: Interval


@displayed
@dataclass(frozen=True, slots=True)
class WordChange:
    """The change in the meaning of a word, with the usages that show it."""

    word: str
    counts: Mapping[str, int]  # usages with a vector, by slice
    compared: int  # of each slice
    overall: SliceDistance  # first slice against last
    steps: tuple[SliceDistance, ...]  # each slice against the next one
    senses: Mapping[str, tuple[int, ...]]  # of the compared usages those of each sense, by slice
    before: tuple[Usage, ...]  # of the first slice, farthest from the last one's prototype; scores are cosines to it
    after: tuple[Usage, ...]  # of the last slice, farthest from the first one's prototype

    def cells(self) -> Cells:
        """The row of a table that shows the word."""
        overall = {"prt": self.overall.prt, "apd": self.overall.apd, "jsd": self.overall.jsd}
        return {"word": self.word, **overall, "compared": self.compared, "usages": self.counts}


@dataclass(frozen=True, slots=True)
class UnmeasuredWord:
    """A word that could not be measured."""

    word: str
    counts: Mapping[str, int]  # usages with a vector, by slice
    reason: str


@displayed
@dataclass(frozen=True, slots=True)
class ChangeReport:
    """The changes of words over a kept column, the most changed first."""

    features: str
    by: str
    column: str  # the feature column whose vectors were compared
    measure: ChangeMeasure  # that ranks the words
    slices: tuple[Slice, ...]
    outside: int  # documents in no slice: their value lies outside, or they have none
    words: tuple[WordChange, ...]
    unmeasured: tuple[UnmeasuredWord, ...]

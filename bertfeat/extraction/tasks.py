"""What a run has to do, as tasks, and what becomes of them: the words between a run, its agenda, and its workers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bertfeat.corpus import CorpusFile, KeptColumn
from bertfeat.extraction.plan import PartLimits, PlannedPart, Span
from bertfeat.features import FeatureSettings, ModelIdentity, PartHeader
from bertfeat.io import Location
from bertfeat.recipe import FeatureColumn


@dataclass(frozen=True, slots=True)
class ScanTask:
    """Files of the corpus to be cut into spans."""

    number: int
    files: tuple[int, ...]  # their numbers, ascending


@dataclass(frozen=True, slots=True)
class ScannedFiles:
    """The result of a :class:`ScanTask`: the spans of each file."""

    spans: tuple[tuple[Span, ...], ...]


@dataclass(frozen=True, slots=True)
class MadePart:
    """The result of a part: its header, and how it came about."""

    header: PartHeader
    kept: bool = False  # an earlier run had finished it
    computed_tokens: int = 0
    padded_tokens: int = 0
    warnings: tuple[str, ...] = ()  # of the language of its texts
    damage: str = ""  # what was wrong with an earlier run's part in its place


Task = ScanTask | PlannedPart
Result = ScannedFiles | MadePart
OnDone = Callable[[Task, Result], None]


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that workers have to know of a run, so that any of them writes the same bytes. Can be pickled."""

    model: ModelIdentity
    model_location: str  # where to find it
    columns: tuple[FeatureColumn, ...]
    settings: FeatureSettings
    batch_tokens: int
    limits: PartLimits
    files: tuple[CorpusFile, ...]  # none of a corpus in memory
    sources: tuple[str, ...]
    kept: tuple[KeptColumn, ...]
    has_tags: bool
    has_pairs: bool
    folder: Location
    strict: bool
    several_writers: bool  # whether others may write the same parts: the first one counts


class Agenda(Protocol):
    """The tasks of a run that are still to be done."""

    @property
    def done(self) -> bool:
        """Whether there will be no more tasks."""

    def take(self) -> Task | None:
        """The next task; None where there is none now."""

    def finish(self, task: Task, result: Result) -> None:
        """Note the result of a task."""


class Engine(Protocol):
    """Workers, and how they get their tasks."""

    def run(self, job: Job, agenda: Agenda) -> None:
        """Have every task of the agenda done.

        Raises:
            BertfeatError: of a worker, or it cannot be had.
        """

"""The tasks of a run and their results: the messages between a run, its agenda, and its workers."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from bertfeat import engine
from bertfeat.corpus import CorpusFile, KeptColumn
from bertfeat.engine import Worker
from bertfeat.errors import BertfeatError, parameter
from bertfeat.extraction.plan import PartLimits, PlannedPart, Span
from bertfeat.features import FeatureSettings, ModelIdentity, PartHeader
from bertfeat.io import Address, Location
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
class ExtractionJob:
    """The facts of a run that workers have to know, so that any of them writes the same bytes. Can be pickled."""

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

    def open_worker(self, *, device: str | None, threads: int | None) -> Worker[Task, Result]:
        """A worker in another process than the run's.

        Raises:
            ModelError: the model is not to be found here.
            FeatureSetError: it is another one here.
        """
        from bertfeat.extraction.cores import use_threads  # here, because it imports torch
        from bertfeat.extraction.worker import PartWorker

        if threads is not None:
            use_threads(threads)
        return PartWorker.of_job(self, device=device)

    def threads_in_use(self) -> int:
        """With how many threads this process computes."""
        from bertfeat.extraction.cores import threads_in_use  # here, because it imports torch

        return threads_in_use()

    def with_absolute_paths(self) -> "ExtractionJob":
        """The job for workers that run in another folder."""
        files = (replace(file, source=replace(file.source, path=_absolute(file.source.path))) for file in self.files)
        return replace(self, files=tuple(files), folder=_absolute(self.folder))

    def repeat(self, task: Task) -> Task:
        """The task for another worker, as the part may have been written just before."""
        return replace(task, exists=True) if isinstance(task, PlannedPart) else task

    def error_of_deaths(self, task: Task, problem: str) -> BertfeatError:
        """The error of a task over which one worker after the other died."""
        return BertfeatError(
            problem,
            where=f"part {task.number}" if isinstance(task, PlannedPart) else self.files[task.files[0]].source.name,
            remedy=f"if memory ran out, use fewer workers, a smaller {parameter('batch_tokens')} or a smaller "
            f"{parameter('part_rows')}",
        )


def _absolute(place: Location) -> Location:
    return place if isinstance(place, Address) else place.absolute()


Agenda = engine.Agenda[Task, Result]
"""The tasks of an extraction that are still to be done."""

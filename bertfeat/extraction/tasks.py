"""The tasks of a run and their results: the messages between a run, its agenda, and its workers."""

from collections.abc import Callable
from dataclasses import dataclass

from bertfeat import engine
from bertfeat.extraction.plan import PlannedPart, Span
from bertfeat.features import PartHeader


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


Agenda = engine.Agenda[Task, Result]
"""The tasks of an extraction that are still to be done."""

"""The tasks of a run and their results: the messages between a run, its agenda, and its workers.

A task is a part of the plan; or, where files are scanned first, a group of files, whose spans then become parts.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock

from bertfeat.core.corpus import CorpusFile
from bertfeat.core.engine import Agenda
from bertfeat.core.extraction.plan import PartLimits, PartNumbering, PlannedPart, Span
from bertfeat.core.features import PartHeader


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
    """The result of a part: its header, and how it was made."""

    header: PartHeader
    kept: bool = False  # an earlier run had finished it
    computed_tokens: int = 0
    padded_tokens: int = 0
    warnings: tuple[str, ...] = ()  # about the language of its texts
    damage: str = ""  # what was wrong with an earlier run's part in its place
    copied: int = 0  # documents whose features were copied from other parts


Task = ScanTask | PlannedPart
Result = ScannedFiles | MadePart
OnDone = Callable[[Task, Result], None]


_TASK_FILES = 64  # most files that are scanned together
_TASK_BYTES = 64 * 2**20  # most bytes of these files; a larger file is scanned alone
_PATIENCE = 0.1  # seconds between looks at an agenda without tasks
_READY_PARTS = 64  # planned ahead before another file is scanned
_WAITING_SPANS = 20_000  # of files that were scanned before an earlier one: some 40 MB

Selection = Callable[[PlannedPart], PlannedPart]
"""A function that gets each part before it is handed out, and returns the part to do."""

OnPart = Callable[[PlannedPart, MadePart], None]


class PlannedAgenda:
    """The parts of a plan, one after the other, with the rows that the plan has read."""

    def __init__(self, parts: Iterator[PlannedPart], select: Selection, on_part: OnPart) -> None:
        self._parts, self._select, self._on_part = parts, select, on_part
        self.done = False

    def take(self) -> Task | None:
        """The next part; the plan reads it now."""
        part = next(self._parts, None)
        self.done = part is None
        return part and self._select(part)

    def finish(self, task: Task, result: Result) -> None:
        """Note a finished part."""
        assert isinstance(task, PlannedPart)
        assert isinstance(result, MadePart)
        self._on_part(task, result)


class ScanningAgenda:
    """Files to be scanned and the parts made from them; parts are handed out as soon as they are numbered.

    With ``check`` they are handed out only once all are numbered and ``check`` has accepted the whole plan.
    """

    def __init__(
        self,
        files: Sequence[CorpusFile],
        limits: PartLimits,
        select: Selection,
        on_part: OnPart,
        check: Callable[[Sequence[PlannedPart]], None] | None = None,
    ) -> None:
        self._select, self._on_part, self._check = select, on_part, check
        self._unchecked: list[PlannedPart] = []
        self._numbering = ScanNumbering(files, limits)
        self._unscanned = deque(scan_tasks(files))
        self._scans: dict[int, ScannedFiles] = {}  # by task: results that wait for that of an earlier task
        self._waiting = 0  # spans in them
        self._next, self._last = 0, len(self._unscanned)
        self._ready: deque[PlannedPart] = deque()
        self._lock = Lock()

    @property
    def done(self) -> bool:
        """Whether every file is scanned and every part handed out."""
        return self._next == self._last and not self._ready

    def take(self) -> Task | None:
        """A part, if enough are ready; else files to scan."""
        with self._lock:
            if self._unscanned and len(self._ready) < _READY_PARTS and self._waiting < _WAITING_SPANS:
                return self._unscanned.popleft()
            return self._ready.popleft() if self._ready else None

    def finish(self, task: Task, result: Result) -> None:
        """Note a result; scans that have all before them become parts."""
        if isinstance(result, MadePart):
            assert isinstance(task, PlannedPart)
            self._on_part(task, result)
            return
        assert isinstance(task, ScanTask)
        with self._lock:
            self._scans[task.number] = result
            self._waiting += _span_count(result)
            while self._next in self._scans:
                scan = self._scans.pop(self._next)
                self._waiting -= _span_count(scan)
                for part in self._numbering.add(scan):
                    self._make_ready(part)
                self._next += 1
            if self._next == self._last:
                for part in self._numbering.end():
                    self._make_ready(part)
                self._release()

    def _release(self) -> None:
        """Have the whole plan checked, and hand out the parts that waited for that."""
        if self._check is not None:
            self._check(self._unchecked)
            unchecked, self._unchecked, self._check = self._unchecked, [], None
            for part in unchecked:
                self._make_ready(part)

    def _make_ready(self, part: PlannedPart) -> None:
        if self._check is not None:
            self._unchecked.append(part)
        else:
            self._ready.append(self._select(part))


def tasks_of(agenda: Agenda[Task, Result], while_waiting: Callable[[], None] = lambda: None) -> Iterator[Task]:
    """The tasks of an agenda, for a worker in this process; waits for those that come later.

    ``while_waiting`` is called again and again meanwhile, to raise errors for which nobody else would wait.
    """
    while not agenda.done:
        task = agenda.take()
        if task is not None:
            yield task
        elif not agenda.done:
            while_waiting()
            time.sleep(_PATIENCE)
        del task


def _span_count(scan: ScannedFiles) -> int:
    return sum(map(len, scan.spans))


def scan_tasks(files: Sequence[CorpusFile]) -> list[ScanTask]:
    """All files, in order: large ones alone, small ones together."""
    tasks: list[ScanTask] = []
    together: list[int] = []
    size = 0
    for number, file in enumerate(files):
        if together and (len(together) == _TASK_FILES or size + file.source.size > _TASK_BYTES):
            tasks.append(ScanTask(len(tasks), tuple(together)))
            together, size = [], 0
        together.append(number)
        size += file.source.size
    if together:
        tasks.append(ScanTask(len(tasks), tuple(together)))
    return tasks


class ScanNumbering:
    """Makes parts from the scans of all files, in order. Memory: one scan."""

    def __init__(self, files: Sequence[CorpusFile], limits: PartLimits) -> None:
        self._files = files
        self._bytes = max(1, sum(file.source.size for file in files))
        self._parts = PartNumbering(limits)

    def add(self, scan: ScannedFiles) -> Iterator[PlannedPart]:
        """Add the next scan; yield the parts that are then complete."""
        for spans in scan.spans:
            rows = sum(span.rows for span in spans)
            for span in spans:
                share = self._files[span.file].source.size * span.rows / rows / self._bytes
                yield from self._parts.add(span, None, share)

    def end(self) -> Iterator[PlannedPart]:
        """The last part."""
        return self._parts.end()

"""Joined runs: independent processes that share nothing but a folder, each taking the next part that nobody has.

The folder's ``.bertfeat`` holds, while the set is being written, ``run.json``, which says which run it is; ``plan/``,
with the scans of the files, each made by one of the processes; and ``claims/``, which says who is at work on what. A
claim has a lease (:class:`bertfeat.io.Lease`), so the tasks of a dead process are taken over. Claims only save
work: a part's first writer wins, and all write the same bytes.
"""

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context

from bertfeat.arguments import checked
from bertfeat.core.engine import Agenda, TaskKey, key_of
from bertfeat.core.extraction.agenda import (
    OnPart,
    Result,
    ScannedFiles,
    ScanNumbering,
    ScanTask,
    Selection,
    Task,
    scan_tasks,
)
from bertfeat.core.extraction.joined_folder import JoinedFolder
from bertfeat.core.extraction.plan import PlannedPart
from bertfeat.core.extraction.run_folder import RunFolder
from bertfeat.core.extraction.sharing import CLAIMS, SCANS
from bertfeat.core.extraction.worker import ExtractionJob
from bertfeat.core.features import part_number, part_path
from bertfeat.errors import FeatureSetError, UsageError, parameter
from bertfeat.io import (
    ContextPool,
    Lease,
    LeaseWatch,
    Location,
    canonical_json,
    decode_json,
    file_stamp,
    lease_seconds,
    list_files,
    put_file,
    read_file,
)

_READERS = 16  # scans that are read at once
_LEAST_PAUSE, _MOST_PAUSE = 0.1, 5.0  # seconds between two looks at the folder: more and more, while others work
_SECONDS_TO_RELEASE = 5.0  # for giving up claims at the end; those that are left expire by themselves


class Join:
    """A run that works together with others like it, on any machines that see the folder.

    ``lease``: seconds without a sign of life after which the claims of another process are taken over.
    """

    @checked
    def __init__(self, lease: float | None = None) -> None:
        if lease is not None and not 1 <= lease < 1e6:
            raise UsageError("a lease has at least one second", where=parameter("lease", lease))
        self.lease = lease or lease_seconds()
        self._folder: JoinedFolder | None = None
        self._agenda: _JoinAgenda | None = None

    @contextmanager
    def hold(self, folder: Location) -> Iterator[None]:
        """Give up the claims at the end; other runs are not kept out."""
        del folder
        try:
            yield
        except FeatureSetError:
            if self._folder is not None:
                self._folder.distrust()
            raise
        finally:
            endings: list[Callable[[], None]] = [] if self._agenda is None else self._agenda.end()
            _call_all([*endings, *([] if self._folder is None else [self._folder.leave])])

    def agenda(
        self,
        parts: RunFolder,
        job: ExtractionJob,
        identity: str,
        select: Selection,
        on_part: OnPart,
        on_part_of_others: Callable[[PlannedPart], None],
    ) -> Agenda[Task, Result]:
        """The tasks that nobody else has, once the folder is ready for this run.

        ``identity`` is equal for runs of the same settings over the same corpus. ``select`` gets each part of the plan,
        ``on_part`` those that this process has made, and ``on_part_of_others`` those that others have.

        Raises:
            FolderLockedError: a run that does not join is at work on the folder, or one of another corpus.
        """
        if parts.overwrite:
            problem = f"{parameter('overwrite')} removes what others who join are at work on"
            raise UsageError(problem, remedy="start anew with one run, stop it, and then join")
        self._folder = JoinedFolder(parts, job, identity, self.lease)
        self._agenda = _JoinAgenda(job, self._folder, self.lease, select, on_part, on_part_of_others)
        self._folder.agree_on_successor()
        return self._agenda

    def finish(self, finish: Callable[[], None]) -> None:
        """Write the manifest, unless another process has, and remove what was needed for working together."""
        assert self._folder is not None
        self._folder.finish(finish)


class _JoinAgenda:
    """The tasks that are left to do in the folder: first scans, then parts. Those that others hold are passed over."""

    def __init__(
        self,
        job: ExtractionJob,
        shared: JoinedFolder,
        lease: float,
        select: Selection,
        on_part: OnPart,
        on_part_of_others: Callable[[PlannedPart], None],
    ) -> None:
        self._job, self._shared = job, shared
        self._select, self._on_part, self._on_part_of_others = select, on_part, on_part_of_others
        self._folder: Location = job.folder
        self._watch = LeaseWatch(lease)
        self._most_pause = min(_MOST_PAUSE, lease / 6)
        self._pause = _LEAST_PAUSE
        self._claims: dict[TaskKey, Lease] = {}  # of this process
        self._left: dict[TaskKey, Task] = {key_of(task): task for task in scan_tasks(job.files)}
        self._open: deque[Task] = deque()  # that nobody was at work on at the last look
        self._looked, self._next = float("-inf"), 0  # when it last looked; the number of the task to go on from
        self._lock = threading.Lock()
        self._planned = self.done = not shared.prepare()
        self._taking = ContextPool(1, "bertfeat-claims")

    def take(self) -> Task | None:
        """A task that has neither a result nor a live claim; None if there is none now, or none any more (``done``)."""
        # on a thread of its own: Ctrl-C between making a claim and noting it would leave a claim that nobody gives up
        return self._taking.submit(copy_context().run, self._take).result()

    def _take(self) -> Task | None:
        with self._lock:
            if not self.done and self._is_time_to_look():
                self._look()
                self._pause = min(2 * self._pause, self._most_pause)
            while self._open and not self.done:
                task = self._open.popleft()
                taken = key_of(task) not in self._left or key_of(task) in self._claims  # since the last look
                if not taken and self._claim(task):
                    self._next, self._pause = task.number + 1, _LEAST_PAUSE
                    return task
            return None

    def _is_time_to_look(self) -> bool:
        """Whether scans have ended, so that a plan is due; or what others do was seen too long ago.

        While no task is open, pauses grow from one look to the next, up to the longest.
        """
        pause = self._most_pause if self._open else self._pause
        return not self._left or time.monotonic() - self._looked >= pause

    def finish(self, task: Task, result: Result) -> None:
        """Note a result of this process."""
        if isinstance(result, ScannedFiles):
            assert isinstance(task, ScanTask)
            put_file(self._scan_place(task.number), canonical_json(result), if_absent=True)
        else:
            assert isinstance(task, PlannedPart)
            self._on_part(task, result)
        with self._lock:
            self._left.pop(key_of(task), None)
            lease = self._claims.get(key_of(task))
        if lease is not None:
            lease.release()
            with self._lock:
                self._claims.pop(key_of(task), None)  # only now: Ctrl-C may come at any moment

    def end(self) -> list[Callable[[], None]]:
        """Stop giving out tasks; returns the functions to call to give up the claims of this process."""
        self.done = True  # a thread that is still asking gets no more
        locked = self._lock.acquire(timeout=_SECONDS_TO_RELEASE)  # else the thread that has it waits for the storage
        claims, self._claims = list(self._claims.values()), {}
        if locked:
            self._lock.release()
        return [lease.release for lease in claims]

    # ── the folder ──────────────────────────────────────────────────────────────────────────────────────────

    def _look(self) -> None:
        """See what is done by now, and what others are at work on."""
        if not (self._shared.is_open() if self._planned else self._shared.prepare()):
            self._end()
            return
        if not self._planned:
            scanned = (_scan_number(file.name) for file in list_files(self._folder / SCANS / self._plan_name))
            self._drop({("ScanTask", number) for number in scanned if number is not None})
            if not self._left and not self._make_plan():
                self._end()
                return
        if self._planned:
            numbers = (part_number(file.name) for file in list_files(self._shared.target, "part-"))
            self._drop({("PlannedPart", number) for number in numbers if number is not None})
        self.done = self._planned and not self._left
        held = self._watch.look(self._folder / CLAIMS)
        self._open = self._in_turn([task for task in self._left.values() if _claim_name(task) not in held])
        self._looked = time.monotonic()

    def _in_turn(self, tasks: list[Task]) -> deque[Task]:
        """Tasks in the order in which this process takes them: on from its last one.

        If others are at work, the first one is chosen at random, so that they do not all try to take the same tasks.
        """
        others_hold_some = len(tasks) + len(self._claims) < len(self._left)
        if not self._next and tasks and others_hold_some:
            self._next = random.choice(tasks).number
        at = next((at for at, task in enumerate(tasks) if task.number >= self._next), 0)
        return deque((*tasks[at:], *tasks[:at]))

    def _end(self) -> None:
        """Note that nothing is left to do: the set is finished."""
        self._left.clear()
        self._open.clear()
        self._planned = self.done = True

    def _drop(self, finished: set[TaskKey]) -> None:
        """Drop finished tasks from those that are left, unless this process is at work on them."""
        for key in finished & self._left.keys() - self._claims.keys():
            task = self._left.pop(key)
            if isinstance(task, PlannedPart):
                self._on_part_of_others(task)

    def _claim(self, task: Task) -> bool:
        """Claim a task, and see that it is still to be done."""
        lease = self._watch.take(self._folder / CLAIMS / _claim_name(task))
        if lease is None:
            return False
        self._claims[key_of(task)] = lease  # from now on it is given up at the end, whatever happens
        if not self.done and file_stamp(self._result_place(task)) is None:
            return True
        lease.release()
        del self._claims[key_of(task)]
        if not self.done:
            self._drop({key_of(task)})
        return False

    def _result_place(self, task: Task) -> Location:
        if isinstance(task, ScanTask):
            return self._scan_place(task.number)
        return part_path(self._shared.target, task.number)

    # ── the plan ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _plan_name(self) -> str:
        return self._shared.identity[:16]

    def _scan_place(self, number: int) -> Location:
        return self._folder / SCANS / self._plan_name / f"scan-{number:05d}.json"

    def _make_plan(self) -> bool:
        """Make the plan from the scans of all processes; each gets the same plan. False if the set is finished."""
        try:
            parts = list(self._plan_parts())
        except FileNotFoundError:  # removed by others: they have finished the set, or have to begin anew
            self._left = {key_of(task): task for task in scan_tasks(self._job.files)}
            return True
        for part in parts:
            self._select(part)
        self._left = {key_of(part): part for part in parts}
        self._planned, self._next = True, 0
        if not self._shared.sort_out(parts):
            return False
        self._drop({("PlannedPart", number) for number in self._shared.kept()})
        return True

    def _plan_parts(self) -> Iterator[PlannedPart]:
        job = self._job
        numbering = ScanNumbering(job.files, job.limits)
        numbers = range(len(scan_tasks(job.files)))
        with ContextPool(_READERS, "bertfeat-scans") as pool:
            for content in pool.map(lambda number: read_file(self._scan_place(number)), numbers):
                yield from numbering.add(decode_json(content, ScannedFiles))
        yield from numbering.end()


def _call_all(functions: Sequence[Callable[[], None]]) -> None:
    """Call functions that access the storage, and wait for them together for ``_SECONDS_TO_RELEASE`` at most."""
    end = time.monotonic() + _SECONDS_TO_RELEASE
    threads = [threading.Thread(target=function, daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))


def _claim_name(task: Task) -> str:
    return f"scan-{task.number:05d}" if isinstance(task, ScanTask) else f"part-{task.number:05d}"


def _scan_number(name: str) -> int | None:
    digits = name.removeprefix("scan-").removesuffix(".json")
    return int(digits) if digits.isdecimal() else None

"""Joined runs: independent processes that share nothing but a folder, each taking the next part that nobody has.

In the folder's ``.bertfeat``, while the set is being written: ``run.json`` says which run it is, ``plan/`` holds the
scans of the files, each made by one of those who joined, and ``claims/`` says who is at work on what. A claim has a
lease (:class:`bertfeat.io.Lease`), so what a dead process had is taken over. Claims only save work: a part's first
writer wins, and all write the same bytes.
"""

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from threading import Lock

from bertfeat.distributed.dispatch import TaskKey, key_of
from bertfeat.distributed.run_record import RECORD, RunRecord, read_run_record
from bertfeat.errors import DamagedError, FolderLockedError, UsageError, parameter
from bertfeat.extraction import (
    CLAIMS,
    Agenda,
    PlannedPart,
    PlanSize,
    Result,
    ScannedFiles,
    ScanNumbering,
    ScanTask,
    SharedRun,
    Sharing,
    Task,
    finished_as,
    scan_tasks,
)
from bertfeat.features import part_number, part_path
from bertfeat.io import (
    STATE_FOLDER,
    FolderLock,
    Lease,
    LeaseWatch,
    Location,
    canonical_json,
    decode_json,
    file_stamp,
    folder_lock,
    lease_seconds,
    list_files,
    put_file,
    read_file,
    remove_stored,
    remove_stored_folder,
    write_json,
)

_PLAN = f"{STATE_FOLDER}/plan"
_READERS = 16  # scans that are read at once
_MOST_PAUSE = 5.0  # seconds between two looks at the folder


class Join(Sharing):
    """A run that works together with others like it, on any machines that see the folder.

    ``lease``: after how many seconds without a sign of life what another one has claimed is taken over.
    """

    several_writers = True

    def __init__(self, lease: float | None = None) -> None:
        if lease is not None and not 1 <= lease < 1e6:
            raise UsageError("a lease has at least one second", where=parameter("lease", lease))
        self.lease = lease or lease_seconds()
        self._identity = ""
        self._agenda: _JoinAgenda | None = None

    @contextmanager
    def _held(self) -> Iterator[None]:
        try:
            yield
        finally:
            if self._agenda is not None:
                self._agenda.release_claims()

    def hold(self, folder: Location) -> AbstractContextManager[object]:
        """Give up the claims at the end; nobody is kept out."""
        del folder
        return self._held()

    def agenda(self, run: SharedRun) -> Agenda:
        """The tasks that nobody else has, once the folder is ready for this run.

        Raises:
            FolderLockedError: a run that does not join is at work on the folder, or one of another corpus.
        """
        if run.overwrite:
            problem = f"{parameter('overwrite')} removes what others who join are at work on"
            raise UsageError(problem, remedy="start anew with one run, stop it, and then join")
        self._identity = run.identity
        self._agenda = _JoinAgenda(run, self._prepare(run), self)
        return self._agenda

    def finish(self, folder: Location, size: PlanSize, finish: Callable[[], None]) -> None:
        """Write the manifest, if no other one has, and remove what was needed for working together."""
        del size
        with self.alone_in(folder) as lock:
            if finished_as(folder, self._identity) is None:
                try:
                    lock.check()
                    finish()
                except DamagedError:
                    remove_stored(folder / RECORD)  # so that the next run looks at every part
                    raise
            remove_stored(folder / RECORD)
            for place in (CLAIMS, _PLAN):
                remove_stored_folder(folder / place)

    def _prepare(self, run: SharedRun) -> RunRecord | None:
        """Have the folder ready for this run, which the first one to join does; None if the set is finished."""
        folder = run.job.folder
        record = read_run_record(folder)
        if record is not None and record.identity == run.identity:
            return record
        with self.alone_in(folder):
            record = read_run_record(folder)
            if finished_as(folder, run.identity) is not None:
                return None
            if record is None or record.identity != run.identity:
                self._refuse_others_at_work(folder)
                has_parts = run.look_through()
                run.begin()
                record = RunRecord(1, run.identity, sorted_out=not has_parts)
                write_json(folder / RECORD, record)
            return record

    def _refuse_others_at_work(self, folder: Location) -> None:
        watch = LeaseWatch(self.lease)
        if watch.look(folder / CLAIMS):
            time.sleep(self.lease * 1.1)
            if watch.look(folder / CLAIMS):
                raise FolderLockedError(
                    "others have joined on it with other settings, or over another state of the corpus",
                    where=folder,
                    remedy="wait until they have ended",
                )

    @contextmanager
    def alone_in(self, folder: Location) -> Iterator[FolderLock]:
        """Lock the folder for a moment; others who do so are waited for."""
        end = time.monotonic() + 2 * self.lease
        with ExitStack() as stack:
            while True:
                try:
                    held = stack.enter_context(folder_lock(folder))
                    break
                except FolderLockedError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(random.uniform(0.1, 1.0))
            yield held


class _JoinAgenda:
    """What is left to do in the folder: first scans, then parts. What others hold is passed over."""

    def __init__(self, run: SharedRun, record: RunRecord | None, join: Join) -> None:
        self._run, self._record, self._join = run, record, join
        self._folder: Location = run.job.folder
        self._watch = LeaseWatch(join.lease)
        self._pause = min(_MOST_PAUSE, join.lease / 6)
        self._claims: dict[TaskKey, Lease] = {}  # of this process
        self._left: dict[TaskKey, Task] = {key_of(task): task for task in scan_tasks(run.job.files)}
        self._planned = self.done = record is None
        self._open: list[Task] = []  # that nobody was at work on at the last look
        self._looked = float("-inf")
        self._lock = Lock()

    def take(self) -> Task | None:
        """The first task that has neither a result nor a live claim; None where there is none now."""
        with self._lock:
            if self.done or (time.monotonic() - self._looked < self._pause and not self._open):
                return None
            if not self._open:
                self._look()
            while self._open:
                task = self._open.pop(0)
                if key_of(task) in self._left and key_of(task) not in self._claims and self._claim(task):
                    return task
            return None

    def finish(self, task: Task, result: Result) -> None:
        """Note a result of this process."""
        if isinstance(result, ScannedFiles):
            assert isinstance(task, ScanTask)
            put_file(self._scan_place(task.number), canonical_json(result), if_absent=True)
        else:
            assert isinstance(task, PlannedPart)
            self._run.on_part(task, result)
        with self._lock:
            self._left.pop(key_of(task), None)
            lease = self._claims.pop(key_of(task), None)
        if lease is not None:
            lease.release()

    def release_claims(self) -> None:
        """Give up what this process holds."""
        with self._lock:
            self.done = True  # a thread that is still asking gets no more
            claims, self._claims = list(self._claims.values()), {}
        for lease in claims:
            lease.release()

    # ── the folder ──────────────────────────────────────────────────────────────────────────────────────────

    def _look(self) -> None:
        """See what is done by now, and what others are at work on."""
        if not self._planned:
            scanned = {file.name for file in list_files(self._folder / _PLAN / self._plan_name)}
            self._drop({("ScanTask", int(name[5:10])) for name in scanned if name.startswith("scan-")})
            if not self._left:
                self._make_plan()
        if self._planned:
            numbers = (part_number(file.name) for file in list_files(self._folder, "part-"))
            self._drop({("PlannedPart", number) for number in numbers if number is not None})
        self.done = self._planned and not self._left
        held = self._watch.look(self._folder / CLAIMS)
        self._open = [task for task in self._left.values() if _claim_name(task) not in held]
        self._looked = time.monotonic()

    def _drop(self, finished: set[TaskKey]) -> None:
        """Strike off what is done, unless this process is at it."""
        for key in finished & self._left.keys() - self._claims.keys():
            task = self._left.pop(key)
            if isinstance(task, PlannedPart):
                self._run.on_part_of_others(task)

    def _claim(self, task: Task) -> bool:
        """Claim a task, and see that it is still to be done."""
        lease = self._watch.take(self._folder / CLAIMS / _claim_name(task))
        if lease is None:
            return False
        if file_stamp(self._result_place(task)) is not None:
            lease.release()
            self._drop({key_of(task)})
            return False
        self._claims[key_of(task)] = lease
        return True

    def _result_place(self, task: Task) -> Location:
        if isinstance(task, ScanTask):
            return self._scan_place(task.number)
        return part_path(self._folder, task.number)

    # ── the plan ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _plan_name(self) -> str:
        return self._run.identity[:16]

    def _scan_place(self, number: int) -> Location:
        return self._folder / _PLAN / self._plan_name / f"scan-{number:05d}.json"

    def _make_plan(self) -> None:
        """Put the scans of all together; every process gets the same plan."""
        job = self._run.job
        numbers = range(len(scan_tasks(job.files)))
        with ThreadPoolExecutor(_READERS, "bertfeat-scans") as pool:
            scans = pool.map(lambda number: decode_json(read_file(self._scan_place(number)), ScannedFiles), numbers)
            numbering = ScanNumbering(job.files, job.limits)
            parts = [part for scan in scans for part in numbering.add(scan)]
        parts += numbering.end()
        self._left = {key_of(part): part for part in parts if self._run.select(part)}
        self._planned = True
        self._sort_out(parts)

    def _sort_out(self, parts: list[PlannedPart]) -> None:
        """Have parts of another plan removed from the folder, once for all who joined."""
        record = read_run_record(self._folder)
        if record is None or (record.sorted_out and record.parts is not None):
            return
        with self._join.alone_in(self._folder):
            record = read_run_record(self._folder)
            if record is None or (record.sorted_out and record.parts is not None):
                return
            if not record.sorted_out:
                self._run.keep_only(parts)
            rows = parts[-1].last_row if parts else 0
            write_json(self._folder / RECORD, replace(record, sorted_out=True, parts=len(parts), rows=rows))


def _claim_name(task: Task) -> str:
    return f"scan-{task.number:05d}" if isinstance(task, ScanTask) else f"part-{task.number:05d}"

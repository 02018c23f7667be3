"""A folder on which joined runs work together: the record that they agree on, and the lock for changes to it.

``bertfeat info`` looks at it from outside (:func:`run_status`).
"""

import logging
import random
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from bertfeat.core.extraction.plan import PlannedPart
from bertfeat.core.extraction.records import finished_as
from bertfeat.core.extraction.run_folder import RunFolder
from bertfeat.core.extraction.sharing import (
    CLAIMS,
    PRESENCE,
    RUN_RECORD,
    SCANS,
    clear_joined,
    watch_for_joined,
)
from bertfeat.core.extraction.status import RunRecord, read_run_record
from bertfeat.core.extraction.worker import ExtractionJob
from bertfeat.core.features import has_whole_successor, remove_leftovers, settle_successor
from bertfeat.errors import CorpusError, FeatureSetError, FolderLockedError
from bertfeat.io import (
    FolderLock,
    Lease,
    Location,
    folder_lock,
    list_files,
    lock_holder,
    read_claim,
    remove_stored_folder,
    write_json,
)

_SILENT = 3.0  # seconds of waiting before a warning
_log = logging.getLogger("bertfeat")


def write_run_record(folder: Location, record: RunRecord) -> None:
    """Write the record; to be called with the folder locked."""
    write_json(folder / RUN_RECORD, record)


class JoinedFolder:
    """The folder as one of the runs sees it. Its record says which run writes it; changes are made with the lock."""

    def __init__(self, parts: RunFolder, job: ExtractionJob, identity: str, lease: float) -> None:
        self._parts, self._job, self.identity, self._lease = parts, job, identity, lease
        self.folder: Location = job.folder
        self._kin = f"{PRESENCE}{identity[:16]}-"  # how the names of this run's presence claims begin
        self._presence: Lease | None = None

    def prepare(self) -> bool:
        """Prepare the folder for this run, which the first process to join does; False if the set is finished.

        Raises:
            FolderLockedError: a run that does not join is at work on it, or runs with other settings or another corpus.
            SettingsDifferError: it holds parts of other settings.
        """
        if has_whole_successor(self.folder):  # its run was killed before it was put in its place
            with self._alone():
                settle_successor(self.folder)
                clear_joined(self.folder)
        # others see that this run is at work, also while it has no task
        if self._presence is None or self._presence.is_lost():
            self._presence = Lease.take(self.folder / CLAIMS / f"{self._kin}{secrets.token_hex(4)}", self._lease)
        if self._is_ours(read_run_record(self.folder)):
            return True
        with self._alone():
            return self._begin() is not None

    def agree_on_successor(self) -> None:
        """Do as the first process to join has found right: make parts for a successor of what is there, or not."""
        record = read_run_record(self.folder)
        if record is not None:
            self._parts.follow(record.updates)
            if record.updates:
                self._parts.look_through(self._job.settings)

    @property
    def target(self) -> Location:
        """The folder that parts are written to."""
        return self._parts.target

    def kept(self) -> tuple[int, ...]:
        """The numbers of the parts that need not be made, as the successor takes them from the set."""
        record = read_run_record(self.folder)
        return () if record is None else record.kept

    def distrust(self) -> None:
        """Make the next run look at every part: one is damaged, or of another plan."""
        with self._alone():
            record = read_run_record(self.folder)
            if record is not None and self._is_ours(record):
                write_run_record(self.folder, replace(record, sorted_out=False))

    def leave(self) -> None:
        """Stop showing that this run is at work."""
        if self._presence is not None:
            self._presence.release()
        if isinstance(self.folder, Path):
            with suppress(OSError):  # others have claims there
                (self.folder / CLAIMS).rmdir()

    def is_open(self) -> bool:
        """Whether there may be work to do; False if the set is finished.

        Raises:
            FolderLockedError: others have taken the folder over.
        """
        if self._is_ours(read_run_record(self.folder)):
            return True
        if finished_as(self.folder, self.identity) is not None:
            return False
        raise self._taken_over()

    def sort_out(self, parts: Sequence[PlannedPart]) -> bool:
        """Remove the parts of other plans, once for all processes that joined; False if the set is finished."""
        record = read_run_record(self.folder)
        if record is not None and self._is_ours(record) and record.sorted_out and record.parts is not None:
            return True
        with self._alone():
            record = self._begin()
            if record is None:
                return False
            if not record.sorted_out:
                self._keep_only(parts)
            rows = parts[-1].last_row if parts else 0
            kept = self._parts.kept_of(parts)
            write_run_record(self.folder, replace(record, sorted_out=True, parts=len(parts), rows=rows, kept=kept))
        return True

    def finish(self, finish: Callable[[], None]) -> None:
        """Write the manifest, unless another process has, and remove what was needed for working together."""
        with self._alone() as lock:
            if finished_as(self.folder, self.identity) is None:
                if not self._is_ours(read_run_record(self.folder)):
                    raise self._taken_over()
                lock.check()
                try:
                    finish()
                except CorpusError:
                    clear_joined(self.folder)
                    raise
            clear_joined(self.folder)
            remove_leftovers(self.folder)

    # ── with the lock ───────────────────────────────────────────────────────────────────────────────────────

    def _begin(self) -> RunRecord | None:
        """The record of this run, which is written if need be; None if the set is finished."""
        record = read_run_record(self.folder)
        if finished_as(self.folder, self.identity) is not None:
            return None
        if record is not None and self._is_ours(record):
            return record
        # if there is no record, other runs at work stop by themselves at their next look
        if record is not None and watch_for_joined(self.folder, self._lease, but=self._kin):
            raise FolderLockedError(
                "others have joined on it with other settings, or over another state of the corpus",
                where=self.folder,
                remedy="wait until they have ended",
            )
        settle_successor(self.folder)
        has_parts = self._parts.look_through(self._job.settings)
        remove_stored_folder(self.folder / SCANS)
        remove_leftovers(self.folder)
        if not has_parts:
            self._parts.begin()
        record = RunRecord(1, self.identity, sorted_out=not has_parts, updates=self._parts.has_successor)
        write_run_record(self.folder, record)
        return record

    def _keep_only(self, parts: Sequence[PlannedPart]) -> None:
        try:
            self._parts.look_through(self._job.settings)  # here too: another process may have been the first to join
            self._parts.keep_only(self._job.files, parts)
        except FeatureSetError:
            clear_joined(self.folder)  # the parts stay what they were
            raise

    @contextmanager
    def _alone(self) -> Iterator[FolderLock]:
        """Lock the folder for a moment, after waiting for processes of this run, or for a while for any other run."""
        begin, has_warned = time.monotonic(), False
        with ExitStack() as stack:
            while True:
                try:
                    held = stack.enter_context(folder_lock(self.folder))
                    break
                except FolderLockedError as error:
                    waited = time.monotonic() - begin
                    if waited > 2 * self._lease and not self._has_kin_with_lock():
                        raise
                    if waited > _SILENT and not has_warned:
                        _log.warning("%s; waiting", error)
                        has_warned = True
                    time.sleep(random.uniform(0.05, 0.5))
            yield held

    def _has_kin_with_lock(self) -> bool:
        """Whether a process of this run has the lock, which it may need for long: to look through a million parts."""
        if self._is_ours(read_run_record(self.folder)) or finished_as(self.folder, self.identity) is not None:
            return True
        holder = lock_holder(self.folder)
        own = self._presence.place if self._presence else None
        places = [self.folder / CLAIMS / file.name for file in list_files(self.folder / CLAIMS, self._kin)]
        found = [read_claim(place) for place in places if place != own]
        return holder is not None and any(each and each[0] and each[0].owner.is_process_of(holder) for each in found)

    def _is_ours(self, record: RunRecord | None) -> bool:
        return record is not None and record.identity == self.identity

    def _taken_over(self) -> FolderLockedError:
        return FolderLockedError(
            "another run took it over while this one was stopped or could not reach the storage",
            where=self.folder,
            remedy="run it again when that one has ended",
        )

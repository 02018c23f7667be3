"""The status of the runs on a folder, as anyone can read it: the size of their plan, and who is at work.

Nothing here needs torch.
"""

from dataclasses import dataclass
from pathlib import Path

from bertfeat.arguments import checked
from bertfeat.core.extraction.sharing import CLAIMS, PRESENCE, RUN_RECORD
from bertfeat.core.features import SUCCESSOR
from bertfeat.errors import DamagedError
from bertfeat.io import Address, JsonFormat, Location, as_location, list_files, lock_holder, read_claim


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A record of the run that is writing a folder."""

    format_version: int
    identity: str
    sorted_out: bool  # whether the parts in the folder are this run's and no others
    parts: int | None = None  # of the plan, once there is one
    rows: int | None = None
    updates: bool = False  # whether parts are made for a successor of the set
    kept: tuple[int, ...] = ()  # parts of the set that its successor takes as they are


_FORMAT = JsonFormat(RunRecord, 1, error=DamagedError, remedy="delete it and start again when no run is at work")


def read_run_record(folder: Location) -> RunRecord | None:
    """The record of the joined runs of a folder; None where none are at work, or were."""
    return _FORMAT.read(folder / RUN_RECORD)


@dataclass(frozen=True, slots=True)
class WorkerClaim:
    """A process that is, or was, at work on a folder."""

    task: str  # what it claims: "part-00017", "scan-00003"; "lock" for a run that does not join
    owner: str


@dataclass(frozen=True, slots=True)
class RunStatus:
    """The size of a run's plan, and the workers that are at work on it."""

    parts: int | None  # of the plan; None where it is not known
    rows: int | None
    at_work: tuple[WorkerClaim, ...]  # those that died are among them until their leases expire
    updated_parts: int  # that an update has made so far beside a finished set


@checked
def run_status(folder: str | Path | Address) -> RunStatus:
    """Find the processes that are at work on a folder.

    Raises:
        DamagedError: what joined runs have recorded there cannot be read.
        StorageError: object storage that cannot be reached.
    """
    folder = as_location(folder)
    record = read_run_record(folder)
    names = [file.name for file in list_files(folder / CLAIMS) if not file.name.startswith((".", PRESENCE))]
    workers = []
    for name in names:
        found = read_claim(folder / CLAIMS / name)
        if found is not None and found[0] is not None:
            workers.append(WorkerClaim(name, str(found[0].owner)))
    if (holder := lock_holder(folder)) is not None:
        workers.append(WorkerClaim("lock", str(holder)))
    planned = (None, None) if record is None else (record.parts, record.rows)
    return RunStatus(*planned, tuple(workers), len(list_files(folder / SUCCESSOR, "part-")))

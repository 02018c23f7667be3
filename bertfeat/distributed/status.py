"""The progress of a run over a folder, seen from outside: for ``bertfeat info``."""

from dataclasses import dataclass
from pathlib import Path

from bertfeat.arguments import checked
from bertfeat.distributed.run_record import read_run_record
from bertfeat.extraction import CLAIMS, PRESENCE
from bertfeat.io import Address, as_location, list_files, lock_holder, read_claim


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
    at_work: tuple[WorkerClaim, ...]  # those that died are among them until their leases are over


@checked
def run_status(folder: str | Path | Address) -> RunStatus:
    """Look at who is at work on a folder.

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
    return RunStatus(record.parts if record else None, record.rows if record else None, tuple(workers))

"""What joined runs record in a folder of the run that they are working on."""

from dataclasses import dataclass

from bertfeat.errors import DamagedError
from bertfeat.io import STATE_FOLDER, JsonFormat, Location

RECORD = f"{STATE_FOLDER}/run.json"


@dataclass(frozen=True, slots=True)
class RunRecord:
    """Which run a folder is being written by."""

    format_version: int
    identity: str
    sorted_out: bool  # whether the parts in the folder are this run's and no others
    parts: int | None = None  # of the plan, once there is one
    rows: int | None = None


_FORMAT = JsonFormat(
    RunRecord, 1, error=DamagedError, remedy="delete it and start again when no run is at work", digest_from=1
)


def read_run_record(folder: Location) -> RunRecord | None:
    """The record of the joined runs of a folder; None where none are at work, or were.

    Raises:
        DamagedError: it cannot be read.
    """
    try:
        return _FORMAT.read(folder / RECORD)
    except FileNotFoundError:
        return None

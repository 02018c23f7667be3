"""The record that joined runs keep in a folder of the run that they are working on."""

from dataclasses import dataclass

from bertfeat.errors import DamagedError
from bertfeat.extraction import RUN_RECORD
from bertfeat.io import JsonFormat, Location, write_json


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A record of the run that is writing a folder."""

    format_version: int
    identity: str
    sorted_out: bool  # whether the parts in the folder are this run's and no others
    parts: int | None = None  # of the plan, once there is one
    rows: int | None = None


_FORMAT = JsonFormat(RunRecord, 1, error=DamagedError, remedy="delete it and start again when no run is at work")


def read_run_record(folder: Location) -> RunRecord | None:
    """The record of the joined runs of a folder; None where none are at work, or were.

    Raises:
        DamagedError: it cannot be read.
    """
    return _FORMAT.read(folder / RUN_RECORD)


def write_run_record(folder: Location, record: RunRecord) -> None:
    """Write the record; to be called with the folder locked.

    Raises:
        StorageError: the folder cannot be written.
    """
    write_json(folder / RUN_RECORD, record)

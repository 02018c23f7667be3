"""The progress of a set that is not finished, and who is at work on it, for ``bertfeat info``."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bertfeat.distributed import RunStatus
    from bertfeat.io import Location


@dataclass(frozen=True, slots=True)
class UnfinishedWork:
    """The progress of an unfinished set, and who is at work on it."""

    status: "RunStatus"
    summary: str
    lines: str | None


def describe_work(folder: "Location", parts: int) -> UnfinishedWork:
    """Look at an unfinished set of so many parts."""
    from bertfeat.distributed import run_status

    status = run_status(folder)
    lines = "\n".join(f"{worker.task}: {worker.owner}" for worker in status.at_work) or None
    if status.parts is not None:
        share = f"{parts / max(1, status.parts):.0%}"
        return UnfinishedWork(status, f"{parts:,} of {status.parts:,} parts are there, {share}", lines)
    return UnfinishedWork(status, "others are at work on it" if lines else "run the same extract command again", lines)

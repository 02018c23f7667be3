"""The sharing of a run's work with others. By default there is none: a run is alone in its folder, and does it all."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from bertfeat.errors import FolderLockedError, parameter
from bertfeat.extraction.agenda import Agenda, OnPart, Selection
from bertfeat.extraction.plan import PlannedPart
from bertfeat.extraction.worker import ExtractionJob
from bertfeat.io import (
    STATE_FOLDER,
    Address,
    Claim,
    FolderLock,
    LeaseWatch,
    Location,
    folder_lock,
    lease_seconds,
    list_files,
    read_claim,
    remove_stored,
    remove_stored_folder,
)

CLAIMS = f"{STATE_FOLDER}/claims"
"""In a folder that runs join on: who is at work on what."""

PRESENCE = "run-"
"""The prefix of the names of claims that say only that somebody is at work."""

SCANS = f"{STATE_FOLDER}/plan"
"""In such a folder: the scans of the corpus."""

RUN_RECORD = f"{STATE_FOLDER}/run.json"
"""In such a folder: which run it is."""

_OF_JOINED = {place.rpartition("/")[2] for place in (CLAIMS, SCANS, RUN_RECORD)}

_log = logging.getLogger("bertfeat")


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts that are known only while a run is at work."""

    times: Mapping[str, object]  # when it ended, how long it took, on which device
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SharedRun:
    """The facts and callbacks of a run that a sharing needs."""

    job: ExtractionJob
    identity: str  # equal for runs of the same settings over the same corpus
    select: Selection  # to be asked about every part of the plan
    on_part: OnPart  # to be told of every part that this process has made
    on_part_of_others: Callable[[PlannedPart], None]  # and of every other one that is there
    look_through: Callable[[], bool]  # reads the headers of the parts that there are; whether there are any
    begin: Callable[[], None]  # marks the set as unfinished
    keep_only: Callable[[Sequence[PlannedPart]], None]  # removes the parts in the folder that are not of this plan
    overwrite: bool  # whether earlier runs' parts do not count
    facts: Callable[[], RunFacts]


@dataclass(frozen=True, slots=True)
class PlanSize:
    """The size of a whole plan."""

    parts: int
    rows: int


class Sharing:
    """A run that shares nothing; the ways to share are made of it."""

    several_writers = False  # whether other processes write parts into the same folder

    def hold(self, folder: Location) -> AbstractContextManager[FolderLock | None]:
        """Keep others out of the folder, who would disturb.

        Raises:
            FolderLockedError: another run is at work on it.
        """
        return _lock_unless_joined(folder)

    def takes(self, part: PlannedPart) -> bool:
        """Whether this process makes the part."""
        del part
        return True

    def agenda(self, run: SharedRun) -> Agenda | None:
        """The tasks that come to this process; None for all that the run itself plans."""
        del run
        return None

    def finish(self, folder: Location, size: PlanSize, finish: Callable[[], None]) -> None:
        """Finish the set, once all of its parts are there."""
        del folder, size
        finish()


def joined_at_work(folder: Location, lease: float, *, but: str | None = None) -> bool:
    """Whether runs that join are at work on a folder. Where their claims do not tell, they are watched for a lease.

    Runs whose claims begin with ``but`` do not count.
    """
    watch = LeaseWatch(max([lease, *(claim.seconds for claim in _present(folder, but).values())]))
    if not _live(watch, folder, but):
        return False
    seconds = watch.seconds * 1.1
    _log.warning("%s: watching for %.0f s whether runs that joined on it are still at work", folder, seconds)
    time.sleep(seconds)
    return _live(watch, folder, but)


def clear_joined(folder: Location) -> None:
    """Remove what runs that join leave in a folder beside its parts."""
    remove_stored(folder / RUN_RECORD)  # first: it says that the rest may be relied on
    for place in (CLAIMS, SCANS):
        remove_stored_folder(folder / place)


@contextmanager
def _lock_unless_joined(folder: Location) -> Iterator[FolderLock]:
    """Lock a folder on which no runs that join are at work; what dead ones left is removed."""
    with folder_lock(folder) as lock:
        left = {file.name.partition("/")[0] for file in list_files(folder / STATE_FOLDER)}
        if "claims" in left and joined_at_work(folder, lease_seconds()):
            raise FolderLockedError(
                "runs that joined are at work on it",
                where=folder,
                remedy=f"join them with {parameter('join', True)}, or wait until they have ended",
            )
        if left & _OF_JOINED or not isinstance(folder, Address):
            clear_joined(folder)
        yield lock


def _live(watch: LeaseWatch, folder: Location, but: str | None) -> bool:
    """Whether somebody is at work, as far as is known by now."""
    held = watch.look(folder / CLAIMS)
    return not held.isdisjoint(_present(folder, but))


def _present(folder: Location, but: str | None) -> dict[str, Claim]:
    """The claims of runs that may be at work: not those that were given up, or whose processes here have ended."""
    names = [
        file.name for file in list_files(folder / CLAIMS, PRESENCE) if but is None or not file.name.startswith(but)
    ]
    claims = {name: found[0] for name in names if (found := read_claim(folder / CLAIMS / name)) and found[0]}
    return {name: claim for name, claim in claims.items() if not claim.released and not claim.owner.is_surely_gone}

"""The traces of joined runs in a folder, and the check whether any is at work there."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bertfeat.errors import FolderLockedError, parameter
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
"""The subfolder of claims, in a folder that several runs have joined on: which of them works on what."""

PRESENCE = "run-"
"""The prefix of the names of claims that say only that a run is at work."""

SCANS = f"{STATE_FOLDER}/plan"
"""The subfolder of the scans of the corpus, in such a folder."""

RUN_RECORD = f"{STATE_FOLDER}/run.json"
"""The record of the run that others can join, in such a folder."""

_OF_JOINED = {place.rpartition("/")[2] for place in (CLAIMS, SCANS, RUN_RECORD)}  # names in the state folder

_log = logging.getLogger("bertfeat")


def watch_for_joined(folder: Location, lease: float, *, but: str | None = None) -> bool:
    """Tell whether joined runs are at work on a folder; if there are claims, watch for a lease which ones are renewed.

    Runs whose claims have names that begin with ``but`` do not count.
    """
    watch = LeaseWatch(max([lease, *(claim.seconds for claim in _presence_claims(folder, but).values())]))
    if not _is_at_work(watch, folder, but):
        return False
    seconds = watch.seconds * 1.1  # a little more, so that claims that were not renewed have run out
    _log.warning("%s: watching for %.0f s whether runs that joined on it are still at work", folder, seconds)
    time.sleep(seconds)
    return _is_at_work(watch, folder, but)


def clear_joined(folder: Location) -> None:
    """Remove what joined runs leave in a folder besides its parts."""
    remove_stored(folder / RUN_RECORD)  # first: it says that the rest may be relied on
    for place in (CLAIMS, SCANS):
        remove_stored_folder(folder / place)


@contextmanager
def lock_unless_joined(folder: Location) -> Iterator[FolderLock]:
    """Lock a folder, unless joined runs are at work on it; remove what dead ones left.

    Raises:
        FolderLockedError: another run is at work on it.
    """
    with folder_lock(folder) as lock:
        left = {file.name.partition("/")[0] for file in list_files(folder / STATE_FOLDER)}
        if "claims" in left and watch_for_joined(folder, lease_seconds()):
            raise FolderLockedError(
                "runs that joined are at work on it",
                where=folder,
                remedy=f"join them with {parameter('join', True)}, or wait until they have ended",
            )
        if left & _OF_JOINED or not isinstance(folder, Address):
            clear_joined(folder)
        yield lock


def _is_at_work(watch: LeaseWatch, folder: Location, but: str | None) -> bool:
    """Whether somebody is at work, as far as is known by now."""
    held = watch.look(folder / CLAIMS)
    return not held.isdisjoint(_presence_claims(folder, but))


def _presence_claims(folder: Location, but: str | None) -> dict[str, Claim]:
    """The claims of runs that may be at work: neither released, nor of a process of this machine that has ended."""
    names = [
        file.name for file in list_files(folder / CLAIMS, PRESENCE) if but is None or not file.name.startswith(but)
    ]
    claims = {name: found[0] for name in names if (found := read_claim(folder / CLAIMS / name)) and found[0]}
    return {name: claim for name, claim in claims.items() if not claim.released and not claim.owner.is_surely_gone}

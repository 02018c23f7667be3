"""Claims with a lease, by which processes that share nothing but storage agree which of them works on what.

A claim is a small file, and the process that writes it first holds it. The holder rewrites it every third of its lease,
which changes its tag. A process that sees the same tag for a whole lease, by its own monotonic clock, takes the claim
over by a write that is conditional on that tag, so that only one of several processes succeeds. Clocks of different
machines are never compared.
"""

import logging
import os
import secrets
import threading
import time
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from bertfeat.errors import StorageError, UsageError
from bertfeat.io.json_file import JsonError, canonical_json, decode_json
from bertfeat.io.lock_owner import LockOwner
from bertfeat.io.storage.address import Location
from bertfeat.io.storage.files import file_stamp, list_files, put_file, read_file, remove_stored, replace_file
from bertfeat.io.storage.store import Stamp

LEASE_VARIABLE = "BERTFEAT_LEASE"
"""The environment variable with the seconds of a lease; 60 if it is not set."""

_log = logging.getLogger("bertfeat")


@dataclass(frozen=True, slots=True)
class Claim:
    """The content of a claim."""

    owner: LockOwner
    token: str  # random and new for each claim
    seconds: float  # length of the lease
    renewals: int = 0  # counted so that each renewal changes the content: the tags of some stores are digests of it
    released: bool = False  # its holder is about to remove it


def lease_seconds() -> float:
    """The seconds of a lease.

    Raises:
        UsageError: the variable of the environment is no positive number.
    """
    text = os.environ.get(LEASE_VARIABLE) or "60"
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise UsageError("is no positive number of seconds", where=f"{LEASE_VARIABLE}={text}")
    return seconds


def read_claim(place: Location) -> tuple[Claim | None, Stamp] | None:
    """A claim and its stamp, with None in place of a claim whose content cannot be decoded; None if there is no claim.

    Raises:
        StorageError: the storage cannot be reached.
    """
    stamp = file_stamp(place)
    if stamp is None:
        return None
    try:
        return decode_json(read_file(place), Claim), stamp
    except FileNotFoundError:
        return None
    except JsonError:
        return None, stamp


class Lease:
    """A claim that this process holds; a thread renews it until it is released, left, or lost.

    Used as a context manager, it is released at the end of the block.
    """

    def __init__(self, place: Location, claim: Claim, stamp: Stamp, since: float) -> None:
        """Hold a claim that was just written; ``since`` is the monotonic time just before that request."""
        self.place = place
        self._claim, self._stamp, self._since = claim, stamp, since
        self._lost = False
        self._ended = threading.Event()
        self._writing = threading.Lock()
        threading.Thread(target=self._renew_until_end, name="bertfeat-lease", daemon=True).start()

    @classmethod
    def take(cls, place: Location, seconds: float, owner: LockOwner | None = None) -> "Lease | None":
        """Write a claim where there is none; None if there is one, whoever holds it.

        Raises:
            StorageError: the storage cannot be written.
        """
        claim = _new_claim(seconds, owner)
        since = time.monotonic()
        stamp = put_file(place, canonical_json(claim), if_absent=True)
        return cls(place, claim, stamp, since) if stamp else None

    def is_lost(self) -> bool:
        """Whether another process may hold the claim by now. Asks the storage only if the lease is over.

        Raises:
            StorageError: the lease is over, and the storage cannot be reached.
        """
        if not self._lost and not self._ended.is_set() and time.monotonic() - self._since >= self._claim.seconds:
            self.renew()
        return self._lost

    def renew(self) -> bool:
        """Rewrite the claim; False if another process has taken it over.

        Raises:
            StorageError: the storage cannot be reached; the claim may still be held.
        """
        with self._writing:
            if not self._lost and not self._ended.is_set():
                self._rewrite(released=False)
            return not self._lost

    def leave(self) -> None:
        """Stop renewing the claim and leave it in storage, for example when the claimed work is done."""
        self._ended.set()

    def release(self) -> None:
        """Give up and remove the claim; a claim that another process has taken over stays."""
        self._ended.set()
        # a renewal that is still waiting for the storage is not waited for longer: the lease runs out by itself
        if self._lost or not self._writing.acquire(timeout=self._claim.seconds / 3):
            return
        try:
            started = time.monotonic()
            held = self._rewrite(released=True)
            # no process takes over a claim within a lease of its last write, so no other process's claim is removed
            if held and time.monotonic() - started < self._claim.seconds / 3:
                remove_stored(self.place)
        except StorageError as error:
            _log.info("a claim is left to run out: %s", error)
        finally:
            self._writing.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()

    def _rewrite(self, *, released: bool) -> bool:
        # counted before the attempt, which may succeed without an answer
        self._claim = replace(self._claim, renewals=self._claim.renewals + 1, released=released)
        content, started = canonical_json(self._claim), time.monotonic()
        stamp = replace_file(self.place, content, self._stamp)
        if stamp is None:
            found = read_claim(self.place)
            if found and found[0] and found[0].token == self._claim.token:  # as an earlier attempt wrote it
                stamp = replace_file(self.place, content, found[1])
        if stamp is None:
            self._lost = True
            return False
        self._stamp, self._since = stamp, started
        return True

    def _renew_until_end(self) -> None:
        pause = self._claim.seconds / 3
        while not self._ended.wait(pause):
            try:
                if not self.renew():
                    return
                pause = self._claim.seconds / 3
            except StorageError as error:
                _log.info("a claim could not be renewed: %s", error)
                pause = self._claim.seconds / 12


class LeaseWatch:
    """A process's view of the claims of others: the last stamp that it saw of each, and since when."""

    def __init__(self, seconds: float, owner: LockOwner | None = None) -> None:
        self.seconds = seconds
        self._owner = owner
        self._seen: dict[Location, tuple[Stamp, float]] = {}

    def look(self, folder: Location) -> set[str]:
        """Look at all claims in a folder, and return the names of those that have not run out, as far as is known.

        Raises:
            StorageError: the storage cannot be reached.
        """
        stamps = {folder / file.name: file.stamp for file in list_files(folder) if not file.name.startswith(".")}
        for gone in self._seen.keys() - stamps.keys():
            del self._seen[gone]
        for place, stamp in stamps.items():
            self.see(place, stamp)
        return {place.name for place in stamps if not self.is_over(place)}

    def see(self, place: Location, stamp: Stamp | None) -> None:
        """Note how a claim is now; None: there is none."""
        seen = self._seen.get(place)
        if stamp is None:
            self._seen.pop(place, None)
        elif seen is None or seen[0] != stamp:
            self._seen[place] = stamp, time.monotonic()

    def is_over(self, place: Location) -> bool:
        """Whether a claim has not changed for the length of this process's own lease."""
        return self._unchanged(place) >= self.seconds

    def take(self, place: Location) -> Lease | None:
        """Write a claim, or take over one that ran out; None if another process holds it.

        A claim of a process that has ended on this machine is taken over at once.

        Raises:
            StorageError: the storage cannot be written.
        """
        if not self.is_over(place):
            lease = Lease.take(place, self.seconds, self._owner)
            if lease:
                self._seen.pop(place, None)
                return lease
        found = read_claim(place)
        self.see(place, found[1] if found else None)
        if found is None:
            return None  # its holder has just released it: the next attempt can get it
        claim, stamp = found
        over = self._unchanged(place) >= max(self.seconds, claim.seconds if claim else 0.0)
        if not over and not (claim and claim.owner.is_surely_gone):
            return None
        own, since = _new_claim(self.seconds, self._owner), time.monotonic()
        taken = replace_file(place, canonical_json(own), stamp)
        self._seen.pop(place, None)
        return Lease(place, own, taken, since) if taken else None

    def _unchanged(self, place: Location) -> float:
        seen = self._seen.get(place)
        return time.monotonic() - seen[1] if seen else 0.0


def _new_claim(seconds: float, owner: LockOwner | None) -> Claim:
    """A claim of this process."""
    return Claim(owner or LockOwner.current(), secrets.token_hex(16), seconds)

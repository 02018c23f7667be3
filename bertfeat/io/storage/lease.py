"""Claims with a lease: who works on what, among processes that share nothing but storage.

A claim is a small file, and who writes it first holds it. The holder writes it anew every third of its lease, which
changes its tag. Who sees the same tag for a whole lease, on a clock of its own, takes the claim over by a write on
condition of that tag, so that one of several succeeds. No clocks of two machines are compared, and of no clock the
time of day is read.
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
"""In the environment: the seconds of a lease, 60 if it is not set."""

_log = logging.getLogger("bertfeat")


@dataclass(frozen=True, slots=True)
class Claim:
    """The content of a claim."""

    owner: LockOwner
    token: str  # random: another one each time that something is claimed
    seconds: float  # the lease
    renewals: int = 0  # a claim that is written anew must differ: the tags of some stores are digests
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
    """A claim and its stamp; None where there is none, and None for a claim that cannot be read.

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
    """A claim that this process holds, renewed on a thread of its own until it is released or lost.

    As a context it is released at the end of the block.
    """

    def __init__(self, place: Location, claim: Claim, stamp: Stamp, since: float) -> None:
        """A claim that was just written; ``since`` is the time before that was asked for."""
        self.place = place
        self._claim, self._stamp, self._since = claim, stamp, since
        self._lost = False
        self._ended = threading.Event()
        self._writing = threading.Lock()
        threading.Thread(target=self._renew_until_end, name="bertfeat-lease", daemon=True).start()

    @classmethod
    def take(cls, place: Location, seconds: float, owner: LockOwner | None = None) -> "Lease | None":
        """Claim what nobody claims; None where there is a claim, whoever holds it.

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
        """Write the claim anew; False where it is another's by now.

        Raises:
            StorageError: the storage cannot be reached; the claim may be held still.
        """
        with self._writing:
            if not self._lost and not self._ended.is_set():
                self._rewrite(released=False)
            return not self._lost

    def leave(self) -> None:
        """Renew the claim no more, and let it stand: as where what was claimed is done, and claims do not matter."""
        self._ended.set()

    def release(self) -> None:
        """Give the claim up. One that is another's by now stays."""
        self._ended.set()
        # a renewal that waits for the storage is not waited for: the lease runs out by itself
        if self._lost or not self._writing.acquire(timeout=self._claim.seconds / 3):
            return
        try:
            started = time.monotonic()
            held = self._rewrite(released=True)
            # nobody takes over what was just written before a lease has passed, so it is no other's that is removed
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
        # counted before the attempt: one without an answer may have been done all the same
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
    """A process's view of the claims of others: the last state that it saw of each, and since when."""

    def __init__(self, seconds: float, owner: LockOwner | None = None) -> None:
        self.seconds = seconds
        self._owner = owner
        self._seen: dict[Location, tuple[Stamp, float]] = {}

    def look(self, folder: Location) -> set[str]:
        """Look at all claims of a folder; the names of those that are held, as far as is known.

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
        """Whether a claim has been the same for a lease of ours."""
        return self._unchanged(place) >= self.seconds

    def take(self, place: Location) -> Lease | None:
        """Claim something, or take a claim over that ran out; None where another process holds it.

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
            return None  # given up at this moment: it is to be had at the next attempt
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

"""Claims with a lease, over every kind of storage. The time of most tests is their own."""

import dataclasses
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from bertfeat.errors import FolderLockedError, StorageError, UsageError
from bertfeat.io import (
    Address,
    Claim,
    FolderLock,
    Lease,
    LeaseWatch,
    Location,
    Stamp,
    canonical_json,
    file_stamp,
    folder_lock,
    lease_seconds,
    list_files,
    put_file,
    read_claim,
    read_file,
    remove_stored,
    replace_file,
)
from bertfeat.io.lock_owner import LockOwner
from tests.support.s3_server import Faults, S3Server
from tests.support.waiting import wait_for

ROOT = Path(__file__).parents[2]
NUMBERS = count()
LONG = 1000.0  # seconds: no test lasts until such a lease is renewed
ELSEWHERE = dataclasses.replace(LockOwner.current(), host="node7", boot="another", pid=4711)


@pytest.fixture(params=["local", "memory", "s3"])
def folder(request: pytest.FixtureRequest) -> Location:
    if request.param == "local":
        path: Path = request.getfixturevalue("tmp_path")
        return path / "claims"
    if request.param == "memory":
        return Address.parse(f"memory://leases-{next(NUMBERS)}/claims")
    bucket: Address = request.getfixturevalue("bucket")
    return bucket / "claims"


class Clock:
    """A time that passes only when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("bertfeat.io.storage.lease.time", clock)
    return clock


@pytest.fixture(autouse=True)
def leases_end_with_their_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    leases, make = list[Lease](), Lease.__init__

    def record(lease: Lease, place: Location, claim: Claim, stamp: Stamp, since: float) -> None:
        make(lease, place, claim, stamp, since)
        leases.append(lease)

    monkeypatch.setattr(Lease, "__init__", record)
    yield
    for lease in leases:
        lease.leave()


def take(place: Location, seconds: float = LONG, owner: LockOwner = ELSEWHERE) -> Lease:
    lease = Lease.take(place, seconds, owner)
    assert lease
    return lease


def claim_at(place: Location) -> Claim:
    found = read_claim(place)
    assert found
    assert found[0]
    return found[0]


def stamp_of(place: Location) -> Stamp:
    stamp = file_stamp(place)
    assert stamp
    return stamp


def test_what_is_claimed_is_held_until_it_is_released(folder: Location) -> None:
    place = folder / "part-00000"
    with take(place, owner=LockOwner.current()) as lease:
        assert Lease.take(place, LONG) is None
        assert LeaseWatch(LONG).take(place) is None
        assert claim_at(place).owner.pid == os.getpid()
        assert claim_at(place).seconds == LONG
        assert not lease.is_lost()
    assert list_files(folder) == []
    assert not lease.renew() or not list_files(folder)  # it is over
    take(place).release()


def test_a_renewal_changes_the_tag_and_says_the_same(folder: Location) -> None:
    place = folder / "part"
    lease = take(place)
    stamps = [stamp_of(place)]
    for _ in range(3):
        assert lease.renew()
        stamps.append(stamp_of(place))
    assert len({stamp.tag for stamp in stamps}) == 4
    assert claim_at(place).owner == ELSEWHERE
    lease.leave()
    assert not lease.is_lost()
    assert file_stamp(place) == stamps[-1]


def test_a_claim_that_stays_the_same_for_a_lease_is_taken_over(folder: Location, clock: Clock) -> None:
    place = folder / "part"
    lost = take(place, 60)
    watch = LeaseWatch(60, LockOwner.current())
    assert watch.take(place) is None
    clock.now = 59
    assert watch.take(place) is None
    assert lost.renew()
    clock.now = 100
    assert watch.take(place) is None  # sees the renewal, and watches anew
    clock.now = 159
    assert watch.take(place) is None
    clock.now = 160
    taken = watch.take(place)
    assert taken
    assert claim_at(place).owner.pid == os.getpid()

    # the first holder wakes up
    assert lost.is_lost()
    assert not lost.renew()
    lost.release()
    assert claim_at(place).owner.pid == os.getpid()
    assert not taken.is_lost()
    assert taken.renew()
    taken.release()
    assert list_files(folder) == []


def test_a_holder_that_slept_and_was_not_missed_holds_on(folder: Location, clock: Clock) -> None:
    lease = take(folder / "part", 60)
    clock.now = 1000
    assert not lease.is_lost()
    watch = LeaseWatch(60)
    assert watch.take(folder / "part") is None
    clock.now = 1059
    assert watch.take(folder / "part") is None
    lease.release()


@pytest.mark.sampled(1)
def test_of_many_who_take_over_one_does(folder: Location, clock: Clock) -> None:
    for number in range(5):
        place = folder / f"part-{number}"
        take(place, 60).leave()
        watches = [LeaseWatch(60) for _ in range(4)]
        for watch in watches:
            watch.look(folder)
        clock.now += 60
        barrier, taken = threading.Barrier(4), list[Lease]()

        def race(watch: LeaseWatch, place: Location, barrier: threading.Barrier, taken: list[Lease]) -> None:
            barrier.wait()
            lease = watch.take(place)
            if lease:
                taken.append(lease)

        threads = [threading.Thread(target=race, args=(watch, place, barrier, taken)) for watch in watches]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(taken) == 1
        assert taken[0].renew()
        taken[0].leave()


@pytest.mark.sampled(1)
def test_of_many_who_claim_one_does(folder: Location) -> None:
    for number in range(5):
        barrier, taken = threading.Barrier(4), list[Lease]()

        def race(place: Location, barrier: threading.Barrier, taken: list[Lease]) -> None:
            barrier.wait()
            lease = LeaseWatch(LONG).take(place)
            if lease:
                taken.append(lease)

        threads = [threading.Thread(target=race, args=(folder / f"part-{number}", barrier, taken)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(taken) == 1
        taken[0].leave()


def test_a_watch_sees_all_claims_of_a_folder(folder: Location, clock: Clock) -> None:
    watch = LeaseWatch(60)
    assert watch.look(folder) == set()
    first, second = take(folder / "part-1", 60), take(folder / "part-2", 60)
    assert watch.look(folder) == {"part-1", "part-2"}
    clock.now = 30
    assert first.renew()
    assert watch.look(folder) == {"part-1", "part-2"}
    clock.now = 61
    assert watch.look(folder) == {"part-1"}
    assert watch.is_over(folder / "part-2")
    first.release()
    assert watch.look(folder) == set()
    taken = watch.take(folder / "part-2")
    assert taken
    assert watch.look(folder) == {"part-2"}
    assert second.is_lost()


def test_a_longer_lease_is_waited_for(folder: Location, clock: Clock) -> None:
    """Of a holder with another BERTFEAT_LEASE, who renews less often than we would."""
    take(folder / "part", 300)
    watch = LeaseWatch(60)
    for now in (0, 61, 299):
        clock.now = now
        assert watch.take(folder / "part") is None
    clock.now = 300
    assert watch.take(folder / "part")


@pytest.mark.parametrize("content", [b"", b"{", b"null", b"\xff", b'{"owner": 1}'])
def test_a_claim_that_cannot_be_read_runs_out_too(folder: Location, clock: Clock, content: bytes) -> None:
    put_file(folder / "part", content)
    watch = LeaseWatch(60)
    assert watch.take(folder / "part") is None
    clock.now = 60
    assert watch.take(folder / "part")


def test_a_claim_that_is_about_to_be_removed_is_not_taken_over(
    folder: Location, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its removal could be under way, and would remove the claim of who took it over."""
    place = folder / "part"
    lease, watch = take(place, 60), LeaseWatch(60)
    monkeypatch.setattr("bertfeat.io.storage.lease.remove_stored", lambda place: None)
    lease.release()
    assert claim_at(place).released
    assert watch.take(place) is None
    clock.now = 60
    assert watch.take(place)


def test_a_release_that_took_too_long_removes_nothing(
    folder: Location, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(place: Location, content: bytes, stamp: Stamp) -> Stamp | None:
        written = replace_file(place, content, stamp)
        clock.now += 61  # stopped here: the claim may be another's by now
        return written

    lease = take(folder / "part", 60)
    monkeypatch.setattr("bertfeat.io.storage.lease.replace_file", slow)
    lease.release()
    assert claim_at(folder / "part").released


def test_a_renewal_whose_answer_was_lost_does_not_lose_the_claim(
    folder: Location, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written_without_an_answer(place: Location, content: bytes, stamp: Stamp) -> Stamp | None:
        replace_file(place, content, stamp)
        raise StorageError("the storage does not answer")

    place = folder / "part"
    lease = take(place, 60)
    with monkeypatch.context() as patched:
        patched.setattr("bertfeat.io.storage.lease.replace_file", written_without_an_answer)
        with pytest.raises(StorageError):
            lease.renew()
    clock.now = 70  # the lease counts from the last renewal that is known
    before = stamp_of(place)
    assert not lease.is_lost()
    assert stamp_of(place) != before
    lease.release()
    assert list_files(folder) == []


def test_a_claim_that_someone_removed_is_lost(folder: Location) -> None:
    lease = take(folder / "part")
    remove_stored(folder / "part")
    assert not lease.renew()
    assert lease.is_lost()
    lease.release()


# ── who held it has ended ───────────────────────────────────────────────────────────────────────────────────


def test_a_claim_of_a_process_that_ended_here_is_taken_over_at_once(folder: Location) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    owner = dataclasses.replace(LockOwner.current(), pid=dead.pid)
    take(folder / "part", owner=owner).leave()
    lease = LeaseWatch(LONG).take(folder / "part")
    assert lease
    assert claim_at(folder / "part").owner.pid == os.getpid()


@pytest.mark.parametrize(
    "changes", [{"host": "node7"}, {"boot": "x"}, {"space": "pid:[1]"}, {"boot": ""}, {"space": ""}]
)
def test_a_process_that_cannot_be_seen_from_here_is_not_judged(tmp_path: Path, changes: dict[str, str]) -> None:
    """Of another machine, or of another container of this one, where its number is another process's."""
    owner = dataclasses.replace(LockOwner.current(), pid=2**22 + 1)
    assert owner.is_surely_gone
    owner = dataclasses.replace(owner, **changes)  # type: ignore[arg-type]
    take(tmp_path / "part", owner=owner).leave()
    assert LeaseWatch(LONG).take(tmp_path / "part") is None


# ── in the time that passes ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(1)
def test_a_lease_is_renewed_as_long_as_it_is_held(folder: Location) -> None:
    place = folder / "part"
    with take(place, 0.3) as lease:
        seen = stamp_of(place)
        wait_for(lambda: claim_at(place).renewals >= 3)
        assert stamp_of(place) != seen
        assert not lease.is_lost()
    assert file_stamp(place) is None


def test_a_lease_that_is_fresh_costs_no_request(bucket: Address, s3: S3Server) -> None:
    with take(bucket / "part") as lease:
        s3.forget()
        for _ in range(100):
            assert not lease.is_lost()
        assert s3.count() == 0
    assert [request.kind for request in s3.requests] == ["replace", "delete"]


@pytest.mark.slow
def test_a_storage_that_is_away_does_not_lose_a_claim(
    bucket: Address, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTFEAT_STORAGE_TIMEOUT", "0.2")
    lease = take(bucket / "part", 0.6)
    with s3.harmed(Faults(down=True)):
        time.sleep(0.7)
        with pytest.raises(StorageError, match="does not answer"):
            lease.is_lost()
    assert not lease.is_lost()
    with s3.harmed(Faults(down=True)):
        lease.release()  # quietly: it runs out
    assert file_stamp(bucket / "part")


_HOLD = """
import sys, time
from bertfeat.io import Lease, as_location
lease = Lease.take(as_location(sys.argv[1]), 1.0)
print("held" if lease else "not", flush=True)
sys.stdin.readline()
print("lost" if lease.is_lost() else "held", flush=True)
lease.release()
print("released", flush=True)
"""


@pytest.mark.sampled(1)
def test_who_was_stopped_learns_that_the_claim_is_lost(folder: Location, request: pytest.FixtureRequest) -> None:
    if isinstance(folder, Address) and folder.scheme == "memory":
        pytest.skip("memory is that of one process")
    place, pipe = folder / "part", subprocess.PIPE
    command = [sys.executable, "-c", _HOLD, str(place)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        holder.send_signal(signal.SIGSTOP)
        watch = LeaseWatch(1.0)
        wait_for(lambda: watch.take(place))
        holder.send_signal(signal.SIGCONT)
        holder.stdin.write("\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "lost\n"
        assert holder.stdout.readline() == "released\n"
    assert claim_at(place).owner.pid == os.getpid()


# ── the lock of a folder in object storage ──────────────────────────────────────────────────────────────────


@pytest.fixture(params=["memory", "s3"])
def remote(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Address:
    monkeypatch.setenv("BERTFEAT_LEASE", "0.5")
    if request.param == "memory":
        return Address.parse(f"memory://locks-{next(NUMBERS)}/corpus.features")
    bucket: Address = request.getfixturevalue("bucket")
    return bucket / "corpus.features"


@pytest.mark.sampled(1)
def test_a_folder_that_is_held_is_refused(
    remote: Address, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTFEAT_LEASE", "2")
    caplog.set_level(logging.INFO, "bertfeat")
    with folder_lock(remote) as lock:
        lock.check()
        with pytest.raises(
            FolderLockedError, match=f"another run is at work on it .process {os.getpid()} on .* since 20"
        ):
            folder_lock(remote).__enter__()
        lock.check()
        assert "watching whether that run renews its lock" in caplog.text
    assert list_files(remote) == []
    with folder_lock(remote):
        pass


@pytest.mark.sampled(1)
def test_a_lock_that_is_not_renewed_is_taken_over(remote: Address) -> None:
    place = remote / ".bertfeat" / "lock"
    put_file(place, canonical_json(Claim(ELSEWHERE, "token", 0.5)))
    start = time.monotonic()
    with folder_lock(remote):
        assert time.monotonic() - start >= 0.5
        assert claim_at(place).owner.pid == os.getpid()
    assert list_files(remote) == []


def test_a_lock_of_a_dead_run_of_this_machine_is_taken_over_at_once(
    remote: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTFEAT_LEASE", "600")
    owner = dataclasses.replace(LockOwner.current(), ticks=1)  # the number is another process's by now
    put_file(remote / ".bertfeat" / "lock", canonical_json(Claim(owner, "token", 600)))
    with folder_lock(remote):
        pass


def told_by(lock: FolderLock) -> str:
    try:
        lock.check()
    except FolderLockedError as error:
        return str(error)
    return ""


def test_a_run_is_told_that_its_lock_is_lost(remote: Address) -> None:
    place = remote / ".bertfeat" / "lock"
    other = canonical_json(Claim(ELSEWHERE, "token", 60))
    with folder_lock(remote) as lock:
        put_file(place, other)

        wait_for(lambda: "was taken over by process 4711 on node7" in told_by(lock))
    assert read_file(place) == other


def test_the_lock_of_a_local_folder_is_not_lost(tmp_path: Path) -> None:
    with folder_lock(tmp_path / "folder") as lock:
        lock.check()


@pytest.mark.parametrize("seconds", ["0", "-1", "soon", "nan"])
def test_a_lease_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, seconds: str) -> None:
    monkeypatch.setenv("BERTFEAT_LEASE", seconds)
    with pytest.raises(UsageError, match=f"BERTFEAT_LEASE={seconds}: is no positive number of seconds"):
        lease_seconds()
    monkeypatch.delenv("BERTFEAT_LEASE")
    assert lease_seconds() == 60

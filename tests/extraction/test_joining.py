"""Runs that join: several at once, killed, stopped past their leases, refused where they would disturb one another."""

import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from bertfeat.core.extraction import CLAIMS, PRESENCE, RUN_RECORD, SCANS, Join, Progress, joined_folder, joining
from bertfeat.core.extraction.joined_folder import write_run_record
from bertfeat.core.extraction.status import RunRecord, read_run_record
from bertfeat.core.features import FeatureSet, list_parts, write_part
from bertfeat.errors import (
    AnotherCorpusError,
    BertfeatError,
    CorpusError,
    DamagedError,
    FolderLockedError,
    RemovalError,
    SettingsDifferError,
    UsageError,
)
from bertfeat.io import Address, Lease, folder_lock, list_files, read_claim, read_file
from tests.support.runs import everything, extractor, lines, text_file
from tests.support.s3_server import Faults, S3Server
from tests.support.tiny_models import Tiny
from tests.support.waiting import wait_for
from tests.support.ways import end_all, is_alive, joined, kill, made, options, start_run

LEASE = 1.0
PART, PARTS = 20, 24  # rows of a part, and parts of the corpus
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def alone(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, and its features as one process makes them."""
    place = tmp_path_factory.mktemp("alone")
    (place / "c").mkdir()
    for at in range(4):
        text_file(place / f"c/{at}.txt", lines(115, at * 1000))
    extractor(tiny("bert")).extract(place / "c", place / "out", part_rows=PART)
    return place


@pytest.fixture(autouse=True)
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTFEAT_LEASE", str(LEASE))


def run(bert: Tiny, corpus: Any, folder: Path | Address, **more: Any) -> Any:
    return extractor(bert).extract(corpus, folder, **{"part_rows": PART} | more)


def join(bert: Tiny, corpus: Any, folder: Path | Address, *, lease: float = LEASE, **more: Any) -> Any:
    return run(bert, corpus, folder, join=Join(lease), **more)


def arguments(bert: Tiny, alone: Path) -> list[str]:
    return [str(alone / "c"), *options(bert), "--part-rows", str(PART)]


def parts_of(folder: Path | Address) -> dict[str, str]:
    return {
        file.name: sha256(read_file(folder / file.name)).hexdigest()
        for file in list_files(folder)
        if file.name.startswith("part-")
    }


def state(folder: Path | Address) -> set[str]:
    """The files in the state folder, temporary ones too, without a lock that was given up too late to be removed."""
    lock = read_claim(folder / ".bertfeat" / "lock")
    given_up = {"lock"} if lock and lock[0] and lock[0].released else set()
    return {file.name for file in list_files(folder / ".bertfeat")} - given_up


def claims_of(folder: Path) -> list[str]:
    """Give the claims that were not given up."""
    found = [(file.name, read_claim(folder / CLAIMS / file.name)) for file in list_files(folder / CLAIMS)]
    return [name for name, claim in found if claim is None or claim[0] is None or not claim[0].released]


def in_threads(*calls: Callable[[], Any]) -> list[Any]:
    """Run calls at once, and give what each gives or raises."""
    results: list[Any] = [None] * len(calls)

    def run_one(at: int) -> None:
        try:
            results[at] = calls[at]()
        except BaseException as error:
            results[at] = error

    threads = [threading.Thread(target=run_one, args=(at,)) for at in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    return results


class Stopped(Exception):
    """Raised by the progress of a run, to stop it."""


def stop_after(parts: int, folder: Path | Address) -> Callable[[Progress], None]:
    def progress(_: Progress) -> None:
        if len(list_parts(folder)) >= parts:
            raise Stopped

    return progress


# ── several at once ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_several_at_once(bert: Tiny, alone: Path, tmp_path: Path) -> None:
    runs = joined(arguments(bert, alone), tmp_path / "out", 5)
    assert list(end_all(runs)) == [0] * 5
    assert made(tmp_path / "out") == made(alone / "out")
    assert state(tmp_path / "out") == {"kind", "manifest.json"}


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["memory", "s3"])
def test_several_at_once_in_object_storage(
    bert: Tiny, alone: Path, request: pytest.FixtureRequest, scheme: str
) -> None:
    if scheme == "memory":
        folder: Address = Address.parse(f"memory://joins-{next(NUMBERS)}/out")
    else:
        folder = request.getfixturevalue("bucket") / "deep/out"
    reports = in_threads(*[lambda: join(bert, alone / "c", folder)] * 3)
    assert [report.parts for report in reports] == [PARTS] * 3
    assert sum(report.parts - report.kept_parts for report in reports) >= PARTS
    assert parts_of(folder) == parts_of(alone / "out")
    assert state(folder) == {"kind", "manifest.json"}
    assert len(FeatureSet(folder)) == 460
    assert join(bert, alone / "c", folder).nothing_to_do
    assert run(bert, alone / "c", folder).nothing_to_do


def test_each_part_is_made_by_one(bert: Tiny, alone: Path, tmp_path: Path) -> None:
    """Claims save work: of what three runs make, nearly nothing is made twice."""
    reports = in_threads(*[lambda: join(bert, alone / "c", tmp_path / "out", lease=60)] * 3)
    made_by = [report.parts - report.kept_parts for report in reports]
    assert sum(made_by) <= PARTS + 3
    assert sum(report.computed_tokens for report in reports) <= reports[0].counts.tokens * 1.1
    assert all(report.counts == reports[0].counts for report in reports)


@pytest.mark.slow
def test_killed_at_random(bert: Tiny, alone: Path, tmp_path: Path) -> None:
    chance, folder = random.Random(7), tmp_path / "out"
    runs = joined(arguments(bert, alone), folder, 3)
    for number in range(1, 6):
        wait_for(lambda number=number: len(list_parts(folder)) >= 3 * number)  # type: ignore[misc]
        victim = chance.randrange(len(runs))
        kill(runs[victim].pid)
        runs += joined(arguments(bert, alone), folder, 1)
    codes = list(end_all(runs))
    assert set(codes) <= {0, -9}
    assert codes.count(0) >= 3
    assert made(folder) == made(alone / "out")
    assert state(folder) == {"kind", "manifest.json"}


@pytest.mark.slow
def test_all_killed_and_joined_again(bert: Tiny, alone: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    for parts in (1, 10):
        runs = joined(arguments(bert, alone), folder, 2)
        wait_for(lambda parts=parts: len(list_parts(folder)) >= parts)  # type: ignore[misc]
        for each in runs:
            kill(each.pid)
        assert set(end_all(runs)) == {-9}
    assert state(folder) - {"kind"}
    begin = time.monotonic()
    assert join(bert, alone / "c", folder).kept_parts >= 10
    assert time.monotonic() - begin < 20  # claims of processes of this machine that have ended are not waited for
    assert made(folder) == made(alone / "out")


@pytest.mark.slow
@pytest.mark.parametrize("moment", [1, 12])
def test_a_zombie_does_no_harm(bert: Tiny, alone: Path, tmp_path: Path, moment: int) -> None:
    """Stopped for longer than a lease, while another one takes its part over and finishes the set."""
    folder = tmp_path / "out"
    with start_run(*arguments(bert, alone), "-o", folder, "--join", "--lease", "1", folder=folder) as zombie:
        wait_for(lambda: len(list_parts(folder)) >= moment)
        kill(zombie.pid, signal.SIGSTOP)
        assert join(bert, alone / "c", folder).parts == PARTS
        before = everything(folder)
        assert made(folder) == made(alone / "out")
        zombie.go_on()
        ended = zombie.wait()
    assert ended.exit_code == 0, ended.stderr
    after = everything(folder)
    assert {name for name in before if before[name] != after.get(name)} <= set()
    assert after.keys() == before.keys()
    assert state(folder) == {"kind", "manifest.json"}


@pytest.mark.slow
def test_a_zombie_of_an_older_state_of_the_corpus(bert: Tiny, tmp_path: Path) -> None:
    """What it writes late is refused, or noticed before the set is finished: never a set of two states."""
    corpus, folder = text_file(tmp_path / "c.txt", lines(30)), tmp_path / "out"
    older = extractor(bert)
    reached, go_on = threading.Event(), threading.Event()

    def wait_at_the_last_part(progress: Progress) -> None:
        if progress.documents > 20:  # computed, not written
            reached.set()
            go_on.wait(60)

    results: list[Any] = []

    def run_older() -> None:
        try:
            results.append(
                older.extract(corpus, folder, part_rows=PART, join=Join(2 * LEASE), progress=wait_at_the_last_part)
            )
        except BertfeatError as error:
            results.append(error)

    thread = threading.Thread(target=run_older)
    thread.start()
    assert reached.wait(60)
    text_file(corpus, lines(50))
    with pytest.raises(FolderLockedError, match="others have joined on it with other settings, or over another state"):
        join(bert, corpus, folder)  # it is alive
    # as if it had died long ago
    for file in list_files(folder / CLAIMS):
        (folder / CLAIMS / file.name).unlink()
    report = join(bert, corpus, folder)
    go_on.set()
    thread.join(60)
    assert isinstance(results[0], BertfeatError)
    run(bert, corpus, tmp_path / "fresh")
    assert (report.counts.documents, made(folder)) == (50, made(tmp_path / "fresh"))


def test_a_late_part_of_an_older_plan_is_not_taken_for_one_of_this(bert: Tiny, tmp_path: Path) -> None:
    corpus = text_file(tmp_path / "c.txt", lines(30))
    run(bert, corpus, tmp_path / "older")
    text_file(corpus, lines(39))
    shared = Join(LEASE)
    written = tmp_path / "out/part-00001.parquet"

    def write_late(_: Progress) -> None:
        if len(list_parts(tmp_path / "out")) == 1 and not written.exists():
            os.link(tmp_path / "older/part-00001.parquet", written)

    with pytest.raises(BertfeatError, match=r"another run wrote (this part|parts of another corpus)"):
        run(bert, corpus, tmp_path / "out", join=shared, progress=write_late)
    assert not (tmp_path / "out/.bertfeat/manifest.json").exists()
    assert join(bert, corpus, tmp_path / "out").kept_parts == 1
    run(bert, corpus, tmp_path / "fresh")
    assert made(tmp_path / "out") == made(tmp_path / "fresh")


# ── with runs that do not join ──────────────────────────────────────────────────────────────────────────────


def show(folder: Path, seconds: float) -> Path:
    """Claim what a run on another machine would claim, once."""
    lease = Lease.take(folder / CLAIMS / f"{PRESENCE}of-another-one", seconds)
    assert lease is not None
    lease.leave()
    path = folder / CLAIMS / f"{PRESENCE}of-another-one"
    path.write_text(path.read_text().replace('"boot":"', '"boot":"other-'))
    return path


@pytest.mark.slow
def test_a_plain_run_is_refused_while_joined_ones_are_alive(
    bert: Tiny, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    path = show(folder, LEASE)
    wait = time.sleep

    def renew_while_it_waits(seconds: float) -> None:
        wait(seconds)
        if seconds > LEASE:  # the plain run has watched for a lease
            path.write_bytes(path.read_bytes())

    monkeypatch.setattr(time, "sleep", renew_while_it_waits)
    with pytest.raises(FolderLockedError, match="runs that joined are at work on it; join them with join=True, or"):
        run(bert, alone / "c", folder)
    assert [file.name for file in list_files(folder)] == [f"{CLAIMS}/{path.name}"]


@pytest.mark.slow
def test_a_joined_run_is_refused_while_a_plain_one_is_alive(
    bert: Tiny, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(joined_folder, "_SILENT", 0.1)
    begin = time.monotonic()
    with folder_lock(tmp_path / "out"), pytest.raises(FolderLockedError, match="another run is at work on it"):
        join(bert, alone / "c", tmp_path / "out")
    assert 2 * LEASE < time.monotonic() - begin < 30
    assert not list_parts(tmp_path / "out")
    assert caplog.text.count("another run is at work on it") == 1  # that it waits is told, once
    assert "; waiting" in caplog.text


@pytest.mark.slow
def test_one_of_its_own_that_holds_the_lock_for_long_is_waited_for(bert: Tiny, alone: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    claims = folder / CLAIMS
    with ThreadPoolExecutor(1) as pool:
        with folder_lock(folder):
            result = pool.submit(join, bert, alone / "c", folder)
            wait_for(lambda: claims.is_dir() and any(path.read_bytes() for path in claims.glob(f"{PRESENCE}*")))
            (own,) = claims.glob(f"{PRESENCE}*")
            own.with_name(f"{own.name[:-8]}{'0' * 8}").write_bytes(own.read_bytes())  # of the holder, as it were
            time.sleep(3 * LEASE)
            assert not result.done()
        assert result.result().parts == PARTS
    assert made(folder) == made(alone / "out")


@pytest.mark.slow
@pytest.mark.parametrize("first", [{}, {"join": 1}], ids=["plain first", "joined first"])
def test_a_run_of_the_other_kind_goes_on_from_what_was_killed(
    bert: Tiny, alone: Path, tmp_path: Path, first: dict[str, Any]
) -> None:
    folder = tmp_path / "out"
    way = ["--join"] if first else []
    with start_run(*arguments(bert, alone), "-o", folder, *way, folder=folder) as killed:
        wait_for(lambda: len(list_parts(folder)) >= 6)
        kill(killed.pid)
        killed.wait()
    assert not is_alive(killed.pid)
    report = run(bert, alone / "c", folder) if first else join(bert, alone / "c", folder)
    assert report.kept_parts >= 6
    assert made(folder) == made(alone / "out")
    assert state(folder) == {"kind", "manifest.json"}


@pytest.mark.slow
def test_runs_of_another_machine_are_watched_for_their_lease(bert: Tiny, tmp_path: Path) -> None:
    longer = 2
    show(tmp_path / "out", longer * LEASE)
    begin = time.monotonic()
    run(bert, text_file(tmp_path / "c.txt", lines(3)), tmp_path / "out")
    assert longer * LEASE < time.monotonic() - begin < 30
    assert state(tmp_path / "out") == {"kind", "manifest.json"}


def test_what_joined_runs_recorded_does_not_outlive_a_plain_run(bert: Tiny, tmp_path: Path) -> None:
    """Else a later one that joins would take the parts of another corpus for its own."""
    corpus, folder = tmp_path / "c.txt", tmp_path / "out"
    text_file(tmp_path / "one.txt", lines(70))
    text_file(tmp_path / "two.txt", [*lines(60), *lines(10, 800)])
    (tmp_path / "one.txt").rename(corpus)
    with pytest.raises(Stopped):
        join(bert, corpus, folder, progress=stop_after(2, folder))
    assert (folder / RUN_RECORD).exists()
    corpus.rename(tmp_path / "one.txt")
    (tmp_path / "two.txt").rename(corpus)
    run(bert, corpus, folder)
    assert state(folder) == {"kind", "manifest.json"}
    corpus.rename(tmp_path / "two.txt")
    (tmp_path / "one.txt").rename(corpus)  # the same file as at first, by its stamp too
    with pytest.raises(RemovalError, match=r"remove 1 \(part-00003\.parquet\) with 10 rows"):
        join(bert, corpus, folder)
    join(bert, corpus, folder, update=True)
    run(bert, corpus, tmp_path / "fresh")
    assert made(folder) == made(tmp_path / "fresh")


# ── what is refused ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_other_settings_and_other_corpora_while_others_are_at_work(bert: Tiny, alone: Path, tmp_path: Path) -> None:
    folder, other = tmp_path / "out", text_file(tmp_path / "other.txt", lines(30, 77_000))
    run(bert, other, tmp_path / "elsewhere")
    with start_run(
        *arguments(bert, alone), "-o", folder, "--join", "--lease", str(2 * LEASE), folder=folder
    ) as running:
        wait_for((folder / RUN_RECORD).exists)
        results = in_threads(
            lambda: join(bert, other, folder, lease=2 * LEASE),
            lambda: join(bert, alone / "c", folder, part_rows=PART + 1, lease=2 * LEASE),
            lambda: join(bert, alone / "c", tmp_path / "elsewhere"),
        )
        ended = running.wait()
    assert ended.exit_code == 0, ended.stderr
    assert isinstance(results[0], FolderLockedError | AnotherCorpusError)
    assert isinstance(results[1], FolderLockedError | SettingsDifferError)
    assert isinstance(results[2], AnotherCorpusError)
    assert made(folder) == made(alone / "out")


@pytest.mark.slow
def test_another_corpus_is_refused_by_all_who_join(bert: Tiny, alone: Path, tmp_path: Path) -> None:
    """Whoever is the first to have the plan, nothing is touched."""
    other, folder = text_file(tmp_path / "other.txt", lines(100, 77_000)), tmp_path / "out"
    run(bert, other, folder)
    before = everything(folder)
    for error in in_threads(*[lambda: join(bert, alone / "c", folder)] * 3):
        assert isinstance(error, AnotherCorpusError), error
    assert everything(folder) == before
    assert run(bert, other, folder).nothing_to_do


def test_parts_of_earlier_runs_are_kept_whoever_looks_first(bert: Tiny, alone: Path, tmp_path: Path) -> None:
    """One has recorded the run and died; the one that goes on keeps the parts that there are."""
    folder = tmp_path / "out"
    with pytest.raises(Stopped):
        run(bert, alone / "c", folder, progress=stop_after(9, folder))
    there = len(list_parts(folder))

    class Died(Exception):
        pass

    def die(*_: Any) -> None:
        raise Died

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joining._JoinAgenda, "take", die)
        with pytest.raises(Died):
            join(bert, alone / "c", folder)
    record = read_run_record(folder)
    assert record is not None
    assert not record.sorted_out
    report = join(bert, alone / "c", folder)
    assert report.kept_parts == there
    assert made(folder) == made(alone / "out")


def test_a_run_that_was_taken_over_says_so(bert: Tiny, alone: Path, tmp_path: Path) -> None:
    folder, alone_here = tmp_path / "out", threading.Lock()  # progress comes from two threads

    def take_over(progress: Progress) -> None:
        with alone_here:
            record = read_run_record(folder)
            if progress.fraction > 0.2 and record is not None and record.identity != "another run":
                write_run_record(folder, RunRecord(1, "another run", sorted_out=True))

    with pytest.raises(FolderLockedError, match="another run took it over while this one was stopped"):
        join(bert, alone / "c", folder, progress=take_over)
    assert not (folder / ".bertfeat/manifest.json").exists()
    assert not claims_of(folder)
    assert join(bert, alone / "c", folder).kept_parts > 2
    assert made(folder) == made(alone / "out")


def test_overwriting_and_leases_without_sense(bert: Tiny, alone: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"lease=0\.5: a lease has at least one second"):
        Join(0.5)
    with pytest.raises(UsageError, match="overwrite removes what others who join are at work on; start anew with one"):
        join(bert, alone / "c", tmp_path / "out", overwrite=True)
    assert not (tmp_path / "out").exists()


# ── errors ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_an_error_of_the_last_write_is_told(
    bert: Tiny, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would wait for that write, and the claim would be renewed for ever."""
    write = write_part

    def fail_at_the_last(folder: Path, header: Any, *more: Any, **others: Any) -> bool:
        if header.number == PARTS - 1:
            time.sleep(0.5)
            raise OSError(28, "No space left on device")
        return write(folder, header, *more, **others)

    with monkeypatch.context() as patch:
        patch.setattr("bertfeat.core.extraction.worker.write_part", fail_at_the_last)
        with pytest.raises(OSError, match="No space left"):
            join(bert, alone / "c", tmp_path / "out")
    assert not claims_of(tmp_path / "out")
    assert join(bert, alone / "c", tmp_path / "out").kept_parts == PARTS - 1


@pytest.mark.slow
def test_damage_that_is_found_at_the_end(bert: Tiny, alone: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"

    def damage(progress: Progress) -> None:
        path = folder / "part-00003.parquet"
        if progress.fraction > 0.9 and path.exists() and path.stat().st_size > 100:
            path.write_bytes(path.read_bytes()[:100])

    with pytest.raises(DamagedError, match="part-00003"):
        join(bert, alone / "c", folder, progress=damage)
    assert not (folder / ".bertfeat/manifest.json").exists()
    assert join(bert, alone / "c", folder).kept_parts == PARTS - 1
    assert made(folder) == made(alone / "out")


def test_a_record_that_is_damaged(bert: Tiny, alone: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with pytest.raises(Stopped):
        join(bert, alone / "c", folder, progress=stop_after(3, folder))
    (folder / RUN_RECORD).write_text("{")
    with pytest.raises(DamagedError, match=r"run\.json: .*delete it and start again when no run is at work"):
        join(bert, alone / "c", folder)
    assert run(bert, alone / "c", folder).kept_parts >= 3  # a run of its own does not need it
    assert made(folder) == made(alone / "out")


def test_a_scan_that_fails_is_told_by_all(bert: Tiny, tmp_path: Path) -> None:
    place = tmp_path / "c"
    place.mkdir()
    text_file(place / "a.txt", lines(30))
    (place / "b.txt.gz").write_bytes(b"no archive")
    for result in in_threads(*[lambda: join(bert, place, tmp_path / "out")] * 2):
        assert isinstance(result, CorpusError)
        assert "b.txt.gz: " in str(result)
    assert not claims_of(tmp_path / "out")


@pytest.mark.slow
def test_storage_that_stops_answering(bert: Tiny, alone: Path, s3: S3Server, bucket: Address) -> None:
    """The run ends with a clear last word, and leaves its claims to run out; the next one goes on."""
    folder = bucket / "out"

    def go_down(progress: Progress) -> None:
        if progress.fraction > 0.3:
            s3.harm(Faults(down=True))

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTFEAT_STORAGE_TIMEOUT", "1")
        patch.setattr(joining, "_SECONDS_TO_RELEASE", 0.2)
        with pytest.raises(BertfeatError, match=r"s3://.*: "):
            join(bert, alone / "c", folder, progress=go_down)
    s3.harm(Faults())
    assert join(bert, alone / "c", folder).kept_parts > 2
    assert parts_of(folder) == parts_of(alone / "out")
    assert state(folder) == {"kind", "manifest.json"}


# ── waiting ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_whoever_has_nothing_to_do_waits_for_the_others(bert: Tiny, tmp_path: Path) -> None:
    """It takes over what they leave, and ends with the set finished."""
    corpus, folder = text_file(tmp_path / "c.txt", lines(PART * 3)), tmp_path / "out"
    held, go_on = threading.Event(), threading.Event()

    def hold(progress: Progress) -> None:
        if progress.documents >= PART:
            held.set()
            go_on.wait(30)
            raise Stopped

    def second() -> Any:
        assert held.wait(30)
        threading.Timer(1.0, go_on.set).start()
        return join(bert, corpus, folder)

    results = in_threads(lambda: join(bert, corpus, folder, progress=hold), second)
    assert isinstance(results[0], Stopped)
    assert results[1].parts == 3
    run(bert, corpus, tmp_path / "fresh")
    assert made(folder) == made(tmp_path / "fresh")


def test_a_plan_of_others_is_read(bert: Tiny, alone: Path, tmp_path: Path) -> None:
    """Who comes later scans nothing."""
    folder = tmp_path / "out"
    with pytest.raises(Stopped):
        join(bert, alone / "c", folder, progress=stop_after(2, folder))
    scans = everything(folder / SCANS)
    assert scans
    with pytest.raises(Stopped):
        join(bert, alone / "c", folder, progress=stop_after(9, folder))
    assert everything(folder / SCANS) == scans
    record = read_run_record(folder)
    assert record is not None
    assert (record.parts, record.rows, record.sorted_out) == (PARTS, 460, True)

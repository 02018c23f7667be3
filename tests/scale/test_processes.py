"""Worker processes: killed, stopped, out of space, with errors of every kind; and what becomes of their tasks."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bertfeat.core.corpus import CorpusSettings, open_corpus
from bertfeat.core.engine import key_of
from bertfeat.core.extraction import Extractor
from bertfeat.core.features import check_part, list_parts
from bertfeat.errors import BertfeatError, DamagedError, RowFailedError, UsageError, parameter
from bertfeat.scale import Processes
from bertfeat.scale.dispatch import Dispatch
from tests.support.runs import contents, extractor, jsonl_file, lines, text_file
from tests.support.steps import Running
from tests.support.tiny_models import Tiny
from tests.support.waiting import wait_for
from tests.support.ways import children, fails, is_alive, kill, local_workers, made, options, start_run

pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # it is forked


@pytest.fixture(autouse=True)
def workers_are_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    local_workers(monkeypatch)


# ── tasks of a toy ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Toy:
    """A task: its result is its number twice."""

    number: int
    again: bool = False


@dataclass(frozen=True)
class ToyJob:
    """Work that goes wrong at some of its tasks."""

    place: Path
    deaths: dict[int, int] = field(default_factory=dict)  # by the task's number: how many workers it kills
    errors: dict[int, Exception] = field(default_factory=dict)
    slow: float = 0.0
    dies: str | None = None  # the device whose workers die when they start

    def open_worker(self, *, device: str | None, threads: int | None) -> "ToyWorker":
        if device is not None and device == self.dies:
            with (self.place / "died").open("a") as file:
                file.write("x")
            os._exit(7)
        (self.place / f"worker-{os.getpid()}").write_text(f"{device} {threads}")
        return ToyWorker(self)

    def threads_in_use(self) -> int:
        return 5

    def repeat(self, task: Toy) -> Toy:
        return replace(task, again=True)

    def error_of_deaths(self, task: Toy, problem: str) -> BertfeatError:
        return BertfeatError(problem, where=f"toy {task.number}")


class ToyWorker:
    def __init__(self, job: ToyJob) -> None:
        self._job = job

    def work(self, tasks: Iterator[Toy], done: Callable[[Toy, int], None]) -> None:
        for task in tasks:
            time.sleep(self._job.slow)
            begun = self._job.place / f"task-{task.number}"
            with begun.open("a") as file:
                file.write(f"{os.getpid()} {task.again}\n")
            if len(begun.read_text().splitlines()) <= self._job.deaths.get(task.number, 0):
                os.kill(os.getpid(), signal.SIGKILL)
            if task.number in self._job.errors:
                raise self._job.errors[task.number]
            done(task, 2 * task.number)

    def raise_failed_writes(self) -> None: ...


class ToyAgenda:
    """So many tasks; ``later`` are given only when the others are done."""

    def __init__(self, count: int, later: int = 0) -> None:
        self._tasks = deque(map(Toy, range(count)))
        self._later = deque(map(Toy, range(count, count + later)))
        self.results: dict[int, int] = {}

    @property
    def done(self) -> bool:
        return not self._tasks and not self._later

    def take(self) -> Toy | None:
        if not self._tasks and self._later and len(self.results) >= self._later[0].number:
            self._tasks.append(self._later.popleft())
        return self._tasks.popleft() if self._tasks else None

    def finish(self, task: Toy, result: int) -> None:
        assert task.number not in self.results
        self.results[task.number] = result


def work(job: ToyJob, agenda: ToyAgenda, workers: int = 2) -> dict[int, int]:
    Processes(workers).run(job, agenda)
    processes = [int(path.name.partition("-")[2]) for path in job.place.glob("worker-*")]
    assert processes
    assert not any(map(is_alive, processes))
    return agenda.results


def begun(job: ToyJob, number: int) -> list[str]:
    return (job.place / f"task-{number}").read_text().splitlines()


def test_tasks_are_shared_out(tmp_path: Path) -> None:
    job = ToyJob(tmp_path, slow=0.02)
    assert work(job, ToyAgenda(20, later=3), workers=3) == {number: 2 * number for number in range(23)}
    workers = {line.split()[0] for number in range(23) for line in begun(job, number)}
    assert len(workers) == 3
    assert all(len(begun(job, number)) == 1 for number in range(23))
    assert {path.read_text() for path in tmp_path.glob("worker-*")} == {"None 1"}


@pytest.mark.slow
def test_as_many_tasks_as_workers_are_one_for_each(tmp_path: Path) -> None:
    job = ToyJob(tmp_path, slow=0.3)
    work(job, ToyAgenda(3), workers=3)
    assert len({line.split()[0] for number in range(3) for line in begun(job, number)}) == 3


def test_devices(tmp_path: Path) -> None:
    agenda = ToyAgenda(9)
    Processes(devices=["cuda:0", "cuda:1"]).run(ToyJob(tmp_path), agenda)
    assert sorted(path.read_text() for path in tmp_path.glob("worker-*")) == ["cuda:0 2", "cuda:1 2"]
    with pytest.raises(UsageError, match="2 devices are as many workers"):
        Processes(3, devices=["cuda:0", "cuda:1"])
    with pytest.raises(UsageError, match="workers=0: a run has at least one worker"):
        Processes(0)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_task_whose_worker_died_is_done_again(tmp_path: Path, workers: int) -> None:
    job = ToyJob(tmp_path, deaths={0: 1, 4: 2, 9: 1})
    assert work(job, ToyAgenda(10), workers) == {number: 2 * number for number in range(10)}
    assert len(begun(job, 4)) == 3
    assert [line.split()[1] for line in begun(job, 0)][-1] == "True"  # told that it may have been done
    assert all(len(begun(job, number)) <= 2 for number in range(10) if number != 4)


def test_three_deaths_over_one_task_are_an_error(tmp_path: Path) -> None:
    job = ToyJob(tmp_path, deaths={3: 3})
    with pytest.raises(BertfeatError, match=r"^toy 3: 3 workers died one after the other \(signal 9\)$"):
        work(job, ToyAgenda(6))
    assert len(begun(job, 3)) == 3


@pytest.mark.slow
def test_a_worker_that_dies_without_a_task_is_not_started_again(tmp_path: Path) -> None:
    agenda = ToyAgenda(1, later=3)  # one after the other
    Processes(devices=["one", "other"]).run(ToyJob(tmp_path, slow=0.3, dies="other"), agenda)
    assert sorted(agenda.results) == [0, 1, 2, 3]
    assert (tmp_path / "died").read_text() == "x"


class UnsendableError(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("error", "expected", "told"),
    [
        (DamagedError("bad", where="x", remedy="mend it"), DamagedError, "^x: bad; mend it$"),
        (RowFailedError("row 3 failed"), RowFailedError, "row 3 failed"),
        (OSError(28, "No space left on device", "/d"), OSError, "No space left on device: '/d'"),
        (MemoryError("no more"), MemoryError, "no more"),
        (ZeroDivisionError("a bug"), ZeroDivisionError, "a bug"),
        (UnsendableError(1, 2), RuntimeError, "UnsendableError: 1 and 2"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_arrive_as_they_are(tmp_path: Path, error: Exception, expected: type[Exception], told: str) -> None:
    job = ToyJob(tmp_path, errors={5: error})
    with pytest.raises(expected, match=told) as raised:
        work(job, ToyAgenda(9))
    assert type(raised.value) is expected
    if isinstance(error, ZeroDivisionError):  # whoever is to mend it is told where
        assert "in work" in "".join(raised.value.__notes__)
        assert "in a worker process" in "".join(raised.value.__notes__)


def test_an_error_of_the_agenda_ends_the_workers(tmp_path: Path) -> None:
    class Full(ToyAgenda):
        def finish(self, task: Toy, result: int) -> None:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        work(ToyJob(tmp_path, slow=0.05), Full(30))
    workers = [int(path.name.partition("-")[2]) for path in tmp_path.glob("worker-*")]
    assert workers
    assert not any(map(is_alive, workers))


# ── who gets which task ─────────────────────────────────────────────────────────────────────────────────────


def test_dispatch(tmp_path: Path) -> None:
    agenda = ToyAgenda(3)
    dispatch = Dispatch(ToyJob(tmp_path), agenda)
    first, second, third = dispatch.take(), dispatch.take(), dispatch.take()
    assert first is not None
    assert second is not None
    assert third is not None
    assert (dispatch.take(), dispatch.out, dispatch.done, agenda.done) == (None, 3, False, True)
    dispatch.give_back(second)
    dispatch.lose(first, "signal 9")
    assert [dispatch.take(), dispatch.take(), dispatch.take()] == [second, Toy(0, again=True), None]
    for task in (second, third, first):
        assert not dispatch.done
        dispatch.finish(task, 0)
    assert dispatch.done
    assert dispatch.out == 0


def test_the_job_can_be_sent_and_has_absolute_paths(
    bert: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text_file(tmp_path / "c.txt", lines(9))
    jobs: list[Any] = []

    class Engine:
        def run(self, job: Any, agenda: Any) -> None:
            jobs.append(pickle.loads(pickle.dumps(job)))
            raise InterruptedError

    with pytest.raises(InterruptedError):
        extractor(bert).extract(Path("c.txt"), Path("out"), engine=Engine())
    (job,) = jobs
    assert job.folder == tmp_path / "out"
    assert [file.source.path for file in job.files] == [tmp_path / "c.txt"]
    assert [file.name for file in job.files] == ["c.txt"]  # as messages and ids have it
    assert list(job.files[0].read(0)) == list(open_corpus(["c.txt"], CorpusSettings()).rows())
    assert key_of(Toy(3)) == ("Toy", 3)


@pytest.mark.parametrize(("location", "name"), [("org/model", None), ("/models/moved", "/models/moved")])
def test_a_model_of_the_hub_is_that_of_its_revision(
    bert: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, location: str, name: str | None
) -> None:
    """A worker finds by its name and revision what the run has found by them, and any other one where it is."""
    asked: list[Any] = []

    def from_record(identity: Any, *_: Any, **more: Any) -> Any:
        asked.append((identity.revision, more["name"]))
        raise InterruptedError

    class Engine:
        def run(self, job: Any, agenda: Any) -> None:
            identity = replace(job.model, name="org/model", revision="abc")
            replace(job, model=identity, model_location=location).open_worker(device="cpu", threads=None)

    monkeypatch.setattr(Extractor, "from_record", from_record)
    with pytest.raises(InterruptedError):
        extractor(bert).extract(text_file(tmp_path / "c.txt", lines(3)), tmp_path / "out", engine=Engine())
    assert asked == [("abc", name)]


# ── the command ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def alone(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, and its features as one process makes them."""
    place = tmp_path_factory.mktemp("alone")
    extractor(tiny("bert")).extract(text_file(place / "c.txt", lines(2000)), place / "out", part_rows=40)
    return place


def command(bert: Tiny, alone: Path, folder: Path, *more: str) -> list[str]:
    return [str(alone / "c.txt"), "-o", str(folder), *options(bert), "--part-rows", "40", *more]


def all_gone(processes: list[int]) -> bool:
    return not any(map(is_alive, processes))


def until_parts(run: Running, folder: Path, count: int) -> None:
    wait_for(lambda: len(list_parts(folder)) >= count or not is_alive(run.pid))


@pytest.mark.sampled(1)
def test_workers_are_killed(bert: Tiny, alone: Path, tmp_path: Path) -> None:
    killed: list[int] = []
    with start_run(*command(bert, alone, tmp_path / "out", "--workers", "2"), folder=tmp_path / "out") as run:
        for number in range(1, 5):
            until_parts(run, tmp_path / "out", 8 * number)
            killed += (workers := children(run.pid)[number % 2 :][:1])
            for worker in workers:
                kill(worker)
        ended = run.wait()
    assert ended.exit_code == 0, ended.stderr
    assert len(set(killed)) >= 3
    assert made(tmp_path / "out") == made(alone / "out")


@pytest.mark.slow
def test_the_run_is_killed(bert: Tiny, alone: Path, tmp_path: Path) -> None:
    for number, way in enumerate((["--workers", "2"], ["--workers", "3"]), 1):
        with start_run(*command(bert, alone, tmp_path / "out", *way), folder=tmp_path / "out") as run:
            until_parts(run, tmp_path / "out", 10 * number)
            workers = children(run.pid)
            kill(run.pid)
            assert len(workers) == int(way[1])
            wait_for(partial(all_gone, workers), 5)
    there = list_parts(tmp_path / "out")
    assert 10 < len(there) < 50
    for path in there:
        check_part(path)
    report = extractor(bert).extract(alone / "c.txt", tmp_path / "out", part_rows=40, engine=Processes(2))
    assert report.kept_parts == len(there)
    assert made(tmp_path / "out") == made(alone / "out")


@pytest.mark.sampled(1, 1)
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"])
@pytest.mark.parametrize("way", [["--workers", "2"], ["--workers", "2", "--join"], ["--join"]], ids=" ".join)
def test_interrupted(bert: Tiny, alone: Path, tmp_path: Path, sent: signal.Signals, code: int, way: list[str]) -> None:
    folder = tmp_path / "out"
    with start_run(*command(bert, alone, folder, *way), folder=folder) as run:
        until_parts(run, folder, 5)
        workers = children(run.pid)
        for worker in workers if sent == signal.SIGINT else ():
            kill(worker, sent)  # as a terminal does
        kill(run.pid, sent)
        begin = time.monotonic()
        ended = run.wait()
    assert ended.exit_code == code, ended.stderr
    assert time.monotonic() - begin < 5
    assert "the finished parts stay in" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert len(workers) == 2 * ("--workers" in way)
    assert not any(map(is_alive, workers))
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    parts = {path.name for path in list_parts(folder)}
    left = {name for name in names - parts if not name.startswith(".bertfeat/plan/")}
    if len(way) == 3:  # those who finish the set remove what killed workers were writing; until then others may be
        left = {name for name in left if not name.endswith(".tmp")}
    assert left == {".bertfeat/kind"} | ({".bertfeat/run.json"} if "--join" in way else set())
    assert 5 <= len(parts) < 50
    assert extractor(bert).extract(alone / "c.txt", folder, part_rows=40).kept_parts == len(parts)
    assert made(folder) == made(alone / "out")


def no_large_files() -> None:
    """Let no file become larger than 20 kB, as on a disk that is full."""
    import resource

    local_workers(pytest.MonkeyPatch())
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))


def test_a_disk_that_is_full(bert: Tiny, alone: Path, tmp_path: Path) -> None:
    for way in (["--workers", "2"], ["--join"], ["--join", "--workers", "1"]):
        folder = tmp_path / way[-1]
        more = ["--layers", "all", "--pooling", "token"]
        with start_run(
            *command(bert, alone, folder, *way, *more),
            folder=folder,
            prepare="tests.scale.test_processes:no_large_files",
        ) as run:
            ended = run.wait()
        assert ended.exit_code == 1
        assert "File too large; raise the limit on file sizes, or write smaller parts (--part-rows)" in ended.stderr
        assert not list_parts(folder)
        assert not list(folder.glob("*.tmp")), list(folder.rglob("*"))


def test_errors_are_spelled_as_the_shell_spells_them(bert: Tiny, tmp_path: Path) -> None:
    records: list[Any] = [{"text": text} for text in lines(40)]
    records[25] = {"text": 3}
    corpus = jsonl_file(tmp_path / "c.jsonl", records)
    given = [str(corpus), "-o", str(tmp_path / "out"), *options(bert), "--workers", "2"]
    code, told = fails(*given, "--max-failures", "0")
    assert code == 1
    assert "error: --max-failures 0: a row failed, the last: " in told
    assert "record 26: field 'text' is a number" in told
    given.remove("--allow-failures")
    code, told = fails(*given)
    assert code == 3
    code, told = fails(*given, "--part-rows", "8")
    assert (code, "part_rows: 7 → 8" in told, "--overwrite" in told) == (1, True, True)
    assert parameter("part_rows") == "part_rows"


# ── processes that are not forked ───────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_processes_of_their_own(bert: Tiny, alone: Path, tmp_path: Path) -> None:
    """As the shell starts them: one run is left alone, the other one is ended by Ctrl-C while its workers start."""
    program = [sys.executable, "-c", "from bertfeat.cli import run; run()", "extract"]

    def begin(folder: Path, **more: Any) -> "subprocess.Popen[str]":
        given = command(bert, alone, folder, "--workers", "2", "--json")
        return subprocess.Popen(
            [*program, *given],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **more,
        )

    stopped = begin(tmp_path / "stopped")
    wait_for(lambda: len(children(stopped.pid)) >= 2)
    os.killpg(stopped.pid, signal.SIGINT)
    _, told = stopped.communicate(timeout=60)
    assert stopped.returncode == 130, told
    assert "Traceback" not in told
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    whole = begin(tmp_path / "whole", env=environment)
    output, told = whole.communicate(timeout=120)
    assert whole.returncode == 0, told
    assert json.loads(output)["parts"] == 50
    assert contents(tmp_path / "whole") == contents(alone / "out")

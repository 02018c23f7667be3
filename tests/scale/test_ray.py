"""Ray as the engine, over a cluster of two nodes on this machine, which is started once.

Each run costs seconds, as its actors import torch; so every test has one run, and asks much of it.
"""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bertfeat.core.extraction.agenda import ScanningAgenda
from bertfeat.core.features import check_part, list_parts
from bertfeat.errors import BertfeatError, CorpusError, UsageError, python_spelling
from bertfeat.scale import RayCluster, ray_cluster
from bertfeat.scale.dispatch import Dispatch
from tests.support.runs import extractor, lines, text_file
from tests.support.tiny_models import Tiny
from tests.support.waiting import wait_for
from tests.support.ways import CORPORA, is_alive, kill, made, options

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own

MIXED = ("small and large text", "JSONL", "gzip", "Parquet")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of two nodes, each for one worker."""
    from ray.cluster_utils import Cluster

    nodes = Cluster(
        initialize_head=True,
        connect=False,
        head_node_args={"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80_000_000},
    )
    nodes.add_node(num_cpus=1, object_store_memory=80_000_000)
    yield nodes
    nodes.shutdown()


@pytest.fixture(scope="module")
def mixed(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of all kinds of files, and its features as one process makes them."""
    place = tmp_path_factory.mktemp("mixed")
    for name in MIXED:
        (place / "c" / name).mkdir(parents=True)
        CORPORA[name](place / "c" / name)
    before = Path.cwd()
    os.chdir(place)
    try:
        extractor(tiny("bert")).extract("c", place / "out", part_rows=7)
    finally:
        os.chdir(before)
    return place


def run(bert: Tiny, corpus: Any, folder: str | Path, **more: Any) -> Any:
    """Run in this process, which stays as it is."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        return extractor(bert).extract(corpus, folder, **{"part_rows": 7} | more)
    finally:
        assert signal.getsignal(signal.SIGTERM) is before
        assert not ray.is_initialized()


def start(bert: Tiny, cluster: Any, corpus: Path, folder: Path, *more: str) -> "subprocess.Popen[str]":
    """Start a run as the shell does."""
    program = [sys.executable, "-c", "from bertfeat.cli import run; run()", "extract", str(corpus), "-o", str(folder)]
    way = ["--engine", "ray", "--address", cluster.address, "--quiet", *more]
    command = [*program, *options(bert), *way]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.hostile
def test_two_workers_on_two_nodes(
    bert: Tiny, cluster: Any, mixed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(mixed)  # where the nodes were not started
    shown: list[Any] = []
    engine = RayCluster(cluster.address, workers=2)
    report = run(bert, "c", "../out-of-ray", engine=engine, progress=shown.append)
    assert made(mixed.parent / "out-of-ray") == made(mixed / "out")
    assert (report.failed, report.kept_parts) == (5, 0)
    assert report.computed_tokens == report.counts.tokens
    assert shown[-1].documents == report.counts.documents
    assert shown[-1].fraction == pytest.approx(1.0, abs=0.01)


@pytest.mark.hostile
def test_killed_workers_and_a_lost_node(bert: Tiny, cluster: Any, tmp_path: Path) -> None:
    corpus = text_file(tmp_path / "c.txt", lines(3000))
    extractor(bert).extract(corpus, tmp_path / "alone", part_rows=30)
    lost = cluster.add_node(num_cpus=1, object_store_memory=80_000_000)
    done: list[str] = []

    def harm() -> None:
        workers = set()
        for count in (3, 20):
            wait_for(lambda count=count: len(list_parts(tmp_path / "out")) >= count, 120)  # type: ignore[misc]
            victim = next(pid for pid in actors() if pid not in workers)
            workers.add(victim)
            kill(victim)
        wait_for(lambda: len(list_parts(tmp_path / "out")) >= 40, 120)
        cluster.remove_node(lost, allow_graceful=False)
        done.append("harm")

    thread = threading.Thread(target=harm)
    process = start(bert, cluster, corpus, tmp_path / "out", "--part-rows", "30", "--workers", "3", "--json")
    thread.start()
    output, told = process.communicate(timeout=200)
    thread.join(60)
    assert (process.returncode, done) == (0, ["harm"]), told
    assert json.loads(output)["parts"] == 100  # and nothing else is said there
    assert made(tmp_path / "out") == made(tmp_path / "alone")


def actors() -> list[int]:
    """The processes of the workers, on all nodes."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(b"ray::_RayWorker"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return sorted(found)


@pytest.mark.hostile
def test_an_error_of_a_worker_ends_the_run(
    bert: Tiny, cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = text_file(tmp_path / "c.txt", lines(30))
    finish = ScanningAgenda.finish

    def change(agenda: ScanningAgenda, *arguments: Any) -> None:
        finish(agenda, *arguments)
        text_file(corpus, lines(30, 700))

    monkeypatch.setattr(ScanningAgenda, "finish", change)
    with pytest.raises(CorpusError, match=r"c\.txt: the file has changed since the run began"):
        run(bert, corpus, tmp_path / "out", engine=RayCluster(cluster.address, workers=1))
    wait_for(lambda: not actors(), 20)


@pytest.mark.hostile
def test_a_task_that_kills_its_worker_is_told(cluster: Any) -> None:
    class Deadly:
        """A job whose second task ends the process that does it, as a row that takes all memory would."""

        def open_worker(self, **_: Any) -> Any:
            return self

        def work(self, tasks: Any, done: Any) -> None:
            for task in tasks:
                if task.number == 1:
                    time.sleep(0.5)  # memory fills slowly; the results before it have long been taken
                    os.kill(os.getpid(), 9)
                done(task, task.number)

        def raise_failed_writes(self) -> None:
            pass

        def repeat(self, task: Any) -> Any:
            return task

        def error_of_deaths(self, task: Any, problem: str) -> BertfeatError:
            return BertfeatError(problem, where=f"task {task.number}")

    with pytest.raises(BertfeatError, match=r"^task 1: 3 workers died one after the other"):
        RayCluster(cluster.address, workers=1).run(Deadly(), Numbers())  # type: ignore[arg-type]
    wait_for(lambda: not actors(), 20)


@pytest.mark.hostile
def test_sigterm(bert: Tiny, cluster: Any, tmp_path: Path) -> None:
    corpus = text_file(tmp_path / "c.txt", lines(60_000))
    with start(bert, cluster, corpus, tmp_path / "out", "--workers", "2") as process:
        wait_for(lambda: len(list_parts(tmp_path / "out")) > 5 or process.poll() is not None, 120)
        process.terminate()
        _, told = process.communicate(timeout=60)
    assert process.returncode == 143, told
    assert told.splitlines()[-1] == "terminated"
    assert "Traceback" not in told
    wait_for(lambda: not any(map(is_alive, actors())), 20)
    there = list_parts(tmp_path / "out")
    for path in there:
        check_part(path)
    time.sleep(0.2)
    assert not list((tmp_path / "out").glob("*.tmp"))


def test_a_cluster_that_is_not_there(bert: Tiny, tmp_path: Path) -> None:
    corpus = text_file(tmp_path / "c.txt", lines(3))
    with pytest.raises(BertfeatError, match=r"^address='127\.0\.0\.1:1': the Ray cluster cannot be reached: .*; start"):
        run(bert, corpus, tmp_path / "out", engine=RayCluster("127.0.0.1:1"))
    assert not (tmp_path / "out").exists()
    with pytest.raises(UsageError, match="workers=0: a run has at least one worker"):
        RayCluster(workers=0)


@pytest.mark.hostile
def test_the_head_gone_in_the_middle_is_told_and_the_run_goes_on_elsewhere(bert: Tiny, tmp_path: Path) -> None:
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80_000_000}
    own: Any = Cluster(initialize_head=True, connect=False, head_node_args=head)
    corpus, folder = text_file(tmp_path / "c.txt", lines(60_000)), tmp_path / "out"
    with start(bert, own, corpus, folder, "--workers", "1", "--part-rows", "30") as process:
        wait_for(lambda: len(list_parts(folder)) > 5 or process.poll() is not None, 120)
        for name in ("gcs_server", "raylet"):
            own.head_node.all_processes[name][0].process.kill()
        _, told = process.communicate(timeout=120)
    own.shutdown()
    assert process.returncode == 1, told
    assert "the head of the Ray cluster at" in told
    assert "Traceback" not in told
    for path in list_parts(folder):
        check_part(path)


# ── without a cluster ───────────────────────────────────────────────────────────────────────────────────────


class Told:
    """Stands for the module, and tells what a cluster has."""

    def __init__(self, cores: list[int], gpus: float = 0) -> None:
        self._cores, self._gpus = cores, gpus

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": sum(self._cores)} | ({"GPU": self._gpus} if self._gpus else {})

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": float(count)}} for count in self._cores] + [
            {"Alive": False, "Resources": {"CPU": 64.0}}
        ]


@pytest.mark.parametrize(
    ("engine", "cluster_has", "expected"),
    [
        (RayCluster(), Told([8]), (1, 8, 0)),
        (RayCluster(), Told([8, 8]), (2, 8, 0)),  # one a node, and none that is larger than a node
        (RayCluster(), Told([4, 16]), (2, 8, 0)),
        (RayCluster(), Told([0, 16]), (1, 16, 0)),
        (RayCluster(), Told([]), (1, 1, 0)),
        (RayCluster(workers=2), Told([1, 3]), (2, 1, 0)),  # both find a place
        (RayCluster(workers=4), Told([8, 8]), (4, 4, 0)),
        (RayCluster(workers=3), Told([8, 8]), (3, 4, 0)),
        (RayCluster(workers=9), Told([2, 2]), (9, 1, 0)),  # the cluster may grow
        (RayCluster(cpus_per_worker=3), Told([8, 4]), (3, 3, 0)),
        (RayCluster(cpus_per_worker=0.5), Told([2]), (4, 0.5, 0)),
        (RayCluster(), Told([8, 8], gpus=4), (4, 1, 1)),
        (RayCluster(gpus_per_worker=0.5), Told([8, 8], gpus=2), (4, 1, 0.5)),
        (RayCluster(gpus_per_worker=0), Told([8], gpus=2), (1, 8, 0)),
        (RayCluster(workers=3, gpus_per_worker=1, cpus_per_worker=4), Told([8], gpus=8), (3, 4, 1)),
    ],
)
def test_what_a_worker_gets(engine: RayCluster, cluster_has: Any, expected: tuple[float, ...]) -> None:
    assert engine._resources(cluster_has) == expected


def test_an_actor_that_was_only_out_of_reach_begins_once(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Any] = []

    def serve(job: Any, *, receive: Any, done: Any, **_: Any) -> None:
        begun.append(job)
        while (task := receive(1.0)) is not None:
            done(task, task.number)
            done(task, task.number)  # twice, since it was given to it again

    class Task:
        number = 7

    monkeypatch.setattr(ray_cluster, "serve_tasks", serve)
    worker: Any = ray_cluster._RayWorker()
    for _ in range(3):
        worker.start("job", None, None, python_spelling)
    assert [worker.do(Task()), worker.do(Task())] == [7, 7]
    assert begun == ["job"]


class DyingAtStart:
    """Stands for the module: some of its actors die at each start, the others do all that they are given."""

    class exceptions:  # noqa: N801
        class RayError(Exception):
            pass

        class RayActorError(RayError):
            pass

        class RayTaskError(RayError):
            pass

    def __init__(self, dead: set[int]) -> None:
        self._dead, self._made = dead, 0
        self.starts: Counter[int] = Counter()
        self.killed: list[int] = []

    def put(self, job: Any) -> Any:
        return job

    def remote(self, **_: Any) -> Callable[[type], Any]:
        return lambda _class: SimpleNamespace(remote=self._actor)

    def _actor(self) -> Any:
        number, self._made = self._made, self._made + 1
        start = SimpleNamespace(remote=lambda *_: ("start", number, object()))
        do = SimpleNamespace(remote=lambda task, _after: ("do", task.number, object()))
        return SimpleNamespace(number=number, start=start, do=do)

    def wait(self, futures: list[Any], **_: Any) -> tuple[list[Any], list[Any]]:
        return futures[:1], futures[1:]

    def get(self, future: Any) -> Any:
        kind, what, _ = future
        if kind == "start":
            self.starts[what] += 1
            if what in self._dead:
                raise self.exceptions.RayActorError
        return what

    def kill(self, actor: Any) -> None:
        self.killed.append(actor.number)


class Numbers:
    """Tasks and their agenda in one: three numbers."""

    def __init__(self) -> None:
        self._left, self.results = [0, 1, 2], list[int]()

    @property
    def done(self) -> bool:
        return len(self.results) == 3

    def take(self) -> Any:
        return SimpleNamespace(number=self._left.pop()) if self._left else None

    def finish(self, task: Any, result: Any) -> None:
        del result
        self.results.append(task.number)


@pytest.mark.parametrize("dead", [{0}, {0, 1}])
def test_an_actor_that_dies_at_each_start_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, dead: set[int]
) -> None:
    now = itertools.count(step=30.0)
    monkeypatch.setattr(ray_cluster, "time", SimpleNamespace(monotonic=lambda: next(now)))
    monkeypatch.setattr(ray_cluster, "wait_a_moment", lambda: None)
    module, agenda, job = DyingAtStart(dead), Numbers(), SimpleNamespace()
    crew: Any = ray_cluster._Crew(module, job, 2, 1.0, 0.0)
    work = (Dispatch(job, agenda), threading.Event(), ray_cluster.HeadWatch(None))
    if dead == {0}:
        crew.work(*work)
        assert sorted(agenda.results) == [0, 1, 2]
    else:
        with pytest.raises(
            BertfeatError, match=r"died at each of its starts for 120 s \(RayActorError\).*no other; see"
        ):
            crew.work(*work)
        assert "the others go on without it" in caplog.text
        assert module.killed == [0, 1]
    assert all(module.starts[number] < 12 for number in dead)


def test_a_head_out_of_reach_for_a_while_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("bertfeat.scale.ray_cluster.time.monotonic", lambda: now[0])
    with socket.create_server(("127.0.0.1", 0)) as server:
        watch = ray_cluster.HeadWatch(f"127.0.0.1:{server.getsockname()[1]}")
        now[0] = 100.0
        watch.check()
    for now[0] in (110.0, 120.0, 139.0):
        watch.check()
    now[0] = 145.0
    with pytest.raises(
        BertfeatError, match=r"the head of the Ray cluster at 127.* is gone: .*; start the cluster again"
    ):
        watch.check()
    ray_cluster.HeadWatch(None).check()  # ray:// tells no address

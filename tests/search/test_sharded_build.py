"""Builds by several processes: the index of one process, byte for byte, and no index at all where one fails."""

import multiprocessing
import pickle
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertfeat.core.corpus import KeptColumn
from bertfeat.core.engine import Agenda, Job, ResultT, TaskT
from bertfeat.core.io import Address, list_files
from bertfeat.errors import BertfeatError, IndexFolderError, StorageError, UsageError
from bertfeat.scale import Processes, RayCluster
from bertfeat.search import (
    BuildOptions,
    IndexSettings,
    Metric,
    VectorIndex,
    build_index,
    verify_index,
)
from bertfeat.search.building import feature_source
from bertfeat.search.building.feature_source import SourcePart, SourceRows, plan_shards
from bertfeat.search.building.sharded_build import ShardJob
from bertfeat.search.document_store import IndexStoresWriter
from tests.support.features_toy import toy_parts, toy_set
from tests.support.index_toy import clustered, current_files, files_of, neighbors, vector_set
from tests.support.s3_server import Faults, S3Server

YEAR = KeptColumn("year", "int64")
WIDTH = 16
FEW = ["flat", "ivf on disk", "ivfpq", "PCAW8,L2norm,IVF7,Flat"]
TYPES = ["flat", "ivf", "ivf on disk", "sq8", "ivfpq", "IVF7,SQ8", "PCA8,Flat", "PCAW8,L2norm,IVF7,Flat", "PQ4np"]


class Here:
    """An engine of workers in this process: jobs, tasks and results are pickled, and come back in any order."""

    def __init__(self, workers: int = 2, seed: int = 0) -> None:
        self.workers, self.random = workers, random.Random(seed)
        self.before: Callable[[Any], Any] = lambda job: job
        self.tasks: list[Any] = []

    def run(self, job: Job[TaskT, ResultT], agenda: Agenda[TaskT, ResultT]) -> None:
        copies = [pickle.loads(pickle.dumps(self.before(job))) for _ in range(self.workers)]
        workers = [copy.open_worker(device=None, threads=1) for copy in copies]
        while (task := agenda.take()) is not None:
            self.tasks.append(task)
        assert agenda.done
        for task in self.random.sample(self.tasks, len(self.tasks)):
            results: list[ResultT] = []
            worker = self.random.choice(workers)
            worker.work(iter([pickle.loads(pickle.dumps(task))]), lambda _task, made, to=results: to.append(made))
            (result,) = results
            agenda.finish(task, pickle.loads(pickle.dumps(result)))


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a shard have 200 vectors at least; the workers do not plan."""
    monkeypatch.setattr(feature_source, "LEAST_BYTES", 200 * WIDTH * 4)


@pytest.fixture
def vectors() -> np.ndarray[Any, np.dtype[np.float32]]:
    made = clustered(900, WIDTH)
    made[[5, 700]] = 0
    return made


@pytest.fixture
def sets(tmp_path: Path, vectors: np.ndarray[Any, np.dtype[np.float32]]) -> list[Path]:
    """Two sets, of which one keeps years, in parts of unequal size."""
    years = {YEAR: [1900 + row % 70 for row in range(600)]}
    vector_set(tmp_path / "a.features", vectors[:600], kept=years, parts=7)
    vector_set(tmp_path / "b.features", vectors[600:], ids=[f"b{row}" for row in range(300)], parts=2)
    return [tmp_path / "a.features", tmp_path / "b.features"]


def build(sets: Any, folder: Path, type_: str = "ivf", metric: str = "cosine", **more: Any) -> IndexSettings:
    memory = 20_000 if type_ == "ivf on disk" else None
    options = BuildOptions(type=type_.removesuffix(" on disk"), metric=Metric(metric), memory=memory)
    return build_index(sets, folder, options=options, **more)


def without_times(settings: IndexSettings) -> IndexSettings:
    """The settings that are equal, however an index was built, whenever, and how often in its folder."""
    judged = settings.evaluation
    if judged is not None:
        judged = replace(judged, queries_per_second=0, exact_queries_per_second=0, threads=0)
    return replace(settings, seconds={}, evaluation=judged, version="version-1")


def check_same(folder: Path, right: Path, settings: IndexSettings, wanted: IndexSettings) -> None:
    assert current_files(folder) == current_files(right)
    assert without_times(settings) == without_times(wanted)


# ── the plan ────────────────────────────────────────────────────────────────────────────────────────────────


def parts_of(*counts: int, features: int = 0) -> list[SourcePart]:
    ends = np.cumsum(counts).tolist()
    return [SourcePart(features, end - n, end, n, n) for n, end in zip(counts, ends, strict=True)]


def test_shards_are_whole_parts_in_order() -> None:
    parts = [*parts_of(90, 100, 0, 250, 10), *parts_of(5, 0, features=1)]
    shards = plan_shards(parts, WIDTH)
    assert [(shard.number, shard.first_vector, shard.vectors, shard.rows) for shard in shards] == [
        (0, 0, 190, (SourceRows(0, 0, 190),)),
        (1, 190, 250, (SourceRows(0, 190, 440),)),
        (2, 440, 15, (SourceRows(0, 440, 450), SourceRows(1, 0, 5))),
    ]
    assert [shard.first_document for shard in shards] == [0, 190, 440]


def test_a_shard_has_vectors_where_there_are_any() -> None:
    shards = plan_shards(parts_of(0, 0, 500, 0, 500, 0), WIDTH)
    assert [(shard.vectors, shard.rows) for shard in shards] == [
        (500, (SourceRows(0, 0, 500),)),
        (500, (SourceRows(0, 500, 1000),)),
    ]
    assert [shard.vectors for shard in plan_shards(parts_of(0, 0), WIDTH)] == [0]
    assert plan_shards([], WIDTH) == ()


def test_the_size_of_shards_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    million = plan_shards(parts_of(*[10_000] * 100), 384)
    assert all(shard.vectors * 384 * 4 <= feature_source.LEAST_BYTES for shard in million)
    assert len(million) == 17
    many = plan_shards(parts_of(*[16_384] * 61_036), 384)  # 10⁹ vectors
    assert all(shard.vectors * 384 * 4 <= feature_source.MOST_BYTES for shard in many)
    assert sum(shard.vectors for shard in many) == 16_384 * 61_036
    assert len(many) < 1500


# ── the index ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(1, 4)
@pytest.mark.parametrize(
    ("type_", "metric"),
    [
        *((type_, "cosine") for type_ in FEW),
        *(pytest.param(type_, "cosine", marks=pytest.mark.slow) for type_ in TYPES if type_ not in FEW),
        *(pytest.param(type_, "l2", marks=pytest.mark.slow) for type_ in TYPES),
    ],
)
def test_it_is_the_index_of_one_process(type_: str, metric: str, sets: list[Path], tmp_path: Path) -> None:
    wanted = build(sets, tmp_path / "one.index", type_, metric)
    engine = Here()
    settings = build(sets, tmp_path / "many.index", type_, metric, engine=engine)
    assert len(engine.tasks) >= 4
    check_same(tmp_path / "many.index", tmp_path / "one.index", settings, wanted)
    assert verify_index(tmp_path / "many.index").vectors == 900
    assert settings.zero_vectors == 2
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["cosine", "ip", "l2"])
@pytest.mark.parametrize("type_", ["flat", "ivf", "ivf on disk"])
def test_exhaustive_probing_finds_what_numpy_finds(
    type_: str, metric: str, sets: list[Path], vectors: np.ndarray[Any, np.dtype[np.float32]], tmp_path: Path
) -> None:
    build(sets, tmp_path / "toy.index", type_, metric, engine=Here(3))
    index, queries = VectorIndex(tmp_path / "toy.index"), clustered(20, WIDTH, seed=7)
    found = index.search(queries, 10, search_parameter=10_000)
    scores, numbers = neighbors(vectors, queries, metric)
    np.testing.assert_allclose(found.scores, scores[:, :10], rtol=1e-4, atol=1e-5)
    assert (found.numbers == numbers[:, :10]).mean() > 0.99  # but for ties in the last digit
    assert index.documents.take(np.array([0, 599, 600, 899]))["id"].to_pylist() == ["1", "600", "b0", "b299"]


@pytest.mark.slow
def test_the_number_and_order_of_workers_change_nothing(sets: list[Path], tmp_path: Path) -> None:
    wanted = build(sets, tmp_path / "one.index", engine=Here(1))
    for seed, workers in enumerate((1, 2, 3, 5), 1):
        settings = build(sets, tmp_path / "other.index", engine=Here(workers, seed))
        check_same(tmp_path / "other.index", tmp_path / "one.index", settings, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("size", [100, 10**9])
def test_the_size_of_shards_changes_nothing(
    size: int, sets: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = build(sets, tmp_path / "one.index", engine=Here())
    monkeypatch.setattr(feature_source, "LEAST_BYTES", size)
    settings = build(sets, tmp_path / "other.index", engine=Here())
    check_same(tmp_path / "other.index", tmp_path / "one.index", settings, wanted)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("column", ["concat4_word", "sum4_token", "last_mean"])
@pytest.mark.parametrize("keep_text", [True, False])
def test_tokens_words_and_derived_columns(
    column: str, keep_text: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature_source, "LEAST_BYTES", 1)
    sets = [toy_set(tmp_path / "a.features"), toy_set(tmp_path / "b.features", *toy_parts(pairs=True))]
    options = BuildOptions(keep_text=keep_text)
    wanted = build_index(sets, tmp_path / "one.index", column, options=options)
    engine = Here()
    settings = build_index(sets, tmp_path / "many.index", column, options=options, engine=engine)
    assert len(engine.tasks) == 6
    assert settings.skipped == wanted.skipped
    check_same(tmp_path / "many.index", tmp_path / "one.index", settings, wanted)
    verify_index(tmp_path / "many.index")


@pytest.mark.slow
def test_progress_goes_on_to_the_end(sets: list[Path], tmp_path: Path) -> None:
    steps: list[Any] = []
    build(sets, tmp_path / "toy.index", engine=Here(), progress=steps.append)
    assert list(dict.fromkeys(step.step for step in steps)) == ["sample", "train", "add", "evaluate", "write"]
    added = [step.done for step in steps if step.step == "add"]
    assert added == sorted(added)
    assert (added[0], added[-1]) == (0, 900)


# ── real processes ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_worker_processes(sets: list[Path], tmp_path: Path) -> None:
    wanted = build(sets, tmp_path / "one.index")
    settings = build(sets, tmp_path / "many.index", engine=Processes(2))
    check_same(tmp_path / "many.index", tmp_path / "one.index", settings, wanted)


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("type_", ["flat", "ivf", "ivf on disk", "ivfpq"])
def test_one_and_three_processes(type_: str, sets: list[Path], tmp_path: Path) -> None:
    wanted = build(sets, tmp_path / "one.index", type_)
    for workers in (1, 3):
        settings = build(sets, tmp_path / "many.index", type_, engine=Processes(workers))
        check_same(tmp_path / "many.index", tmp_path / "one.index", settings, wanted)


@pytest.mark.hostile
def test_workers_on_ray(sets: list[Path], tmp_path: Path) -> None:
    wanted = build(sets, tmp_path / "one.index")
    settings = build(sets, tmp_path / "many.index", engine=RayCluster(workers=2, gpus_per_worker=0))
    check_same(tmp_path / "many.index", tmp_path / "one.index", settings, wanted)


@pytest.mark.slow
def test_the_shard_of_a_killed_worker_is_filled_again(sets: list[Path], tmp_path: Path) -> None:
    wanted = build(sets, tmp_path / "one.index")
    killed: list[Any] = []

    def kill(progress: Any) -> None:
        if progress.step == "add" and progress.done and len(killed) < 2:
            killed.append(multiprocessing.active_children()[0])
            killed[-1].kill()

    settings = build(sets, tmp_path / "many.index", engine=Processes(2), progress=kill)
    assert len(killed) == 2
    check_same(tmp_path / "many.index", tmp_path / "one.index", settings, wanted)


BUILD = """
import sys
from bertfeat.scale import Processes
from bertfeat.search import build_index
from bertfeat.search.building import feature_source
feature_source.LEAST_BYTES = 200 * 16 * 4
def stop(progress):
    if progress.step == "add" and progress.done:
        print("here", flush=True)
        sys.stdin.read()
if __name__ == "__main__":
    build_index(sys.argv[1], sys.argv[2], progress=stop, engine=Processes(2), overwrite=True)
"""


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_build_leaves_the_old_index_and_no_workers(
    number: signal.Signals, sets: list[Path], tmp_path: Path
) -> None:
    build(sets[1], tmp_path / "toy.index", "flat")
    before, whole = current_files(tmp_path / "toy.index"), files_of(tmp_path / "toy.index")
    script = tmp_path / "run.py"
    script.write_text(BUILD)
    arguments = [sys.executable, *map(str, (script, sets[0], tmp_path / "toy.index"))]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"here\n"
        workers = _children(run.pid)
        assert len(workers) >= 2
        run.send_signal(number)
        run.communicate()
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{worker}/exe").exists() for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{worker}/exe").exists() for worker in workers)
    assert current_files(tmp_path / "toy.index") == before
    assert number != signal.SIGINT or files_of(tmp_path / "toy.index") == whole
    settings = build(sets, tmp_path / "toy.index", engine=Here())
    assert settings.count == 900
    assert sorted(path.name for path in (tmp_path / "toy.index").iterdir()) == [".bertfeat", "version-2"]
    assert list(tmp_path.glob(".*")) == []


def _children(pid: int) -> list[int]:
    told = subprocess.run(["ps", "--ppid", str(pid), "-o", "pid="], capture_output=True, text=True, check=False)
    return [int(word) for word in told.stdout.split()]


# ── failures ────────────────────────────────────────────────────────────────────────────────────────────────


def check_refused(sets: Any, tmp_path: Path, error: type[BertfeatError], message: str, **more: Any) -> None:
    """A build fails, and leaves the index that was there before, and nothing else."""
    there = sorted(path.name for path in tmp_path.iterdir())
    vector_set(tmp_path / "old.features", clustered(30, WIDTH))
    build(tmp_path / "old.features", tmp_path / "toy.index", "flat")
    before = files_of(tmp_path / "toy.index")
    with pytest.raises(error, match=message):
        build(sets, tmp_path / "toy.index", overwrite=True, **more)
    assert files_of(tmp_path / "toy.index") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted({*there, "old.features", "toy.index"})


def test_a_vector_that_is_not_finite_is_named(tmp_path: Path) -> None:
    bad = clustered(600, WIDTH)
    bad[450, 3] = np.nan
    vector_set(tmp_path / "bad.features", bad, parts=6)
    check_refused(tmp_path / "bad.features", tmp_path, IndexFolderError, "vector 450 is not finite", engine=Here())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("type_", ["hnsw", "IVF7,PQ4x4fs", "IVF7,PQ4+8", "Flat,RFlat", "HNSW8,SQ8"])
def test_types_that_cannot_be_divided_are_refused(type_: str, sets: list[Path], tmp_path: Path) -> None:
    message = f"an index of type {re.escape(type_.replace('hnsw', 'HNSW32'))} is built by one process: it cannot be put"
    check_refused(sets, tmp_path, UsageError, message, type_=type_, metric="l2", engine=Here())


def test_a_set_that_is_another_one_for_the_workers(sets: list[Path], tmp_path: Path) -> None:
    def exchange(job: ShardJob) -> ShardJob:
        return replace(job, sources=(replace(job.sources[0], digest="another"), job.sources[1]))

    engine = Here()
    engine.before = exchange
    message = rf"{re.escape(str(sets[0]))}: a worker finds another feature set here"
    check_refused(sets, tmp_path, IndexFolderError, message, engine=engine)


def test_a_folder_that_workers_do_not_see(sets: list[Path], tmp_path: Path) -> None:
    engine = Here()
    engine.before = lambda job: replace(job, folder=tmp_path / "nowhere")
    message = r"nowhere: a worker does not see this folder, where shards are to be written \(No such file.*by scratch"
    check_refused(sets, tmp_path, IndexFolderError, message, engine=engine)


def test_a_shard_with_other_vectors_than_were_planned(sets: list[Path], tmp_path: Path) -> None:
    class Short(Here):
        def run(self, job: Any, agenda: Any) -> None:
            agenda._left[1] = replace(agenda._left[1], vectors=3)
            super().run(job, agenda)

    check_refused(sets, tmp_path, IndexFolderError, "3 vectors were announced, but .* came", engine=Short())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("type_", ["flat", "ivf", "ivf on disk"])
def test_a_shard_that_is_cut_off(type_: str, sets: list[Path], tmp_path: Path) -> None:
    class Cutting(Here):
        def run(self, job: Any, agenda: Any) -> None:
            super().run(job, agenda)
            path = job.folder / "shard-00002"
            path.write_bytes(path.read_bytes()[:-500])

    error = IndexFolderError if type_ == "flat" else StorageError
    check_refused(
        sets, tmp_path, error, "announced|shard-00002: this shard cannot be read", type_=type_, engine=Cutting()
    )


def test_documents_that_cannot_be_written_end_the_build(
    sets: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Waiting(Here):
        def run(self, job: Any, agenda: Any) -> None:
            agenda._documents.exception()  # until the thread has ended
            super().run(job, agenda)

    def fail(self: IndexStoresWriter, block: Any) -> None:
        raise StorageError("the disk is full")

    engine = Waiting()
    with monkeypatch.context() as patch:
        patch.setattr(IndexStoresWriter, "write", fail)
        with pytest.raises(StorageError, match="the disk is full"):
            build(sets, tmp_path / "toy.index", engine=engine)
    assert engine.tasks == []
    assert not (tmp_path / "toy.index").exists()


def test_three_deaths_over_one_shard(sets: list[Path], tmp_path: Path) -> None:
    class Deadly(Here):
        def run(self, job: Any, agenda: Any) -> None:
            task = agenda.take()
            assert job.repeat(task) == task
            raise job.error_of_deaths(task, "3 workers died")

    message = "shard 0 of the index: 3 workers died; if memory ran out, use fewer workers"
    check_refused(sets, tmp_path, BertfeatError, message, engine=Deadly())


# ── addresses ───────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_in_memory_is_not_seen_by_others(sets: list[Path], tmp_path: Path) -> None:
    there = Address.parse("memory://sharded/toy.features")
    vector_set(there, clustered(300, WIDTH))
    assert build(there, tmp_path / "one.index").count == 300
    message = "memory://sharded.*: other processes do not see what is in the memory of this one; leave out the workers"
    check_refused(there, tmp_path, UsageError, message, engine=Here())
    check_refused(sets, tmp_path, UsageError, message, engine=Here(), scratch="memory://sharded/tmp")


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("type_", ["flat", "ivf", "ivf on disk"])
def test_sets_and_shards_in_a_bucket(type_: str, bucket: Address, tmp_path: Path) -> None:
    sets = [bucket / "a.features", bucket / "b.features"]
    for seed, place in enumerate(sets):
        vector_set(place, clustered(500, WIDTH, seed=seed), parts=4)
    wanted = build(sets, tmp_path / "one.index", type_)
    settings = build(sets, tmp_path / "many.index", type_, engine=Here(), scratch=bucket / "tmp")
    check_same(tmp_path / "many.index", tmp_path / "one.index", settings, wanted)
    assert [source.path for source in settings.sources] == [str(place) for place in sets]
    assert list_files(bucket / "tmp") == []


@pytest.mark.slow
def test_processes_over_a_bucket(bucket: Address, tmp_path: Path) -> None:
    vector_set(bucket / "a.features", clustered(500, WIDTH), parts=4)
    wanted = build(bucket / "a.features", tmp_path / "one.index")
    settings = build(str(bucket / "a.features"), tmp_path / "many.index", engine=Processes(2), scratch=f"{bucket}/tmp")
    check_same(tmp_path / "many.index", tmp_path / "one.index", settings, wanted)
    assert list_files(bucket / "tmp") == []


@pytest.mark.slow
def test_a_bucket_that_goes_away(
    bucket: Address, s3: S3Server, sets: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTFEAT_STORAGE_TIMEOUT", "0.2")
    with s3.harmed(Faults(down=True, names="shard-00001")):
        check_refused(sets, tmp_path, StorageError, "shard-00001", engine=Here(), scratch=bucket / "tmp")
    assert list_files(bucket / "tmp") == []


@pytest.mark.slow
def test_a_scratch_folder_keeps_what_others_put_there(sets: list[Path], tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch/thesis.txt").write_text("irreplaceable")
    build(sets, tmp_path / "toy.index", engine=Here(), scratch=tmp_path / "scratch")
    assert [path.name for path in (tmp_path / "scratch").rglob("*")] == ["thesis.txt"]

"""A build by several processes: workers fill shards of a trained index, which are then merged in their order.

The process of the run trains the index, writes the documents while the workers fill shards, merges the shards and
measures recall. A worker opens the same feature sets and fills shards with the vectors of whole parts.
"""

import logging
import secrets
import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bertfeat.core import (
    Address,
    ContextPool,
    Engine,
    FeatureSet,
    Location,
    SpanRule,
    create_file,
    open_file,
    prefetched,
    read_file,
    remove_stored_folder,
    storage_errors,
)
from bertfeat.errors import BertfeatError, IndexFolderError, StorageError, UsageError, parameter
from bertfeat.search.building.feature_source import FeatureSource, PlannedShard, describe_source_set
from bertfeat.search.building.filling import Filling, ShardBuilder, check_complete, fill_index, merge_shards
from bertfeat.search.evaluation.recall import ExactSearch, RecallQueries
from bertfeat.search.settings import REBUILD, SourceSet
from bertfeat.search.vectors.faiss_import import FaissIndex, Scored, faiss, faiss_errors
from bertfeat.search.vectors.faiss_index import copy_to_cpu, copy_to_gpu, count_faiss_threads, write_faiss_index
from bertfeat.search.vectors.faiss_transforms import judged_transform
from bertfeat.search.vectors.metric import Metric
from bertfeat.search.vectors.token_encoding import TokenEncoding

_log = logging.getLogger("bertfeat")
_FETCHED = 16 << 20  # bytes of a file that are fetched at once
_TRAINED = "trained"  # the file in the shards' folder that holds the index as it was trained, without vectors


@dataclass(frozen=True, slots=True)
class Workers:
    """The engine that fills the shards of an index, and the place where they are written."""

    engine: Engine
    scratch: Location | None = None  # None: beside the new index

    def check(self, sources: Sequence[Location]) -> None:
        """Refuse feature sets, and a place for the shards, that other processes cannot see."""
        for place in (*sources, *filter(None, [self.scratch])):
            if isinstance(place, Address) and place.scheme == "memory":
                raise UsageError(
                    "other processes do not see what is in the memory of this one",
                    where=place,
                    remedy="leave out the workers",
                )


@dataclass(frozen=True, slots=True)
class _FilledShard:
    """The result of filling a shard, whose file is at its final place."""

    zero_vectors: int
    found: Scored | None  # the nearest that exact search finds among its vectors, [Q, K]
    thread_seconds: float  # of exact search: seconds times threads


@dataclass(frozen=True, slots=True)
class ShardJob:
    """The description of a build that its workers need."""

    sets: tuple[Location, ...]
    sources: tuple[SourceSet, ...]  # the same sets as they were when the build began
    column: str
    spans: SpanRule | None  # that cuts the texts
    encoding: TokenEncoding | None
    metric: Metric
    preparation: Metric  # for which vectors are prepared before FAISS gets them
    folder: Location  # of the shards
    count: int  # of all vectors
    asked: RecallQueries | None  # queries of exact search; None where it is not needed

    def open_worker(self, *, device: str | None, threads: int | None) -> "_ShardWorker":
        """Open a worker, in another process than the build's."""
        if threads is not None:
            faiss.omp_set_num_threads(threads)
        return _ShardWorker(self, device)

    def threads_in_use(self) -> int:
        """Return the number of threads with which FAISS computes in this process."""
        return count_faiss_threads()

    def repeat(self, task: PlannedShard) -> PlannedShard:
        """The shard for another worker, which fills it anew."""
        return task

    def error_of_deaths(self, task: PlannedShard, problem: str) -> BertfeatError:
        """The error for a shard on which one worker after another died."""
        return BertfeatError(
            problem, where=f"shard {task.number} of the index", remedy="if memory ran out, use fewer workers"
        )


def fill_by_workers(workers: Workers, index: FaissIndex, filling: Filling) -> tuple[FaissIndex, int]:
    """Fill a trained index in shards, by other processes; returns it on the CPU, with the number of zero vectors."""
    source, exact, index = filling.source, filling.exact, copy_to_cpu(index)
    with _scratch_folder(workers.scratch, filling.folder) as place:
        with create_file(place / _TRAINED) as trained:
            write_faiss_index(index, trained.path)
        job = ShardJob(
            sets=tuple(features.folder.absolute() for features in source.sets),
            sources=tuple(map(describe_source_set, source.sets)),
            column=source.column.name,
            spans=source.spans,
            encoding=source.encoding,
            metric=filling.options.metric,
            preparation=filling.options.preparation,
            folder=place,
            count=source.count,
            asked=exact.asked if exact else None,
        )
        with _documents_written(filling) as documents:
            agenda = _ShardAgenda(filling, documents)
            workers.engine.run(job, agenda)
        files = (_local_shard_file(_shard_place(place, shard), filling.folder) for shard in source.shards)
        merge_shards(index, files, filling.folder, source.count, on_disk=filling.choice.on_disk)
    return index, agenda.zero_vectors


class _ShardAgenda:
    """The shards to be filled; sums up their results, and raises an error of the thread that writes documents."""

    def __init__(self, filling: Filling, documents: "Future[None]") -> None:
        self._left, self._documents = deque(filling.source.shards), documents
        self._exact, self._report = filling.exact, filling.done
        self._vectors = self.zero_vectors = 0

    @property
    def done(self) -> bool:
        """Whether every shard was handed out."""
        return not self._left

    def take(self) -> PlannedShard | None:
        """The next shard."""
        if self._documents.done():
            self._documents.result()  # which raises its error
        return self._left.popleft() if self._left else None

    def finish(self, task: PlannedShard, result: _FilledShard) -> None:
        """Take in the result of a shard, whose file is at its final place."""
        self.zero_vectors += result.zero_vectors
        if self._exact is not None and result.found is not None:
            self._exact.take_in(result.found, result.thread_seconds / count_faiss_threads())
        self._vectors += task.vectors
        self._report(self._vectors)


@contextmanager
def _documents_written(filling: Filling) -> "Iterator[Future[None]]":
    """Write the documents on a thread while the ``with`` block runs; when it ends, all are written."""
    stop = threading.Event()

    def write() -> None:
        for block in filling.source.document_blocks():
            if stop.is_set():
                return
            filling.keep(block)

    with ContextPool(1, "bertfeat-documents") as pool:
        documents = pool.submit(copy_context().run, write)
        try:
            yield documents
            documents.result()
        except BaseException:
            stop.set()
            raise


@contextmanager
def _scratch_folder(scratch: Location | None, folder: Path) -> Iterator[Location]:
    """An empty folder for this build alone, so that workers of a dead build do no harm; removed at the end."""
    place = (folder if scratch is None else scratch.absolute()) / f"bertfeat-shards-{secrets.token_hex(4)}"
    if isinstance(place, Path):
        with storage_errors(place.parent):
            place.mkdir(parents=True)
    try:
        yield place
    finally:
        try:
            remove_stored_folder(place)
        except StorageError as error:  # the index is complete without this
            _log.warning("%s", error)


class _ShardWorker:
    """Fills shards, one after another. Memory: the trained index, a shard, and three blocks of vectors."""

    def __init__(self, job: ShardJob, device: str | None) -> None:
        self._job = job
        sets = []
        for place, source in zip(job.sets, job.sources, strict=True):
            sets.append(FeatureSet(place))
            if describe_source_set(sets[-1]).digest != source.digest:
                raise IndexFolderError(
                    "a worker finds another feature set here than the one that the index is to be built of", where=place
                )
        self._source = FeatureSource(sets, job.column, job.spans, job.encoding, keep_text=False)
        self._index = copy_to_gpu(_read_trained(job.folder), device)

    def work(self, tasks: Iterator[PlannedShard], done: Callable[[PlannedShard, _FilledShard], None]) -> None:
        """Fill the shards; ``done`` gets the result of each once its file is at its final place."""
        for task in tasks:
            done(task, self._fill(task))

    def raise_failed_writes(self) -> None:
        """Do nothing: a shard is written before the next one begins."""

    def _fill(self, shard: PlannedShard) -> _FilledShard:
        job, exact = self._job, None
        if job.asked is not None:
            exact = ExactSearch(job.asked, job.metric, job.count, judged_transform(self._index))
        self._index.reset()
        builder = ShardBuilder(self._index, shard.first_vector)
        blocks = prefetched(self._source.blocks(documents=False, shards=[shard]), join=True)
        zero = fill_index(builder, blocks, job.preparation, lambda _count: None, exact, first=shard.first_vector)
        check_complete(builder.ntotal, shard.vectors)
        # if another worker was first, its file has the same vectors
        with create_file(_shard_place(job.folder, shard), if_absent=True) as new:
            builder.write(new.path)
        found, seconds = exact.found if exact else (None, 0.0)
        return _FilledShard(zero, found, seconds * count_faiss_threads())


def _read_trained(folder: Location) -> FaissIndex:
    place = folder / _TRAINED
    try:
        content = np.frombuffer(read_file(place), np.uint8)
    except OSError as error:
        raise IndexFolderError(
            f"a worker does not see this folder, where shards are to be written ({error.strerror or error})",
            where=folder,
            remedy=f"name one that all machines see, or an address, by {parameter('scratch')}",
        ) from error
    with faiss_errors(IndexFolderError, "FAISS cannot read this file", REBUILD, where=place):
        index: FaissIndex = faiss.deserialize_index(content)
        return index


def _shard_place(folder: Location, shard: PlannedShard) -> Location:
    return folder / f"shard-{shard.number:05d}"


def _local_shard_file(place: Location, folder: Path) -> Path:
    """The file of a shard on this machine; downloaded if it is at an address."""
    if isinstance(place, Path):
        return place
    path = folder / place.name
    with open_file(place) as file, storage_errors(folder), path.open("wb") as copy:
        shutil.copyfileobj(file, copy, _FETCHED)
    return path

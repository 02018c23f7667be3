"""A build by several processes: each fills shards of the trained index, which are then put together in their order.

The run's process trains, writes the documents meanwhile, puts the shards together and judges the index.
"""

import logging
import secrets
import shutil
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path

from bertfeat.engine import Engine
from bertfeat.errors import StorageError, UsageError
from bertfeat.io import (
    Address,
    ContextPool,
    Location,
    create_file,
    open_file,
    remove_stored_folder,
    storage_errors,
)
from bertfeat.search.building.filling import Filling
from bertfeat.search.building.shard_files import merge_shards
from bertfeat.search.building.shard_plan import PlannedShard
from bertfeat.search.building.shard_worker import TRAINED_NAME, FilledShard, ShardJob, shard_place
from bertfeat.search.source_sets import describe_source_set
from bertfeat.search.vectors.faiss_import import FaissIndex
from bertfeat.search.vectors.faiss_index import copy_to_cpu, count_faiss_threads, write_faiss_index

_log = logging.getLogger("bertfeat")
_FETCHED = 16 << 20  # bytes of a file that are fetched at once


@dataclass(frozen=True, slots=True)
class Workers:
    """The engine that fills the shards of an index, and the place where they are written."""

    engine: Engine
    scratch: Location | None = None  # None: beside the new index

    def check(self, sources: Sequence[Location]) -> None:
        """Refuse what other processes cannot see.

        Raises:
            UsageError: a feature set, or the place of the shards, is in this process's memory.
        """
        for place in (*sources, *filter(None, [self.scratch])):
            if isinstance(place, Address) and place.scheme == "memory":
                raise UsageError(
                    "other processes do not see what is in the memory of this one",
                    where=place,
                    remedy="leave out the workers",
                )


def fill_by_workers(workers: Workers, index: FaissIndex, filling: Filling) -> tuple[FaissIndex, int]:
    """Fill a trained index in shards, by other processes.

    Returns:
        It on the CPU, and how many zero vectors there are.

    Raises:
        BertfeatError: of a worker, or the engine is not to be had.
        StorageError: the shards cannot be written.
    """
    source, index = filling.source, copy_to_cpu(index)
    with _scratch_folder(workers.scratch, filling.folder) as place:
        with create_file(place / TRAINED_NAME) as trained:
            write_faiss_index(index, trained.path)
        with _documents_written(filling) as documents:
            agenda = _ShardAgenda(filling, documents)
            workers.engine.run(_job_of(filling, place), agenda)
        files = (_fetched(shard_place(place, shard), filling.folder) for shard in source.shards)
        merge_shards(index, files, filling.folder, source.count, on_disk=filling.choice.on_disk)
    return index, agenda.zero_vectors


def _job_of(filling: Filling, place: Location) -> ShardJob:
    source, exact = filling.source, filling.exact
    return ShardJob(
        sets=tuple(features.folder.absolute() for features in source.sets),
        sources=tuple(map(describe_source_set, source.sets)),
        column=source.column.name,
        metric=filling.options.metric,
        preparation=filling.options.preparation,
        folder=place,
        count=source.count,
        asked=exact.asked if exact else None,
    )


class _ShardAgenda:
    """Shards to be filled. What they give is summed up; the writing of documents, which goes on, is looked after."""

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

    def finish(self, task: PlannedShard, result: FilledShard) -> None:
        """Note a shard that is in its place."""
        self.zero_vectors += result.zero_vectors
        if self._exact is not None and result.found is not None:
            self._exact.take_in(result.found, result.thread_seconds / count_faiss_threads())
        self._vectors += task.vectors
        self._report(self._vectors)


@contextmanager
def _documents_written(filling: Filling) -> "Iterator[Future[None]]":
    """Write the documents on a thread, while the block goes on; at its end they are all written."""
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
    """An empty folder of this build alone, so that workers of a dead one do no harm; removed at the end."""
    place = (folder if scratch is None else scratch.absolute()) / f"bertfeat-shards-{secrets.token_hex(4)}"
    if isinstance(place, Path):
        with storage_errors(place.parent):
            place.mkdir(parents=True)
    try:
        yield place
    finally:
        try:
            remove_stored_folder(place)
        except StorageError as error:  # the index is not the worse for it
            _log.warning("%s", error)


def _fetched(place: Location, folder: Path) -> Path:
    """The file of a shard on this machine."""
    if isinstance(place, Path):
        return place
    path = folder / place.name
    with open_file(place) as file, storage_errors(folder), path.open("wb") as copy:
        shutil.copyfileobj(file, copy, _FETCHED)
    return path

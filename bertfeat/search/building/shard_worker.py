"""A worker of a build by several processes: fills shards of an index with the vectors of whole parts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from bertfeat.errors import BertfeatError, IndexFolderError, parameter
from bertfeat.features import FeatureSet
from bertfeat.io import Location, create_file, prefetched, read_file
from bertfeat.search.building.feature_source import FeatureSource
from bertfeat.search.building.filling import check_complete, fill_index
from bertfeat.search.building.shard_files import ShardBuilder
from bertfeat.search.building.shard_plan import PlannedShard
from bertfeat.search.evaluation.recall import ExactSearch
from bertfeat.search.evaluation.recall_queries import RecallQueries
from bertfeat.search.settings import REBUILD, SourceSet
from bertfeat.search.source_sets import describe_source_set
from bertfeat.search.vectors.faiss_import import FaissIndex, Scored, faiss, faiss_errors
from bertfeat.search.vectors.faiss_index import copy_to_gpu, count_faiss_threads
from bertfeat.search.vectors.faiss_transforms import judged_transform
from bertfeat.search.vectors.metric import Metric

TRAINED_NAME = "trained"
"""The name of the file in the shards' folder that holds the index as it was trained, without vectors."""


@dataclass(frozen=True, slots=True)
class FilledShard:
    """The result of a shard, whose file is in its place."""

    zero_vectors: int
    found: Scored | None  # what exact search finds among its vectors, [Q, K]
    thread_seconds: float  # that this took


@dataclass(frozen=True, slots=True)
class ShardJob:
    """The description of a build that its workers need."""

    sets: tuple[Location, ...]
    sources: tuple[SourceSet, ...]  # the same sets as they were when the build began
    column: str
    metric: Metric
    preparation: Metric  # for which vectors are prepared before FAISS gets them
    folder: Location  # of the shards
    count: int  # of all vectors
    asked: RecallQueries | None  # of exact search; None where the index itself can do it

    def open_worker(self, *, device: str | None, threads: int | None) -> "ShardWorker":
        """A worker in another process than the build's.

        Raises:
            IndexFolderError: the feature sets or the folder of the shards are not to be found here.
        """
        if threads is not None:
            faiss.omp_set_num_threads(threads)
        return ShardWorker(self, device)

    def threads_in_use(self) -> int:
        """Return the number of threads with which FAISS computes in this process."""
        return count_faiss_threads()

    def repeat(self, task: PlannedShard) -> PlannedShard:
        """The shard for another worker, which fills it anew."""
        return task

    def error_of_deaths(self, task: PlannedShard, problem: str) -> BertfeatError:
        """The error of a shard over which one worker after the other died."""
        return BertfeatError(
            problem, where=f"shard {task.number} of the index", remedy="if memory ran out, use fewer workers"
        )


class ShardWorker:
    """Fills shards, one after the other. Memory: the trained index, a shard, and three blocks of vectors."""

    def __init__(self, job: ShardJob, device: str | None) -> None:
        self._job = job
        sets = [_open_set(place, source) for place, source in zip(job.sets, job.sources, strict=True)]
        self._source = FeatureSource(sets, job.column, keep_text=False)
        self._index = copy_to_gpu(_read_trained(job.folder), device)

    def work(self, tasks: Iterator[PlannedShard], done: Callable[[PlannedShard, FilledShard], None]) -> None:
        """Fill the shards; ``done`` gets the result of each once its file is in its place."""
        for task in tasks:
            done(task, self._fill(task))

    def raise_failed_writes(self) -> None:
        """Nothing: a shard is written before the next one begins."""

    def _fill(self, shard: PlannedShard) -> FilledShard:
        job, exact = self._job, None
        if job.asked is not None:
            exact = ExactSearch(job.asked, job.metric, job.count, judged_transform(self._index))
        self._index.reset()
        builder = ShardBuilder(self._index, shard.first_vector)
        blocks = prefetched(self._source.blocks(documents=False, shards=[shard]), join=True)
        zero = fill_index(builder, blocks, job.preparation, lambda _count: None, exact, first=shard.first_vector)
        check_complete(builder, shard.vectors)
        # whoever is first has written the same vectors
        with create_file(shard_place(job.folder, shard), if_absent=True) as new:
            builder.write(new.path)
        found, seconds = exact.found if exact else (None, 0.0)
        return FilledShard(zero, found, seconds * count_faiss_threads())


def shard_place(folder: Location, shard: PlannedShard) -> Location:
    """The location of a shard's file."""
    return folder / f"shard-{shard.number:05d}"


def _open_set(place: Location, source: SourceSet) -> FeatureSet:
    features = FeatureSet(place)
    if describe_source_set(features).digest != source.digest:
        raise IndexFolderError(
            "a worker finds another feature set here than the one that the index is to be built of", where=place
        )
    return features


def _read_trained(folder: Location) -> FaissIndex:
    place = folder / TRAINED_NAME
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

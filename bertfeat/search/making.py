"""Vectors become a FAISS index file: a sample trains it, blocks fill it, exact search judges it.

Shapes: n vectors, W values in each.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import IndexFolderError
from bertfeat.io import give_back_memory
from bertfeat.search import faiss_index, faiss_search, recall
from bertfeat.search.build_options import BuildOptions, BuildProgress, OnBuildProgress
from bertfeat.search.faiss_factory import create_faiss_index
from bertfeat.search.faiss_transforms import Transform, judged_transform
from bertfeat.search.index_types import POINTS_PER_CLUSTER, IndexChoice
from bertfeat.search.lists_on_disk import DiskListsBuilder
from bertfeat.search.metric import Metric
from bertfeat.search.settings import FAISS_NAME, RecallReport, SearchParameter
from bertfeat.search.vector_blocks import VectorBlock, VectorSource, read_ahead

SEED = 4171
SAMPLE_WITHOUT_CLUSTERS = 65_536  # vectors to train codes on
UNTUNED_LISTS = 32  # without evaluation one list in so many is read
UNTUNED_GRAPH = 64
_BLOCKS_PER_TRIM = 4

Keep = Callable[[VectorBlock], None]


@dataclass(frozen=True, slots=True)
class Made:
    """A FAISS index that was written."""

    count: int
    zero_vectors: int
    effort: SearchParameter | None
    evaluation: RecallReport | None
    seconds: dict[str, float] = field(default_factory=dict)  # of each step


def make_index(
    source: VectorSource,
    choice: IndexChoice,
    options: BuildOptions,
    folder: Path,
    *,
    keep: Keep,
    progress: OnBuildProgress,
) -> Made:
    """Build ``index.faiss`` in ``folder``; every block is handed to ``keep`` on the way.

    Raises:
        UsageError: a description that FAISS does not know, or too few vectors for it.
        IndexFolderError: a vector that is not finite; or the file cannot be written.
    """
    clock = _Clock(progress)
    index = create_faiss_index(choice.factory, source.width, options.metric)
    with clock.step("sample", source.count):
        sample = _take_sample(source, index, choice, options, clock)
    with clock.step("train", len(sample.training)):
        index = faiss_index.copy_to_gpu(index, options.device)
        faiss_index.train_index(index, sample.training, choice.clusters)
    transform = judged_transform(index)
    exact = sample.exact_search(options.metric, source.count, transform)
    with clock.step("add", source.count):
        del sample  # its memory is the index's from here on
        on_disk = DiskListsBuilder(faiss_index.copy_to_cpu(index), folder, options.memory) if choice.on_disk else None
        if on_disk is None and options.device in (None, "cpu"):
            faiss_index.reserve_vectors(index, source.count)
        zero = fill(on_disk or index, kept_blocks(source, keep), options.metric, clock.done, exact)
        index = on_disk.merged() if on_disk else faiss_index.copy_to_cpu(index)
        check_complete(index, source.count)
    effort, evaluation = untuned(index), None
    if options.evaluate and source.count > 1:
        with clock.step("evaluate", recall.QUERIES):
            truth = exact.truth() if exact else stored_truth(index, options.metric)
            effort, evaluation = assess(index, truth, options.metric, options.target_recall)
            evaluation = replace(evaluation, transformed=transform is not None)
    with clock.step("write", source.count):
        faiss_index.write_faiss_index(set_effort(index, effort), folder / FAISS_NAME)
    return Made(source.count, zero, effort, evaluation, clock.seconds)


def assess(
    index: Any, truth: recall.GroundTruth, metric: Metric, wanted: float
) -> tuple[SearchParameter | None, RecallReport]:
    """Find the effort that the wanted recall needs on one half of the queries, and measure it on the other."""

    def search(queries: NDArray[np.float32], k: int, effort: int | None) -> NDArray[np.int64]:
        return faiss_search.search_faiss(index, queries, k, effort)[1]

    half = (len(truth.own) + 1) // 2
    tuning, judging = truth.part(slice(0, half)), truth.part(slice(half if half < len(truth.own) else 0, None))
    name, effort = faiss_index.search_parameter_name(index), None
    if name is not None:
        value = recall.tune(tuning, search, wanted, faiss_index.largest_search_parameter(index), metric)
        effort = SearchParameter(name, value, tuned=True)
    measured = recall.measure(judging, search, effort.value if effort else None, metric)
    return effort, RecallReport(
        recall=measured.recall,
        own=measured.own,
        wanted=wanted,
        queries=len(judging.own),
        queries_per_second=round(measured.queries_per_second, 1),
        exact_queries_per_second=round(truth.queries_per_second, 1),
        threads=faiss_index.count_faiss_threads(),
        vectors=int(index.ntotal),
    )


def check_complete(index: Any, count: int) -> None:
    """See that as many vectors came as were announced.

    Raises:
        IndexFolderError: the features are being changed meanwhile.
    """
    if index.ntotal != count:
        raise IndexFolderError(
            f"{count:,} vectors were announced, but {index.ntotal:,} came: the features are being changed"
        )


def stored_truth(index: Any, metric: Metric) -> recall.GroundTruth:
    """Exact answers for a sample of an index's own vectors, where it stores them whole."""
    flat = faiss_index.flat_storage(index)
    own = _numbers(int(index.ntotal), recall.QUERIES)
    queries = faiss_search.reconstruct_vectors(flat, own)
    depth = min(max(recall.DEPTHS), int(index.ntotal) - 1) + 1
    began = time.perf_counter()
    scores, numbers = faiss_search.search_faiss(flat, queries, depth, None)
    seconds = time.perf_counter() - began
    return recall.GroundTruth(queries, own, *recall.without_own(scores, numbers, own), len(own) / max(seconds, 1e-9))


def untuned(index: Any) -> SearchParameter | None:
    """The effort for an index that was not evaluated: a guess."""
    name = faiss_index.search_parameter_name(index)
    if name is None:
        return None
    guess = max(1, faiss_index.largest_search_parameter(index) // UNTUNED_LISTS) if name == "nprobe" else UNTUNED_GRAPH
    return SearchParameter(name, guess, tuned=False)


def set_effort(index: Any, effort: SearchParameter | None) -> Any:
    """Let plain FAISS, which knows no index.json, search with the same effort."""
    if effort is not None:
        faiss_index.set_search_parameter(index, effort.value)
    return index


@dataclass(slots=True)
class _Sample:
    """Vectors taken out of the stream on a first pass, ready for FAISS."""

    training: NDArray[np.float32]  # [n, W]
    queries: NDArray[np.float32]  # [Q, W] for exact search; none where the index itself can do it
    own: NDArray[np.int64]  # [Q] their numbers

    def exact_search(self, metric: Metric, count: int, transform: Transform | None) -> recall.ExactSearch | None:
        return recall.ExactSearch(self.queries, self.own, metric, count, transform) if len(self.own) else None


@dataclass(slots=True)
class _Clock:
    """Times the steps and tells of them."""

    watch: OnBuildProgress
    seconds: dict[str, float] = field(default_factory=dict)
    _step: str = ""
    _total: int = 0

    @contextmanager
    def step(self, name: str, total: int) -> Iterator[None]:
        self._step, self._total = name, total
        self.done(0)
        began = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - began, 3)

    def done(self, count: int) -> None:
        self.watch(BuildProgress(self._step, count, self._total))


def _take_sample(
    source: VectorSource, index: Any, choice: IndexChoice, options: BuildOptions, clock: _Clock
) -> _Sample:
    """One pass over the vectors for what has to be known before the second: none where nothing has."""
    wanted = 0 if index.is_trained else choice.clusters * POINTS_PER_CLUSTER or SAMPLE_WITHOUT_CLUSTERS
    judged = options.evaluate and faiss_index.flat_storage(index) is None and source.count > 1
    numbers = _numbers(source.count, wanted + (recall.QUERIES if judged else 0))
    if not len(numbers):
        nothing = np.empty((0, source.width), np.float32)
        return _Sample(nothing, nothing, numbers)
    taken, start = np.empty((len(numbers), source.width), np.float32), 0
    for block in read_ahead(source.blocks(documents=False)):
        first, last = np.searchsorted(numbers, (start, start + len(block.vectors)))
        taken[first:last] = block.vectors[numbers[first:last] - start]
        start += len(block.vectors)
        clock.done(start)
    _prepare(options.metric, taken, numbers)
    if not judged:
        return _Sample(taken, taken[:0], numbers[:0])
    # the queries are left out of the training where there are enough others
    chosen = np.sort(np.random.default_rng(SEED).permutation(len(numbers))[: recall.QUERIES])
    queries, own = taken[chosen], numbers[chosen]
    if len(numbers) < source.count:
        taken = _without(taken, chosen)
    return _Sample(taken[:wanted], queries, own)


def fill(
    index: Any,
    blocks: Iterator[VectorBlock],
    metric: Metric,
    done: Callable[[int], None],
    exact: recall.ExactSearch | None = None,
) -> int:
    """Add every vector to a FAISS index, or to lists on disk; returns how many zero vectors there were.

    Raises:
        IndexFolderError: a vector that is not finite.
    """
    zero = count = 0
    for number, block in enumerate(blocks, 1):
        zero += int(_prepare(metric, block.vectors, count).sum())
        if len(block.vectors):
            faiss_index.add_vectors(index, block.vectors)
            if exact is not None:
                exact.add(count, block.vectors)
        count += len(block.vectors)
        if number % _BLOCKS_PER_TRIM == 0:
            give_back_memory()  # growing inverted lists leave a third of their size behind
        done(count)
    return zero


def kept_blocks(source: VectorSource, keep: Keep) -> Iterator[VectorBlock]:
    """All blocks of a source, each handed to ``keep`` on the way; a thread reads and keeps ahead."""

    def blocks() -> Iterator[VectorBlock]:
        for block in source.blocks(documents=True):
            keep(block)
            yield block

    return read_ahead(blocks())


def _without(taken: NDArray[np.float32], chosen: NDArray[np.int64]) -> NDArray[np.float32]:
    """All but the chosen rows, in place: rows from the end fill the gaps."""
    rest = len(taken) - len(chosen)
    tail = np.setdiff1d(np.arange(rest, len(taken)), chosen)
    taken[chosen[chosen < rest]] = taken[tail]
    return taken[:rest]


def _prepare(metric: Metric, vectors: NDArray[np.float32], numbers: NDArray[np.int64] | int) -> NDArray[np.bool_]:
    try:
        return metric.prepare(vectors)
    except ValueError as error:
        at = int(error.args[0])
        number = numbers + at if isinstance(numbers, int) else int(numbers[at])
        raise IndexFolderError(
            f"vector {number} is not finite (NaN, infinite, or too large to square); bertfeat verify finds the cause"
        ) from error


def _numbers(count: int, wanted: int) -> NDArray[np.int64]:
    """Numbers of a sample, ascending; all of them where there are no more."""
    if wanted >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng(SEED).choice(count, wanted, replace=False, shuffle=False))

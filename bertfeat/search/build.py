"""A feature set becomes an index: a sample trains it, blocks of vectors fill it, exact search measures its recall.

Memory is bounded by the index itself. Shapes: n vectors, W values in each.
"""

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

import bertfeat
from bertfeat.errors import IndexFolderError, UsageError
from bertfeat.io import Address, give_back_memory, prefetched
from bertfeat.recipe import FeatureColumn
from bertfeat.search import recall
from bertfeat.search.build_options import BuildOptions, BuildProgress, OnBuildProgress, ignore_build_progress
from bertfeat.search.document_store import IndexStoresWriter
from bertfeat.search.faiss_factory import create_faiss_index
from bertfeat.search.faiss_import import FaissIndex, VectorSink, faiss
from bertfeat.search.faiss_index import (
    add_vectors,
    copy_to_cpu,
    copy_to_gpu,
    reserve_vectors,
    set_search_parameter,
    train_index,
    write_faiss_index,
)
from bertfeat.search.faiss_transforms import judged_transform
from bertfeat.search.feature_source import FeatureSource
from bertfeat.search.index_files import finish_index_folder
from bertfeat.search.index_types import IndexChoice, choose_index
from bertfeat.search.lists_on_disk import DiskListsBuilder
from bertfeat.search.metric import Metric
from bertfeat.search.replacement import hold_index_folder
from bertfeat.search.settings import FAISS_NAME, FORMAT_VERSION, IndexSettings, RecallReport, SearchParameter
from bertfeat.search.source_sets import FeatureSets, describe_source_set, open_feature_sets
from bertfeat.search.training_sample import QUERIES, prepare_vectors, sample_vectors
from bertfeat.search.vector_blocks import VectorBlock, VectorSource

_BLOCKS_PER_TRIM = 4

Keep = Callable[[VectorBlock], None]


def build_index(
    features: FeatureSets,
    folder: str | Path | Address,
    column: str | None = None,
    *,
    options: BuildOptions | None = None,
    progress: OnBuildProgress | None = None,
) -> IndexSettings:
    """Build an index over one column of one or several feature sets; at the end it replaces an older index.

    Raises:
        UsageError: no vectors, too few of them for the type asked for, or a type that FAISS does not know.
        NotDerivableError: there is no such column.
        IndexFolderError: feature sets that cannot share an index, or a vector that is not finite.
        FolderLockedError: another run is at work on the folder.
        StorageError: the folder cannot be written.
    """
    options = options or BuildOptions()
    sets = open_feature_sets(features)
    with hold_index_folder(folder, new=True) as held:
        source = FeatureSource(sets, column, keep_text=options.keep_text)
        if not source.count:
            raise UsageError(
                f"there are no vectors of {source.column.name} in it, so nothing to index", where=sets[0].folder
            )
        choice = choose_index(
            options.type, count=source.count, width=source.width, memory=options.memory, recall=options.target_recall
        )
        with held.replacement() as fresh:
            with IndexStoresWriter(fresh, source.schema, per_document=source.per_document) as stores:
                report = _build_faiss_index(
                    source, choice, options, fresh, keep=stores.write, progress=progress or ignore_build_progress
                )
            return finish_index_folder(_new_settings(source, choice, options, report, stores.documents), fresh)


@dataclass(frozen=True, slots=True)
class BuildReport:
    """A FAISS index that was written."""

    count: int
    zero_vectors: int
    search_parameter: SearchParameter | None
    recall: RecallReport | None
    seconds: dict[str, float] = field(default_factory=dict)  # of each step


def _build_faiss_index(
    source: VectorSource,
    choice: IndexChoice,
    options: BuildOptions,
    folder: Path,
    *,
    keep: Keep,
    progress: OnBuildProgress,
) -> BuildReport:
    """Build ``index.faiss`` in ``folder``; every block is handed to ``keep`` too.

    Raises:
        UsageError: a description that FAISS does not know, or too few vectors for it.
        IndexFolderError: a vector that is not finite; or the file cannot be written.
    """
    clock = _StepClock(progress)
    index = create_faiss_index(choice.factory, source.width, options.metric)
    with clock.step("sample", source.count):
        sample = sample_vectors(source, index, choice, options, clock.done)
    with clock.step("train", len(sample.training)):
        index = copy_to_gpu(index, options.device)
        train_index(index, sample.training, choice.clusters)
    transform = judged_transform(index)
    exact = None
    if len(sample.own):
        exact = recall.ExactSearch(sample.queries, sample.own, options.metric, source.count, transform)
    with clock.step("add", source.count):
        del sample  # its memory is for the index now
        on_disk = DiskListsBuilder(copy_to_cpu(index), folder, options.memory) if choice.on_disk else None
        if on_disk is None and options.device in (None, "cpu"):
            reserve_vectors(index, source.count)
        zero = fill_index(on_disk or index, kept_blocks(source, keep), options.metric, clock.done, exact)
        index = on_disk.merged() if on_disk else copy_to_cpu(index)
        check_complete(index, source.count)
    parameter, report = recall.guess_search_parameter(index), None
    if options.evaluate and source.count > 1:
        with clock.step("evaluate", QUERIES):
            truth = exact.truth() if exact else recall.stored_truth(index)
            parameter, report = recall.tune_and_judge(index, truth, options.metric, options.target_recall)
            report = replace(report, transformed=transform is not None)
    with clock.step("write", source.count):
        if parameter is not None:  # also the default of plain FAISS, which does not read index.json
            set_search_parameter(index, parameter.value)
        write_faiss_index(index, folder / FAISS_NAME)
    return BuildReport(source.count, zero, parameter, report, clock.seconds)


def fill_index(
    index: VectorSink,
    blocks: Generator[VectorBlock, None, None],
    metric: Metric,
    done: Callable[[int], None],
    exact: recall.ExactSearch | None = None,
) -> int:
    """Add all vectors to a FAISS index, or to lists on disk; returns how many zero vectors there were.

    Raises:
        IndexFolderError: a vector that is not finite.
    """
    zero = count = 0
    with closing(blocks):  # so that no thread reads on after an error
        for number, block in enumerate(blocks, 1):
            zero += int(prepare_vectors(metric, block.vectors, count).sum())
            if len(block.vectors):
                add_vectors(index, block.vectors)
                if exact is not None:
                    exact.add(count, block.vectors)
            count += len(block.vectors)
            if number % _BLOCKS_PER_TRIM == 0:
                give_back_memory()  # growing inverted lists leave a third of their size behind
            done(count)
    return zero


def kept_blocks(source: VectorSource, keep: Keep) -> Generator[VectorBlock, None, None]:
    """All blocks of a source, each handed to ``keep`` first; a thread reads and keeps one block ahead."""

    def blocks() -> Iterator[VectorBlock]:
        for block in source.blocks(documents=True):
            keep(block)
            yield block

    return prefetched(blocks(), join=True)


def check_complete(index: FaissIndex, count: int) -> None:
    """Check that as many vectors were added as the source has.

    Raises:
        IndexFolderError: the features are being changed meanwhile.
    """
    if index.ntotal != count:
        raise IndexFolderError(
            f"{count:,} vectors were announced, but {index.ntotal:,} came: the features are being changed"
        )


@dataclass(slots=True)
class _StepClock:
    """Times the steps and reports their progress."""

    on_progress: OnBuildProgress
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
        self.on_progress(BuildProgress(self._step, count, self._total))


def _library_versions() -> dict[str, str]:
    """The versions of the libraries that an index depends on."""
    return {"bertfeat": bertfeat.__version__, "faiss": faiss.__version__, "pyarrow": pa.__version__}


def _new_settings(
    source: FeatureSource, choice: IndexChoice, options: BuildOptions, report: BuildReport, documents: int
) -> IndexSettings:
    header, column = source.sets[0].header, source.column
    return IndexSettings(
        format_version=FORMAT_VERSION,
        column=FeatureColumn(column.recipe, column.pooling, column.width, "float32"),
        metric=options.metric,
        type=options.type,
        factory=choice.factory,
        reason=choice.reason,
        model=header.model,
        extraction=header.settings,
        query_prompt=options.query_prompt,
        sources=tuple(describe_source_set(features) for features in source.sets),
        count=report.count,
        documents=documents,
        zero_vectors=report.zero_vectors,
        skipped=source.skipped,
        tombstones=0,
        has_text=options.keep_text and "text" in source.schema.names,
        effort=report.search_parameter,
        evaluation=report.recall,
        versions=_library_versions(),
        seconds=report.seconds,
    )

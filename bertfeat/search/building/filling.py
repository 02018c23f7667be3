"""Vectors go into an index, block by block, and their documents into its stores.

Shapes: n vectors, W values in each.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bertfeat.errors import IndexFolderError
from bertfeat.io import give_back_memory, prefetched
from bertfeat.search.building.feature_source import FeatureSource
from bertfeat.search.evaluation.recall import ExactSearch
from bertfeat.search.options import BuildOptions
from bertfeat.search.vectors.faiss_import import FaissIndex, VectorSink
from bertfeat.search.vectors.faiss_index import add_vectors, copy_to_cpu, reserve_vectors
from bertfeat.search.vectors.index_types import IndexChoice
from bertfeat.search.vectors.lists_on_disk import DiskListsBuilder
from bertfeat.search.vectors.metric import Metric
from bertfeat.search.vectors.training_sample import prepare_vectors
from bertfeat.search.vectors.vector_blocks import VectorBlock, VectorSource

_BLOCKS_PER_TRIM = 4

Keep = Callable[[VectorBlock], None]
"""Takes the documents of a block."""


@dataclass(frozen=True, slots=True)
class Filling:
    """The input for filling a trained index: its vectors, the build's options, and the consumers of each block."""

    source: FeatureSource
    choice: IndexChoice
    options: BuildOptions
    folder: Path  # where the new index is written
    keep: Keep
    done: Callable[[int], None]  # is told how many vectors were added
    exact: ExactSearch | None  # compares them all with queries


def fill_here(index: FaissIndex, filling: Filling) -> tuple[FaissIndex, int]:
    """Fill an index by this process; returns it on the CPU, and how many zero vectors there were.

    Raises:
        IndexFolderError: a vector that is not finite.
    """
    source, options = filling.source, filling.options
    on_disk = None
    if filling.choice.on_disk:
        on_disk = DiskListsBuilder(copy_to_cpu(index), filling.folder, options.memory)
    elif options.device in (None, "cpu"):
        reserve_vectors(index, source.count)
    blocks = kept_blocks(source, filling.keep)
    zero = fill_index(on_disk or index, blocks, options.preparation, filling.done, filling.exact)
    return on_disk.merged() if on_disk else copy_to_cpu(index), zero


def fill_index(
    index: VectorSink,
    blocks: Generator[VectorBlock, None, None],
    metric: Metric,
    done: Callable[[int], None],
    exact: ExactSearch | None = None,
    *,
    first: int = 0,
) -> int:
    """Add all vectors to a FAISS index, or to lists on disk; returns how many zero vectors there were.

    ``first`` is the number of the first one among all that are being indexed.

    Raises:
        IndexFolderError: a vector that is not finite.
    """
    zero = count = 0
    with closing(blocks):  # so that no thread reads on after an error
        for number, block in enumerate(blocks, 1):
            zero += int(prepare_vectors(metric, block.vectors, first + count).sum())
            if len(block.vectors):
                add_vectors(index, block.vectors)
                if exact is not None:
                    exact.add(first + count, block.vectors)
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


class Counted(Protocol):
    """An object that knows its number of vectors."""

    @property
    def ntotal(self) -> int:
        """The number of vectors."""


def check_complete(index: Counted, count: int) -> None:
    """Check that as many vectors were added as the source has.

    Raises:
        IndexFolderError: the features are being changed meanwhile.
    """
    if index.ntotal != count:
        raise IndexFolderError(
            f"{count:,} vectors were announced, but {index.ntotal:,} came: the features are being changed"
        )

"""The filling of a trained index with vectors, block by block: in this process, or in shards that are then merged.

Meanwhile the documents of each block go into the stores of the index. A worker fills a shard in a copy of the trained
index. The file of a shard holds only the vectors' codes or inverted lists, since a whole FAISS index would repeat the
trained centers of all clusters in each shard. Shards are merged in their order.

Shapes: n vectors, W values in each.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertfeat.core import give_back_memory, prefetched
from bertfeat.errors import IndexFolderError, StorageError, UsageError, parameter
from bertfeat.search.building.feature_source import FeatureSource
from bertfeat.search.evaluation.recall import ExactSearch
from bertfeat.search.options import BuildOptions
from bertfeat.search.settings import REBUILD
from bertfeat.search.vectors.faiss_import import (
    FaissIndex,
    FlatCodes,
    InvertedIndex,
    InvertedLists,
    VectorSink,
    faiss,
    faiss_errors,
)
from bertfeat.search.vectors.faiss_index import add_vectors, copy_to_cpu, inverted_index, reserve_vectors
from bertfeat.search.vectors.index_types import IndexChoice
from bertfeat.search.vectors.lists_on_disk import DiskListsBuilder, merge_lists_on_disk
from bertfeat.search.vectors.metric import Metric
from bertfeat.search.vectors.vector_blocks import VectorBlock, VectorSource, prepare_vectors

Keep = Callable[[VectorBlock], None]
"""The type of functions that store the documents of a block."""


@dataclass(frozen=True, slots=True)
class Filling:
    """The input for filling a trained index: its vectors, the build's options, and the consumers of each block."""

    source: FeatureSource
    choice: IndexChoice
    options: BuildOptions
    folder: Path  # where the new index is written
    keep: Keep
    done: Callable[[int], None]  # gets the number of vectors added so far
    exact: ExactSearch | None  # compares all vectors with the queries that recall is measured by


def fill_here(index: FaissIndex, filling: Filling) -> tuple[FaissIndex, int]:
    """Fill an index in this process; returns it on the CPU, with the number of zero vectors."""
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
    """Add all vectors to a FAISS index, or to lists on disk; returns the number of zero vectors.

    ``first`` is the number of the first vector among all that are being indexed.
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
            if number % 4 == 0:
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


def check_complete(added: int, count: int) -> None:
    """Check that as many vectors were added as the source has."""
    if added != count:
        raise IndexFolderError(f"{count:,} vectors were announced, but {added:,} came: the features are being changed")


_DIVISIBLE = (
    *("IndexFlat", "IndexFlatIP", "IndexFlatL2", "IndexScalarQuantizer", "IndexPQ"),
    *("IndexIVFFlat", "IndexIVFScalarQuantizer", "IndexIVFPQ"),
)
"""The FAISS classes whose shards can be merged by copying codes, which they keep in one array or in lists."""


def refuse_indivisible(index: FaissIndex, factory: str) -> None:
    """Refuse a type of index that cannot be made of shards."""
    if type(_inner_index(index)).__name__ not in _DIVISIBLE:
        raise UsageError(
            f"an index of type {factory} is built by one process: it cannot be put together from shards",
            remedy="leave out the workers, or choose flat, ivf, ivfpq or sq8",
        )


class ShardBuilder:
    """A builder of one shard: adds vectors, numbered from ``first`` on, to a trained index."""

    def __init__(self, trained: FaissIndex, first: int) -> None:
        self._index, self._first = trained, first
        self._has_lists = inverted_index(copy_to_cpu(trained)) is not None

    @property
    def ntotal(self) -> int:
        """The number of vectors in the shard."""
        return int(self._index.ntotal)

    def add(self, vectors: NDArray[np.float32]) -> None:
        """Add vectors ``[n, W]``."""
        if self._has_lists:
            numbers = np.arange(self._first + self.ntotal, self._first + self.ntotal + len(vectors))
            self._index.add_with_ids(vectors, numbers)
        else:
            self._index.add(vectors)

    def write(self, path: Path) -> None:
        """Write the shard's codes or inverted lists to a file.

        Raises:
            OSError: the disk is full, or the folder cannot be written.
        """
        index = copy_to_cpu(self._index)
        inverted = inverted_index(index)
        with path.open("wb") as file:
            if inverted is not None:
                faiss.write_InvertedLists(inverted.invlists, faiss.PyCallbackIOWriter(file.write))
            else:
                file.write(_code_bytes(_inner_index(index)))


def merge_shards(index: FaissIndex, paths: Iterable[Path], folder: Path, count: int, *, on_disk: bool) -> None:
    """Merge the shards, which have ``count`` vectors in all, into the trained index from which they were copied.

    With ``on_disk`` its inverted lists go to ``index.lists`` in the folder; else the files are read one by one,
    so that memory holds the index and one shard. The files are removed.
    """
    inverted = inverted_index(index)
    if inverted is not None and on_disk:
        files = list(paths)
        with _read_lists(files, faiss.IO_FLAG_MMAP) as lists:
            merge_lists_on_disk(index, lists, folder, count)
        for path in files:
            path.unlink()
        return
    remedy = f"give it less {parameter('memory')}, so that inverted lists stay on disk"
    with faiss_errors(UsageError, "the shards cannot be put together", remedy):
        reserve_vectors(index, count)
        for path in paths:
            if inverted is not None:
                _append_lists(index, inverted, path)
            else:
                _append_codes(index, path)
            path.unlink()
            give_back_memory()


def _append_lists(index: FaissIndex, inverted: InvertedIndex, path: Path) -> None:
    with _read_lists([path], 0) as (lists,):
        inverted.ntotal += int(lists.compute_ntotal())
        inverted.invlists.merge_from(lists, 0)
    index.ntotal = inverted.ntotal


@contextmanager
def _read_lists(paths: Sequence[Path], flags: int) -> Iterator[list[InvertedLists]]:
    """The lists of some shards; they are freed at the end."""
    lists: list[InvertedLists] = []
    try:
        for path in paths:
            with faiss_errors(StorageError, "this shard cannot be read", REBUILD, where=path):
                lists.append(faiss.read_InvertedLists(faiss.FileIOReader(str(path)), flags))
        yield lists
    finally:
        for each in lists:  # nobody owns them, and SWIG's own(True) breaks its reference counts
            type(each).__swig_destroy__(each)  # type: ignore[attr-defined]


def _append_codes(index: FaissIndex, path: Path) -> None:
    flat = _inner_index(index)
    before, size = flat.codes.size(), path.stat().st_size
    flat.codes.resize(before + size)
    with path.open("rb", buffering=0) as file:
        view, filled = _code_bytes(flat)[before:], 0
        while filled < size and (count := file.readinto(view[filled:])):
            filled += count
    flat.ntotal = index.ntotal = (before + filled) // flat.code_size


def _code_bytes(flat: FlatCodes) -> memoryview:
    """The codes in FAISS's own memory."""
    codes: NDArray[np.uint8] = faiss.rev_swig_ptr(flat.codes.data(), flat.codes.size())
    return codes.data


def _inner_index(index: FaissIndex) -> FlatCodes:
    """The index itself, or the one behind its transforms."""
    plain = faiss.downcast_index(index)
    flat: FlatCodes = faiss.downcast_index(plain.index) if isinstance(plain, faiss.IndexPreTransform) else plain
    return flat

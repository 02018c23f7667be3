"""Shards of an index: workers fill copies of one trained index, and all are merged in order.

A shard's file has only the vectors' codes or inverted lists: a whole FAISS index would repeat the trained centers of
all clusters in each shard.

Shapes: n vectors, W values in each.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import StorageError, UsageError, parameter
from bertfeat.io import give_back_memory
from bertfeat.search.settings import REBUILD
from bertfeat.search.vectors.faiss_import import (
    FaissIndex,
    FlatCodes,
    InvertedIndex,
    InvertedLists,
    faiss,
    faiss_errors,
)
from bertfeat.search.vectors.faiss_index import copy_to_cpu, inverted_index, reserve_vectors
from bertfeat.search.vectors.lists_on_disk import merge_lists_on_disk

_DIVISIBLE = (
    *("IndexFlat", "IndexFlatIP", "IndexFlatL2", "IndexScalarQuantizer", "IndexPQ"),
    *("IndexIVFFlat", "IndexIVFScalarQuantizer", "IndexIVFPQ"),
)
"""The classes whose vectors can be put together by copying: codes in a row, or lists of codes."""


def refuse_indivisible(index: FaissIndex, factory: str) -> None:
    """Refuse a type of index that cannot be made of shards.

    Raises:
        UsageError: it cannot.
    """
    if type(_inner_index(index)).__name__ not in _DIVISIBLE:
        raise UsageError(
            f"an index of type {factory} is built by one process: it cannot be put together from shards",
            remedy="leave out the workers, or choose flat, ivf, ivfpq or sq8",
        )


class ShardBuilder:
    """A shard that is being filled: a trained index, whose vectors are numbered from ``first`` on."""

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
        """Write the file.

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
    """Merge all vectors of the shards, ``count`` in number, into the trained index that they came from.

    With ``on_disk`` its inverted lists go to ``index.lists`` in the folder; else the files are read one by one,
    so that memory takes the index and one shard. The files are removed.

    Raises:
        StorageError: a file cannot be read or written.
        UsageError: the memory is not enough.
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

"""Inverted lists larger than memory: filled in chunks, then merged into a file of their own beside ``index.faiss``."""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import StorageError, UsageError, parameter
from bertfeat.search.settings import LISTS_NAME
from bertfeat.search.vectors.faiss_import import FaissIndex, InvertedIndex, InvertedLists, faiss, faiss_errors
from bertfeat.search.vectors.faiss_index import write_faiss_index

_CHUNK_BYTES = 1 << 30  # most bytes of codes and numbers in a chunk
_SPACE_LEFT = 1 << 20  # bytes of disk left for files that other programs write meanwhile


class DiskListsBuilder:
    """Adds vectors to an index whose inverted lists do not fit in memory; the vectors that it already has are kept."""

    def __init__(self, index: FaissIndex, folder: Path, memory: int | None) -> None:
        self._index, self._folder = index, folder
        inverted = faiss.try_extract_index_ivf(index)
        if inverted is None:
            raise UsageError(
                "only inverted lists can be kept on disk", remedy=f"choose ivf, ivfpq, or more {parameter('memory')}"
            )
        self._inverted = inverted
        self._count = int(index.ntotal)
        self._old_lists = self._take_lists()
        self._chunk = faiss.deserialize_index(faiss.serialize_index(index))  # clone_index() knows few transforms
        self._chunk_rows = max(1, min(memory or _CHUNK_BYTES, _CHUNK_BYTES) // (int(inverted.code_size) + 8))
        self._paths: list[Path] = []

    def add(self, vectors: NDArray[np.float32]) -> None:
        """Add vectors ``[n, W]``, whose numbers follow those of the vectors before."""
        numbers = np.arange(self._count, self._count + len(vectors))
        self._chunk.add_with_ids(vectors, numbers)
        self._count += len(vectors)
        if self._chunk.ntotal >= self._chunk_rows:
            self._write_chunk()

    def merged(self) -> FaissIndex:
        """The index with all its lists in ``index.lists``."""
        if self._chunk.ntotal:
            self._write_chunk()
        chunks = [faiss.read_index(str(path), faiss.IO_FLAG_MMAP) for path in self._paths]
        lists = [*self._old_lists, *(faiss.extract_index_ivf(chunk).invlists for chunk in chunks)]
        _merge_lists(self._index, lists, self._folder, self._count)
        for path in self._paths:
            path.unlink()
        return self._index

    def _take_lists(self) -> list[InvertedLists]:
        """Replace lists that hold vectors by empty ones, and return them; the index stays trained."""
        lists = self._inverted.invlists
        if not self._index.ntotal:
            return []
        self._inverted.own_invlists = False
        _replace_lists(self._inverted, faiss.ArrayInvertedLists(self._inverted.nlist, self._inverted.code_size))
        self._index.ntotal = self._inverted.ntotal = 0
        return [lists]

    def _write_chunk(self) -> None:
        path = self._folder / f"chunk-{len(self._paths)}"
        write_faiss_index(self._chunk, path)
        self._paths.append(path)
        self._chunk.reset()


def _merge_lists(index: FaissIndex, lists: list[InvertedLists], folder: Path, count: int) -> None:
    """Merge lists into ``index.lists`` of a folder, as those of ``index``, which then has ``count`` vectors."""
    inverted, path = faiss.extract_index_ivf(index), folder / LISTS_NAME
    _check_space(folder, count * (int(inverted.code_size) + 8))
    with _silent_stdout(), faiss_errors(StorageError, f"{path} cannot be written", "is the disk full?"):
        whole = faiss.OnDiskInvertedLists(inverted.nlist, inverted.code_size, str(path))
        pointers = faiss.InvertedListsPtrVector()
        for one in lists:
            pointers.push_back(one)
        whole.merge_from_multiple(pointers.data(), pointers.size())
    whole.filename = LISTS_NAME  # written into the index without its folder, so that both can move together
    _replace_lists(inverted, whole)
    index.ntotal = inverted.ntotal = count


def _check_space(folder: Path, needed: int) -> None:
    """Check the free space: FAISS writes the lists through a mapping, where a full disk would kill the process."""
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    if free < needed + _SPACE_LEFT:
        raise StorageError(
            f"the inverted lists need {needed / 1e6:,.0f} MB, and {free / 1e6:,.0f} MB are free",
            where=f"cannot write to {folder.parent}",
            remedy="free some space, or move the folder to a larger disk",
        )


def _replace_lists(inverted: InvertedIndex, lists: InvertedLists) -> None:
    inverted.replace_invlists(lists, True)
    lists.this.disown()  # type: ignore[attr-defined]  # SWIG: the index frees them now


@contextmanager
def _silent_stdout() -> Iterator[None]:
    """Send what FAISS prints on stdout (the size of its file) to /dev/null: only results belong on stdout.

    It redirects file descriptor 1 of the whole process during the ``with`` block.
    """
    flush = ctypes.CDLL(None).fflush
    if sys.stdout is not None:
        sys.stdout.flush()
    flush(None)
    stdout, null = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 1)
        yield
    finally:
        flush(None)
        os.dup2(stdout, 1)
        os.close(stdout)
        os.close(null)

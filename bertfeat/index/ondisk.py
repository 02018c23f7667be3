"""Inverted lists that pass the memory: filled in shards, merged into a file of their own beside ``index.faiss``."""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import UsageError
from bertfeat.index import engine
from bertfeat.index.library import faiss

SHARD_BYTES = 1 << 30


class ListsOnDisk:
    """Takes more vectors for an index whose inverted lists do not fit the memory; those in it already stay."""

    def __init__(self, index: Any, folder: Path, memory: int | None) -> None:
        self._index, self._folder = index, folder
        inverted = faiss.try_extract_index_ivf(index)
        if inverted is None:
            raise UsageError("only inverted lists can be kept on disk; choose ivf, ivfpq, or more --memory")
        self._inverted = inverted
        self._count = int(index.ntotal)
        self._before = self._emptied()
        self._shard = faiss.clone_index(index)
        self._shard_rows = max(1, min(memory or SHARD_BYTES, SHARD_BYTES) // (int(inverted.code_size) + 8))
        self._paths: list[Path] = []

    def add(self, vectors: NDArray[np.float32]) -> None:
        """Add vectors ``[n, W]``, which are numbered on."""
        numbers = np.arange(self._count, self._count + len(vectors))
        self._shard.add_with_ids(vectors, numbers)
        self._count += len(vectors)
        if self._shard.ntotal >= self._shard_rows:
            self._write_shard()

    def merged(self) -> Any:
        """The index with all its lists in ``index.lists``."""
        if self._shard.ntotal:
            self._write_shard()
        shards = [faiss.read_index(str(path), faiss.IO_FLAG_MMAP) for path in self._paths]
        lists = [*self._before, *(faiss.extract_index_ivf(shard).invlists for shard in shards)]
        self._replace_lists(self._merge(lists))
        self._index.ntotal = self._inverted.ntotal = self._count
        for path in self._paths:
            path.unlink()
        return self._index

    def _merge(self, lists: list[Any]) -> Any:
        file = str(self._folder / engine.LISTS_NAME)
        whole = faiss.OnDiskInvertedLists(self._inverted.nlist, self._inverted.code_size, file)
        pointers = faiss.InvertedListsPtrVector()
        for each in lists:
            pointers.push_back(each)
        with _stdout_to_stderr():
            whole.merge_from_multiple(pointers.data(), pointers.size())
        return whole

    def _emptied(self) -> list[Any]:
        """Take the lists out of the index, which stays trained; they are given if there is something in them."""
        lists = self._inverted.invlists
        if not self._index.ntotal:
            return []
        self._inverted.own_invlists = False
        self._replace_lists(faiss.ArrayInvertedLists(self._inverted.nlist, self._inverted.code_size))
        self._index.ntotal = self._inverted.ntotal = 0
        return [lists]

    def _replace_lists(self, lists: Any) -> None:
        self._inverted.replace_invlists(lists, True)
        lists.this.disown()

    def _write_shard(self) -> None:
        path = self._folder / f"shard-{len(self._paths)}"
        engine.write(self._shard, path)
        self._paths.append(path)
        self._shard.reset()


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """FAISS prints the size of its file on stdout, where only results belong."""
    flush = ctypes.CDLL(None).fflush
    sys.stdout.flush()
    flush(None)
    stdout = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        flush(None)
        os.dup2(stdout, 1)
        os.close(stdout)

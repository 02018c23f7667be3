"""Inverted lists that pass the memory: filled in shards, merged into a file of their own beside ``index.faiss``."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import UsageError
from bertfeat.index import engine
from bertfeat.index.folder import LISTS_NAME
from bertfeat.index.library import faiss, ondisk

SHARD_BYTES = 1 << 30


class ListsOnDisk:
    """Takes the vectors of an index whose inverted lists do not fit the memory."""

    def __init__(self, trained: Any, folder: Path, memory: int | None) -> None:
        self._trained, self._folder = trained, folder
        inverted = faiss.try_extract_index_ivf(trained)
        if inverted is None:
            raise UsageError("only inverted lists can be kept on disk; choose ivf, ivfpq, or more --memory")
        room = min(memory or SHARD_BYTES, SHARD_BYTES)
        self._shard_rows = max(1, room // (int(inverted.code_size) + 8))
        self._shard = faiss.clone_index(trained)
        self._paths: list[Path] = []
        self._count = 0

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
        path = self._folder / LISTS_NAME
        ondisk.merge_ondisk(self._trained, [str(each) for each in self._paths], str(path))
        for each in self._paths:
            each.unlink()
        return self._trained

    def _write_shard(self) -> None:
        path = self._folder / f"shard-{len(self._paths)}"
        engine.write(self._shard, path)
        self._paths.append(path)
        self._shard.reset()

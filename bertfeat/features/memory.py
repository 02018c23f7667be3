"""Computed rows in memory, which are read as those of a feature set are."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from bertfeat.corpus import Failure, KeptColumn
from bertfeat.features.schema import PartContent, content_table
from bertfeat.recipe import FeatureColumn


class MemoryFeatures:
    """The documents of some rows of a corpus with their features, under the names that a feature set has for them.

    Raises:
        FeatureSetError, UsageError: see :func:`content_table`.
    """

    def __init__(
        self, content: PartContent, columns: Sequence[FeatureColumn], failed: tuple[Failure, ...], origin: str
    ) -> None:
        self._table = content_table(content, columns)
        self._failed = failed
        self.rows = content.rows
        """The rows of the corpus that are here, ``[D]``."""
        self.folder = origin
        """The corpus, where a feature set has its folder: for messages."""
        self.sources: tuple[str, ...] = ()
        self.columns = tuple(columns)
        self.kept: tuple[KeptColumn, ...] = tuple(content.kept)
        self.names: tuple[str, ...] = tuple(self._table.schema.names)

    def __len__(self) -> int:
        return len(self.rows)

    def failures(self) -> Iterator[Failure]:
        """The rows of the corpus that failed."""
        yield from self._failed

    def stream(
        self, names: Sequence[str] | None = None, *, batch_rows: int = 1024, start: int = 0, stop: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The columns of those names in row order, of the rows from ``start`` up to ``stop``."""
        first = int(np.searchsorted(self.rows, start))
        last = len(self.rows) if stop is None else int(np.searchsorted(self.rows, stop))
        table = self._table.select(list(self.names if names is None else names))
        yield from table.slice(first, last - first).to_batches(max_chunksize=batch_rows)

    def without(self, rows: Sequence[int]) -> "MemoryFeatures":
        """The same without some rows."""
        other = object.__new__(MemoryFeatures)
        other.__dict__.update(self.__dict__)
        kept = ~np.isin(self.rows, list(rows))
        other.rows, other._table = self.rows[kept], self._table.filter(pa.array(kept))
        return other

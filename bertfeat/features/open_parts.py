"""The parts of one feature set, opened when they are needed: rows by number or id, row groups kept for the next row."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bertfeat.errors import DamagedError
from bertfeat.features.part import PartFooter, read_footer
from bertfeat.features.part_check import check_part_columns
from bertfeat.features.parts import PartEntry
from bertfeat.features.row_groups import PartReader
from bertfeat.features.seal import REDO_PART
from bertfeat.io import Location

_KEPT_GROUP = 64 << 20  # bytes of the largest row group that is kept for the next document
_OPEN_PARTS = 64  # footers in memory


class OpenParts:
    """The parts of a feature set. All have the columns of the first one, whose footer is read at once.

    Raises:
        DamagedError: the first part is damaged, or not the one that is listed.
    """

    def __init__(self, folder: Location, entries: Sequence[PartEntry]) -> None:
        self._folder, self.entries = folder, entries
        self._first: PartFooter | None = None
        self.open = lru_cache(maxsize=_OPEN_PARTS)(self.open_anew)
        """Open a listed part, or take it from the cache."""
        self._recent: tuple[tuple[int, int], pa.Table] | None = None  # (part, row group) and its content
        self.first: PartFooter = self.open(entries[0]).footer
        """The footer of the first part."""
        self._first = self.first

    def __reduce__(self) -> tuple[object, ...]:
        # opened anew where it is unpickled, as the feature set itself is
        return OpenParts, (self._folder.absolute(), self.entries)

    def open_anew(self, entry: PartEntry) -> PartReader:
        """Open a listed part.

        Raises:
            DamagedError: it is damaged, not the one that is listed, or its columns are not those of the first part.
        """
        footer = read_footer(self._folder / entry.name)
        if footer.sha256 != entry.sha256:
            raise DamagedError("this is not the part that the manifest lists", where=footer.path, remedy=REDO_PART)
        check_part_columns(footer)
        first = self._first or footer
        if (footer.schema.names, footer.schema.types) != (first.schema.names, first.schema.types):
            raise DamagedError(
                f"its columns are not those of {first.path.name}", where=footer.path, remedy="extract it again"
            )
        return PartReader(footer)

    def find_row(self, row: int, names: Sequence[str]) -> pa.RecordBatch | None:
        """The document of a row; None where the row is blank, failed, or outside the corpus."""
        at = bisect_right(self.entries, row, key=lambda entry: entry.first_row) - 1
        group = None if at < 0 else self.open(self.entries[at]).group_of(row)
        if group is None:
            return None
        table = self._row_group(at, group, names)
        index = pc.index_in(pa.scalar(row, pa.int64()), table.column("row")).as_py()
        if index is None:
            return None
        (batch,) = table.slice(index, 1).combine_chunks().to_batches()
        return batch

    def take(self, rows: NDArray[np.int64], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The documents of those rows, which ascend: ``row`` and the columns of those names, a row group at a time.

        Row groups without any of them are not read.

        Raises:
            DamagedError: there is no document in such a row, or a checksum does not hold.
        """
        for (at, group), places in groupby(rows.tolist(), self._place_of):
            table = self.open(self.entries[at]).read_group(group, ["row", *names])
            stored, wanted = table.column("row").to_numpy(), np.array(list(places))
            found = np.searchsorted(stored, wanted).clip(max=len(stored) - 1)
            if (stored[found] != wanted).any():
                raise self._no_document(int(wanted[stored[found] != wanted][0]))
            yield from pa.concat_tables([table.slice(one, 1) for one in found]).combine_chunks().to_batches()

    def _place_of(self, row: int) -> tuple[int, int]:
        """The number of the entry, and of its row group, that hold a row."""
        at = bisect_right(self.entries, row, key=lambda entry: entry.first_row) - 1
        group = None if at < 0 else self.open(self.entries[at]).group_of(row)
        if group is None:
            raise self._no_document(row)
        return at, group

    def _no_document(self, row: int) -> DamagedError:
        return DamagedError(f"there is no document in row {row:,}", where=self._folder)

    def rows_of_id(self, document_id: str) -> list[int]:
        """The rows of the documents with an id."""
        return [row for entry in self.entries for row in self.open(entry).rows_of_id(document_id)]

    def _row_group(self, at: int, group: int, names: Sequence[str]) -> pa.Table:
        if self._recent is not None and self._recent[0] == (at, group):
            return self._recent[1]
        table = self.open(self.entries[at]).read_group(group, names)
        self._recent = ((at, group), table) if table.nbytes <= _KEPT_GROUP else None
        return table

"""The parts of one feature set, opened when they are needed: rows by number or id, row groups kept for the next row."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bertfeat.errors import DamagedError, FeatureSetError
from bertfeat.features.manifest import read_manifest
from bertfeat.features.part import PartFooter, read_footer
from bertfeat.features.part_check import check_part_columns
from bertfeat.features.parts import PartEntry
from bertfeat.features.row_groups import PartReader, replaced_while_open
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
        try:
            footer = read_footer(self._folder / entry.name)
        except FeatureSetError:
            self._refuse_replaced(entry)
            raise
        if footer.sha256 != entry.sha256:
            self._refuse_replaced(entry)
            raise DamagedError("this is not the part that the manifest lists", where=footer.path, remedy=REDO_PART)
        check_part_columns(footer)
        first = self._first or footer
        if (footer.schema.names, footer.schema.types) != (first.schema.names, first.schema.types):
            raise DamagedError(
                f"its columns are not those of {first.path.name}", where=footer.path, remedy="extract it again"
            )
        return PartReader(footer)

    def _refuse_replaced(self, entry: PartEntry) -> None:
        """Tell a set that was extracted anew from one that is damaged: its manifest lists another part, or is gone."""
        manifest = read_manifest(self._folder)
        if manifest is None or entry not in manifest.parts:
            raise replaced_while_open(self._folder / entry.name)

    def find_row(self, row: int, names: Sequence[str]) -> pa.RecordBatch | None:
        """The document of a row; None where the row is blank, failed, or outside the corpus."""
        place = self._find_place(row)
        if place is None:
            return None
        table = self._row_group(*place, names)
        index = pc.index_in(pa.scalar(row, pa.int64()), table.column("row")).as_py()
        if index is None:
            return None
        (batch,) = table.slice(index, 1).combine_chunks().to_batches()
        return batch

    def find_rows(self, rows: Sequence[int], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Documents of some rows, ascending, as far as there are any; a row group is read once, and only if it has one.

        ``names`` include ``row``.

        Raises:
            DamagedError: a checksum does not hold.
        """
        for place, wanted in groupby(rows, self._find_place):
            if place is not None:
                table = self.open(self.entries[place[0]]).read_group(place[1], names)
                chosen = np.isin(table.column("row").to_numpy(), list(wanted))
                yield from table.filter(pa.array(chosen)).combine_chunks().to_batches()

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

    def _find_place(self, row: int) -> tuple[int, int] | None:
        """The number of the entry, and of its row group, in whose range a row is."""
        at = bisect_right(self.entries, row, key=lambda entry: entry.first_row) - 1
        group = None if at < 0 else self.open(self.entries[at]).group_of(row)
        return None if group is None else (at, group)

    def _place_of(self, row: int) -> tuple[int, int]:
        """The number of the entry, and of its row group, that hold a row."""
        place = self._find_place(row)
        if place is None:
            raise self._no_document(row)
        return place

    def _no_document(self, row: int) -> DamagedError:
        return DamagedError(f"there is no document in row {row:,}", where=self._folder)

    def rows_of_id(self, document_id: str) -> list[int]:
        """The rows of the documents with an id."""
        return [row for entry in self.entries for row in self.open(entry).rows_of_id(document_id)]

    def _row_group(self, at: int, group: int, names: Sequence[str]) -> pa.Table:
        recent = self._recent  # which another thread may exchange
        if recent is not None and recent[0] == (at, group):
            return recent[1]
        table = self.open(self.entries[at]).read_group(group, names)
        self._recent = ((at, group), table) if table.nbytes <= _KEPT_GROUP else None
        return table

"""Reading parts row group by row group: the only way in which pages of a part are read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bertfeat.errors import DamagedError
from bertfeat.features.part import UNREADABLE_ERRORS, PartFooter
from bertfeat.io import open_regular


@dataclass(frozen=True)
class PartReader:
    """A part whose footer was read; its file is opened anew for every read, so that threads do not meet."""

    footer: PartFooter

    @cached_property
    def bounds(self) -> list[tuple[int, int]]:
        """First and last row of each row group, from the statistics of the column ``row``, else from its values."""
        return [self._bounds(group) for group in range(self.footer.metadata.num_row_groups)]

    def _bounds(self, group: int) -> tuple[int, int]:
        found = self.footer.metadata.row_group(group).column(0).statistics
        if found is not None and found.has_min_max:
            return int(found.min), int(found.max)
        rows = self.read_group(group, ["row"]).column("row")
        return rows[0].as_py(), rows[-1].as_py()

    def batches(self, names: Sequence[str], *, start: int, stop: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The documents with ``start <= row < stop``, at most a row group and ``batch_rows`` documents at a time.

        Raises:
            Damaged: a page's checksum does not hold.
        """
        for group, (first, last) in enumerate(self.bounds):
            if first >= stop or last < start:
                continue
            table = self.read_group(group, ["row", *(name for name in names if name != "row")])
            if first < start or last >= stop:
                begin, end = np.searchsorted(table.column("row").to_numpy(), [start, stop])
                table = table.slice(begin, end - begin)
            yield from table.select(names).combine_chunks().to_batches(max_chunksize=batch_rows)

    def may_hold_id(self, group: int, wanted: str) -> bool:
        """Whether a row group may hold the id, by the statistics of the column ``id``."""
        statistics = self.footer.metadata.row_group(group).column(1).statistics
        return statistics is None or not statistics.has_min_max or statistics.min <= wanted <= statistics.max

    def rows_of_id(self, wanted: str) -> list[int]:
        """Rows of the documents with that id."""
        rows: list[int] = []
        for group in range(self.footer.metadata.num_row_groups):
            if self.may_hold_id(group, wanted):
                table = self.read_group(group, ["row", "id"])
                # not by NumPy, to which "\\0" and "" are equal
                rows.extend(table.filter(pc.equal(table.column("id"), wanted)).column("row").to_pylist())
        return rows

    def group_of(self, row: int) -> int | None:
        """Number of the row group that holds a row; None where the row is blank or failed between two groups."""
        return next((group for group, (first, last) in enumerate(self.bounds) if first <= row <= last), None)

    def _check(self, table: pa.Table) -> None:
        """Refuse what no vector could be made of; :mod:`bertfeat.features.part_check` looks at everything else."""
        for column in self.footer.header.columns:
            if column.name in table.column_names and not column.pooling.per_document:
                sizes = pc.binary_length(table.column(column.name)).to_numpy()
                if np.any(sizes % (column.width * np.dtype(column.dtype).itemsize)):
                    raise ValueError(f"{column.name} holds a matrix whose rows are not whole")
        for name in {"row", "id", *(column.name for column in self.footer.header.columns)}.intersection(
            table.column_names
        ):
            if table.column(name).null_count:
                raise ValueError(f"{name} holds null")

    def read_group(self, group: int, names: Sequence[str]) -> pa.Table:
        """Read some columns of a row group, against its pages' checksums.

        Raises:
            Damaged: a checksum does not hold, or the file is gone.
        """
        try:
            with (
                open_regular(self.footer.path) as stream,
                pq.ParquetFile(
                    stream, metadata=self.footer.metadata, page_checksum_verification=True, pre_buffer=False
                ) as file,
            ):
                # one thread: no gain over a single column, and the caller's own threads are left alone
                table = file.read_row_group(group, columns=list(names), use_threads=False).select(list(names))
                self._check(table)
                return table
        except UNREADABLE_ERRORS as error:
            raise DamagedError(
                f"{self.footer.path}: row group {group} cannot be read ({error}); "
                f"bertfeat verify says what else is damaged, and the same extract command redoes it"
            ) from error

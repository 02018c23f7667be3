"""A reader of a feature set's Parquet part, one row group at a time."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from io import IOBase, RawIOBase
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bertfeat.errors import DamagedError, FeatureSetError
from bertfeat.features.part import UNREADABLE_ERRORS, PartFooter
from bertfeat.features.seal import check_footer
from bertfeat.io import Address, Location, file_identity, open_file

if TYPE_CHECKING:
    from typing_extensions import Buffer  # in collections.abc since Python 3.12


@dataclass(frozen=True)
class PartReader:
    """A part whose footer was read.

    A local file is opened anew for every read, so that threads do not share a handle; an object, whose opening is a
    request, is opened once for each thread that reads at the same time. Each opening checks that the file is the
    footer's own, or an equal one.
    """

    footer: PartFooter
    _opened: list[IOBase] = field(default_factory=list, repr=False, compare=False)  # idle streams of an object
    _equal: list[object] = field(default_factory=list, repr=False, compare=False)  # identities of equal files

    @cached_property
    def bounds(self) -> list[tuple[int, int]]:
        """First and last row of each row group; of an empty one ``(0, -1)``."""
        return [self._group_bounds(group) for group in range(self.footer.metadata.num_row_groups)]

    def _group_bounds(self, group: int) -> tuple[int, int]:
        """The bounds by the statistics of the column ``row``, or else by its values."""
        statistics = self._statistics(group, 0)
        if statistics is not None:
            return int(statistics.min), int(statistics.max)
        rows = self.read_group(group, ["row"]).column("row").to_numpy()
        return (int(rows[0]), int(rows[-1])) if len(rows) else (0, -1)

    def _statistics(self, group: int, column: int) -> pq.Statistics | None:
        """The least and the greatest value of a column in a row group, where the part has them."""
        statistics = self.footer.metadata.row_group(group).column(column).statistics
        return statistics if statistics is not None and statistics.has_min_max else None

    def batches(self, names: Sequence[str], *, start: int, stop: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The documents with ``start <= row < stop``, at most a row group and ``batch_rows`` documents at a time.

        Raises:
            DamagedError: a page's checksum does not hold.
        """
        for group, (first, last) in enumerate(self.bounds):
            if first >= stop or last < start:
                continue
            table = self.read_group(group, ["row", *(name for name in names if name != "row")])
            if first < start or last >= stop:
                begin, end = np.searchsorted(table.column("row").to_numpy(), [start, stop])
                table = table.slice(begin, end - begin)
            yield from table.select(names).combine_chunks().to_batches(max_chunksize=batch_rows)

    def may_hold_id(self, group: int, document_id: str) -> bool:
        """Whether a row group may hold the id, by the statistics of the column ``id``."""
        statistics = self._statistics(group, 1)
        return statistics is None or statistics.min <= document_id <= statistics.max

    def rows_of_id(self, document_id: str) -> list[int]:
        """Rows of the documents with that id."""
        rows: list[int] = []
        for group in range(self.footer.metadata.num_row_groups):
            if self.may_hold_id(group, document_id):
                table = self.read_group(group, ["row", "id"])
                # not by NumPy, to which "\\0" and "" are equal
                rows.extend(table.filter(pc.equal(table.column("id"), document_id)).column("row").to_pylist())
        return rows

    def group_of(self, row: int) -> int | None:
        """Number of the row group that holds a row; None where the row lies between two groups, blank or failed."""
        return next((group for group, (first, last) in enumerate(self.bounds) if first <= row <= last), None)

    def _check_table(self, table: pa.Table) -> None:
        """Refuse nulls and partial matrices; :mod:`bertfeat.features.part_check` checks everything else."""
        for column in self.footer.header.columns:
            if column.name in table.column_names and not column.pooling.per_document:
                sizes = pc.binary_length(table.column(column.name)).to_numpy()
                if np.any(sizes % (column.width * np.dtype(column.dtype).itemsize)):
                    raise ValueError(f"{column.name} holds a matrix whose rows are not whole")
        complete = {"row", "id", *(column.name for column in self.footer.header.columns)}
        for name in complete.intersection(table.column_names):
            if table.column(name).null_count:
                raise ValueError(f"{name} holds null")

    def read_group(self, group: int, names: Sequence[str]) -> pa.Table:
        """Read some columns of a row group, against its pages' checksums.

        Raises:
            DamagedError: a checksum does not hold.
            FeatureSetError: another file is in its place by now, or none.
        """
        try:
            with (
                self._open() as stream,
                pq.ParquetFile(
                    stream,
                    metadata=self.footer.metadata,
                    page_checksum_verification=True,
                    pre_buffer=isinstance(self.footer.path, Address),  # neighboring columns in one request
                ) as file,
            ):
                # one thread: no gain over a single column, and the caller's own threads are left alone
                table = file.read_row_group(group, columns=list(names), use_threads=False).select(list(names))
                self._check_table(table)
                return table
        except FileNotFoundError as error:
            raise replaced_while_open(self.footer.path) from error
        except UNREADABLE_ERRORS as error:
            raise DamagedError(
                f"row group {group} cannot be read ({error})",
                where=self.footer.path,
                remedy="bertfeat verify says what else is damaged, and the same extract command redoes it",
            ) from error

    @contextmanager
    def _open(self) -> Iterator[IOBase | pa.NativeFile]:
        place = self.footer.path
        if not isinstance(place, Address):
            open_file(place).close()  # refuses a pipe, on which Arrow would wait
            with pa.OSFile(os.fsencode(place)) as file:
                self._check_identity(file)
                yield file
            return
        if self._opened:
            stream = self._opened.pop()
        else:
            file = open_file(place)
            self._check_identity(file)
            stream = _WholeReads(file.detach())
        yield stream
        self._opened.append(stream)

    def _check_identity(self, file: IOBase | pa.NativeFile) -> None:
        """Refuse a file that has taken the place of the one that the footer came from; an equal one is as good."""
        identity = file_identity(file)
        if identity == self.footer.identity or identity in self._equal:
            return
        there = check_footer(self.footer.path)
        if (there.sha256, there.identity) != (self.footer.sha256, identity):
            raise replaced_while_open(self.footer.path)
        self._equal.append(identity)


def replaced_while_open(place: Location) -> FeatureSetError:
    """The error of a part that is not the one that was opened."""
    return FeatureSetError("the set was replaced while it was open", where=place, remedy="open it again")


class _WholeReads(RawIOBase):
    """A file that gives all that a read asks for, as pyarrow expects it.

    A buffered file does so too, but its read-ahead would cost a request; pyarrow asks for whole ranges.
    """

    def __init__(self, file: RawIOBase) -> None:
        super().__init__()
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def readinto(self, buffer: "Buffer") -> int:
        view, filled = memoryview(buffer).cast("B"), 0
        while filled < len(view) and (count := self._file.readinto(view[filled:])):
            filled += count
        return filled

"""The open parts of one feature set: read row groups and check their checksums, and find rows by number or id.

Parts are opened when they are needed. The row group of the row that was read last is kept for the next row.
"""

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from io import IOBase, RawIOBase
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bertfeat.core.features.cells import vector_bytes
from bertfeat.core.features.manifest import read_manifest
from bertfeat.core.features.part import UNREADABLE_ERRORS, PartFooter, read_footer
from bertfeat.core.features.parts import SUCCESSOR, PartEntry
from bertfeat.core.features.schema import column_problems
from bertfeat.core.features.sealed_file import REDO_PART, check_footer
from bertfeat.errors import DamagedError, FeatureSetError
from bertfeat.io import Address, Location, file_identity, file_stamp, open_file

if TYPE_CHECKING:
    from typing_extensions import Buffer  # in collections.abc since Python 3.12


@dataclass(frozen=True)
class PartReader:
    """A part whose footer was read.

    A local file is opened anew for every read, so that threads do not share a handle. Opening an object takes a
    request, so it is opened once for each thread that reads at the same time. Each opening checks that the file is the
    one that the footer was read from, or an equal one.
    """

    footer: PartFooter
    later: Location | None = None  # where a part is moved that waited to be put in its place (SUCCESSOR)
    _idle: list[IOBase] = field(default_factory=list, repr=False, compare=False)  # streams of an object
    _equal: list[object] = field(default_factory=list, repr=False, compare=False)  # identities of equal files

    @cached_property
    def bounds(self) -> list[tuple[int, int]]:
        """First and last row of each row group; ``(0, -1)`` for an empty one."""
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
        """The documents with ``start <= row < stop``, at most a row group and ``batch_rows`` documents at a time."""
        for group, (first, last) in enumerate(self.bounds):
            if first >= stop or last < start:
                continue
            table = self.read_group(group, ["row", *(name for name in names if name != "row")])
            if first < start or last >= stop:
                begin, end = np.searchsorted(table.column("row").to_numpy(), [start, stop])
                table = table.slice(begin, end - begin)
            table = table.select(names).combine_chunks()
            yield from table.to_batches(max_chunksize=min(batch_rows, max(1, len(table))))

    def take(self, rows: NDArray[np.int64], names: Sequence[str]) -> pa.Table:
        """The documents of ascending rows, each as often as it is asked for; only their row groups are read.

        Raises:
            DamagedError: a row is not there, or a checksum does not hold.
        """
        taken = []
        for group, (first, last) in enumerate(self.bounds):
            wanted = rows[slice(*np.searchsorted(rows, [first, last + 1]))]
            if len(wanted):
                table = self.read_group(group, names)
                taken.append(table.take(np.searchsorted(table.column("row").to_numpy(), wanted)))
        table = pa.concat_tables(taken)
        if not np.array_equal(table.column("row").to_numpy(), rows):
            raise DamagedError("rows are not where its index says", where=self.footer.path, remedy=REDO_PART)
        return table

    def rows_of_id(self, document_id: str) -> list[int]:
        """The rows of the part's documents that have an id."""
        rows: list[int] = []
        for group in range(self.footer.metadata.num_row_groups):
            statistics = self._statistics(group, 1)  # of the column ``id``
            if statistics is None or statistics.min <= document_id <= statistics.max:
                table = self.read_group(group, ["row", "id"])
                # not by NumPy, to which "\\0" and "" are equal
                rows.extend(table.filter(pc.equal(table.column("id"), document_id)).column("row").to_pylist())
        return rows

    def group_of(self, row: int) -> int | None:
        """Number of the row group that holds a row; None where the row lies between two groups, blank or failed."""
        return next((group for group, (first, last) in enumerate(self.bounds) if first <= row <= last), None)

    def _check_table(self, table: pa.Table) -> None:
        """Refuse nulls and partial matrices; :mod:`bertfeat.core.features.part_check` checks everything else."""
        for column in self.footer.header.columns:
            if column.name in table.column_names and not column.pooling.per_document:
                sizes = pc.binary_length(table.column(column.name)).to_numpy()
                if np.any(sizes % vector_bytes(column)):
                    raise ValueError(f"{column.name} holds a matrix whose rows are not whole")
        complete = {"row", "id", *(column.name for column in self.footer.header.columns)}
        for name in complete.intersection(table.column_names):
            if table.column(name).null_count:
                raise ValueError(f"{name} holds null")

    def read_group(self, group: int, names: Sequence[str]) -> pa.Table:
        """Read some columns of a row group, and check the checksums of their pages."""
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
                # one thread: several gain nothing for a single column, and would take cores from the caller's threads
                table = file.read_row_group(group, columns=list(names), use_threads=False).select(list(names))
                self._check_table(table)
                return table
        except FileNotFoundError as error:
            raise _replaced_while_open(self.footer.path) from error
        except UNREADABLE_ERRORS as error:
            raise DamagedError(
                f"row group {group} cannot be read ({error})",
                where=self.footer.path,
                remedy="bertfeat verify says what else is damaged, and the same extract command redoes it",
            ) from error

    @contextmanager
    def _open(self) -> Iterator[IOBase | pa.NativeFile]:
        """Open the part for one read: a local file anew, an object by an idle stream if there is one."""
        place = self._place()
        if isinstance(place, Address):
            stream = self._idle.pop() if self._idle else self._open_stream(place)
            yield stream
            self._idle.append(stream)  # not reached by an error in the read, after which the stream is left alone
            return
        open_file(place).close()  # refuses a pipe, on which Arrow would wait
        with pa.OSFile(os.fsencode(place)) as file:
            self._check_identity(file, place)
            yield file

    def _place(self) -> Location:
        """The place of the part now."""
        if self.later is None or file_stamp(self.footer.path) is not None:
            return self.footer.path
        return self.later

    def _open_stream(self, place: Address) -> IOBase:
        file = open_file(place)
        self._check_identity(file, place)
        return _WholeReads(file.detach())

    def _check_identity(self, file: IOBase | pa.NativeFile, place: Location) -> None:
        """Refuse a file that has taken the place of the one that the footer came from; an equal one is as good."""
        identity = file_identity(file)
        if identity == self.footer.identity or identity in self._equal:
            return
        there = check_footer(place)
        if (there.sha256, there.identity) != (self.footer.sha256, identity):
            raise _replaced_while_open(place)
        self._equal.append(identity)


def _replaced_while_open(place: Location) -> FeatureSetError:
    """The error of a part that is not the one that was opened."""
    return FeatureSetError("the set was replaced while it was open", where=place, remedy="open it again")


class _WholeReads(RawIOBase):
    """A file that gives all that a read asks for, as pyarrow expects it.

    A buffered file does so too, but its read-ahead would cost a request, and pyarrow asks for whole ranges anyway.
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


class OpenParts:
    """The parts of a feature set. All have the columns of the first one, whose footer is read at once.

    Raises:
        DamagedError: the first part is damaged, or is not the listed one.
    """

    def __init__(self, folder: Location, entries: Sequence[PartEntry]) -> None:
        self._folder, self.entries = folder, entries
        self._first: PartFooter | None = None
        self.open = lru_cache(maxsize=64)(self.open_anew)  # at most 64 footers are kept in memory
        """Open a listed part, or take it from the cache."""
        self._recent: tuple[tuple[tuple[int, int], tuple[str, ...]], pa.Table] | None = None  # of find_row
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
        footer = self._find_footer(entry)
        for problem in column_problems(footer.schema, footer.header.columns):
            raise DamagedError(problem, where=footer.path, remedy="extract it again")
        first = self._first or footer
        if (footer.schema.names, footer.schema.types) != (first.schema.names, first.schema.types):
            raise DamagedError(
                f"its columns are not those of {first.path.name}", where=footer.path, remedy="extract it again"
            )
        place = self._folder / entry.name
        return PartReader(footer, None if footer.path == place else place)

    def _find_footer(self, entry: PartEntry) -> PartFooter:
        """The footer of a listed part: in its place, or where it waits to be moved there (:data:`SUCCESSOR`)."""
        place, waiting = self._folder / entry.name, self._folder / SUCCESSOR / entry.name
        try:
            footer = read_footer(place)
        except FeatureSetError:
            if file_stamp(waiting) is None:
                self._refuse_replaced(entry)
                raise
        else:
            if footer.sha256 == entry.sha256:
                return footer
        if file_stamp(waiting) is not None and (footer := read_footer(waiting)).sha256 == entry.sha256:
            return footer
        self._refuse_replaced(entry)
        raise DamagedError("this is not the part that the manifest lists", where=place, remedy=REDO_PART)

    def _refuse_replaced(self, entry: PartEntry) -> None:
        """Raise an error if the set was extracted anew rather than damaged: its manifest lacks the part, or is gone."""
        manifest = read_manifest(self._folder)
        if manifest is None or entry not in manifest.parts:
            raise _replaced_while_open(self._folder / entry.name)

    def find_row(self, row: int, names: Sequence[str]) -> pa.RecordBatch | None:
        """The document of a row; None where the row is blank, failed, or outside the corpus."""
        place = self._find_place(row)
        if place is None:
            return None
        wanted, recent = (place, tuple(names)), self._recent  # read once, since another thread may replace it
        if recent is not None and recent[0] == wanted:
            table = recent[1]
        else:
            table = self.open(self.entries[place[0]]).read_group(place[1], names)
            self._recent = (wanted, table) if table.nbytes <= 64 << 20 else None  # larger ones are not kept
        index = pc.index_in(pa.scalar(row, pa.int64()), table.column("row")).as_py()
        if index is None:
            return None
        (batch,) = table.slice(index, 1).combine_chunks().to_batches()
        return batch

    def find_rows(self, rows: Sequence[int], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The documents of those ascending rows that have one; a row group is read once, and only if rows lie in it.

        ``names`` include ``row``.

        Raises:
            DamagedError: a checksum does not hold.
        """
        for place, wanted in groupby(rows, self._find_place):
            if place is not None:
                table = self.open(self.entries[place[0]]).read_group(place[1], names)
                chosen = np.isin(table.column("row").to_numpy(), list(wanted))
                yield from table.filter(pa.array(chosen)).combine_chunks().to_batches()

    def _find_place(self, row: int) -> tuple[int, int] | None:
        """The numbers of the entry and of its row group whose range of rows includes a row; None if there is none."""
        at = bisect_right(self.entries, row, key=lambda entry: entry.first_row) - 1
        group = None if at < 0 else self.open(self.entries[at]).group_of(row)
        return None if group is None else (at, group)

    def rows_of_id(self, document_id: str) -> list[int]:
        """The rows of the documents with an id."""
        return [row for entry in self.entries for row in self.open(entry).rows_of_id(document_id)]

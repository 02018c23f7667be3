"""The stores of an index's documents, and of its tokens, words or spans: memory-mapped Arrow files of numbered rows.

Every record batch but the last has the same number of rows, so a row is found without searching. Each column of a batch
is validated when it is first read (offsets and numbers in range, valid UTF-8, no unexpected nulls), so that a damaged
file causes an error and not a crash.
"""

import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bertfeat.core import NpyWriter
from bertfeat.errors import IndexFolderError, parameter
from bertfeat.io import Location, open_regular
from bertfeat.search.settings import DIGESTS_NAME, DOCUMENTS_NAME, PIECES_NAME, REBUILD
from bertfeat.search.vectors.vector_blocks import VectorBlock

_BATCH_ROWS = 4096  # of every record batch but the last
SOURCE = "_source"  # name of the column with the number of the feature set that a document is from
DIGEST = "text_digest"  # name of the column of a feature set with the digests of its texts, in hexadecimal
DIGEST_BYTES = 16
_DAMAGED = (pa.ArrowException, OSError, ValueError, KeyError)  # errors of pyarrow for damaged bytes
# tokens, words or spans; the fields are explained in PieceColumns
PIECES_SCHEMA = pa.schema(
    [
        ("document", pa.int64()),
        ("number", pa.int32()),
        ("start", pa.int32()),
        ("end", pa.int32()),
        ("segment", pa.int8()),
    ]
)
_KEPT = frozenset([pa.string(), pa.large_string(), pa.int64(), pa.float64(), pa.bool_()])  # types of kept columns


class ArrowStoreWriter:
    """Writes a store from tables of any size; columns that a table lacks become null."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._writer = pa.ipc.new_file(str(path), schema)
        self._waiting: list[pa.Table] = []
        self._count = 0

    def __enter__(self) -> "ArrowStoreWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._flush(1)
            self._writer.close()
            return
        with suppress(OSError):  # a full disk was reported already
            self._writer.close()

    def write(self, table: pa.Table) -> None:
        """Append the table's rows."""
        self._waiting.append(_conform(table, self._schema))
        self._count += len(table)
        self._flush(_BATCH_ROWS)

    def _flush(self, least: int) -> None:
        """Write full batches if ``least`` rows are waiting; with 1, write the remainder too."""
        if self._count < least:
            return
        table = pa.concat_tables(self._waiting).combine_chunks()
        whole = self._count if least == 1 else self._count - self._count % _BATCH_ROWS
        for start in range(0, whole, _BATCH_ROWS):
            (batch,) = table.slice(start, min(_BATCH_ROWS, whole - start)).combine_chunks().to_batches()
            self._writer.write_batch(batch)
        self._waiting, self._count = [table.slice(whole)], self._count - whole


@dataclass(frozen=True, slots=True)
class RenewedDocuments:
    """Documents of an index as its feature sets have them now: other rows, ids and kept values, but the same texts."""

    store: "ArrowStore"
    places: NDArray[np.int64]  # [D] the row in the store of each document of the index; -1: it stays as it is

    def renew(self, table: pa.Table, start: int, kept: NDArray[np.bool_]) -> pa.Table:
        """The rows of those documents of the index that are ``kept``; ``start`` is the number of the first of all."""
        places = self.places[start : start + len(kept)][kept]
        renewed = places >= 0
        if not renewed.any():
            return table
        fresh = self.store.take(places[renewed])
        if renewed.all():
            return fresh
        others = _conform(table.filter(pa.array(~renewed)), fresh.schema)
        order = np.argsort(np.concatenate([np.flatnonzero(renewed), np.flatnonzero(~renewed)]))
        return pa.concat_tables([fresh, others]).take(_row_numbers(order))


class IndexStoresWriter:
    """Writes the stores of an index: the documents with the digests of their texts, and its tokens, words or spans."""

    def __init__(self, folder: Path, documents: pa.Schema, *, per_document: bool) -> None:
        self.documents = 0
        self._files = ExitStack()
        self._documents = self._files.enter_context(ArrowStoreWriter(folder / DOCUMENTS_NAME, documents))
        self._digests = self._files.enter_context(NpyWriter(folder / DIGESTS_NAME, DIGEST_BYTES, "uint8"))
        self._pieces: ArrowStoreWriter | None = None
        if not per_document:
            self._pieces = self._files.enter_context(ArrowStoreWriter(folder / PIECES_NAME, PIECES_SCHEMA))

    def __enter__(self) -> "IndexStoresWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.__exit__(kind, error, trace)

    def write(self, block: VectorBlock) -> None:
        """Append a block's documents, and its tokens, words or spans."""
        for table in block.documents:
            self._write_documents(table, read_digests(table))
        if self._pieces is not None and block.pieces is not None:
            columns = {name: getattr(block.pieces, name) for name in PIECES_SCHEMA.names}
            self._pieces.write(pa.table(columns, schema=PIECES_SCHEMA))

    def copy_documents(
        self,
        documents: "ArrowStore",
        digests: NDArray[np.uint8],
        kept: NDArray[np.bool_],
        renewed: RenewedDocuments | None,
    ) -> None:
        """Append those documents of another store for which ``kept`` is true."""
        start = 0
        for batch in documents.batches():
            chosen = kept[start : start + len(batch)]
            table = pa.Table.from_batches([batch]).filter(pa.array(chosen))
            table = table if renewed is None else renewed.renew(table, start, chosen)
            self._write_documents(table, digests[start : start + len(batch)][chosen])
            start += len(batch)

    def copy_pieces(self, pieces: "ArrowStore", kept: NDArray[np.bool_], documents: NDArray[np.bool_]) -> None:
        """Append those tokens, words or spans of another store for which ``kept`` is true, with the kept documents."""
        assert self._pieces is not None
        number, start = np.cumsum(documents) - 1, 0  # the new number of each kept document
        for batch in pieces.batches():
            table = pa.Table.from_batches([batch]).filter(pa.array(kept[start : start + len(batch)]))
            start += len(batch)
            self._pieces.write(table.set_column(0, "document", pa.array(number[table["document"].to_numpy()])))

    def _write_documents(self, table: pa.Table, digests: NDArray[np.uint8]) -> None:
        self._documents.write(table)
        self._digests.write(digests)
        self.documents += len(table)


def read_digests(table: pa.Table | pa.RecordBatch) -> NDArray[np.uint8]:
    """The digests of the texts of some documents, ``[n, 16]``; 0 where their feature set does not store texts."""
    if DIGEST not in table.schema.names:
        return np.zeros((len(table), DIGEST_BYTES), np.uint8)
    written = bytes.fromhex("".join(table.column(DIGEST).to_pylist()))
    return np.frombuffer(written, np.uint8).reshape(-1, DIGEST_BYTES)


class ArrowStore:
    """A store to read; ``expected`` are the columns that it must have, with their types.

    Of these, only the columns ``gaps`` may have nulls. The numbers in the columns of ``below`` are at least 0, and less
    than the value given there.
    """

    def __init__(self, path: Path, expected: pa.Schema, *, below: Mapping[str, int], gaps: Sequence[str] = ()) -> None:
        self._path = path
        self._without_nulls, self._below = set(expected.names).difference(gaps), below
        self._validated: set[tuple[int, str]] = set()  # number of a batch, column
        try:
            with open_regular(path) as file:
                # mapped by its handle: the file stays readable when the folder is replaced
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._reader = pa.ipc.open_file(pa.py_buffer(mapped))
            self.schema: pa.Schema = self._reader.schema
            self._names = tuple(self.schema.names)
            batches = self._reader.num_record_batches
            last: int = self._reader.get_batch(batches - 1).num_rows if batches else 0
        except _DAMAGED as error:
            raise self._damaged(error) from error
        self._check_columns(expected)
        self._count: int = max(0, batches - 1) * _BATCH_ROWS + last

    def __len__(self) -> int:
        return self._count

    def batches(self, names: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows in order, with the columns of those names (default: all)."""
        for number in range(self._reader.num_record_batches):
            yield self._batch(number, self._names if names is None else names)

    def numbers(self, name: str) -> NDArray[np.int64]:
        """All values of a column of integers."""
        parts = [batch.column(0).to_numpy() for batch in self.batches([name])]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def take(self, rows: NDArray[np.integer], names: Sequence[str] | None = None) -> pa.Table:
        """The rows of those numbers, in the order given, with the columns of those names (default: all)."""
        names = self._names if names is None else names
        wrong = rows[(rows < 0) | (rows >= self._count)]
        if len(wrong):
            raise self._damaged(f"row {wrong[0]:,} is asked for, and it has {self._count:,}")
        unique, places = np.unique(rows, return_inverse=True)
        batch_of = unique // _BATCH_ROWS
        parts = [
            self._batch(int(number), names).take(_row_numbers(unique[batch_of == number] % _BATCH_ROWS))
            for number in np.unique(batch_of)
        ]
        schema = pa.schema([self.schema.field(name) for name in names])
        return pa.Table.from_batches(parts, schema).take(_row_numbers(places))

    def _batch(self, number: int, names: Sequence[str]) -> pa.RecordBatch:
        try:
            batch = self._reader.get_batch(number)
            if number < self._reader.num_record_batches - 1 and batch.num_rows != _BATCH_ROWS:
                raise self._damaged(f"batch {number} has {batch.num_rows:,} rows")
            batch = batch if names is self._names else batch.select(list(names))
            for name, values in zip(names, batch.columns, strict=True):
                if (number, name) not in self._validated:
                    values.validate(full=True)
                    self._check_values(name, values)
                    self._validated.add((number, name))
            return batch
        except _DAMAGED as error:
            raise self._damaged(error) from error

    def _check_columns(self, expected: pa.Schema) -> None:
        for field in expected:
            if field not in self.schema:
                raise self._damaged(f"it has no column {field.name!r} of {field.type}")
        for field in self.schema:
            if self._names.count(field.name) > 1:
                raise self._damaged(f"it has the column {field.name!r} {self._names.count(field.name)} times")
            if field.name not in expected.names and field.type not in _KEPT:
                raise self._damaged(f"its column {field.name!r} is {field.type}, which is never kept")

    def _check_values(self, name: str, values: pa.Array) -> None:
        if name in self._without_nulls and values.null_count:
            raise self._damaged(f"{values.null_count:,} of {name!r} are missing")
        if name not in self._below or not len(values):
            return
        limits, end = pc.min_max(values).as_py(), self._below[name]
        for value in (limits["min"], limits["max"]):
            if not 0 <= value < end:
                raise self._damaged(f"{name!r} {value:,} is in it, and they are from 0 to {end - 1:,}")

    def _damaged(self, problem: object) -> IndexFolderError:
        return IndexFolderError(f"cannot be read ({problem})", where=self._path, remedy=REBUILD)


def document_schema(schemas: Iterable[tuple[Location, pa.Schema]]) -> pa.Schema:
    """Merge the columns of several folders' documents, and add one for the feature set that each document is from."""
    fields: dict[str, pa.DataType] = {}
    first: dict[str, Location] = {}
    for folder, schema in schemas:
        for field in schema:
            if field.name == SOURCE:
                continue
            kind = pa.large_string() if field.type == pa.string() else field.type
            earlier = first.setdefault(field.name, folder)
            if fields.setdefault(field.name, kind) != kind:
                raise IndexFolderError(
                    f"the column {field.name!r} is {fields[field.name]} in {earlier} and {kind} in {folder}",
                    remedy=f"leave it out of {parameter('keep')} or convert it, and extract again",
                )
    fields[SOURCE] = pa.int32()
    return pa.schema(list(fields.items()))


def _conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with the columns and types of a schema, and no others; columns that it lacks become null."""
    if table.schema.equals(schema):
        return table
    present = dict(zip(table.column_names, table.columns, strict=True))
    columns = [
        present[field.name].cast(field.type) if field.name in present else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _row_numbers(numbers: NDArray[np.integer]) -> pa.Int64Array:
    """Convert row numbers for Arrow; ``pa.array`` would import pandas, which takes as long as a search."""
    buffer = pa.py_buffer(np.ascontiguousarray(numbers.reshape(-1), np.int64))
    return pa.Array.from_buffers(pa.int64(), numbers.size, [None, buffer])

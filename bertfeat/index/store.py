"""What an index knows of each document and each token, by number: Arrow files, mapped into memory, read at random.

Every record batch has the same number of rows, so a row is found without searching.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.errors import IndexFolderError
from bertfeat.index.blocks import Block

BATCH_ROWS = 4096
DOCUMENTS_NAME = "documents.arrow"
PIECES_NAME = "pieces.arrow"
SOURCE = "_source"  # the column that says which of the feature sets a document is from
PIECES = pa.schema(
    [
        ("document", pa.int64()),
        ("number", pa.int32()),
        ("start", pa.int32()),
        ("end", pa.int32()),
        ("segment", pa.int8()),
    ]
)


class StoreWriter:
    """Writes a store; rows come in tables of any size, columns that a table lacks become null."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._writer = pa.ipc.new_file(str(path), schema)
        self._waiting: list[pa.Table] = []
        self._count = 0

    def __enter__(self) -> "StoreWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._flush(1)
        self._writer.close()

    def write(self, table: pa.Table) -> None:
        """Append the table's rows."""
        self._waiting.append(_fitted(table, self._schema))
        self._count += len(table)
        self._flush(BATCH_ROWS)

    def _flush(self, least: int) -> None:
        if self._count < least:
            return
        table = pa.concat_tables(self._waiting).combine_chunks()
        whole = self._count if least == 1 else self._count - self._count % BATCH_ROWS
        for start in range(0, whole, BATCH_ROWS):
            (batch,) = table.slice(start, min(BATCH_ROWS, whole - start)).combine_chunks().to_batches()
            self._writer.write_batch(batch)
        self._waiting, self._count = [table.slice(whole)], self._count - whole


class StoresWriter:
    """Writes the stores of an index: of its documents, and of its tokens or words where these are what it finds."""

    def __init__(self, folder: Path, documents: pa.Schema, *, per_document: bool) -> None:
        self.documents = 0
        self._documents = StoreWriter(folder / DOCUMENTS_NAME, documents)
        self._pieces = None if per_document else StoreWriter(folder / PIECES_NAME, PIECES)

    def __enter__(self) -> "StoresWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._documents.__exit__(kind, error, trace)
        if self._pieces is not None:
            self._pieces.__exit__(kind, error, trace)

    def write(self, block: Block) -> None:
        """Append what a block says of its documents and pieces."""
        for table in block.documents:
            self._documents.write(table)
            self.documents += len(table)
        if self._pieces is not None and block.pieces is not None:
            columns = {name: getattr(block.pieces, name) for name in PIECES.names}
            self._pieces.write(pa.table(columns, schema=PIECES))

    def copy(
        self, documents: "Store", pieces: "Store | None", kept: NDArray[np.bool_], kept_pieces: NDArray[np.bool_]
    ) -> None:
        """Append those rows of other stores for which ``kept`` and ``kept_pieces`` are true."""
        start = 0
        for batch in documents.batches():
            table = pa.Table.from_batches([batch]).filter(pa.array(kept[start : start + len(batch)]))
            start += len(batch)
            self._documents.write(table)
            self.documents += len(table)
        if pieces is None or self._pieces is None:
            return
        number, start = np.cumsum(kept) - 1, 0
        for batch in pieces.batches():
            table = pa.Table.from_batches([batch]).filter(pa.array(kept_pieces[start : start + len(batch)]))
            start += len(batch)
            self._pieces.write(table.set_column(0, "document", pa.array(number[table["document"].to_numpy()])))


class Store:
    """A store that was written."""

    def __init__(self, path: Path) -> None:
        try:
            self._reader = pa.ipc.open_file(pa.memory_map(str(path)))
            batches = self._reader.num_record_batches
            last: int = self._reader.get_batch(batches - 1).num_rows if batches else 0
        except (pa.ArrowException, OSError) as error:
            raise IndexFolderError(f"{path}: cannot be read ({error}); build the index again") from error
        self.schema: pa.Schema = self._reader.schema
        self._count: int = max(0, batches - 1) * BATCH_ROWS + last

    def __len__(self) -> int:
        return self._count

    def batches(self, names: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows in order, with the columns of those names (default: all)."""
        for number in range(self._reader.num_record_batches):
            batch = self._reader.get_batch(number)
            yield batch if names is None else batch.select(list(names))

    def column(self, name: str) -> NDArray[Any]:
        """A whole column of numbers."""
        found = [batch.column(name).to_numpy(zero_copy_only=False) for batch in self.batches([name])]
        return np.concatenate(found) if found else np.empty(0, self.schema.field(name).type.to_pandas_dtype())

    def take(self, rows: NDArray[np.integer]) -> pa.Table:
        """The rows of those numbers, in the order given."""
        unique, places = np.unique(rows, return_inverse=True)
        batch_of = unique // BATCH_ROWS
        found = [
            self._reader.get_batch(int(number)).take(pa.array(unique[batch_of == number] % BATCH_ROWS))
            for number in np.unique(batch_of)
        ]
        return pa.Table.from_batches(found, self.schema).take(pa.array(places.reshape(-1)))


def document_schema(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """The columns of several sets' documents together, and which set each document is from.

    Raises:
        IndexFolderError: a column is of different types in two sets.
    """
    fields: dict[str, pa.DataType] = {}
    for schema in schemas:
        for field in schema:
            kind = pa.large_string() if field.type == pa.string() else field.type
            if fields.setdefault(field.name, kind) != kind:
                raise IndexFolderError(
                    f"the column {field.name!r} is {fields[field.name]} in one feature set and {kind} in another; "
                    f"leave it out of --keep or convert it, and extract again"
                )
    fields[SOURCE] = pa.int16()
    return pa.schema(list(fields.items()))


def _fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.schema.names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)

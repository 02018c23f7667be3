"""A Lance dataset of vectors: written or updated in one commit, indexed, and searched. Only this module imports Lance.

Lance commits a dataset version by version, and files that were not committed are invisible. Lance removes them when a
write is interrupted; files that a killed process left are removed after the next commit.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.errors import DatabaseError, UsageError, parameter
from bertfeat.io import Location
from bertfeat.search.databases.database_rows import (
    DatabaseRows,
    RowBlock,
    RowChange,
    number_keys,
    refuse_foreign_keys,
    refuse_kept_names,
)
from bertfeat.search.vectors.faiss_search import EMPTY

INDEXED_FROM = 100_000  # vectors; a scan of fewer takes milliseconds, as Lance's documentation says
_VECTOR, _KEY = "vector", "row_key"
_ORIGIN = "bertfeat"  # the key of our record in the schema's metadata
_TAKEN = frozenset({_VECTOR, _KEY, "query_index", "_distance", "_rowid", "_rowaddr", "_rowoffset"})
_LANCE_NAMES = frozenset({"data", "_versions", "_transactions", "_indices", "_deletions", "_refs"})
_BATCH_ROWS = 4096
_READ_BYTES = 64 << 20  # read ahead by a scan; Lance's default is 2 GiB
_ROWS_PER_PARTITION = 4096  # as Lance's documentation recommends
_MOST_PARTITIONS = 65_536
_VECTORS_PER_PARTITION = 256  # that Lance trains k-means on
_TRAINING_BYTES = 4 << 30  # most memory for the training vectors
_SOURCE = re.compile(r", \S+\.rs:\d+:\d+")  # places in Lance's source code, cut from its error messages
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")


class LanceTable:
    """A dataset at one place, to be filled with the rows of a feature column."""

    trials: Sequence[Mapping[str, int]] = (
        {"refine_factor": 10},
        {"refine_factor": 10, "nprobes": 50},
        {"refine_factor": 50, "nprobes": 200},
    )
    rebuild = "build the index anew with more num_sub_vectors, or as IVF_HNSW_SQ"

    def __init__(self, place: Location) -> None:
        self.where = str(place)
        try:
            self.where.encode()
        except UnicodeEncodeError:
            raise UsageError("this name is no UTF-8, and Lance takes no such names", where=self.where) from None
        self._place = place
        self._rows: DatabaseRows
        self._dataset: lance.LanceDataset
        self._replaced = self._updated = self._leftovers = False

    def begin(self, rows: DatabaseRows, *, update: bool, overwrite: bool) -> pa.Array:
        """See :class:`VectorDatabase`."""
        self._rows, names = rows, _lance_names(rows.schema)
        refuse_kept_names(set(names) & _TAKEN)
        vector = pa.list_(pa.field("item", pa.float32(), nullable=False), rows.width)
        fields = [field.with_name(name) for name, field in zip(names, rows.schema, strict=True)]
        self._schema = pa.schema(
            [*fields, pa.field(_VECTOR, vector, nullable=False), pa.field(_KEY, pa.string(), nullable=False)],
            metadata={_ORIGIN: json.dumps(rows.origin)},
        )
        present = self._open()
        if present is None:
            self._leftovers = self._refuse_foreign_folder()
        elif update:
            self._dataset = present
            return self._present_keys()
        elif not overwrite:
            raise DatabaseError(
                "a Lance dataset is there already",
                where=self.where,
                remedy=f"bring it up to date ({parameter('update', True)}), replace it "
                f"({parameter('overwrite', True)}), or choose another name",
            )
        self._replaced = present is not None
        return pa.array([], pa.string())

    def load(self, blocks: Iterator[RowBlock], change: RowChange) -> None:
        """Write the missing rows, remove those that are gone, and commit both in one version."""
        failed: list[BaseException] = []

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                for block in blocks:
                    yield from self._batches(block)
            except BaseException as error:  # Lance would replace it by an error with its text only
                failed.append(error)
                raise

        try:
            with self._errors("cannot be written"):
                self._commit(pa.RecordBatchReader.from_batches(self._schema, batches()), change)
        except DatabaseError as error:
            if failed:
                raise failed[0] from error
            raise

    def _commit(self, rows: pa.RecordBatchReader, change: RowChange) -> None:
        """Commit the missing rows in one version, without those that are gone."""
        if not self._updated:
            mode = "overwrite" if self._replaced else "create"
            self._dataset = lance.write_dataset(rows, self.where, mode=mode, storage_options=_storage_options())
            return
        merge = self._dataset.merge_insert(_KEY).when_not_matched_insert_all()
        if len(change.gone):
            listed = ", ".join(f"'{key}'" for key in change.gone.to_pylist())
            merge = merge.when_not_matched_by_source_delete(f"{_KEY} IN ({listed})")
        merge.execute(rows)

    def count(self) -> int:
        """Count the rows in the dataset."""
        with self._errors("cannot be read"):
            return int(self._dataset.count_rows())

    def finish(self, done: Callable[[int], None]) -> str:
        """Build the index or put new rows into it, and remove the former dataset or leftover files."""
        index = self._describe_index()
        try:
            with self._errors("cannot be built"):
                if index:
                    self._dataset.optimize.optimize_indices()
                elif self._rows.count >= INDEXED_FROM:
                    done(0)
                    index = self._build_index()
                    done(self._rows.count)
        except DatabaseError as error:
            raise DatabaseError(
                f"all {self._rows.count:,} vectors are in it and found exactly, but its index {error.problem}",
                where=self.where,
                remedy="build it with LanceDataset.create_index",
            ) from error
        with self._errors("cannot be cleaned up"):
            if self._replaced or self._leftovers:
                self._dataset.cleanup_old_versions(
                    timedelta(0), delete_unverified=self._leftovers, error_if_tagged_old_versions=False
                )
            if self._recorded() != self._rows.origin:
                self._dataset.update_schema_metadata({_ORIGIN: json.dumps(self._rows.origin)})
        return index or "no index: so few are scanned, search is exact"

    def _describe_index(self) -> str:
        """A description of the index over the vectors; empty where there is none."""
        indexes = [each for each in self._dataset.describe_indices() if each.field_names == [_VECTOR]]
        return ", ".join(f"{each.index_type}" for each in indexes)

    def _build_index(self) -> str:
        # as many partitions as Lance's documentation recommends, within limits; one byte codes 8 values if possible
        count, width = self._rows.count, self._rows.width
        partitions = min(max(1, count // _ROWS_PER_PARTITION), _MOST_PARTITIONS)
        codes = next(width // values for values in (8, 16, 4, 2, 1) if width % values == 0)
        self._dataset = self._dataset.create_index(
            _VECTOR,
            "IVF_PQ",
            metric="cosine",
            num_partitions=partitions,
            num_sub_vectors=codes,
            streaming_sample_rate=_streaming_rate(partitions, width),
        )
        return f"IVF_PQ, cosine, {partitions:,} partitions, {codes} codes a vector"

    def _present_keys(self) -> pa.Array:
        """The keys of the dataset's rows; refuses a dataset of other vectors or columns."""
        self._rows.refuse_others(self._recorded(), self.where)
        schemas = (self._dataset.schema, self._schema)
        theirs, ours = ({(each.name, str(each.type)) for each in schema if each.name != _VECTOR} for schema in schemas)
        if theirs != ours:
            name, kind = min(theirs ^ ours)
            raise DatabaseError(
                f"its columns are others than those of the features, such as {name!r} ({kind})",
                where=self.where,
                remedy=f"replace it ({parameter('overwrite', True)})",
            )
        with self._errors("cannot be read"):
            keys = self._dataset.to_table(columns=[_KEY], io_buffer_size=_READ_BYTES)[_KEY].combine_chunks()
        refuse_foreign_keys(keys, self.where)
        self._updated = True
        return keys

    def _recorded(self) -> object:
        """The record of the rows that an export wrote; None where there is none."""
        try:
            return json.loads((self._dataset.schema.metadata or {}).get(_ORIGIN.encode(), b"null"))
        except ValueError:
            return None

    def search(self, queries: NDArray[np.float32], k: int, parameters: Mapping[str, int]) -> NDArray[np.int64]:
        """See :class:`VectorDatabase`."""
        found = np.full((len(queries), k), EMPTY, np.int64)
        nearest = {"column": _VECTOR, "q": queries, "k": k, "metric": "cosine", **parameters}
        with self._errors("cannot be searched"):
            table = self._dataset.to_table(columns=[_KEY, "_distance"], nearest=nearest, io_buffer_size=_READ_BYTES)
        owners, keys = table["query_index"].to_numpy(), number_keys(table[_KEY].to_pylist())
        order = np.lexsort((table["_distance"].to_numpy(), owners))
        owners, keys = owners[order], keys[order]
        found[owners, np.arange(len(owners)) - np.searchsorted(owners, owners)] = keys
        return found

    def _batches(self, block: RowBlock) -> Iterator[pa.RecordBatch]:
        field = self._schema.field(_VECTOR)
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(block.vectors.reshape(-1)), type=field.type)
        rows = pa.table([*block.columns.columns, vectors, block.keys], schema=self._schema)
        yield from rows.to_batches(_BATCH_ROWS)

    def _open(self) -> lance.LanceDataset | None:
        """The dataset at the place; None if there is none."""
        if isinstance(self._place, Path) and not (self._place / "_versions").is_dir():
            return None
        try:
            with self._errors("cannot be read"):
                return lance.dataset(self.where, storage_options=_storage_options())
        except DatabaseError as error:
            if isinstance(error.__cause__, ValueError) and "was not found" in str(error.__cause__):
                return None
            raise

    def _refuse_foreign_folder(self) -> bool:
        """Refuse a folder that holds something else; returns whether a killed export left files in it."""
        if not isinstance(self._place, Path):
            return False
        try:
            names = set(os.listdir(self._place))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise DatabaseError(f"it is no folder: {error.strerror}", where=self.where) from error
        if strangers := names - _LANCE_NAMES:
            raise DatabaseError(
                f"{min(strangers)!r} is in it, which is of no Lance dataset",
                where=self.where,
                remedy="name another folder",
            )
        return bool(names)

    @contextmanager
    def _errors(self, problem: str) -> Iterator[None]:
        try:
            yield
        except UsageError:
            raise
        except (OSError, ValueError, RuntimeError, pa.ArrowException) as error:
            message = _SOURCE.sub("", str(error)).partition("\n")[0]
            raise DatabaseError(f"{problem}: {message}", where=self.where) from error


def _lance_names(schema: pa.Schema) -> list[str]:
    """The names of the columns in Lance, which allows no dots: they become underscores."""
    names = [name.replace(".", "_") for name in schema.names]
    refuse_kept_names({old for old, new in zip(schema.names, names, strict=True) if names.count(new) > 1})
    return names


def _streaming_rate(partitions: int, width: int) -> int | None:
    """Return the number of vectors per partition to train on at once; None where all fit into the allowed memory."""
    a_vector_each = partitions * width * 4
    if a_vector_each * _VECTORS_PER_PARTITION <= _TRAINING_BYTES:
        return None
    return max(1, _TRAINING_BYTES // a_vector_each)


def _storage_options() -> dict[str, str]:
    """The options for object storage that Lance does not read from the environment itself."""
    plain = any(os.environ.get(name, "").startswith("http:") for name in _ENDPOINTS)
    return {"allow_http": "true"} if plain else {}

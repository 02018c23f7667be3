"""The reader of a feature set: streams it, slices it, and gives single documents, whole matrices or tables."""

from collections.abc import Collection, Iterator, Sequence
from functools import cache, cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Unpack, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.arguments import checked, require_at_least, resolve_range
from bertfeat.core.corpus import Failure, KeptColumn, stands_for_ids
from bertfeat.core.features.columns import ReadableColumn, column_names, find_column
from bertfeat.core.features.document import DocumentFeatures, batch_documents
from bertfeat.core.features.manifest import (
    Manifest,
    check_derived,
    kept_columns,
    read_finished,
    unfinished_parts,
)
from bertfeat.core.features.open_parts import OpenParts
from bertfeat.core.features.part import Counts, PartHeader, check_part
from bertfeat.core.features.part_check import check_part_values
from bertfeat.core.features.parts import PartEntry
from bertfeat.core.features.record_batches import (
    VectorBatch,
    join_batches,
    stored_matrices,
    vector_batch,
)
from bertfeat.core.features.span_vectors import SpanBatch, SpanPooling, SpanReader, span_batch
from bertfeat.core.features.tables import NpyWriter, arrow_reader, pandas_frame, polars_frame
from bertfeat.core.features.vector_blocks import VectorChoice, count_blocks
from bertfeat.core.features.vector_stream import StreamOptions, StreamSettings, VectorStream, open_stream
from bertfeat.core.grammar import parse_recipes
from bertfeat.core.recipe import FeatureColumn, LayerSpec, TaskName
from bertfeat.core.spans import SpanRule
from bertfeat.display import format_size, html_facts, html_table
from bertfeat.errors import FeatureSetError, NotDerivableError, RecipeError, UsageError, did_you_mean
from bertfeat.io import Address, Location, as_location, output_file, physical_memory, pickle_by_folder

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


@checked
class FeatureSet:
    """A folder of features that ``bertfeat extract`` wrote, on this machine or at an address (``s3://bucket/folder``).

    Opening reads the manifest and one part's footer; everything else is read when it is asked for, a row group
    (about 8 MiB) at a time, so memory does not depend on the size of the set. Columns are asked for by name
    (``concat4_mean``) or by recipe and pooling (``sum4``, ``mean``), and derived where they are not stored.

    Raises:
        FeatureSetError: the folder is no feature set, or not a finished one (``allow_unfinished`` opens it).
        DamagedError: parts are missing, changed in size, or do not add up.
        StorageError: object storage that cannot be reached.
    """

    def __init__(self, folder: str | Path | Address, *, allow_unfinished: bool = False):
        self.folder: Location = as_location(folder)
        manifest, entries = read_finished(self.folder)
        self.manifest: Manifest | None = manifest
        """The manifest; None for an unfinished set."""
        self.entries: tuple[PartEntry, ...] = entries or unfinished_parts(self.folder, allowed=allow_unfinished)
        """The parts, by number, with their rows and counts."""
        self._allow_unfinished = allow_unfinished
        self._parts = OpenParts(self.folder, self.entries)
        self._count_blocks = cache(partial(count_blocks, self._parts))
        first = self._parts.first
        self.header: PartHeader = first.header
        """The header of the first part: settings, model, columns."""
        self.columns: tuple[FeatureColumn, ...] = self.header.columns
        """The stored feature columns."""
        self.kept: tuple[KeptColumn, ...] = kept_columns(first)
        """The corpus's own columns."""
        self.stored_schema: pa.Schema = first.schema
        """All columns with their types, as any Parquet reader sees them."""
        self.names: tuple[str, ...] = tuple(first.schema.names)
        """Names of all columns."""

    def __len__(self) -> int:
        return sum(entry.documents for entry in self.entries)

    def __repr__(self) -> str:
        return f"FeatureSet({str(self.folder)!r}: {len(self):,} documents, {column_names(self.columns)})"

    def _repr_html_(self) -> str:
        tables = [html_table([{"vectors": column.name, "width": column.width} for column in self.columns])]
        names = [name for name in ("row", "id", "text", *(kept.name for kept in self.kept)) if name in self.names]
        for batch in islice(self.stream(names, batch_rows=5), 1):
            tables.append(html_table(batch.to_pylist()))
        counts = {"documents": len(self), "tokens": self.counts.tokens, "words": self.counts.words}
        failed = sum(entry.failed for entry in self.entries)
        facts = {"folder": str(self.folder), "model": self.header.model.name, **counts, "failed": failed}
        return html_facts("FeatureSet", facts, tables)

    def __reduce__(self) -> tuple[object, ...]:
        options = {"allow_unfinished": self._allow_unfinished}
        return pickle_by_folder(self, options, {"parts": [entry.sha256 for entry in self.entries]}, FeatureSetError)

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the corpus files, as they were given to the last run."""
        return self.manifest.sources if self.manifest else self.header.sources

    @cached_property
    def parts(self) -> tuple[PartHeader, ...]:
        """The headers of all parts."""
        return tuple(self._parts.open(entry).footer.header for entry in self.entries)

    @cached_property
    def counts(self) -> Counts:
        """Documents, tokens and words, and how many of them are unknown, truncated or unaligned."""
        return self.manifest.counts if self.manifest else sum((part.counts for part in self.parts), Counts())

    def failures(self) -> Iterator[Failure]:
        """The rows of the corpus that failed."""
        for entry in self.entries:
            if entry.failed:
                yield from self._parts.open(entry).footer.header.failures

    def check(self) -> Iterator[PartHeader]:
        """Check every byte of every part by its checksums and every value by its header; yields the headers.

        At the end, the manifest and the list of failures are derived from the parts again and compared.

        Raises:
            DamagedError: a part changed after it was written, is not the one that the manifest lists, or differs from
                its header; or one of the two derived files differs from what the parts give.
        """
        places = []
        for entry in self.entries:
            part = self._parts.open_anew(entry)
            places.append(part.footer.path)
            header = check_part(part.footer.path)
            check_part_values(part)
            yield header
        if self.manifest is not None:
            check_derived(self.folder, self.manifest, places)

    # ── columns ─────────────────────────────────────────────────────────────────────────────────────────────

    def find(
        self,
        column: LayerSpec | None = None,
        pooling: str | None = None,
        *,
        weights: Sequence[float] | None = None,
        task: TaskName | None = None,
    ) -> ReadableColumn:
        """Find a column by name or recipe; what is left out is filled in if there is only one candidate.

        For a ``task`` (search, usages, change, heads) the layers that are best for it come first, where they can be
        read.

        Raises:
            NotDerivableError: the stored columns, which the message lists, do not contain it.
        """
        return find_column(self.columns, self.header.model.num_layers, column, pooling, weights=weights, task=task)

    def find_each(self, column: LayerSpec, pooling: str | None = None) -> list[ReadableColumn]:
        """Find the columns that a name means, as :meth:`find` does; a range such as ``mlp:1..6`` means several.

        Raises:
            NotDerivableError: one of them is neither stored nor contained in what is.
        """
        try:
            recipes = parse_recipes(column, self.header.model.num_layers)
        except RecipeError:
            return [self.find(column, pooling)]
        return [self.find(recipe.spelling, pooling) for recipe in recipes]

    def single_layers(self, pooling: str) -> list[ReadableColumn]:
        """The layers of a pooling that can be read one by one, ascending: stored, or taken out of a concatenation."""
        columns = []
        for layer in range(self.header.model.num_layers + 1):
            try:
                columns.append(self.find(f"layer{layer}", pooling))
            except NotDerivableError:
                continue
        return columns

    def batches(
        self,
        column: LayerSpec | None = None,
        pooling: str | None = None,
        *,
        weights: Sequence[float] | None = None,
        batch_rows: int = 4096,
        start: int = 0,
        stop: int | None = None,
    ) -> Iterator[VectorBatch]:
        """The vectors of a column in row order, at most ``batch_rows`` documents and a row group at a time.

        Document columns give one vector per document, token and word columns one per token or word.

        Raises:
            NotDerivableError: see :meth:`find`.
        """
        feature = self.find(column, pooling, weights=weights)
        stored = feature.derivation.inputs(self.columns)
        names = ["row", "id", *feature.derivation.columns]
        for batch in self.stream(names, batch_rows=batch_rows, start=start, stop=stop):
            yield vector_batch(batch, feature, stored)

    def vectors(
        self,
        column: LayerSpec | Sequence[LayerSpec] | None = None,
        pooling: str | None = None,
        *,
        weights: Sequence[float] | None = None,
        **settings: Unpack[StreamOptions],
    ) -> VectorStream:
        """The vectors of a column in batches to train on, shuffled in bounded memory, by :class:`StreamSettings`.

        Several columns, as a list, come side by side: what goes into a feed-forward part with what it makes of it.

        Raises:
            NotDerivableError: see :meth:`find`.
            UsageError: a setting that cannot be right, or columns of different units.
            DamagedError: a part is damaged.
        """
        checked = StreamSettings(**settings)
        names = [column] if column is None or isinstance(column, str | int) else list(column)
        if names == [None] or (weights is not None and len(names) == 1):
            found = [self.find(names[0], pooling, weights=weights)]
        elif weights is not None:
            problem = "weights are those of one sum of layers, and several columns are named"
            raise UsageError(problem, remedy="make a stream of each")
        else:
            found = [each for name in names if name is not None for each in self.find_each(name, pooling)]
        if not found:
            raise UsageError("no column is named", remedy=f"stored are: {column_names(self.columns)}")
        features = list({each.name: each for each in found}.values())
        return open_stream(self._parts, features, self.columns, checked, self._count_blocks)

    def spans(
        self,
        spans: str,
        column: LayerSpec | None = None,
        pooling: str | None = None,
        *,
        pool: SpanPooling = "mean",
        batch_rows: int = 1024,
        start: int = 0,
        stop: int | None = None,
    ) -> Iterator[SpanBatch]:
        """Sentences, paragraphs or runs of words with their vectors, pooled from those of their tokens or words.

        ``spans`` is ``sentences``, ``paragraphs``, ``words:200`` or, with 50 words that neighbors share,
        ``words:200:50``; or ``column:entities``, the places that a kept column lists (docs/spans.md). ``column`` and
        ``pooling`` name vectors of tokens or words; tokens come first where both are stored. ``pool`` takes their mean,
        their maximum, or the first one. Every document's first text is read, in row order, at most ``batch_rows``
        documents and a row group at a time.

        Raises:
            UsageError: the spans are unknown.
            NotDerivableError: there are no such vectors of tokens or words.
            FeatureSetError: the set holds no texts; or the kept column is missing, or lists spans outside a text.
            MissingLibraryError: words of Korean texts are counted, and what found them is not installed.
        """
        reader = SpanReader(self, SpanRule.parse(spans), column, pooling)
        derivation = reader.column.derivation
        stored = derivation.inputs(self.columns)
        names = ["id", *reader.names, *derivation.columns]
        for batch in self.stream(names, batch_rows=batch_rows, start=start, stop=stop):
            found = reader.find(batch)
            yield span_batch(batch, found, found.pool(derivation.apply(stored_matrices(batch, stored)), pool))

    def matrix(
        self, column: LayerSpec | None = None, pooling: str | None = None, *, weights: Sequence[float] | None = None
    ) -> NDArray[np.float32]:
        """The vectors of a column as one matrix ``[n, width]``, in row order: one per document, token or word.

        ``features["last_mean"]`` is short for it. :meth:`slice` also gives the document and the number of the token or
        word that each vector belongs to.

        Raises:
            NotDerivableError: see :meth:`find`.
            FeatureSetError: it holds no vectors, or is larger than this machine's memory.
        """
        if column in self.names and column not in {stored.name for stored in self.columns}:
            remedy = f"to_arrow([{column!r}]) reads it"
            raise FeatureSetError(f"the column {column!r} holds no vectors", where=self.folder, remedy=remedy)
        feature = self.find(column, pooling, weights=weights)
        count = (
            len(self)
            if feature.pooling.per_document
            else len(self._count_blocks(VectorChoice(feature.pooling.unit, unaligned=True)))
        )
        if (needed := 4 * count * feature.width) > physical_memory():
            problem = f"the vectors of {feature.name} take {format_size(needed)}, more than this machine's memory"
            raise FeatureSetError(problem, where=self.folder, remedy="read them with batches(), or a part with slice()")
        matrix = np.empty((count, feature.width), np.float32)
        at = 0
        for batch in self.batches(column, pooling, weights=weights):
            matrix[at : at + len(batch)] = batch.matrix
            at += len(batch)
        return matrix

    def to_numpy(
        self,
        path: str | Path,
        column: LayerSpec | None = None,
        pooling: str | None = None,
        *,
        weights: Sequence[float] | None = None,
    ) -> None:
        """Write the vectors of a column to a ``.npy`` file, ``[n, width]`` float32, in bounded memory.

        Raises:
            NotDerivableError: see :meth:`find`.
            FeatureSetError: the file cannot be written.
        """
        feature = self.find(column, pooling, weights=weights)
        with output_file(path) as temporary, NpyWriter(temporary, feature.width) as file:
            for batch in self.batches(column, pooling, weights=weights):
                file.write(batch.matrix)

    # ── documents ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def holds_ids(self) -> bool:
        """Whether its texts are the numbers of token ids, by the first one that is not empty."""
        if "text_digest" not in self.names:
            return False
        rows = (row for batch in self.stream(["text", "text_digest"], batch_rows=64) for row in batch.to_pylist())
        first = next((row for row in rows if row["text"]), None)
        return first is not None and stands_for_ids(first["text"], first["text_digest"])

    def stream(
        self, names: Sequence[str] | None = None, *, batch_rows: int = 1024, start: int = 0, stop: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The columns of those names (default: all) in row order, at most ``batch_rows`` documents at a time.

        ``start`` and ``stop`` limit the rows. A batch never exceeds a row group of about 8 MiB, except for a single
        larger document.

        Raises:
            UsageError: an end that is no whole number, or below 0.
            FeatureSetError: there is no such column.
            DamagedError: a checksum does not hold.
        """
        names = self._known_names(names)
        rows = resolve_range(start, stop, self.entries[-1].last_row)
        require_at_least(1, batch_rows=batch_rows)
        for entry in self.entries if rows else ():
            if entry.first_row < rows.stop and entry.last_row > rows.start:
                part = self._parts.open(entry)
                yield from part.batches(names, start=rows.start, stop=rows.stop, batch_rows=batch_rows)

    def slice(
        self, start: int, stop: int | None, column: LayerSpec | None = None, pooling: str | None = None
    ) -> VectorBatch:
        """The vectors of the documents with ``start <= row < stop``; None is the end.

        Raises:
            UsageError: an end that is no whole number, or below 0.
            NotDerivableError: see :meth:`find`.
        """
        batches = list(self.batches(column, pooling, start=start, stop=stop))
        return join_batches(batches, self.find(column, pooling).width)

    def documents(
        self, columns: Sequence[str] | None = None, *, start: int = 0, stop: int | None = None
    ) -> Iterator[DocumentFeatures]:
        """The documents in row order, with the features that ``columns`` need (default: all that are stored).

        Raises:
            NotDerivableError: see :meth:`find`.
        """
        for batch in self.stream(self._document_names(columns), start=start, stop=stop):
            yield from batch_documents(batch, self.columns, self.header.model.num_layers)

    def documents_at(self, rows: Collection[int], columns: Sequence[str] | None = None) -> Iterator[DocumentFeatures]:
        """Yield the documents of these rows of the corpus, in row order; only their row groups are read.

        Raises:
            NotDerivableError: see :meth:`find`.
            DamagedError: a checksum does not hold.
        """
        for batch in self.stream_rows(rows, self._document_names(columns)):
            yield from batch_documents(batch, self.columns, self.header.model.num_layers)

    def stream_rows(self, rows: Collection[int], names: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The columns of those names (default: all) in these rows of the corpus, in row order, a row group at a time.

        Rows without a document are left out. Row groups that contain none of the rows are not read.

        Raises:
            FeatureSetError: there is no such column.
            DamagedError: a checksum does not hold.
        """
        names = self._known_names(names)
        for batch in self._parts.find_rows(sorted(set(rows)), ["row", *(name for name in names if name != "row")]):
            yield batch.select(names)

    def _known_names(self, names: Sequence[str] | None) -> Sequence[str]:
        """Check names of stored columns; None are all of them."""
        known = frozenset(self.names)
        for name in names or ():
            if name not in known:
                raise self._no_column(name)
        return self.names if names is None else names

    def _document_names(self, columns: Sequence[str] | None) -> list[str]:
        """The stored columns that documents with these features need."""
        features = {column.name for column in self.columns}
        needed = features
        if columns is not None:
            needed = {name for column in columns for name in self.find(column).derivation.columns}
        return [name for name in self.names if name not in features or name in needed]

    def __iter__(self) -> Iterator[DocumentFeatures]:
        return self.documents()

    @overload
    def __getitem__(self, key: int) -> DocumentFeatures: ...
    @overload
    def __getitem__(self, key: str) -> NDArray[np.float32]: ...
    def __getitem__(self, key: int | str) -> DocumentFeatures | NDArray[np.float32]:
        """The document of that row of the corpus, or the vectors of a column of that name (see :meth:`matrix`).

        The document's row group (about 8 MiB) is kept for the next one.

        Raises:
            FeatureSetError: the row is blank, failed, or outside the corpus.
            NotDerivableError: there is no such column.
            UsageError: neither a whole number nor a name.
        """
        if isinstance(key, str):
            return self.matrix(key)
        batch = self._parts.find_row(key, self.names)
        if batch is None:
            raise FeatureSetError(f"row {key} is not here: {self._why_missing(key)}", where=self.folder)
        return next(batch_documents(batch, self.columns, self.header.model.num_layers))

    def by_id(self, document_id: str) -> list[DocumentFeatures]:
        """The documents of that id, which need not be unique; empty where there is none."""
        return [self[row] for row in self._parts.rows_of_id(document_id)]

    # ── tables ──────────────────────────────────────────────────────────────────────────────────────────────

    def to_arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The columns of those names (default: all that are stored) as a table in memory.

        A document's vector is a list of float32 of fixed size, those of its tokens or words are a list of such lists.
        The set itself is an Arrow stream of these columns, which DuckDB, polars and others read directly
        (``__arrow_c_stream__``).

        Raises:
            FeatureSetError: there is no such column.
            NotDerivableError: see :meth:`find`.
        """
        return arrow_reader(self, columns).read_all()

    def to_pandas(self, columns: Sequence[str] | None = None) -> "pd.DataFrame":
        """The columns of those names as a pandas data frame, whose vectors are arrays ``[width]`` or ``[n, width]``.

        Integers and truth values have pandas' nullable types where some are missing.

        Raises:
            FeatureSetError, NotDerivableError: see :meth:`to_arrow`.
            MissingLibraryError: pandas is not installed.
        """
        return pandas_frame(self, columns)

    def to_polars(self, columns: Sequence[str] | None = None) -> "pl.DataFrame":
        """The columns of those names as a polars data frame, with the types of :meth:`to_arrow`.

        Raises:
            FeatureSetError, NotDerivableError: see :meth:`to_arrow`.
            MissingLibraryError: polars is not installed.
        """
        return polars_frame(self, columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return arrow_reader(self, None).__arrow_c_stream__(requested_schema)

    def find_vectors(self, name: str) -> ReadableColumn | None:
        """The feature column of that name, stored or derived; None for a column of another kind.

        Raises:
            FeatureSetError: there is no such column.
            NotDerivableError: see :meth:`find`.
        """
        features = {column.name for column in self.columns}
        others = [known for known in self.names if known not in features]
        if name in others:
            return None
        try:
            return self.find(name)
        except NotDerivableError as error:
            raise self._no_column(name) if did_you_mean(name, others) else error from error

    def _no_column(self, name: str) -> FeatureSetError:
        remedy = f"{did_you_mean(name, self.names)}there are: {', '.join(self.names)}"
        return FeatureSetError(f"no column {name!r}", where=self.folder, remedy=remedy)

    def _why_missing(self, row: int) -> str:
        for failure in self.failures():
            if failure.row == row:
                return f"it failed: {failure.reason}"
        if 0 <= row < self.entries[-1].last_row:
            return "it is a blank line" if self.manifest else "it is a blank line, or not extracted yet"
        return f"the corpus has rows 0 to {self.entries[-1].last_row - 1}"

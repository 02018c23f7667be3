"""The check of a part's values against its header, one row group at a time.

Digests reveal what was changed after writing; this check reveals what was already wrong when it was written.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bertfeat.core.corpus import RESERVED_COLUMNS
from bertfeat.core.features.cells import vector_bytes
from bertfeat.core.features.open_parts import PartReader
from bertfeat.core.features.part import Counts, PartFooter, count_documents
from bertfeat.core.features.record_batches import PiecePositions, list_offsets
from bertfeat.core.features.schema import POSITION_COLUMNS
from bertfeat.core.recipe import FeatureColumn
from bertfeat.errors import DamagedError

_REMEDY = "extract it again"


def check_part_values(part: PartReader) -> None:
    """Read a part, and compare its rows, positions, matrices and counts with its header; refuse the first problem."""
    footer, header = part.footer, part.footer.header
    last, counts = header.first_row - 1, Counts()
    for group in range(footer.metadata.num_row_groups):
        table = part.read_group(group, footer.schema.names).combine_chunks()
        if not len(table):
            continue
        batch = table.to_batches()[0]
        for problem in _value_problems(batch, header.columns):
            raise DamagedError(f"row group {group}: {problem}", where=footer.path, remedy=_REMEDY)
        rows = batch.column("row").to_numpy()
        if rows[0] <= last or rows[-1] >= header.last_row or np.any(np.diff(rows) <= 0):
            raise DamagedError(
                f"row group {group}: the rows do not ascend from {header.first_row} to {header.last_row - 1}",
                where=footer.path,
                remedy=_REMEDY,
            )
        if failed := {failure.row for failure in header.failures}.intersection(rows.tolist()):
            raise DamagedError(
                f"row {min(failed)} failed, and is among the documents", where=footer.path, remedy=_REMEDY
            )
        last = int(rows[-1])
        counts += count_documents(batch)
    _check_counts(footer, counts)


# ── values ──────────────────────────────────────────────────────────────────────────────────────────────────


def _value_problems(batch: pa.RecordBatch, columns: Sequence[FeatureColumn]) -> Iterator[str]:
    own = {*RESERVED_COLUMNS, *(column.name for column in columns)}
    for name in batch.schema.names:
        if name not in own:
            continue
        values = batch.column(name)
        nested = pa.types.is_list(values.type) or pa.types.is_fixed_size_list(values.type)
        if values.null_count or (nested and values.flatten().null_count):
            yield f"the column {name!r} holds null"
            return  # the other checks need values
    for kind, positions in POSITION_COLUMNS.items():
        if f"{kind}_start" in batch.schema.names:
            yield from _piece_problems(batch, kind, positions, [column for column in columns if column.pooling == kind])


def _piece_problems(
    batch: pa.RecordBatch, kind: str, positions: Sequence[str], columns: Sequence[FeatureColumn]
) -> Iterator[str]:
    """Problems of tokens or words: lists and matrices that differ in length, and positions outside the text."""
    numbers = _list_lengths(batch, f"{kind}_start")
    for name in (f"{kind}s", f"{kind}_ids", *positions, f"{kind}_segment"):
        if name in batch.schema.names and np.any(_list_lengths(batch, name) != numbers):
            yield f"the lists in {name!r} are not as long as those in '{kind}_start'"
            return
    for column in columns:
        sizes = pc.binary_length(batch.column(column.name)).to_numpy()
        if np.any(sizes != numbers * vector_bytes(column)):
            yield f"the matrices in {column.name!r} do not have a vector for each {kind}"
    pieces = PiecePositions.read(batch, kind)
    outside = np.any(pieces.start < 0) or np.any(pieces.end > _piece_text_lengths(batch, pieces))
    if outside or np.any(pieces.end < pieces.start):
        yield f"'{kind}_start' and '{kind}_end' hold positions that are not in the text"


def _piece_text_lengths(batch: pa.RecordBatch, pieces: PiecePositions) -> NDArray[np.int64]:
    """The number of characters of the text that each piece belongs to; without stored texts, the largest integer."""
    if "text" not in batch.schema.names:
        return np.full(len(pieces.start), np.iinfo(np.int64).max)
    lengths: NDArray[np.int64] = pc.utf8_length(batch.column("text")).to_numpy().astype(np.int64)[pieces.owners]
    if "pair" in batch.schema.names and pieces.segment is not None:
        others = pc.utf8_length(batch.column("pair")).to_numpy()[pieces.owners]
        lengths = np.where(pieces.segment == 1, others, lengths)
    return lengths


def _list_lengths(batch: pa.RecordBatch, name: str) -> NDArray[np.int64]:
    return np.diff(list_offsets(batch, name))


# ── counts ──────────────────────────────────────────────────────────────────────────────────────────────────


def _check_counts(footer: PartFooter, counted: Counts) -> None:
    recorded = footer.header.counts
    compared: dict[str, Callable[[Counts], int]] = {
        "documents": lambda counts: counts.documents,
        "tokens": lambda counts: counts.tokens,
        "unknown tokens": lambda counts: counts.unknown_tokens,
        "truncated tokens": lambda counts: counts.truncated_tokens,
        "truncated documents": lambda counts: counts.truncated_documents,
        "words": lambda counts: counts.words,
        "words without a vector": lambda counts: counts.unaligned_words,
    }
    for name, count in compared.items():
        if count(recorded) != count(counted):
            raise DamagedError(
                f"says that it has {count(recorded):,} {name}, and has {count(counted):,}",
                where=footer.path,
                remedy=_REMEDY,
            )

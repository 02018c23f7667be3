"""Whether a part holds what its header says: its columns by the footer alone, its values row group by row group.

Digests show what was changed after it was written; these checks show what was wrong when it was written.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bertfeat.corpus import RESERVED_COLUMNS
from bertfeat.errors import DamagedError
from bertfeat.features.header import Counts
from bertfeat.features.part import PartFooter
from bertfeat.features.pieces import PiecePositions, list_offsets, read_positions
from bertfeat.features.row_groups import PartReader
from bertfeat.features.schema import KEPT_TYPES
from bertfeat.recipe import FeatureColumn

_REMEDY = "extract it again"
_ROW_COLUMNS = {"row": pa.int64(), "id": pa.string(), **dict.fromkeys(("n_tokens", "n_unk", "n_truncated"), pa.int32())}
_TEXT_COLUMNS = {"text": pa.string(), "pair": pa.string()}
_LIST_COLUMNS = {
    **dict.fromkeys(("tokens", "words", "tags"), pa.string()),
    **dict.fromkeys(("token_start", "token_end", "word_start", "word_end"), pa.int32()),
    **dict.fromkeys(("token_segment", "word_segment"), pa.int8()),
    "aligned": pa.bool_(),
}
_POSITION_COLUMNS = {
    "token": ("token_start", "token_end"),
    "word": ("word_start", "word_end", "aligned"),
}  # that every matrix needs


def check_part_columns(footer: PartFooter) -> None:
    """Compare the names and types of a part's columns with its header.

    Raises:
        DamagedError: names the first column that is missing, or not of its type.
    """
    for problem in _column_problems(footer.schema, footer.header.columns):
        raise DamagedError(problem, where=footer.path, remedy=_REMEDY)


def check_part_values(footer: PartFooter) -> None:
    """Read a part, a row group at a time, and compare its rows, positions, matrices and counts with its header.

    Raises:
        DamagedError: names the first column that is wrong, and where.
    """
    part, header = PartReader(footer), footer.header
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
        counts += _count_batch(batch)
    _check_counts(footer, counts)


# ── columns ─────────────────────────────────────────────────────────────────────────────────────────────────


def _column_problems(schema: pa.Schema, columns: Sequence[FeatureColumn]) -> Iterator[str]:
    types = dict(zip(schema.names, schema.types, strict=True))
    for name in _needed_columns(columns):
        if name not in types:
            yield f"the column {name!r} is missing"
    features = {column.name: column for column in columns}
    for name, kind in types.items():
        if name in features:
            expected, right = _feature_type(features[name]), _is_feature_type(kind, features[name])
        elif name in RESERVED_COLUMNS:
            expected, right = _match_reserved(name, kind)
        else:
            expected, right = "a kept value", kind in KEPT_TYPES.values()
        if not right:
            yield f"the column {name!r} is of the type {kind}, not {expected}"


def _needed_columns(columns: Sequence[FeatureColumn]) -> Iterator[str]:
    yield from _ROW_COLUMNS
    for column in columns:
        yield column.name
        yield from _POSITION_COLUMNS.get(column.pooling, ())


def _match_reserved(name: str, kind: pa.DataType) -> tuple[str, bool]:
    if (element := _LIST_COLUMNS.get(name)) is not None:
        return f"list<{element}>", pa.types.is_list(kind) and kind.value_type == element
    expected = {**_ROW_COLUMNS, **_TEXT_COLUMNS}[name]
    return str(expected), kind == expected


def _feature_type(column: FeatureColumn) -> str:
    return f"fixed_size_list<float>[{column.width}]" if column.pooling.per_document else "large_binary"


def _is_feature_type(kind: pa.DataType, column: FeatureColumn) -> bool:
    if not column.pooling.per_document:
        return bool(pa.types.is_large_binary(kind))
    vector = pa.types.is_fixed_size_list(kind) and kind.list_size == column.width
    return bool(vector and kind.value_type == pa.float32())


# ── values ──────────────────────────────────────────────────────────────────────────────────────────────────


def _value_problems(batch: pa.RecordBatch, columns: Sequence[FeatureColumn]) -> Iterator[str]:
    own = {*RESERVED_COLUMNS, *(column.name for column in columns)}
    for name in batch.schema.names:
        values = batch.column(name)
        inner = values.flatten().null_count if name in own and _is_nested(values.type) else 0
        if name in own and values.null_count + inner:
            yield f"the column {name!r} holds null"
            return  # the other checks need values
    for kind, positions in _POSITION_COLUMNS.items():
        if f"{kind}_start" in batch.schema.names:
            yield from _piece_problems(batch, kind, positions, [column for column in columns if column.pooling == kind])


def _is_nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind))


def _piece_problems(
    batch: pa.RecordBatch, kind: str, positions: Sequence[str], columns: Sequence[FeatureColumn]
) -> Iterator[str]:
    """Lists and matrices of one length in each document, and positions inside its text."""
    numbers = _list_lengths(batch, f"{kind}_start")
    for name in (f"{kind}s", *positions, f"{kind}_segment"):
        if name in batch.schema.names and np.any(_list_lengths(batch, name) != numbers):
            yield f"the lists in {name!r} are not as long as those in '{kind}_start'"
            return
    for column in columns:
        sizes = pc.binary_length(batch.column(column.name)).to_numpy()
        if np.any(sizes != numbers * column.width * np.dtype(column.dtype).itemsize):
            yield f"the matrices in {column.name!r} do not have a vector for each {kind}"
    pieces = read_positions(batch, kind)
    outside = np.any(pieces.start < 0) or np.any(pieces.end > _piece_text_lengths(batch, pieces))
    if outside or np.any(pieces.end < pieces.start):
        yield f"'{kind}_start' and '{kind}_end' hold positions that are not in the text"


def _piece_text_lengths(batch: pa.RecordBatch, pieces: PiecePositions) -> NDArray[np.int64]:
    """Characters of the text that each piece is of; without texts there is no limit."""
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


def _count_batch(batch: pa.RecordBatch) -> Counts:
    truncated = batch.column("n_truncated").to_numpy()
    has_words = {"word_start", "word_end"}.issubset(batch.schema.names)
    aligned = read_positions(batch, "word").aligned if has_words else None
    return Counts(
        documents=len(batch),
        tokens=int(batch.column("n_tokens").to_numpy().sum()),
        unknown_tokens=int(batch.column("n_unk").to_numpy().sum()),
        truncated_tokens=int(truncated.sum()),
        truncated_documents=int(np.count_nonzero(truncated)),
        words=0 if aligned is None else len(aligned),
        unaligned_words=0 if aligned is None else int(np.count_nonzero(~aligned)),
    )


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

"""Whether a part is what its header says: its columns by the footer alone, its values row group by row group.

Digests tell what was changed after it was written; this tells what was written wrong, by whomever.
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
from bertfeat.features.row_groups import PartReader
from bertfeat.features.schema import KEPT_TYPES
from bertfeat.recipe import FeatureColumn

_AGAIN = "extract it again"
_WHOLE = {"row": pa.int64(), "id": pa.string(), **dict.fromkeys(("n_tokens", "n_unk", "n_truncated"), pa.int32())}
_TEXTS = {"text": pa.string(), "pair": pa.string()}
_LISTS = {
    **dict.fromkeys(("tokens", "words", "tags"), pa.string()),
    **dict.fromkeys(("token_start", "token_end", "word_start", "word_end"), pa.int32()),
    **dict.fromkeys(("token_segment", "word_segment"), pa.int8()),
    "aligned": pa.bool_(),
}
_BESIDE = {"token": ("token_start", "token_end"), "word": ("word_start", "word_end", "aligned")}  # of every matrix


def check_part_columns(footer: PartFooter) -> None:
    """Hold the names and types of a part's columns against its header.

    Raises:
        Damaged: names the first column that is missing, or not of its type.
    """
    for problem in _column_problems(footer.schema, footer.header.columns):
        raise DamagedError(f"{footer.path}: {problem}; {_AGAIN}")


def check_part_values(footer: PartFooter) -> None:
    """Read a part, a row group at a time, and hold its rows, places, matrices and counts against its header.

    Raises:
        Damaged: names the first column that is wrong, and where.
    """
    part, header = PartReader(footer), footer.header
    last, counts = header.first_row - 1, Counts()
    for group in range(footer.metadata.num_row_groups):
        table = part.read_group(group, footer.schema.names).combine_chunks()
        if not len(table):
            continue
        batch = table.to_batches()[0]
        for problem in _value_problems(batch, header.columns):
            raise DamagedError(f"{footer.path}: row group {group}: {problem}; {_AGAIN}")
        rows = batch.column("row").to_numpy()
        if rows[0] <= last or rows[-1] >= header.last_row or np.any(np.diff(rows) <= 0):
            raise DamagedError(
                f"{footer.path}: row group {group}: the rows do not ascend from {header.first_row} to "
                f"{header.last_row - 1}; {_AGAIN}"
            )
        if failed := {failure.row for failure in header.failures}.intersection(rows.tolist()):
            raise DamagedError(f"{footer.path}: row {min(failed)} failed, and is among the documents; {_AGAIN}")
        last = int(rows[-1])
        counts += _counts(batch)
    _check_counts(footer, counts)


# ── columns ─────────────────────────────────────────────────────────────────────────────────────────────────


def _column_problems(schema: pa.Schema, columns: Sequence[FeatureColumn]) -> Iterator[str]:
    types = dict(zip(schema.names, schema.types, strict=True))
    for name in _needed(columns):
        if name not in types:
            yield f"the column {name!r} is missing"
    features = {column.name: column for column in columns}
    for name, found in types.items():
        if name in features:
            wanted, right = _feature_type(features[name]), _is_feature(found, features[name])
        elif name in RESERVED_COLUMNS:
            wanted, right = _reserved(name, found)
        else:
            wanted, right = "a kept value", found in KEPT_TYPES.values()
        if not right:
            yield f"the column {name!r} is of the type {found}, not {wanted}"


def _needed(columns: Sequence[FeatureColumn]) -> Iterator[str]:
    yield from _WHOLE
    for column in columns:
        yield column.name
        yield from _BESIDE.get(column.pooling, ())


def _reserved(name: str, found: pa.DataType) -> tuple[str, bool]:
    if (element := _LISTS.get(name)) is not None:
        return f"list<{element}>", pa.types.is_list(found) and found.value_type == element
    wanted = {**_WHOLE, **_TEXTS}[name]
    return str(wanted), found == wanted


def _feature_type(column: FeatureColumn) -> str:
    return f"fixed_size_list<float>[{column.width}]" if column.pooling.per_document else "large_binary"


def _is_feature(found: pa.DataType, column: FeatureColumn) -> bool:
    if not column.pooling.per_document:
        return bool(pa.types.is_large_binary(found))
    vector = pa.types.is_fixed_size_list(found) and found.list_size == column.width
    return bool(vector and found.value_type == pa.float32())


# ── values ──────────────────────────────────────────────────────────────────────────────────────────────────


def _value_problems(batch: pa.RecordBatch, columns: Sequence[FeatureColumn]) -> Iterator[str]:
    ours = {*RESERVED_COLUMNS, *(column.name for column in columns)}
    for name in batch.schema.names:
        values = batch.column(name)
        inner = values.flatten().null_count if name in ours and _is_nested(values.type) else 0
        if name in ours and values.null_count + inner:
            yield f"the column {name!r} holds null"
            return  # which the rest does not reckon with
    for kind, beside in _BESIDE.items():
        if f"{kind}_start" in batch.schema.names:
            yield from _piece_problems(batch, kind, beside, [column for column in columns if column.pooling == kind])


def _is_nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind))


def _piece_problems(
    batch: pa.RecordBatch, kind: str, beside: Sequence[str], columns: Sequence[FeatureColumn]
) -> Iterator[str]:
    """Lists and matrices of one length in each document, and places inside its text."""
    numbers = _lengths(batch, f"{kind}_start")
    for name in (f"{kind}s", *beside, f"{kind}_segment"):
        if name in batch.schema.names and np.any(_lengths(batch, name) != numbers):
            yield f"the lists in {name!r} are not as long as those in '{kind}_start'"
            return
    for column in columns:
        sizes = pc.binary_length(batch.column(column.name)).to_numpy()
        if np.any(sizes != numbers * column.width * np.dtype(column.dtype).itemsize):
            yield f"the matrices in {column.name!r} do not have a vector for each {kind}"
    starts, ends = _flat(batch, f"{kind}_start"), _flat(batch, f"{kind}_end")
    if np.any(starts < 0) or np.any(ends < starts) or np.any(ends > _text_lengths(batch, kind, numbers)):
        yield f"'{kind}_start' and '{kind}_end' hold places that are not in the text"


def _text_lengths(batch: pa.RecordBatch, kind: str, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Characters of the text that each piece is of; without texts there is no limit."""
    if "text" not in batch.schema.names:
        return np.full(numbers.sum(), np.iinfo(np.int64).max)
    lengths = np.repeat(pc.utf8_length(batch.column("text")).to_numpy(), numbers).astype(np.int64)
    if "pair" in batch.schema.names and f"{kind}_segment" in batch.schema.names:
        others = np.repeat(pc.utf8_length(batch.column("pair")).to_numpy(), numbers)
        lengths = np.where(_flat(batch, f"{kind}_segment") == 1, others, lengths)
    return lengths


def _lengths(batch: pa.RecordBatch, name: str) -> NDArray[np.int64]:
    lengths: NDArray[np.int64] = batch.column(name).value_lengths().to_numpy().astype(np.int64)
    return lengths


def _flat(batch: pa.RecordBatch, name: str) -> NDArray[np.int64]:
    values: NDArray[np.int64] = batch.column(name).flatten().to_numpy(zero_copy_only=False)
    return values


# ── counts ──────────────────────────────────────────────────────────────────────────────────────────────────


def _counts(batch: pa.RecordBatch) -> Counts:
    truncated = batch.column("n_truncated").to_numpy()
    aligned = _flat(batch, "aligned") if "aligned" in batch.schema.names else np.empty(0, np.bool_)
    return Counts(
        documents=len(batch),
        tokens=int(batch.column("n_tokens").to_numpy().sum()),
        unknown_tokens=int(batch.column("n_unk").to_numpy().sum()),
        truncated_tokens=int(truncated.sum()),
        truncated_documents=int(np.count_nonzero(truncated)),
        words=len(aligned),
        unaligned_words=len(aligned) - int(np.count_nonzero(aligned)),
    )


def _check_counts(footer: PartFooter, counted: Counts) -> None:
    said = footer.header.counts
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
        if count(said) != count(counted) and not (name.startswith("words") and not said.words):  # which older ones lack
            raise DamagedError(
                f"{footer.path}: says that it has {count(said):,} {name}, and has {count(counted):,}; {_AGAIN}"
            )

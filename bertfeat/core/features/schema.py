"""The columns of a part: its content as arrays, the Arrow table that is written, and the check of a table's types.

Shapes: D documents of the part; N tokens or words of all its documents, flat; W width of a feature column.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bertfeat.core.corpus import RESERVED_COLUMNS, Failure, KeptColumn, Value
from bertfeat.core.features.cells import encode_vectors, vector_bytes
from bertfeat.core.features.record_batches import Matrix, Pieces
from bertfeat.core.recipe import FeatureColumn
from bertfeat.errors import FeatureSetError, UsageError, parameter
from bertfeat.ragged import lengths_of, offsets_of

KEPT_TYPES = {"string": pa.string(), "int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_()}
POSITION_COLUMNS = {
    "token": ("token_start", "token_end"),
    "word": ("word_start", "word_end", "aligned"),
}
"""The columns that go with every matrix of tokens, or of words."""
CELL_LIMIT = 2**31 - 2**16
"""Most bytes of one token or word matrix; Parquet counts the bytes of a page in 31 bits, and 64 KiB are left free."""


@dataclass(frozen=True, slots=True)
class PartContent:
    """The documents of one part, in order, as arrays, and its rows that failed."""

    rows: NDArray[np.int64]  # [D] ascending
    ids: Sequence[str]
    texts: Sequence[str] | None  # None: texts are not stored
    pairs: Sequence[str] | None
    kept: Mapping[KeptColumn, Sequence[Value]]
    n_tokens: NDArray[np.int32]  # [D]
    n_unk: NDArray[np.int32]  # [D]
    n_truncated: NDArray[np.int32]  # [D]
    vectors: Mapping[str, NDArray[np.float32]]  # name of the document column -> [D, W]
    tokens: Pieces | None
    words: Pieces | None
    tags: Sequence[Sequence[str]] | None
    failures: tuple[Failure, ...] = ()  # in row order, with those of the corpus
    split_batches: int = 0  # batches that were split because memory ran out
    digests: Sequence[str] | None = None  # text_digest() of each, in hexadecimal; None: not stored


def check_kept(kept: Iterable[KeptColumn], columns: Iterable[FeatureColumn]) -> None:
    """Refuse kept columns that have the name of a column that bertfeat writes.

    Raises:
        UsageError: names the column and the remedy.
    """
    taken = {*RESERVED_COLUMNS, *(column.name for column in columns)}
    for column in kept:
        if column.name in taken:
            raise UsageError(
                f"the column {column.name!r} cannot be kept: bertfeat writes a column of that name",
                remedy=f"rename it in the corpus or leave it out of {parameter('keep')}",
            )
        taken.add(column.name)


def content_table(content: PartContent, columns: Sequence[FeatureColumn]) -> pa.Table:
    """The Arrow table of a part; feature matrices are not copied."""
    check_kept(content.kept, columns)
    fields: list[tuple[pa.Field, pa.Array]] = []

    def add(name: str, array: pa.Array) -> None:
        fields.append((pa.field(name, array.type, nullable=False), array))

    identity = identity_table(content)
    for name in ("n_tokens", "n_unk", "n_truncated"):
        add(name, pa.array(getattr(content, name), pa.int32()))
    for feature in columns:
        if feature.pooling.per_document:
            add(feature.name, _vector_array(content.vectors[feature.name], feature))
    for kind, pieces in (("token", content.tokens), ("word", content.words)):
        if pieces is not None:
            for name, array in _piece_arrays(kind, pieces, columns):
                add(name, array)
    if content.tags is not None:
        offsets = offsets_of(lengths_of(content.tags))
        add("tags", _list_array(offsets, _string_array([tag for tags in content.tags for tag in tags])))
    schema = pa.schema([*identity.schema, *(field for field, _ in fields)])
    return pa.table([*identity.columns, *(array for _, array in fields)], schema=schema)


def identity_table(content: PartContent) -> pa.Table:
    """The columns of a part that are not made by the model: row, id, texts and kept columns."""
    arrays = {"row": pa.array(content.rows, pa.int64()), "id": _string_array(content.ids)}
    for name, strings in (("text", content.texts), ("pair", content.pairs), ("text_digest", content.digests)):
        if strings is not None:
            arrays[name] = _string_array(strings)
    fields = [pa.field(name, array.type, nullable=False) for name, array in arrays.items()]
    for column, values in content.kept.items():
        arrays[column.name] = _kept_array(column, values)
        fields.append(pa.field(column.name, KEPT_TYPES[column.type]))
    return pa.table(list(arrays.values()), schema=pa.schema(fields))


def row_bytes(table: pa.Table, columns: Sequence[FeatureColumn]) -> NDArray[np.int64]:
    """The approximate number of bytes of each document, ``[D]``; with a basis those of its vectors as they are read."""
    # an allowance of 64 bytes for the other columns of a document, and of 16 for those of a token or word
    fixed = 64 + sum(4 * column.width for column in columns if column.pooling.per_document)
    sizes = np.full(len(table), fixed, np.int64)
    for kind in POSITION_COLUMNS:
        if f"{kind}_start" in table.column_names:
            piece_bytes = 16 + sum(
                vector_bytes(replace(column, basis=None)) for column in columns if column.pooling == kind
            )
            sizes += pc.list_value_length(table.column(f"{kind}_start")).to_numpy() * piece_bytes
    for name in ("text", "pair"):
        if name in table.column_names:
            sizes += pc.utf8_length(table.column(name)).to_numpy()
    return sizes


def _piece_arrays(kind: str, pieces: Pieces, columns: Sequence[FeatureColumn]) -> Iterator[tuple[str, pa.Array]]:
    """The Arrow columns of tokens or words (``kind``, the name of their pooling, too): name and values.

    There are no strings and no ids of tokens without ``keep_text``, no segments without pairs, and ``aligned`` is of
    words alone.
    """
    if pieces.strings is not None:
        yield f"{kind}s", _list_array(pieces.offsets, _string_array(pieces.strings))
    if pieces.ids is not None:
        yield f"{kind}_ids", _list_array(pieces.offsets, pa.array(pieces.ids, pa.int32()))
    yield f"{kind}_start", _list_array(pieces.offsets, pa.array(pieces.start, pa.int32()))
    yield f"{kind}_end", _list_array(pieces.offsets, pa.array(pieces.end, pa.int32()))
    if pieces.segment is not None:
        yield f"{kind}_segment", _list_array(pieces.offsets, pa.array(pieces.segment, pa.int8()))
    if pieces.aligned is not None:
        yield "aligned", _list_array(pieces.offsets, pa.array(pieces.aligned, pa.bool_()))
    for column in columns:
        if column.pooling == kind:
            yield column.name, _cell_array(pieces.matrices[column.name], pieces.offsets, column)


def _string_array(values: Sequence[str]) -> pa.Array:
    array = pa.array(values, pa.string())
    if isinstance(array, pa.ChunkedArray):
        raise FeatureSetError(
            "the strings of one part exceed 2 GiB", remedy=f"choose smaller parts with {parameter('part_rows')}"
        )
    return array


def _kept_array(column: KeptColumn, values: Sequence[Value]) -> pa.Array:
    try:
        return pa.array(values, KEPT_TYPES[column.type])
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise FeatureSetError(
            f"the kept column {column.name!r} holds a value that is no {column.type}: {error}"
        ) from error


def _list_array(offsets: NDArray[np.int64], values: pa.Array) -> pa.Array:
    kind = pa.list_(pa.field("element", values.type, nullable=False))
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values, type=kind)


def _vector_array(matrix: Matrix, column: FeatureColumn) -> pa.Array:
    flat = pa.array(encode_vectors(matrix, column).reshape(-1))
    kind = pa.list_(pa.field("element", pa.float32(), nullable=False), column.width)
    return pa.FixedSizeListArray.from_arrays(flat, type=kind)


def _cell_array(matrix: Matrix, offsets: NDArray[np.int64], column: FeatureColumn) -> pa.Array:
    stored, ends = encode_vectors(matrix, column), offsets * vector_bytes(column)
    if np.diff(ends).max(initial=0) > CELL_LIMIT:
        raise FeatureSetError(
            f"a document needs 2 GiB or more in the column {column.name}", remedy="cut it into several documents"
        )
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(stored.reshape(-1))]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


# ── the columns of a part that was written ──────────────────────────────────────────────────────────────────

_ROW_COLUMNS = {"row": pa.int64(), "id": pa.string(), **dict.fromkeys(("n_tokens", "n_unk", "n_truncated"), pa.int32())}
_TEXT_COLUMNS = dict.fromkeys(("text", "pair", "text_digest"), pa.string())
_LIST_COLUMNS = {
    **dict.fromkeys(("tokens", "words", "tags"), pa.string()),
    **dict.fromkeys(("token_ids", "token_start", "token_end", "word_start", "word_end"), pa.int32()),
    **dict.fromkeys(("token_segment", "word_segment"), pa.int8()),
    "aligned": pa.bool_(),
}


def column_problems(schema: pa.Schema, columns: Sequence[FeatureColumn]) -> Iterator[str]:
    """The problems of a part's schema: columns that are missing, or not of the types that the header requires."""
    types = dict(zip(schema.names, schema.types, strict=True))
    needed = [*_ROW_COLUMNS]
    for column in columns:
        needed += (column.name, *POSITION_COLUMNS.get(column.pooling, ()))
    for name in needed:
        if name not in types:
            yield f"the column {name!r} is missing"
    features = {column.name: column for column in columns}
    for name, kind in types.items():
        expected, right = _match_type(name, kind, features.get(name))
        if not right:
            yield f"the column {name!r} is of the type {kind}, not {expected}"


def _match_type(name: str, kind: pa.DataType, feature: FeatureColumn | None) -> tuple[str, bool]:
    """The type that a column must have, and whether it has it."""
    if feature is not None and feature.pooling.per_document:
        vector = pa.types.is_fixed_size_list(kind) and kind.list_size == feature.width
        return f"fixed_size_list<float>[{feature.width}]", bool(vector and kind.value_type == pa.float32())
    if feature is not None:
        return "large_binary", pa.types.is_large_binary(kind)
    if name not in RESERVED_COLUMNS:
        return "a kept value", kind in KEPT_TYPES.values()
    if (element := _LIST_COLUMNS.get(name)) is not None:
        return f"list<{element}>", pa.types.is_list(kind) and kind.value_type == element
    expected = {**_ROW_COLUMNS, **_TEXT_COLUMNS}[name]
    return str(expected), kind == expected

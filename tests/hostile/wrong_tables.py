"""Tables of other shapes and types than a part, or an index, has; each under the name of what is wrong."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.hostile.forge import ChangePart, Header

ChangeTable = Callable[[pa.Table], pa.Table]


def _set(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)


def _of(table: pa.Table, name: str) -> Any:
    return table[name].combine_chunks()


def _column(name: str, make: Callable[[Any], pa.Array]) -> ChangePart:
    return lambda table, header: (_set(table, name, make(_of(table, name))), header)


def _table(change: ChangeTable) -> ChangePart:
    return lambda table, header: (change(table), header)


def _header(*path: str | int, value: Any = None, add: int | None = None) -> ChangePart:
    def change(table: pa.Table, header: Header) -> tuple[pa.Table, Header]:
        here: Any = header
        for key in path[:-1]:
            here = here[key]
        here[path[-1]] = value if add is None else here[path[-1]] + add
        return table, header

    return change


def _lists(change: Callable[[Any], Any]) -> Callable[[Any], pa.Array]:
    """Change the first value of a column, as Python has it."""
    return lambda column: pa.array([change(column[0].as_py()), *column[1:].to_pylist()], column.type)


def _matrix(width: int, kind: pa.DataType) -> Callable[[Any], pa.Array]:
    def make(column: Any) -> pa.Array:
        values = np.resize(np.arange(1, 100, dtype=np.float64), len(column) * width)
        return pa.FixedSizeListArray.from_arrays(pa.array(values).cast(kind, safe=False), width)

    return make


def _words_with_null(column: Any) -> pa.Array:
    first, *others = column.to_pylist()
    return pa.array([[None, *first[1:]], *others], pa.list_(pa.string()))


SHAPES: dict[str, ChangePart] = {
    "vectors of 31 values": _column("last_mean", _matrix(31, pa.float32())),
    "vectors of 33 values": _column("last_mean", _matrix(33, pa.float32())),
    "vectors of float64": _column("last_mean", _matrix(32, pa.float64())),
    "vectors of whole numbers": _column("last_mean", _matrix(32, pa.int32())),
    "vectors of any length": _column("last_mean", lambda c: c.cast(pa.list_(pa.float32()))),
    "vectors that are texts": _column("last_mean", lambda c: pa.array(["x"] * len(c))),
    "no vector": _column("last_mean", _lists(lambda _: None)),
    "a matrix that lacks a byte": _column("last_word", _lists(lambda cell: cell[:-1])),
    "a matrix that lacks a row": _column("last_word", _lists(lambda cell: cell[:-64])),
    "a matrix with a row more": _column("last_word", _lists(lambda cell: cell + cell[:64])),
    "an empty matrix": _column("last_word", _lists(lambda _: b"")),
    "no matrix": _column("last_word", _lists(lambda _: None)),
    "a token matrix that lacks a row": _column("last_token", _lists(lambda cell: cell[:-64])),
    "matrices that are texts": _column("last_word", lambda c: pa.array(["x"] * len(c))),
    "no column of vectors": _table(lambda t: t.drop_columns(["last_mean"])),
    "no column of rows": _table(lambda t: t.drop_columns(["row"])),
    "no column of ids": _table(lambda t: t.drop_columns(["id"])),
    "no column of texts": _table(lambda t: t.drop_columns(["text"])),
    "no column of words": _table(lambda t: t.drop_columns(["words"])),
    "no column of starts": _table(lambda t: t.drop_columns(["word_start"])),
    "no column of counts": _table(lambda t: t.drop_columns(["n_tokens"])),
    "no kept column": _table(lambda t: t.drop_columns(["year"])),
    "a column more": _table(lambda t: t.append_column("strange", pa.array(["x"] * len(t)))),
    "a column more of an odd type": _table(lambda t: t.append_column("strange", pa.array([{"a": 1}] * len(t)))),
    "no columns": _table(lambda t: t.select([])),
    "rows that are texts": _column("row", lambda c: c.cast(pa.string())),
    "rows in the other order": _table(lambda t: t.take(list(range(len(t)))[::-1])),
    "a row twice": _column("row", _lists(lambda row: row + 1)),
    "a row below zero": _column("row", _lists(lambda _: -1)),
    "a row beyond the last": _column("row", lambda c: pa.array([*c[:-1].to_pylist(), 1 << 40], c.type)),
    "no row number": _column("row", _lists(lambda _: None)),
    "no id": _column("id", _lists(lambda _: None)),
    "no text": _column("text", _lists(lambda _: None)),
    "texts that are bytes": _column("text", lambda c: c.cast(pa.binary())),
    "words that lack one": _column("words", _lists(lambda words: words[:-1])),
    "words that are null": _column("words", _lists(lambda _: None)),
    "a word that is null": _column("words", _words_with_null),
    "starts that lack one": _column("word_start", _lists(lambda starts: starts[:-1])),
    "a start below zero": _column("word_start", _lists(lambda starts: [-5, *starts[1:]])),
    "a start beyond the text": _column("word_start", _lists(lambda starts: [1 << 30, *starts[1:]])),
    "an end before its start": _column("word_end", _lists(lambda ends: [0 for _ in ends])),
    "aligned that lacks one": _column("aligned", _lists(lambda flags: flags[:-1])),
    "kept years that are texts": _column("year", lambda c: c.cast(pa.string())),
    "a document less": _table(lambda t: t.slice(1)),
    "a document twice": _table(lambda t: pa.concat_tables([t, t.slice(0, 1)])),
    "no documents": _table(lambda t: t.slice(0, 0)),
    "a header of another part": _header("number", add=1),
    "a first row that is earlier": _header("first_row", add=-1),
    "a last row that is later": _header("last_row", add=1),
    "a blank line more": _header("blank", add=1),
    "a document more in the counts": _header("counts", "documents", add=1),
    "a token more in the counts": _header("counts", "tokens", add=1),
    "a wider column in the header": _header("columns", 0, "width", add=1),
    "another type in the header": _header("columns", 0, "dtype", value="float16"),
    "words of another type in the header": lambda t, h: (
        t,
        {**h, "columns": [{**each, "dtype": each["dtype"].replace("float16", "int8")} for each in h["columns"]]},
    ),
    "an unknown type in the header": _header("columns", 0, "dtype", value="complex64"),
    "an unknown pooling": _header("columns", 0, "pooling", value="median"),
    "another pooling": _header("columns", 0, "pooling", value="word"),
    "an unknown operation": _header("columns", 0, "recipe", "operation", value="product"),
    "a layer that there is not": _header("columns", 0, "recipe", "layers", value=[99]),
    "no layers": _header("columns", 0, "recipe", "layers", value=[]),
    "no columns in the header": _header("columns", value=[]),
    "a column twice": lambda t, h: (t, {**h, "columns": [*h["columns"], h["columns"][0]]}),
    "another model": _header("model", "hidden_size", value=7),
    "another fingerprint": _header("fingerprint", value="0" * 64),
    "other settings": _header("settings", "prompt", value="x"),
    "a newer format": _header("format_version", value=99),
    "a format below zero": _header("format_version", value=-1),
    "a failure more": lambda t, h: (t, {**h, "failures": [{"row": 0, "id": "x", "reason": "y", "value": ""}]}),
    "a failure elsewhere": lambda t, h: (t, {**h, "failures": [{**each, "row": 999} for each in h["failures"]]}),
}
"""Of a part of ``docs.features``; nothing but its own contradictions tells them."""

VALUES: dict[str, ChangePart] = {
    "a vector of NaN": _column("last_mean", _lists(lambda v: [float("nan")] * len(v))),
    "an infinite value": _column("last_mean", _lists(lambda v: [float("inf"), *v[1:]])),
    "a vector of zeros": _column("last_mean", _lists(lambda v: [0.0] * len(v))),
    "a huge value": _column("last_mean", _lists(lambda v: [3e38, *v[1:]])),
    "a word matrix of NaN": _column("last_word", _lists(lambda cell: b"\xff\x7f" * (len(cell) // 2))),
    "an id with escapes": _column("id", _lists(lambda _: "\x1b[31m\nerror: x")),
    "an id of 5,000 characters": _column("id", _lists(lambda _: "i" * 5000)),
    "the same id everywhere": _column("id", lambda c: pa.array(["x"] * len(c), c.type)),
    "an empty text": _column("text", _lists(lambda _: "")),
    "a text with escapes": _column("text", _lists(lambda _: "\x1b[31m\u202e bank \0")),
    "a text of 2 MB": _column("text", _lists(lambda _: "bank " * 400_000)),
    "an author with escapes": _column("author", _lists(lambda _: "\x1b]0;x\x07")),
    "scores of NaN": _column("score", lambda c: pa.array([float("nan")] * len(c))),
    "years of NULL": _column("year", lambda c: pa.nulls(len(c), c.type)),
    "a huge year": _column("year", _lists(lambda _: 2**63 - 1)),
    "tokens below zero": _column("n_tokens", _lists(lambda _: -5)),
}
"""What may stand in a part, and verbs have to live with."""


def _at(name: str, make: Callable[[Any], pa.Array]) -> ChangeTable:
    return lambda table: _set(table, name, make(_of(table, name)))


DOCUMENTS: dict[str, ChangeTable] = {
    "a document less": lambda t: t.slice(1),
    "a document twice": lambda t: pa.concat_tables([t, t.slice(0, 1)]),
    "no documents": lambda t: t.slice(0, 0),
    "no ids": lambda t: t.drop_columns(["id"]),
    "no rows": lambda t: t.drop_columns(["row"]),
    "no texts": lambda t: t.drop_columns(["text"]),
    "no sources": lambda t: t.drop_columns(["_source"]),
    "no columns": lambda t: t.select([]),
    "ids of numbers": _at("id", lambda c: pa.array(range(len(c)))),
    "ids of null": _at("id", lambda c: pa.nulls(len(c), c.type)),
    "ids of bytes": _at("id", lambda c: c.cast(pa.large_binary())),
    "ids in a dictionary": _at("id", lambda c: c.dictionary_encode()),
    "rows that are texts": _at("row", lambda c: c.cast(pa.string())),
    "rows of null": _at("row", lambda c: pa.nulls(len(c), c.type)),
    "texts of null": _at("text", lambda c: pa.nulls(len(c), c.type)),
    "texts of lists": _at("text", lambda c: pa.array([["a"]] * len(c))),
    "a source beyond the last": _at("_source", lambda c: pc.add(c, 5).cast(c.type)),
    "a source below zero": _at("_source", lambda c: pc.subtract(c, 9).cast(c.type)),
    "sources of text": _at("_source", lambda c: c.cast(pa.string())),
    "years of text": _at("year", lambda c: c.cast(pa.string())),
    "years of structs": _at("year", lambda c: pa.array([{"a": 1}] * len(c))),
    "no years": lambda t: t.drop_columns(["year"]),
    "a column more": lambda t: t.append_column("strange", pa.array([1.5] * len(t))),
    "a column twice": lambda t: t.append_column("id", t["id"]),
    "columns in another order": lambda t: t.select(t.column_names[::-1]),
}
PIECES: dict[str, ChangeTable] = {
    "a piece less": lambda t: t.slice(1),
    "a piece twice": lambda t: pa.concat_tables([t, t.slice(0, 1)]),
    "no pieces": lambda t: t.slice(0, 0),
    "pieces of no document": _at("document", lambda c: pc.add(c, 1000).cast(c.type)),
    "pieces of documents below zero": _at("document", lambda c: pc.subtract(c, 1000).cast(c.type)),
    "documents of null": _at("document", lambda c: pa.nulls(len(c), c.type)),
    "documents as texts": _at("document", lambda c: c.cast(pa.string())),
    "documents as int8": _at("document", lambda c: c.cast(pa.int8())),
    "starts below zero": _at("start", lambda c: pc.subtract(c, 500).cast(c.type)),
    "ends beyond the text": _at("end", lambda c: pc.add(c, 5000).cast(c.type)),
    "ends before starts": _at("end", lambda c: pc.subtract(c, 5000).cast(c.type)),
    "starts of null": _at("start", lambda c: pa.nulls(len(c), c.type)),
    "a segment that there is not": _at("segment", lambda c: pc.add(c, 7).cast(c.type)),
    "no ends": lambda t: t.drop_columns(["end"]),
    "starts of real numbers": _at("start", lambda c: c.cast(pa.float64())),
}

"""Queries as they are given: texts, vectors, files with a query a line, BEIR folders with what people hold relevant."""

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertfeat.corpus import BadLine, TextEncoding, read_lines
from bertfeat.errors import CorpusError, UsageError
from bertfeat.io import JsonError, decode_json, open_regular, shorten

MOST_GRADE = 1_000
"""Largest grade of a judgement, up or down; scoring takes time and memory for every grade up to the largest."""

_BLOCK = 1 << 16
_MARKS = (  # UTF-32 first: its little-endian mark begins with the one of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_GRADE = re.compile(r"[+-]?[0-9]{1,4}")
_HEADERS = ("query-id", "query_id", "qid")


@dataclass(frozen=True, slots=True)
class BeirData:
    """The questions of a BEIR folder and what people hold relevant."""

    queries: Mapping[str, str]  # id → text, of the judged ones
    judgements: Mapping[str, Mapping[str, int]]  # query id → document id → grade


@dataclass(frozen=True, slots=True)
class _Line:
    number: int  # from 1
    text: str


@dataclass(frozen=True)
class _Query:
    """A line of ``queries.jsonl``."""

    _id: str | int
    text: str

    @property
    def id(self) -> str:
        return str(self._id)


def query_text(query: object, what: str = "the query") -> str:
    """A query, if it is a text that a model can read; ``what`` calls it in errors.

    Raises:
        UsageError: it is none.
    """
    if not isinstance(query, str):
        raise UsageError(f"{what} is no text, but {type(query).__name__}")
    if not query.strip():
        raise UsageError(f"{what} is empty")
    try:
        query.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what} holds bytes that are no UTF-8 text: {shorten(query)!r}") from None
    return str(query)


def query_texts(queries: Iterable[str]) -> list[str]:
    """The queries as a list, if they are texts in an order; see :func:`query_text`.

    Raises:
        UsageError: they are not.
    """
    unfit = isinstance(queries, str | bytes | Mapping | Set) or not isinstance(queries, Iterable)
    if unfit or getattr(queries, "ndim", 1) != 1:
        raise UsageError(f"search_batch() takes a list of texts, not {type(queries).__name__}; search() takes one text")
    return [query_text(query, f"query {number}") for number, query in enumerate(queries)]


def query_vectors(vectors: ArrayLike, width: int, *, first: int = 0) -> NDArray[np.float32]:
    """Query vectors as ``[n, width]`` float32; ``first`` is the number of the first one, for errors.

    Raises:
        UsageError: an array of another shape or of other things than real numbers, or a value that is not finite.
    """
    try:
        matrix = np.asarray(vectors)
    except (TypeError, ValueError, RuntimeError) as error:  # lists of unequal lengths, tensors elsewhere
        raise UsageError(f"query vectors must be an array [n, {width}] of numbers: {error}") from error
    if matrix.dtype.kind not in "fiu":
        raise UsageError(f"query vectors must be whole or real numbers, not {matrix.dtype}")
    if matrix.ndim != 2 or matrix.shape[1] != width:
        remedy = "; a single vector is given as vector[None]" if matrix.shape == (width,) else ""
        raise UsageError(f"query vectors must be [n, {width}], as in this index, not {list(matrix.shape)}{remedy}")
    with np.errstate(over="ignore"):
        found = matrix.astype(np.float32)
    for number in np.flatnonzero(~np.isfinite(found).all(axis=1))[:1].tolist():
        raise UsageError(f"query vector {first + number} has a value that is not finite, or too large for float32")
    return found


def read_queries(file: BinaryIO, name: str) -> Iterator[str]:
    """The queries of a file, a query a line, without blank lines; UTF-8, or what its byte order mark says.

    Raises:
        CorpusError: a line cannot be decoded; names the file and the line.
    """
    for line in _query_lines(file, name):
        yield line.text.strip()


def read_vectors(path: Path) -> NDArray[Any]:
    """The array of a ``.npy`` file, mapped into memory.

    Raises:
        UsageError: it is no such file, or one of Python objects.
    """
    try:
        with open_regular(path) as file:
            first = file.read(4)
        return np.lib.format.open_memmap(path, mode="r")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, EOFError, OverflowError) as error:
        if first == b"PK\3\4":
            what = "it is an archive (.npz); save the array alone with numpy.save"
        elif first == b"\x93NUM":
            why = "its header is damaged" if " object at 0x" in str(error) else error
            what = f"it holds no whole array of numbers ({why})"
        else:
            what = "it is no array; numpy.save writes one"
        raise UsageError(f"{path} cannot be read as .npy: {what}") from error


def read_beir(folder: str | Path, split: str = "test") -> BeirData:
    """Read ``queries.jsonl`` and ``qrels/<split>.tsv``.

    Raises:
        CorpusError: a file is missing or empty, or a line of it is not in BEIR's form or contradicts another.
    """
    folder = Path(folder)
    judgements = _judgements(folder / "qrels" / f"{split}.tsv")
    queries = _queries(folder / "queries.jsonl", judgements)
    for query in judgements:
        if query not in queries:
            raise CorpusError(
                f"{folder / 'queries.jsonl'}: the query {query!r}, which qrels/{split}.tsv judges, is not in it"
            )
    return BeirData(queries, judgements)


def _judgements(path: Path) -> dict[str, dict[str, int]]:
    judgements: dict[str, dict[str, int]] = {}
    for at, line in enumerate(_file_lines(path)):
        query, *rest = line.text.split("\t")
        if at == 0 and query in _HEADERS:
            continue
        if len(rest) != 2 or not _GRADE.fullmatch(rest[1].strip()):
            raise _line_error(
                path, line, "expected query-id, corpus-id and score (a whole number) with tabs between them"
            )
        document, grade = rest[0], int(rest[1])
        if abs(grade) > MOST_GRADE:
            raise _line_error(path, line, f"scores are from -{MOST_GRADE:,} to {MOST_GRADE:,}")
        if judgements.setdefault(query, {}).setdefault(document, grade) != grade:
            raise _line_error(path, line, f"another line gives this query and document the score {judgements[query][document]}")  # noqa: E501  # fmt: skip
    if not judgements:
        raise CorpusError(f"{path}: there are no judgements in it")
    return judgements


def _queries(path: Path, judged: Mapping[str, object]) -> dict[str, str]:
    """The texts of the judged queries, by id."""
    queries: dict[str, str] = {}
    for line in _file_lines(path):
        try:
            query = decode_json(line.text, _Query)
            query.text.encode()  # JSON can spell halves of characters, which no model reads
        except (JsonError, UnicodeEncodeError) as error:
            raise _line_error(path, line, f"expected an object with _id and text: {error}") from None
        if query.id in judged and queries.setdefault(query.id, query.text) != query.text:
            raise _line_error(path, line, f"another line gives the query {query.id!r} another text")
    return queries


def _file_lines(path: Path) -> Iterator[_Line]:
    try:
        with open_regular(path) as file:
            yield from _query_lines(file, str(path))
    except OSError as error:
        raise CorpusError(
            f"{path} cannot be read: {error.strerror or error}; a BEIR folder has corpus.jsonl, queries.jsonl, qrels/"
        ) from error


def _query_lines(file: BinaryIO, name: str) -> Iterator[_Line]:
    """The lines that are not blank, without their ends."""
    first = file.read(4)  # as long as the longest mark
    encoding = next(
        (TextEncoding(codec, len(mark)) for mark, codec in _MARKS if first.startswith(mark)), TextEncoding("utf-8")
    )
    number = 0
    for lines in read_lines(_byte_blocks(first, file), encoding):
        for line in lines:
            number += 1
            if isinstance(line, BadLine) or "\0" in line:
                text = repr(shorten(line.text if isinstance(line, BadLine) else line)).replace("\\\\", "\\")
                raise CorpusError(
                    f"{name}, line {number}: {text} is no {encoding.name} text; "
                    f"save the file as UTF-8, or as UTF-16 with a byte order mark"
                )
            if line.strip():
                yield _Line(number, line)


def _byte_blocks(first: bytes, file: BinaryIO) -> Iterator[bytes]:
    if first:
        yield first
    read = getattr(file, "read1", file.read)  # of a pipe, what has come
    while block := read(_BLOCK):
        yield block


def _line_error(path: Path, line: _Line, problem: str) -> CorpusError:
    return CorpusError(f"{path}, line {line.number}: {problem}; it is {shorten(line.text)!r}")

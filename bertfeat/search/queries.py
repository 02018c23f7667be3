"""Queries as they are given: texts, marked words, vectors, and files of them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertfeat.corpus import BadLine, encoding_by_mark, read_lines
from bertfeat.errors import CorpusError, UsageError, WrongTypeError
from bertfeat.io import JsonError, decode_json, open_regular, shorten

_BLOCK = 1 << 16
_LONGEST_LINE = 1 << 24  # bytes
_MARKED = re.compile(r"\*(\S(?:[^*]*\S)?)\*")


@dataclass(frozen=True, slots=True)
class NumberedLine:
    """A line of a file."""

    number: int  # from 1
    text: str


def query_text(query: object, what: str = "the query") -> str:
    """A query, if it is a text that a model can read; ``what`` is its name in errors.

    Raises:
        UsageError: it is no such text.
    """
    if not isinstance(query, str):
        raise WrongTypeError(f"{what} is no text, but {type(query).__name__}")
    if not query.strip():
        raise UsageError(f"{what} is empty")
    try:
        query.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what} holds bytes that are no UTF-8 text: {shorten(query)!r}") from None
    return str(query)


def query_texts(queries: Iterable[str]) -> list[str]:
    """The queries as a list, if they are a sequence of texts; see :func:`query_text`.

    Raises:
        UsageError: they are not.
    """
    unfit = isinstance(queries, str | bytes | Mapping | Set) or not isinstance(queries, Iterable)
    if unfit or getattr(queries, "ndim", 1) != 1:
        raise WrongTypeError(
            f"search_batch() takes a list of texts, not {type(queries).__name__}; search() takes one text"
        )
    return [query_text(query, f"query {number}") for number, query in enumerate(queries)]


def query_vectors(vectors: ArrayLike, width: int, *, first: int = 0) -> NDArray[np.float32]:
    """Query vectors as ``[n, width]`` float32; ``first`` is the number of the first one, for errors.

    Raises:
        UsageError: an array of another shape or of other things than real numbers, or a value that is not finite.
    """
    try:
        matrix = np.asarray(vectors)
    except (TypeError, ValueError, RuntimeError) as error:  # lists of unequal lengths, tensors elsewhere
        raise WrongTypeError(f"query vectors must be an array [n, {width}] of numbers: {error}") from error
    if matrix.dtype.kind not in "fiu":
        raise WrongTypeError(f"query vectors must be whole or real numbers, not {matrix.dtype}")
    if matrix.ndim != 2 or matrix.shape[1] != width:
        remedy = "a single vector is given as vector[None]" if matrix.shape == (width,) else ""
        raise UsageError(
            f"query vectors must be [n, {width}], as in this index, not {list(matrix.shape)}", remedy=remedy
        )
    with np.errstate(over="ignore"):
        queries = matrix.astype(np.float32)
    for number in np.flatnonzero(~np.isfinite(queries).all(axis=1))[:1].tolist():
        raise UsageError(f"query vector {first + number} has a value that is not finite, or too large for float32")
    return queries


def unmark_words(text: str) -> tuple[str, list[tuple[int, int]]]:
    """A text without the stars around marked words, and the range of characters of each: ``the *bank* of``."""
    parts: list[str] = []
    spans: list[tuple[int, int]] = []
    end = length = 0
    for mark in _MARKED.finditer(text):
        parts += [text[end : mark.start()], mark[1]]
        start = length + mark.start() - end
        length, end = start + len(mark[1]), mark.end()
        spans.append((start, length))
    return "".join([*parts, text[end:]]), spans


def read_queries(file: BinaryIO, name: str) -> Iterator[str]:
    """The queries of a file, one a line, without blank lines; in UTF-8, or as its byte order mark says.

    Raises:
        CorpusError: a line cannot be decoded; names the file and the line.
    """
    for line in decoded_lines(file, name):
        yield line.text.strip()


@dataclass(frozen=True)
class _QueryRecord:
    """A line of BEIR's ``queries.jsonl``."""

    text: str


def read_query_records(file: BinaryIO, name: str) -> Iterator[str]:
    """The ``text`` of each line of JSON, as BEIR's ``queries.jsonl`` has it; blank lines are left out.

    Raises:
        CorpusError: a line that cannot be decoded, or is no object with a text; names the file and the line.
    """
    for line in decoded_lines(file, name):
        try:
            yield decode_json(line.text, _QueryRecord).text
        except JsonError as error:
            problem = f"expected an object with a text, as BEIR's queries.jsonl has them: {error}"
            raise CorpusError(problem, where=f"{name}, line {line.number}") from None


def read_vectors(path: Path) -> NDArray[np.generic]:
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
            problem, remedy = "it is an archive (.npz)", "save the array alone with numpy.save"
        elif first == b"\x93NUM":
            why = "its header is damaged" if " object at 0x" in str(error) else error
            problem, remedy = f"it holds no whole array of numbers ({why})", ""
        else:
            problem, remedy = "it is no array", "numpy.save writes one"
        raise UsageError(f"{path} cannot be read as .npy: {problem}", remedy=remedy) from error


def decoded_lines(file: BinaryIO, name: str) -> Iterator[NumberedLine]:
    """The lines that are not blank, without their ends."""
    first = file.read(4)  # as long as the longest mark
    encoding = encoding_by_mark(first)
    number = 0
    for lines in read_lines(_byte_blocks(first, file, name), encoding):
        for line in lines:
            number += 1
            if isinstance(line, BadLine) or "\0" in line:
                text = repr(shorten(line.text if isinstance(line, BadLine) else line)).replace("\\\\", "\\")
                raise CorpusError(
                    f"{text} is no {encoding.name} text",
                    where=f"{name}, line {number}",
                    remedy="save the file as UTF-8, or as UTF-16 with a byte order mark",
                )
            if line.strip():
                yield NumberedLine(number, line)


def _byte_blocks(first: bytes, file: BinaryIO, name: str) -> Iterator[bytes]:
    """The blocks of a file, until a line in it is so long that it may never end, as that of ``/dev/zero``."""
    read = getattr(file, "read1", file.read)  # of a pipe, what has come
    number, length, block = 1, 0, first
    while block:
        yield block
        number += block.count(b"\n")
        length = len(block) - 1 - block.rfind(b"\n") + (0 if b"\n" in block else length)
        if length > _LONGEST_LINE:
            raise CorpusError(f"it has more than {_LONGEST_LINE:,} bytes", where=f"{name}, line {number}")
        block = read(_BLOCK)

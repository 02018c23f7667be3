"""The tokens that an index keeps of its documents (``bertfeat index --with-tokens``): their vectors, and their counts.

A cosine only needs the direction of a vector. So ``tokens.npy`` holds each vector as int8 with a largest absolute value
of 127; no scale is kept. Special tokens, and words without a vector, are left out. The file is mapped into memory.
The counts say how many documents have each token (or word); inverse document frequencies are computed from them, also
where tokens are read from feature sets.

Shapes: D documents, N tokens of all of them, V different ones, n tokens of one document, W values in a vector.
"""

import mmap
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from tokenize import TokenError
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.core import ReadableColumn, find_column, unit_vectors
from bertfeat.errors import IndexFolderError, parameter
from bertfeat.io import Location, open_regular
from bertfeat.search.document_store import ArrowStore
from bertfeat.search.settings import (
    REBUILD,
    TOKEN_ID_OFFSETS_NAME,
    TOKEN_IDS_NAME,
    TOKEN_OFFSETS_NAME,
    TOKENS_NAME,
    VOCABULARY_NAME,
    IndexSettings,
    StoredTokens,
)

Value = TypeVar("Value", bound=np.number | np.bool_)

VOCABULARY_SCHEMA = pa.schema([("token", pa.large_string()), ("documents", pa.int64())])
_BLOCK_BYTES = 16 << 20
_OWNER_BYTES = 32  # of a row: the document that it is of, and what sorts by it


class TokenCounts:
    """The number of documents that have each token; memory grows with the vocabulary only."""

    def __init__(
        self, strings: Iterable[str] = (), counts: NDArray[np.int64] | None = None, documents: int = 0
    ) -> None:
        self._numbers = {string: number for number, string in enumerate(strings)}
        self.counts: NDArray[np.int64] = np.zeros(len(self._numbers), np.int64) if counts is None else counts
        """Documents that have each token, by its number, ``[V]``."""
        self.documents = documents
        """The number of documents."""

    @property
    def strings(self) -> list[str]:
        """The tokens, by their numbers, ``[V]``."""
        return list(self._numbers)

    def number(self, strings: pa.Array, chosen: NDArray[np.bool_]) -> NDArray[np.int32]:
        """The number of each of the ``chosen`` tokens; new ones get the next numbers."""
        encoded = strings.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        used, places = np.unique(encoded.indices.to_numpy()[chosen], return_inverse=True)
        numbers: NDArray[np.int32] = self.numbers([names[code] for code in used.tolist()])[places]
        return numbers

    def numbers(self, strings: Sequence[str]) -> NDArray[np.int32]:
        """The number of each token in a list without repetitions; new ones get the next numbers."""
        known = [self._numbers.setdefault(string, len(self._numbers)) for string in strings]
        return np.array(known, np.int32)

    def add(self, numbers: NDArray[np.int32], documents: int) -> None:
        """Count the tokens of ``documents`` further documents, by their ``numbers`` ``[N]``, each once a document."""
        counts = np.bincount(numbers, minlength=len(self._numbers))
        counts[: len(self.counts)] += self.counts
        self.counts, self.documents = counts, self.documents + documents

    def idf(self, strings: Sequence[str]) -> NDArray[np.float32]:
        """``log((N + 1) / (df + 1))`` for each token, where ``df`` of ``N`` documents have it: 0 if all of them do."""
        numbers = [self._numbers.get(string, -1) for string in strings]
        having = np.array([0 if number < 0 else self.counts[number] for number in numbers], np.float64)
        return np.log((self.documents + 1) / (having + 1)).astype(np.float32)


def distinct_tokens(
    numbers: NDArray[np.int32], owners: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The tokens that each document has, sorted and without repetitions, and the document of each."""
    size = int(numbers.max(initial=0)) + 1
    pairs = np.unique(owners.astype(np.int64) * size + numbers)
    return (pairs % size).astype(np.int32), pairs // size


class RaggedArray(Generic[Value]):
    """An array whose rows are those of one document after another's, and the offsets at which each begins."""

    def __init__(self, path: Path, offsets: Path, dtype: np.dtype[Value], shape: tuple[int, ...], documents: int):
        self.rows = map_array(path, dtype, shape)
        """The rows of all documents, ``[N]`` or ``[N, W]``."""
        self.offsets = map_array(offsets, np.dtype(np.int64), (documents + 1,))
        """The start of each document's rows, and the end of the last one's, ``[D+1]``."""
        self._path = offsets

    def of(self, document: int) -> NDArray[Value]:
        """The rows of a document."""
        start, stop = int(self.offsets[document]), int(self.offsets[document + 1])
        if not 0 <= start <= stop <= len(self.rows):
            raise _damaged(self._path, f"rows {start:,} to {stop:,} of document {document:,}")
        return self.rows[start:stop]

    def blocks(self) -> Iterator[tuple[slice, NDArray[Value], NDArray[np.int64]]]:
        """Ranges of documents with about 16 MiB of rows and owners: the range, its rows, and the document of each row.

        Documents are counted from the start of their range. The offsets must not decrease, and must cover all rows.
        """
        size = max(1, _BLOCK_BYTES // (self.rows[:1].nbytes + _OWNER_BYTES))
        last, at = len(self.offsets) - 1, 0
        if (int(self.offsets[0]), int(self.offsets[-1])) != (0, len(self.rows)) or (np.diff(self.offsets) < 0).any():
            raise _damaged(self._path, "documents do not follow one another")
        while at < last:
            stop = max(at + 1, int(np.searchsorted(self.offsets, self.offsets[at] + size, side="right")) - 1)
            owners = np.repeat(np.arange(stop - at), np.diff(self.offsets[at : stop + 1]))
            yield slice(at, stop), self.rows[int(self.offsets[at]) : int(self.offsets[stop])], owners
            at = stop


class KeptTokens:
    """The token vectors of an index, as they were written; the files must have the shapes that the settings give."""

    def __init__(self, folder: Path, settings: IndexSettings, tokens: StoredTokens) -> None:
        self.folder, self.stored = folder, tokens
        self._settings = settings
        documents = settings.documents
        self.vectors: RaggedArray[np.number] = RaggedArray(
            folder / TOKENS_NAME,
            folder / TOKEN_OFFSETS_NAME,
            np.dtype(tokens.column.dtype),
            (tokens.count, tokens.column.width),
            documents,
        )
        """The directions as they are stored, of each token or, where they are pooled, of several: ``[N, W]``."""
        self.ids: RaggedArray[np.int32] | None = None
        """The numbers of each document's tokens in the vocabulary, without repetitions; None if they are not kept."""
        self._vocabulary: ArrowStore | None = None
        if tokens.distinct is not None:
            ids, offsets = folder / TOKEN_IDS_NAME, folder / TOKEN_ID_OFFSETS_NAME
            self.ids = RaggedArray(ids, offsets, np.dtype(np.int32), (tokens.distinct,), documents)
            below = {"documents": documents - settings.tombstones + 1}
            self._vocabulary = ArrowStore(folder / VOCABULARY_NAME, VOCABULARY_SCHEMA, below=below)

    @cached_property
    def vocabulary(self) -> TokenCounts:
        """The different tokens, and how many documents have each."""
        store = self._vocabulary
        if store is None:
            raise no_strings_error(self.folder)
        strings = [string for batch in store.batches(["token"]) for string in batch.column(0).to_pylist()]
        if len(set(strings)) < len(strings):
            raise _damaged(self.folder / VOCABULARY_NAME, "a token is in it twice")
        living = self._settings.documents - self._settings.tombstones
        return TokenCounts(strings, store.numbers("documents"), living)


class StoredDocumentTokens:
    """The token vectors of documents as they are compared: the stored ones, or derived from them."""

    def __init__(self, store: KeptTokens, column: str | None, num_layers: int) -> None:
        self._store = store
        self.column: ReadableColumn = find_column([store.stored.column], num_layers, column)

    def read(self, numbers: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """The number of each of those documents and its vectors ``[n, W]``."""
        name, derivation = self._store.stored.column.name, self.column.derivation
        for document in numbers.tolist():
            stored = self._store.vectors.of(document).astype(np.float32)
            yield document, unit_vectors(derivation.apply({name: stored}))

    def counts(self) -> TokenCounts:
        """Count the documents of the index in which each token occurs."""
        return self._store.vocabulary


def encode_directions(vectors: NDArray[np.float32]) -> NDArray[np.int8]:
    """Encode vectors ``[n, W]`` as ``tokens.npy`` holds them.

    Raises:
        ValueError: a value is not finite.
    """
    units = unit_vectors(vectors)
    if not np.isfinite(units).all():
        raise ValueError("a token has a value that is not finite")
    largest = np.abs(units).max(axis=1, keepdims=True, initial=0)
    return np.rint(units * (127 / np.where(largest > 0, largest, 1))).astype(np.int8)


def map_array(path: Path, dtype: np.dtype[Value], shape: tuple[int, ...]) -> NDArray[Value]:
    """Map the array of a ``.npy`` file into memory by an open handle: it stays readable if the folder is replaced."""
    expected = dtype.newbyteorder("<")
    try:
        with open_regular(path) as file:
            np.lib.format.read_magic(file)
            found, _, kind = np.lib.format.read_array_header_1_0(file)
            if (found, kind) != (shape, expected):
                raise ValueError(f"{list(found)} of {kind}, where {list(shape)} of {expected} is expected")
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return np.frombuffer(mapped, expected, int(np.prod(shape)), file.tell()).reshape(shape)
    except (OSError, ValueError, SyntaxError, TokenError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, problem: object) -> IndexFolderError:
    return IndexFolderError(f"cannot be read ({problem})", where=path, remedy=REBUILD)


def no_strings_error(place: Location) -> IndexFolderError:
    """The error where inverse document frequencies are asked for, and the tokens themselves were not kept."""
    return IndexFolderError(
        "it was made without texts, so there are no tokens to count the documents of",
        where=place,
        remedy=f"search with {parameter('rerank_idf', False)}",
    )

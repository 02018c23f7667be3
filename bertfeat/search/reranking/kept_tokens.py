"""The token vectors that an index keeps of its documents, by ``bertfeat index --with-tokens``, mapped into memory.

A cosine needs the direction of a vector only. So ``tokens.npy`` holds each as float16 of length 1, or as int8 whose
largest value is 127 or -127; no scale is kept. Special tokens, and words without a vector, are left out.

Shapes: D documents, N tokens of all of them, n of one, W values in a vector.
"""

import mmap
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from tokenize import TokenError
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.errors import IndexFolderError
from bertfeat.features import ReadableColumn, find_column, unit_vectors
from bertfeat.io import open_regular
from bertfeat.search.document_store import ArrowStore
from bertfeat.search.reranking.token_counts import TokenCounts, no_strings_error
from bertfeat.search.settings import (
    REBUILD,
    TOKEN_IDS_NAME,
    TOKEN_OFFSETS_NAME,
    TOKENS_NAME,
    VOCABULARY_NAME,
    IndexSettings,
    StoredTokens,
)

Number = TypeVar("Number", bound=np.number)

VOCABULARY_SCHEMA = pa.schema([("token", pa.large_string()), ("documents", pa.int64())])
_BLOCK_BYTES = 16 << 20
_LARGEST = 127


class KeptTokens:
    """The token vectors of an index, as they were written.

    Raises:
        IndexFolderError: a file is missing, cut off, or of another shape than the settings say.
    """

    def __init__(self, folder: Path, settings: IndexSettings, tokens: StoredTokens) -> None:
        self.folder, self.stored = folder, tokens
        self._settings = settings
        shape = (tokens.count, tokens.column.width)
        self.vectors: NDArray[np.number] = _map_array(folder / TOKENS_NAME, np.dtype(tokens.column.dtype), shape)
        """The directions as they are stored, ``[N, W]``."""
        self.offsets = _map_array(folder / TOKEN_OFFSETS_NAME, np.dtype(np.int64), (settings.documents + 1,))
        """The start of each document's tokens, and the end of the last one's, ``[D+1]``."""
        ids = folder / TOKEN_IDS_NAME
        self.ids = _map_array(ids, np.dtype(np.int32), (tokens.count,)) if tokens.has_strings else None
        """The number of each token in the vocabulary, ``[N]``; None in an index without texts."""
        below = {"documents": settings.documents - settings.tombstones + 1}
        path = folder / VOCABULARY_NAME
        self._vocabulary = ArrowStore(path, VOCABULARY_SCHEMA, below=below) if tokens.has_strings else None

    @cached_property
    def vocabulary(self) -> TokenCounts:
        """The different tokens, and how many documents have each.

        Raises:
            IndexFolderError: they were not kept; or the file is damaged.
        """
        store = self._vocabulary
        if store is None:
            raise no_strings_error(self.folder)
        strings = [string for batch in store.batches(["token"]) for string in batch.column(0).to_pylist()]
        if len(set(strings)) < len(strings):
            raise _damaged(self.folder / VOCABULARY_NAME, "a token is in it twice")
        living = self._settings.documents - self._settings.tombstones
        return TokenCounts(strings, store.numbers("documents"), living)

    def document_vectors(self, document: int) -> NDArray[np.number]:
        """The directions of a document's tokens as they are stored, ``[n, W]``."""
        start, stop = int(self.offsets[document]), int(self.offsets[document + 1])
        if not 0 <= start <= stop <= len(self.vectors):
            raise _damaged(self.folder / TOKEN_OFFSETS_NAME, f"tokens {start:,} to {stop:,} of document {document:,}")
        return self.vectors[start:stop]

    def ranges(self) -> Iterator[tuple[int, int]]:
        """All documents in ranges of about 16 MiB of vectors.

        Raises:
            IndexFolderError: a document's tokens do not begin where those of the one before end.
        """
        size = max(1, _BLOCK_BYTES // max(1, self.vectors[:1].nbytes))
        last, at = len(self.offsets) - 1, 0
        if (int(self.offsets[0]), int(self.offsets[-1])) != (0, len(self.vectors)) or (np.diff(self.offsets) < 0).any():
            raise _damaged(self.folder / TOKEN_OFFSETS_NAME, "documents do not follow one another")
        while at < last:
            stop = max(at + 1, int(np.searchsorted(self.offsets, self.offsets[at] + size, side="right")) - 1)
            yield at, stop
            at = stop

    def owners(self, start: int, stop: int) -> NDArray[np.int64]:
        """The document of each token in the documents from ``start`` to ``stop``, counted from ``start``."""
        return np.repeat(np.arange(stop - start), np.diff(self.offsets[start : stop + 1]))


class StoredDocumentTokens:
    """The token vectors of documents as they are compared: the stored ones, or derived from them."""

    def __init__(self, store: KeptTokens, column: str | None, num_layers: int) -> None:
        self._store = store
        self.column: ReadableColumn = find_column([store.stored.column], num_layers, column)

    def read(self, documents: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """The number of each of those documents and its vectors ``[n, W]``."""
        name, derivation = self._store.stored.column.name, self.column.derivation
        for document in documents.tolist():
            stored = self._store.document_vectors(document).astype(np.float32)
            yield document, unit_vectors(derivation.apply({name: stored}))

    def counts(self) -> TokenCounts:
        """Count the documents of the index in which each token occurs."""
        return self._store.vocabulary


def encode_directions(vectors: NDArray[np.float32], dtype: str) -> NDArray[np.number]:
    """Vectors ``[n, W]`` as ``tokens.npy`` has them, in float16 or int8.

    Raises:
        ValueError: a value that is not finite.
    """
    units = unit_vectors(vectors)
    if not np.isfinite(units).all():
        raise ValueError("a token has a value that is not finite")
    if dtype == "float16":
        return units.astype(np.float16)
    largest = np.abs(units).max(axis=1, keepdims=True, initial=0)
    return np.rint(units * (_LARGEST / np.where(largest > 0, largest, 1))).astype(np.int8)


def _map_array(path: Path, dtype: np.dtype[Number], shape: tuple[int, ...]) -> NDArray[Number]:
    """Map an array of a ``.npy`` file, by its handle: it stays readable when the folder is replaced."""
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

"""The number of documents with each token (or word), from which inverse document frequencies are computed.

Shapes: N tokens of some documents, V different ones of all documents.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.errors import IndexFolderError, parameter
from bertfeat.io import Location


class TokenCounts:
    """Counts the documents that have a token; memory grows with the vocabulary only."""

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
        """The same of different tokens in a list."""
        known = [self._numbers.setdefault(string, len(self._numbers)) for string in strings]
        return np.array(known, np.int32)

    def add(self, numbers: NDArray[np.int32], owners: NDArray[np.int64], documents: int) -> None:
        """Count tokens by their numbers ``[N]``; ``owners`` ``[N]`` says which of so many documents each is in."""
        size = len(self._numbers)
        pairs = np.unique(owners.astype(np.int64) * max(size, 1) + numbers)
        counts = np.bincount(pairs % max(size, 1), minlength=size)
        counts[: len(self.counts)] += self.counts
        self.counts, self.documents = counts, self.documents + documents

    def idf(self, strings: Sequence[str]) -> NDArray[np.float32]:
        """``log((N + 1) / (df + 1))`` of each token: 0 for one that all documents have."""
        numbers = [self._numbers.get(string, -1) for string in strings]
        having = np.array([0 if number < 0 else self.counts[number] for number in numbers], np.float64)
        return np.log((self.documents + 1) / (having + 1)).astype(np.float32)


def no_strings_error(place: Location) -> IndexFolderError:
    """The error where inverse document frequencies are asked for, and the tokens themselves were not kept."""
    return IndexFolderError(
        "it was made without texts, so there are no tokens to count the documents of",
        where=place,
        remedy=f"search with {parameter('rerank_idf', False)}",
    )

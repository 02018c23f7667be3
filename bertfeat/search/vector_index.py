"""Search in an index by vectors: exact or approximate, with conditions, and always with as many hits as can be had.

Shapes: D documents, Q queries, K hits, W values in a vector.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertfeat.arguments import numbers_below
from bertfeat.display import displayed
from bertfeat.errors import IndexFolderError, UsageError, parameter
from bertfeat.io import Address, Location, as_location, pickle_by_folder
from bertfeat.search.document_store import SOURCE, ArrowStore
from bertfeat.search.index_copy import index_on_disk
from bertfeat.search.index_files import open_contents, read_current
from bertfeat.search.reranking.kept_tokens import KeptTokens
from bertfeat.search.settings import REBUILD, IndexSettings
from bertfeat.search.vectors.faiss_import import FaissIndex, Scored
from bertfeat.search.vectors.faiss_index import copy_to_gpu, flat_storage
from bertfeat.search.vectors.faiss_search import EMPTY, reconstruct_vectors, scan_all_vectors, search_faiss
from bertfeat.search.vectors.faiss_transforms import apply_transforms, transformed_index
from bertfeat.search.vectors.metric import Metric, copy_as_float32
from bertfeat.search.vectors.token_encoding import TokenEncoding
from bertfeat.where import find_matching_rows

_MORE = 4  # times as many vectors are searched for until each text's nearest is among them
_EXACT_QUERIES = 512  # number of queries whose hits are compared again at once


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """The two scores that make up the score of a reranked hit."""

    first: NDArray[np.float32]  # [Q, K] by vector, see Metric
    maxsim: NDArray[np.float32]  # [Q, K] by tokens, see MaxSim


@displayed
@dataclass(frozen=True, slots=True)
class Neighbors:
    """The nearest vectors of each query, best first, the same number for each."""

    scores: NDArray[np.float32]  # [Q, K] see Metric
    numbers: NDArray[np.int64]  # [Q, K] of the vectors in the index
    parts: ScoreParts | None = None  # None where hits were not scored again
    scanned: int = 0  # queries for which FAISS's own search found fewer, so that every vector was compared


class VectorIndex:
    """An index folder opened for search by vectors.

    All files are opened at once, so that everything comes from one version, even if another one replaces it. They are
    mapped into memory, and read when they are needed; with ``in_memory`` the FAISS index is read at once, so that it
    can be changed. An index at an address such as ``s3://bucket/corpus.index`` is downloaded first, and again only when
    it has changed. ``device`` is a GPU, which needs faiss-gpu.

    Raises:
        IndexFolderError: the folder is no index, or a file of it is missing, changed, foreign or of a newer format.
        StorageError: the address cannot be reached.
    """

    def __init__(self, folder: str | Path | Address, *, device: str | None = None, in_memory: bool = False) -> None:
        self.folder: Location = as_location(folder)
        opened = read_current(index_on_disk(self.folder), partial(open_contents, mapped=not in_memory))
        self.settings: IndexSettings = opened.settings
        """The record of the index."""
        self.faiss_index: FaissIndex = opened.faiss_index
        """The FAISS index itself."""
        self.documents: ArrowStore = opened.documents
        """The rows, ids, texts and kept columns of the documents."""
        self.text_digests: NDArray[np.uint8] = opened.text_digests
        """The digest of each document's text and all that its features are made of, ``[D, 16]``; 0 where not stored."""
        self.pieces: ArrowStore | None = opened.pieces
        """The token, word or span of each vector; None where there is one vector per document."""
        self.removed: NDArray[np.bool_] | None = opened.removed
        """The mask of the vectors that are tombstones, if any."""
        self.encoding: TokenEncoding | None = opened.encoding
        """The encoding of all tokens of a text as one vector; None where vectors are not such encodings."""
        self.tokens: KeptTokens | None = opened.tokens
        """The documents' token vectors, where the index keeps them."""
        self._searched = copy_to_gpu(self.stored_index, device)
        self._device, self._in_memory = device, in_memory

    def __reduce__(self) -> tuple[object, ...]:
        options = {"device": self._device, "in_memory": self._in_memory}
        return pickle_by_folder(self, options, self.settings, IndexFolderError)

    def __len__(self) -> int:
        return self.settings.count - self.settings.tombstones

    @property
    def metric(self) -> Metric:
        """The meaning of scores."""
        return self.settings.metric

    @property
    def stored_index(self) -> FaissIndex:
        """The FAISS index of the vectors as they are stored: the one behind the whitening, if there is one."""
        return self.faiss_index if self.settings.transform is None else transformed_index(self.faiss_index)

    @property
    def owners(self) -> NDArray[np.int64]:
        """The document of each vector: its number in :attr:`documents`; read anew each time."""
        if self.pieces is None:
            return np.arange(self.settings.count)
        return self.pieces.numbers("document")

    @property
    def removed_documents(self) -> NDArray[np.bool_] | None:
        """The mask of the documents whose vectors are tombstones, ``[D]``; None where none are."""
        if self.removed is None:
            return None
        removed = np.zeros(len(self.documents), bool)
        removed[self.owners[self.removed]] = True
        return removed

    def search(
        self,
        vectors: NDArray[np.floating],
        k: int = 10,
        *,
        where: str | None = None,
        search_parameter: int | None = None,
        exact: bool = False,
        one_per_document: bool = False,
    ) -> Neighbors:
        """The ``k`` nearest of each query vector ``[Q, W]``, or as many as there are.

        ``where`` is a condition on kept columns. ``search_parameter`` replaces the tuned ``nprobe`` or ``efSearch``;
        ``exact`` compares with every vector as the index stores it. ``one_per_document`` gives of each document only
        the nearest token, word or span, and of texts that were split the nearest span.

        Raises:
            UsageError: vectors of another width or not finite, ``k`` below 1, a condition that cannot be read, or
                ``one_per_document`` where each document has one vector.
        """
        search = partial(
            self.search_stored,
            self._prepare_queries(vectors),
            where=where,
            search_parameter=search_parameter,
            exact=exact,
        )
        return self._nearest_of_each_text(search, k) if one_per_document and k > 0 else search(k)

    def search_stored(
        self,
        queries: NDArray[np.float32],
        k: int = 10,
        *,
        where: str | None = None,
        search_parameter: int | None = None,
        exact: bool = False,
    ) -> Neighbors:
        """Search as :meth:`search` does, for queries in the form in which the index stores vectors.

        The vectors that :meth:`reconstruct` returns have this form.

        Shape: ``[Q, stored width]``.
        """
        if k < 1 and not len(self):
            raise IndexFolderError(
                "the index is empty: all its documents were removed",
                where=self.folder,
                remedy="append documents, or build it again",
            )
        if k < 1:
            raise UsageError(f"k is {k}, but at least one hit must be asked for")
        selected = self._select(where)
        available = len(self) if selected is None else int(selected.sum())
        k = min(k, available)
        if not k or not len(queries):
            return Neighbors(np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64))
        scanned = 0
        if exact:
            scores, numbers = scan_all_vectors(self.stored_index, queries, k, selected)
        else:
            (scores, numbers), scanned = self._search_quickly(queries, k, search_parameter, selected)
        self._check_numbers(numbers)
        if self.metric is Metric.L2 and flat_storage(self.stored_index) is not None:
            return self._compare_again(queries, numbers, scanned)
        return Neighbors(self.metric.scores(scores), numbers, scanned=scanned)

    def reconstruct(self, numbers: NDArray[np.integer]) -> NDArray[np.float32]:
        """The vectors of those numbers as the index stores them (whitened; normalized under cosine), ``[n, W]``.

        Raises:
            UsageError: there is no vector of such a number.
        """
        return reconstruct_vectors(self.stored_index, numbers_below(self.settings.count, numbers, "vector"))

    def document_numbers(self, numbers: NDArray[np.integer]) -> NDArray[np.int64]:
        """The document of each vector: its number in :attr:`documents`."""
        if self.pieces is None:
            return np.asarray(numbers, np.int64)
        owners: NDArray[np.int64] = self.pieces.take(numbers)["document"].to_numpy()
        return owners

    def _nearest_of_each_text(self, search: Callable[[int], Neighbors], k: int) -> Neighbors:
        """The nearest vectors of ``k`` texts, or of as many as there are; more are searched for until these are found.

        Where every vector was found, all queries have one of each text, so that they have equally many.
        """
        if self.settings.per_text:
            problem = f"each document of {self.folder} has one vector, so that none is found twice"
            raise UsageError(problem, where=parameter("one_per_document", True), remedy="leave it out")
        asked = k
        while True:
            asked *= _MORE
            found = search(asked)
            places = _first_of_each(self._text_numbers(found.numbers), k)
            if places.shape[1] == k or found.numbers.shape[1] < asked:
                break
        scores = np.take_along_axis(found.scores, places, 1)
        return replace(found, scores=scores, numbers=np.take_along_axis(found.numbers, places, 1))

    def _text_numbers(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """A number for the text of each vector: equal ones for vectors of one text, ``[Q, K]``."""
        owners, column = self.document_numbers(numbers.ravel()), self.settings.extraction.text_ids
        if self.settings.extraction.split is None:
            return owners.reshape(numbers.shape)
        names = self.documents.take(owners, [column])[column].combine_chunks().dictionary_encode()
        return np.asarray(names.indices, np.int64).reshape(numbers.shape)

    def _search_quickly(
        self, queries: NDArray[np.float32], k: int, search_parameter: int | None, selected: NDArray[np.bool_] | None
    ) -> tuple[Scored, int]:
        """Search by FAISS's own means; queries with fewer than ``k`` hits are scanned exactly, and are counted."""
        tuned = self.settings.effort
        value = search_parameter or (tuned.value if tuned else None)
        index = self._searched if selected is None else self.stored_index  # FAISS's GPU indexes know no selectors
        scores, numbers = search_faiss(index, queries, k, value, selected)
        short = (numbers == EMPTY).any(axis=1)
        if short.any():
            scores[short], numbers[short] = scan_all_vectors(self.stored_index, queries[short], k, selected)
        return (scores, numbers), int(short.sum())

    def _compare_again(self, queries: NDArray[np.float32], numbers: NDArray[np.int64], scanned: int) -> Neighbors:
        """Compute Euclidean distances again from differences, and sort the hits by them.

        FAISS expands the square, which loses digits where vectors are near each other.
        """
        scores = np.empty(numbers.shape, np.float32)
        for start in range(0, len(queries), _EXACT_QUERIES):
            part = slice(start, start + _EXACT_QUERIES)
            stored = reconstruct_vectors(self.stored_index, numbers[part].ravel())
            differences = stored.reshape(*numbers[part].shape, -1) - queries[part, None, :]
            scores[part] = np.sqrt(np.einsum("qkw,qkw->qk", differences, differences))
        order = np.lexsort((numbers, scores), axis=1)
        nearest, whose = np.take_along_axis(scores, order, 1), np.take_along_axis(numbers, order, 1)
        return Neighbors(nearest, whose, scanned=scanned)

    def _prepare_queries(self, vectors: NDArray[np.floating]) -> NDArray[np.float32]:
        if vectors.ndim != 2 or vectors.shape[1] != self.settings.width:
            shape = " × ".join(map(str, vectors.shape))
            raise UsageError(
                f"{self.folder} holds vectors of {self.settings.width} values ({self.settings.contents} of "
                f"{self.settings.model.name}), but the queries are {shape}; they must be n × {self.settings.width}"
            )
        if vectors.dtype.kind not in "fiu":
            raise UsageError(f"query vectors must be whole or real numbers, not {vectors.dtype}")
        queries = copy_as_float32(vectors)
        try:
            self.settings.preparation.prepare(queries)
            if self.settings.transform is not None:
                queries = apply_transforms(self.faiss_index, queries)
                self.metric.prepare(queries)
        except ValueError as error:
            raise UsageError(f"query vector {error.args[0]} is not finite") from error
        return queries

    def _select(self, where: str | None) -> NDArray[np.bool_] | None:
        living = None if self.removed is None else ~self.removed
        if where is None:
            return living
        selected = find_matching_rows(self.documents, where, but=[SOURCE])
        if self.pieces is not None:
            selected = selected[self.owners]
        return selected if living is None else selected & living

    def _check_numbers(self, numbers: NDArray[np.int64]) -> None:
        """Check that every number is that of a vector, as in undamaged files; FAISS returns -1 for a missing hit."""
        wrong = numbers[(numbers < 0) | (numbers >= self.settings.count)]
        if len(wrong):
            raise IndexFolderError(
                f"vector {wrong[0]} is found, and there are {self.settings.count:,}: a file was changed after it was "
                f"written",
                where=self.folder,
                remedy=f"bertfeat verify says which one; {REBUILD}",
            )


def _first_of_each(values: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """The places of the first ``k`` different values of each row, or of as many as every row has. Shape: ``[Q, K]``."""
    places = [np.sort(np.unique(row, return_index=True)[1])[:k] for row in values]
    fewest = min(map(len, places), default=0)
    return np.array([row[:fewest] for row in places], np.int64).reshape(len(values), fewest)

"""Search by text: a query is embedded as the documents were, and its nearest vectors come back as hits with texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from bertfeat.errors import IndexFolderError, UsageError
from bertfeat.features import DocumentFeatures, DocumentPieces
from bertfeat.io import Address
from bertfeat.recipe import FeatureColumn, Unit
from bertfeat.search.document_store import SOURCE
from bertfeat.search.hits import Answer, Hit, HitPiece
from bertfeat.search.queries import query_text, query_texts, query_vectors, unmark_words
from bertfeat.search.query_encoder import QueryEncoder, check_same_model, open_query_encoder
from bertfeat.search.reranking.maxsim import MaxSim, check_rerank
from bertfeat.search.reranking.rerank import Reranker
from bertfeat.search.settings import REBUILD, IndexSettings
from bertfeat.search.source_sets import check_sources
from bertfeat.search.vector_index import Neighbours, VectorIndex
from bertfeat.search.vectors.faiss_index import count_faiss_gpus
from bertfeat.where import find_matching_rows, parse_where

_OWN_COLUMNS = ("row", "id", "text", "pair", SOURCE)


@dataclass(frozen=True, slots=True)
class SearchScope:
    """How much is searched."""

    documents: int
    vectors: int


class Index:
    """An index folder that :func:`bertfeat.build_index` wrote, for search by text or by vectors.

    Queries are embedded by the model, recipe, pooling, precision and prompt that the index records. ``model`` says
    where that model is now, if not where it was; ``encoder`` replaces it. ``device`` is where queries are embedded and
    searched. An index at an address such as ``s3://bucket/corpus.index`` is downloaded into the user's cache folder.

    Raises:
        IndexFolderError: the folder is no index, a file is missing, cut off or foreign; or the encoder is another
            model.
    """

    def __init__(
        self,
        folder: str | Path | Address,
        *,
        model: str | Path | None = None,
        encoder: QueryEncoder | None = None,
        device: str | None = None,
    ) -> None:
        self.vectors = VectorIndex(folder, device=device if count_faiss_gpus() else None)
        """The same index for search by vectors, without texts."""
        self._model, self._device = model, device
        self._reranker: Reranker | None = None
        if encoder is not None:
            check_same_model(self.vectors.folder, self.settings.model, encoder, IndexFolderError, rebuild=REBUILD)
            self.encoder = encoder

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def settings(self) -> IndexSettings:
        """Settings and provenance of the index."""
        return self.vectors.settings

    @cached_property
    def encoder(self) -> QueryEncoder:
        """The encoder of the queries; the model is loaded when it is first needed."""
        return open_query_encoder(self.vectors.folder, self.settings, self._model, self._device)

    @property
    def kept(self) -> tuple[str, ...]:
        """The names of the kept columns, whose values every hit has."""
        return tuple(name for name in self.vectors.documents.schema.names if name not in _OWN_COLUMNS)

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        where: str | None = None,
        exact: bool = False,
        rerank: MaxSim | str | None = None,
    ) -> Answer:
        """The ``k`` nearest documents (or tokens, or words) of a query.

        In an index of tokens or words a query asks for one of its words, which is marked: ``He sat on the *bank*.``
        ``where`` is a condition on kept columns, such as ``"year > 1900 and author like 'D%'"``; ``exact`` compares
        with every vector, whatever the type of the index. ``rerank="maxsim"``, or a :class:`MaxSim` with its options,
        scores the best hits by vector again by their tokens.

        Raises:
            UsageError: a query that does not fit the index, ``k`` below 1, or a condition that cannot be read.
            IndexFolderError: the model is not the one that the index was made with; or tokens are not at hand.
        """
        if not isinstance(query, str):
            raise UsageError(f"search() takes one text, not {type(query).__name__}; search_batch() takes a list")
        (answer,) = self.search_batch([query_text(query)], k, where=where, exact=exact, rerank=rerank)
        return answer

    def search_batch(
        self,
        queries: Sequence[str],
        k: int = 10,
        *,
        where: str | None = None,
        exact: bool = False,
        rerank: MaxSim | str | None = None,
    ) -> list[Answer]:
        """One answer a query, in their order; see :meth:`search`."""
        texts, options = query_texts(queries), check_rerank(rerank)
        if where is not None:
            parse_where(self.vectors.documents, where, but=[SOURCE])  # before the model is loaded
        if not texts:
            return []
        if options is not None:
            reranker = self.reranker(options)  # before the model is loaded
            return self._answers(reranker.search(self.encoder, texts, k, where=where, exact=exact), texts)
        return self._answers(self.vectors.search(self.encode(texts), k, where=where, exact=exact), texts)

    def search_vectors(
        self, vectors: ArrayLike, k: int = 10, *, where: str | None = None, exact: bool = False
    ) -> list[Answer]:
        """One answer for each of your own query vectors ``[n, width]``, of whole or real numbers; see :meth:`search`.

        Raises:
            UsageError: an array of another shape or of other things than real numbers, or a value that is not finite.
        """
        matrix = query_vectors(vectors, self.settings.width)
        return self._answers(self.vectors.search(matrix, k, where=where, exact=exact), [None] * len(matrix))

    def reranker(self, options: MaxSim) -> Reranker:
        """What scores the hits of this index again; opened once for the same options.

        Raises:
            IndexFolderError: the tokens are not at hand.
            UsageError: the index is one of tokens or words.
        """
        opened = self._reranker
        if opened is None or opened.options != options:
            self._reranker = opened = Reranker(self.vectors, options)
        return opened  # not the attribute, which another thread may have changed

    def count(self, where: str | None = None) -> SearchScope:
        """How much a search compares with: everything, or what meets a condition.

        Raises:
            UsageError: the condition cannot be read.
        """
        index = self.vectors
        if where is None and index.removed is None:
            return SearchScope(self.settings.documents, len(self))
        documents = index.documents
        met = np.ones(len(documents), bool) if where is None else find_matching_rows(documents, where, but=[SOURCE])
        if index.removed is not None:
            met[index.owners[index.removed]] = False
        return SearchScope(int(met.sum()), int(met[index.owners].sum()))

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of queries, ``[n, width]``, as :meth:`search` uses them."""
        column = self.settings.column
        if column.pooling.per_document:
            return self.encoder.encode(texts)
        marked = [_marked_word(text) for text in texts]
        features = self.encoder.features([text for text, _ in marked])
        pairs = zip(features, marked, strict=True)
        return np.stack([_word_vector(document, span, column) for document, (_, span) in pairs])

    def reconstruct(self, numbers: NDArray[np.integer]) -> NDArray[np.float32]:
        """The vectors of hits by their ``number``, as the index stores them (normalised under cosine)."""
        return self.vectors.reconstruct(numbers)

    def check_sources(self) -> None:
        """Check that the feature sets, where they still exist, did not change since the index was made.

        Those at addresses are not asked, so that a search needs no network; :func:`bertfeat.search.verify_index` asks.

        Raises:
            IndexFolderError: one did.
        """
        check_sources(self.settings, self.vectors.folder)

    def _answers(self, neighbours: Neighbours, queries: Sequence[str | None]) -> list[Answer]:
        hits = self._hits(neighbours)
        k = neighbours.numbers.shape[1]
        return [Answer(query, tuple(hits[at * k : (at + 1) * k])) for at, query in enumerate(queries)]

    def _hits(self, neighbours: Neighbours) -> list[Hit]:
        """The hits of all queries, one query after the other."""
        numbers = neighbours.numbers.ravel()
        if not len(numbers):
            return []
        store = self.vectors.pieces
        positions = None if store is None else store.take(numbers)
        owners = numbers if positions is None else positions["document"].to_numpy()
        table = self.vectors.documents.take(owners)
        # column by column, which is several times faster than row by row
        columns = {name: table[name].to_pylist() for name in table.column_names}
        nothing = [None] * len(numbers)
        texts, pairs = columns.get("text", nothing), columns.get("pair", nothing)
        kept = {name: values for name, values in columns.items() if name not in _OWN_COLUMNS}
        values = [dict(zip(kept, row, strict=True)) for row in zip(*kept.values(), strict=True)] or [{}] * len(numbers)
        sources = [source.path for source in self.settings.sources]
        parts = neighbours.parts
        ranks = np.tile(np.arange(1, neighbours.numbers.shape[1] + 1), len(neighbours.numbers)).tolist()
        return list(
            map(
                Hit,
                ranks,
                neighbours.scores.ravel().tolist(),
                columns["id"],
                columns["row"],
                texts,
                pairs,
                values,
                [sources[number] for number in columns[SOURCE]],
                nothing if positions is None else _hit_pieces(positions, texts, pairs),
                numbers.tolist(),
                nothing if parts is None else parts.first.ravel().tolist(),
                nothing if parts is None else parts.maxsim.ravel().tolist(),
            )
        )


def _hit_pieces(positions: pa.Table, texts: Sequence[str | None], pairs: Sequence[str | None]) -> list[HitPiece]:
    """The tokens or words of hits, from rows of the store of pieces."""
    return [
        _hit_piece(position, pair if position["segment"] == 1 else text)
        for position, text, pair in zip(positions.to_pylist(), texts, pairs, strict=True)
    ]


def _hit_piece(position: Mapping[str, int], text: str | None) -> HitPiece:
    start, end = position["start"], position["end"]
    string = None if text is None else text[start:end]
    return HitPiece(position["number"], start, end, position["segment"] == 1, string)


def _marked_word(query: str) -> tuple[str, tuple[int, int]]:
    """A query without its marks, and the characters that they enclosed.

    Raises:
        UsageError: no mark in a query of several words, or several marks.
    """
    text, spans = unmark_words(query)
    if len(spans) == 1:
        return text, spans[0]
    if spans or len(query.split()) != 1:
        raise UsageError(
            f"this index finds single tokens or words, so say which word of {query!r} is meant: He sat on the *bank*."
        )
    word = query.strip()
    return word, (0, len(word))


def _word_vector(document: DocumentFeatures, span: tuple[int, int], column: FeatureColumn) -> NDArray[np.float32]:
    """The mean vector of the tokens or words within a span of characters, ``[width]``."""
    pieces = document.tokens if column.pooling.unit is Unit.TOKEN else document.words
    inside = np.empty(0, np.intp) if pieces is None else _pieces_within(pieces, *span)
    if not len(inside):
        raise UsageError(f"the model has no vector for {(document.text or '')[slice(*span)]!r} in the query")
    vector: NDArray[np.float32] = document.matrix(column.name)[inside].mean(axis=0)
    return vector


def _pieces_within(pieces: DocumentPieces, start: int, end: int) -> NDArray[np.intp]:
    inside = (pieces.start < end) & (pieces.end > start) & (pieces.end > pieces.start)
    if pieces.aligned is not None:
        inside &= pieces.aligned
    return np.flatnonzero(inside)

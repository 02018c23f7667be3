"""Reranking: the best hits of a search are scored again by the vectors of their tokens.

Shapes: Q queries, K hits of each, q tokens of a query, n tokens of a document, W values in a vector.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.core import DocumentFeatures, FeatureColumn
from bertfeat.errors import IndexFolderError, UsageError
from bertfeat.search.options import RERANK_DEPTH, MaxSim
from bertfeat.search.queries import QueryEncoder, encoder_of_columns, read_query_vectors, token_vectors
from bertfeat.search.reranking.explaining import MaxSimExplainer
from bertfeat.search.reranking.kept_tokens import StoredDocumentTokens
from bertfeat.search.reranking.set_tokens import DocumentTokens, FeatureSetTokens
from bertfeat.search.settings import REBUILD
from bertfeat.search.vector_index import Neighbors, ScoreParts, VectorIndex
from bertfeat.search.why import refuse_neighbors, unexplained


def compute_maxsim(query: NDArray[np.float32], weights: NDArray[np.float32], document: NDArray[np.float32]) -> float:
    """Compute the weighted mean, over the tokens of a query, of the largest cosine with a token of the document.

    Shape: ``[q, W]`` and ``[n, W]``, vectors of length 1 or 0; ``weights`` ``[q]``. The result is 0 where either has no
    tokens, or the weights are all 0.
    """
    total = float(weights.sum())
    if not len(document) or total == 0:
        return 0.0
    return float((query @ document.T).max(axis=1) @ weights) / total


@dataclass(frozen=True, slots=True)
class _QueryTokens:
    vectors: NDArray[np.float32]  # [q, W] of length 1 or 0
    weights: NDArray[np.float32]  # [q]


class Reranker:
    """Searches an index and scores the best hits again.

    Raises:
        UsageError: it is an index of tokens or words.
        IndexFolderError: a feature set from which tokens are read is gone, or changed.
        NotDerivableError: there is no such column of tokens.
    """

    def __init__(self, index: VectorIndex, options: MaxSim) -> None:
        if index.settings.marks_words:
            raise UsageError(
                f"the index holds {index.settings.contents}, and only documents and spans are scored again"
            )
        self._index, self.options = index, options
        self._tokens: DocumentTokens = (
            FeatureSetTokens(index, options.column)
            if index.tokens is None
            else StoredDocumentTokens(index.tokens, options.column, index.settings.model.num_layers)
        )
        column = self._tokens.column
        self.column = FeatureColumn(column.recipe, column.pooling, column.width, "float32")
        """The token or word column that is compared."""
        self._settle()

    def _settle(self) -> None:
        """Fill in the defaults, which are others for tokens that the model was trained to compare."""
        settled = self.options.of_tokens(trained=self.column.recipe.projected)
        self._weight, self._counts = settled.weight or 0.0, self._tokens.counts() if settled.idf else None

    def with_options(self, options: MaxSim) -> "Reranker":
        """A reranker with the same open tokens and other options, which must name the same column."""
        other = copy(self)
        other.options = options
        other._settle()
        return other

    def search(
        self,
        encoder: QueryEncoder,
        texts: Sequence[str],
        k: int,
        *,
        where: str | None = None,
        exact: bool = False,
        one_per_document: bool = False,
    ) -> Neighbors:
        """The ``k`` best hits of each query, or as many as there are; all of them are scored again.

        With ``one_per_document`` the span of a document, or of a split text, that is nearest by vector is scored again.

        Raises:
            IndexFolderError: a score is not finite, because a file was changed after it was written.
        """
        queries = self.encode(encoder, texts)
        return self.search_encoded(queries, k, where=where, exact=exact, one_per_document=one_per_document)

    def encode(self, encoder: QueryEncoder, texts: Sequence[str]) -> Sequence[DocumentFeatures]:
        """The vectors of queries and of their tokens, from one pass of the model."""
        columns = dict.fromkeys((self._index.settings.query_column, self.column))
        return encoder_of_columns(encoder, list(columns)).features(texts)

    def search_encoded(
        self,
        queries: Sequence[DocumentFeatures],
        k: int,
        *,
        where: str | None = None,
        exact: bool = False,
        one_per_document: bool = False,
    ) -> Neighbors:
        """Search as :meth:`search` does, for queries that :meth:`encode` returned."""
        vectors = read_query_vectors(queries, self._index.settings.query_column, self._index.encoding)
        depth = max(k, self.options.depth or RERANK_DEPTH)
        found = self._index.search(
            vectors, depth if k > 0 else k, where=where, exact=exact, one_per_document=one_per_document
        )
        if not found.numbers.shape[1]:
            return found
        return self._order(found, [self._query_tokens(query) for query in queries], k)

    def _query_tokens(self, query: DocumentFeatures) -> _QueryTokens:
        strings, vectors = token_vectors(query, self.column)
        return _QueryTokens(vectors, self._weigh(strings))

    def _weigh(self, strings: Sequence[str]) -> NDArray[np.float32]:
        """The weight of each token of a query."""
        return np.ones(len(strings), np.float32) if self._counts is None else self._counts.idf(strings)

    def explainer(self) -> MaxSimExplainer:
        """The explainer of scores by maxsim: which words of a hit meet which words of the query.

        Raises:
            UsageError: the texts were read between their neighbors, or the tokens in the index are pooled.
        """
        extraction, kept = self._index.settings.extraction, self._index.settings.tokens
        refuse_neighbors(extraction)
        if kept is not None and kept.pooled > 1:
            raise unexplained("the index keeps means of several tokens")
        return MaxSimExplainer(self.column, extraction.word_rule, self._weigh)

    def _order(self, found: Neighbors, queries: Sequence[_QueryTokens], k: int) -> Neighbors:
        """The ``k`` best hits in their new order."""
        maxsim = self._score(found.numbers, queries)
        scores = maxsim + np.float32(self._weight) * self._index.metric.nearness(found.scores)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]  # hits with equal scores keep their order
        new = [np.take_along_axis(values, order, 1) for values in (scores, found.numbers, found.scores, maxsim)]
        return Neighbors(new[0], new[1], ScoreParts(new[2], new[3]), found.scanned)

    def _score(self, numbers: NDArray[np.int64], queries: Sequence[_QueryTokens]) -> NDArray[np.float32]:
        """Maxsim of each query with each of its hits ``[Q, K]``; every document is read once."""
        flat = numbers.ravel()
        scores = np.zeros(len(flat), np.float32)
        order = np.argsort(flat, kind="stable")
        found, first = np.unique(flat[order], return_index=True)
        places = dict(zip(found.tolist(), np.split(order, first[1:]), strict=True))
        for number, vectors in self._tokens.read(found):
            for place in places[number].tolist():
                query = queries[place // numbers.shape[1]]
                scores[place] = compute_maxsim(query.vectors, query.weights, vectors)
        if not np.isfinite(scores).all():
            wrong = int(flat[~np.isfinite(scores)][0])
            raise IndexFolderError(
                f"the tokens of {self._index.settings.unit} {wrong:,} have values that are not finite",
                where=self._index.folder,
                remedy=REBUILD,
            )
        return scores.reshape(numbers.shape)

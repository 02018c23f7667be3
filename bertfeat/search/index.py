"""Search by text: a query is embedded as the documents were, and its nearest vectors come back as hits with texts."""

import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from bertfeat.arguments import checked, checked_methods, require_text
from bertfeat.core import Value
from bertfeat.display import Cells, displayed, html_facts
from bertfeat.errors import IndexFolderError, UsageError, parameter
from bertfeat.io import Address, Location, pickle_by_folder
from bertfeat.options import takes
from bertfeat.search.document_store import SOURCE
from bertfeat.search.options import MaxSim, SearchSettings, check_rerank
from bertfeat.search.queries import (
    QueryEncoder,
    RecordedVectors,
    embed_queries,
    encoder_of_columns,
    query_texts,
    query_vectors,
    query_warnings,
)
from bertfeat.search.reranking.explaining import MaxSimExplainer
from bertfeat.search.reranking.rerank import Reranker
from bertfeat.search.settings import IndexSettings
from bertfeat.search.vector_index import Neighbors, VectorIndex
from bertfeat.search.vectors.faiss_index import count_faiss_gpus
from bertfeat.search.vectors.metric import Metric
from bertfeat.search.verify import check_sources
from bertfeat.search.why import ExplainedText, Explainer, Why
from bertfeat.where import find_matching_rows, parse_where

_OWN_COLUMNS = ("row", "id", "text", "pair", SOURCE)


@dataclass(frozen=True, slots=True)
class HitPiece:
    """The token, word or span that a hit is."""

    number: int  # which token, word or span of the document
    start: int  # character offsets in the text
    end: int
    in_pair: bool  # in the second text of a pair
    string: str | None  # None where the index keeps no texts


@displayed
@checked_methods
@dataclass(frozen=True, slots=True)
class Hit:
    """A document, or a token, word or span of it, that is near a query."""

    rank: int  # from 1
    score: float  # cosine or inner product, larger is nearer; or Euclidean distance, smaller is nearer; or see MaxSim
    id: str
    row: int  # in its corpus
    text: str | None  # None where the index keeps no texts
    pair: str | None  # the second text, if the document is a pair
    values: Mapping[str, Value]  # of the kept columns
    source: str  # the feature set it is from
    piece: HitPiece | None  # in an index of tokens, words or spans
    number: int  # of the vector in the index
    first_score: float | None = None  # by vector, where ``score`` is by tokens too
    maxsim: float | None = None  # by tokens, where the hit was scored again
    why: Why | None = None  # which words met, where that was asked

    def cells(self) -> Cells:
        """The row of a table that shows the hit."""
        scores = {"rank": self.rank, "score": self.score, "first_score": self.first_score, "maxsim": self.maxsim}
        string = None if self.piece is None else self.piece.string
        return {**scores, "string": string, "text": self.text, "pair": self.pair, "id": self.id, "values": self.values}

    def to_json(self) -> dict[str, object]:
        """The hit as JSON values; fields without a value are left out."""
        piece = {} if self.piece is None else {
            "start": self.piece.start, "end": self.piece.end, "string": self.piece.string, "in_pair": self.piece.in_pair
        }  # fmt: skip
        scores = {"score": self.score, "first_score": self.first_score, "maxsim": self.maxsim}
        rounded = {key: None if value is None else round(value, 6) for key, value in scores.items()}
        hit = {"rank": self.rank, "id": self.id, **rounded, "text": self.text, "pair": self.pair}
        values = {  # JSON has no NaN and no infinity
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in self.values.items()
        }
        why = None if self.why is None else self.why.to_json()
        present = {**hit, **piece, "row": self.row, "values": values or None, "why": why}
        return {key: value for key, value in present.items() if value is not None}


@displayed
@dataclass(frozen=True, slots=True)
class Answer:
    """The hits of one query, best first."""

    query: str | None  # None for a query that was a vector
    hits: tuple[Hit, ...]
    warnings: tuple[str, ...] = ()  # about the language of the query

    def to_json(self) -> dict[str, object]:
        """The answer as JSON values; ``warnings`` only where there are any."""
        warnings = {"warnings": list(self.warnings)} if self.warnings else {}
        return {"query": self.query, "hits": [hit.to_json() for hit in self.hits], **warnings}


@dataclass(frozen=True, slots=True)
class SearchScope:
    """The number of documents, and of vectors, that a search compares with."""

    documents: int
    vectors: int


@checked
class Index:
    """An index folder that :func:`bertfeat.build_index` wrote, for search by text or by vectors.

    Queries are embedded by the model, recipe, pooling, precision and prompt that the index records. ``model`` says
    where that model is now, if not where it was; ``encoder`` replaces it. ``device`` is where queries are embedded and
    searched. An index at an address such as ``s3://bucket/corpus.index`` is downloaded into the user's cache folder.

    Raises:
        IndexFolderError: the folder is no index, a file is missing, cut off or foreign; or the encoder is another
            model, or has other settings than the index, as far as it tells them.
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
        self._given = {} if encoder is None else {"encoder": encoder}
        if encoder is not None:
            self.encoder = encoder_of_columns(encoder, [self.settings.query_column])
            RecordedVectors.of_index(self.folder, self.settings).check(self.encoder)

    def __len__(self) -> int:
        return len(self.vectors)

    def __repr__(self) -> str:
        return f"Index({str(self.folder)!r}: {len(self):,} vectors of {self.settings.contents})"

    def _repr_html_(self) -> str:
        return html_facts("Index", {"folder": str(self.folder), **self.settings.cells(), "kept": self.kept})

    def __reduce__(self) -> tuple[object, ...]:
        options = {"model": self._model, "device": self._device, **self._given}
        return pickle_by_folder(self, options, self.settings, IndexFolderError)

    @property
    def folder(self) -> Location:
        """The folder or address."""
        return self.vectors.folder

    @property
    def settings(self) -> IndexSettings:
        """Settings and provenance of the index."""
        return self.vectors.settings

    @cached_property
    def encoder(self) -> QueryEncoder:
        """The encoder of the queries; the model is loaded when it is first needed."""
        return RecordedVectors.of_index(self.folder, self.settings).open_encoder(self._model, self._device)

    @property
    def kept(self) -> tuple[str, ...]:
        """The names of the kept columns, whose values every hit has."""
        return tuple(name for name in self.vectors.documents.schema.names if name not in _OWN_COLUMNS)

    @takes(SearchSettings)
    def search(self, query: str, settings: SearchSettings) -> Answer:
        """The ``k`` nearest documents (or tokens, words, spans) of a query.

        In an index of tokens or words, a query marks the word that is searched for: ``He sat on the *bank*.``
        ``where`` is a condition on kept columns, such as ``"year > 1900 and author like 'D%'"``; ``exact`` compares
        with every vector, whatever the type of the index. ``rerank="maxsim"``, or a :class:`MaxSim` with its options,
        scores the hits that are best by vector again by their tokens. With a ``score_threshold``, hits of a lower
        :attr:`Hit.score` are left out, or of a larger one where it is a distance. With ``one_per_document`` each
        document has one hit, its best token, word or span; where texts were split, each text. With ``why`` each hit
        says which of its words meet which of the query (:attr:`Hit.why`); for that its text is embedded again. The
        shares of their pairs add up to the score by vector, or, with ``rerank``, to :attr:`Hit.maxsim`.

        Raises:
            UsageError: a query that does not fit the index, ``k`` below 1, or a condition that cannot be read.
            IndexFolderError: the model is not the one that the index was made with; or the tokens are not available.
        """
        (answer,) = self._search([require_text(query, "the query")], settings)
        return answer

    @takes(SearchSettings)
    def search_batch(self, queries: Iterable[str], settings: SearchSettings) -> list[Answer]:
        """One answer per query, in the order of the queries; see :meth:`search`."""
        return self._search(query_texts(queries), settings)

    @takes(SearchSettings)
    def search_vectors(self, vectors: ArrayLike, settings: SearchSettings) -> list[Answer]:
        """One answer for each of your own query vectors ``[n, width]``, of whole or real numbers; see :meth:`search`.

        Raises:
            UsageError: an array of another shape or of other things than real numbers, a value that is not finite, or
                ``rerank``, for which a query has tokens.
        """
        for name, given in (("rerank", settings.rerank), ("why", settings.why)):
            if given:
                problem = f"{parameter(name)} compares the tokens of a text, and vectors have none"
                raise UsageError(problem, remedy="leave one of the two out")
        matrix = query_vectors(vectors, self.settings.width)
        neighbors = self.vectors.search(
            matrix,
            settings.k,
            where=settings.where,
            exact=settings.exact,
            one_per_document=settings.one_per_document,
        )
        answers = self._answers(neighbors, [None] * len(matrix))
        return _within(answers, settings.score_threshold, larger_is_nearer=self.settings.metric is not Metric.L2)

    def _search(self, queries: list[str], settings: SearchSettings) -> list[Answer]:
        k, where, exact, options = settings.k, settings.where, settings.exact, check_rerank(settings.rerank)
        explainer, one = self._explainer(options) if settings.why else None, settings.one_per_document
        if where is not None:
            parse_where(self.vectors.documents, where, but=[SOURCE])  # before the model is loaded
        if not queries:
            return []
        if options is None:
            neighbors = self.vectors.search(self.encode(queries), k, where=where, exact=exact, one_per_document=one)
        else:
            reranker = self.reranker(options)  # before the model is loaded
            neighbors = reranker.search(self.encoder, queries, k, where=where, exact=exact, one_per_document=one)
        is_similarity = options is not None or self.settings.metric is not Metric.L2
        answers = _within(self._answers(neighbors, queries), settings.score_threshold, larger_is_nearer=is_similarity)
        return answers if explainer is None else [self._explained(answer, explainer) for answer in answers]

    def _explainer(self, rerank: MaxSim | None) -> Explainer | MaxSimExplainer:
        return Explainer.of_index(self.vectors) if rerank is None else self.reranker(rerank).explainer()

    def explain(self, query: str, numbers: Sequence[int], rerank: MaxSim | str | None = None) -> list[Why]:
        """Explain why documents or spans, by the numbers of their hits, are near a query, as ``search(why=True)`` does.

        Raises:
            UsageError: scores of this index are no sums over words, or it has no such number.
        """
        query, explainer = require_text(query, "the query"), self._explainer(check_rerank(rerank))
        asked = np.array([numbers], np.int64)
        if ((asked < 0) | (asked >= self.settings.count)).any():
            raise UsageError(f"the index has the numbers 0 to {self.settings.count - 1:,}", where=list(numbers))
        return self._whys(query, self._hits(Neighbors(np.zeros(asked.shape, np.float32), asked)), explainer)

    def _whys(self, query: str, hits: Sequence[Hit], explainer: Explainer | MaxSimExplainer) -> list[Why]:
        texts = [ExplainedText.of_hit(hit.text, hit.pair, hit.piece) for hit in hits]
        return explainer.explain(self.encoder, query, self.settings.extraction.prompt or "", texts)

    def _explained(self, answer: Answer, explainer: Explainer | MaxSimExplainer) -> Answer:
        """The answer, each of whose hits says why it is near."""
        found = self._whys(answer.query or "", answer.hits, explainer)
        hits = tuple(replace(hit, why=why) for hit, why in zip(answer.hits, found, strict=True))
        return replace(answer, hits=hits)

    def reranker(self, options: MaxSim) -> Reranker:
        """Return the reranker for the hits of this index; tokens stay open while the options name the same column.

        Raises:
            IndexFolderError: the tokens are not available.
            UsageError: the index is one of tokens or words.
        """
        opened = self._reranker
        if opened is None or opened.options.column != options.column:
            self._reranker = opened = Reranker(self.vectors, options)
        elif opened.options != options:  # on a server each request has its own
            self._reranker = opened = opened.with_options(options)
        return opened  # not the attribute, which another thread may have changed

    def count(self, where: str | None = None) -> SearchScope:
        """Count the documents and vectors that a search compares with: all, or those that meet a condition.

        Raises:
            UsageError: the condition cannot be read.
        """
        index = self.vectors
        if where is None and index.removed is None:
            return SearchScope(self.settings.documents, len(self))
        documents = index.documents
        met = np.ones(len(documents), bool) if where is None else find_matching_rows(documents, where, but=[SOURCE])
        if (removed := index.removed_documents) is not None:
            met &= ~removed
        return SearchScope(int(met.sum()), int(met[index.owners].sum()))

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of queries, ``[n, width]``, as :meth:`search` uses them."""
        return embed_queries(self.encoder, self.settings.query_column, texts, self.vectors.encoding)

    def reconstruct(self, numbers: NDArray[np.integer]) -> NDArray[np.float32]:
        """The vectors of hits by their ``number``, as the index stores them (normalized under cosine)."""
        return self.vectors.reconstruct(numbers)

    def check_sources(self) -> None:
        """Check that the feature sets, where they still exist, did not change since the index was made.

        Those at addresses are not checked, so that a search needs no network; :func:`bertfeat.search.verify_index`
        checks them too.

        Raises:
            IndexFolderError: one of them changed.
        """
        check_sources(self.settings, self.vectors.folder)

    def _answers(self, neighbors: Neighbors, queries: Sequence[str | None]) -> list[Answer]:
        hits = self._hits(neighbors)
        k = neighbors.numbers.shape[1]
        warnings = [() if query is None else query_warnings(self.encoder, query) for query in queries]
        return [
            Answer(query, tuple(hits[at * k : (at + 1) * k]), told)
            for at, (query, told) in enumerate(zip(queries, warnings, strict=True))
        ]

    def _hits(self, neighbors: Neighbors) -> list[Hit]:
        """The hits of all queries, one query after the other."""
        numbers = neighbors.numbers.ravel()
        if not len(numbers):
            return []
        store = self.vectors.pieces
        positions = None if store is None else store.take(numbers)
        owners = numbers if positions is None else positions["document"].to_numpy()
        documents, places = np.unique(owners, return_inverse=True)  # a long text of many hits is read once
        table, at = self.vectors.documents.take(documents), places.tolist()
        # column by column, which is several times faster than row by row
        columns = {name: list(map(table[name].to_pylist().__getitem__, at)) for name in table.column_names}
        nothing = [None] * len(numbers)
        texts, pairs = columns.get("text", nothing), columns.get("pair", nothing)
        kept = {name: values for name, values in columns.items() if name not in _OWN_COLUMNS}
        values = [dict(zip(kept, row, strict=True)) for row in zip(*kept.values(), strict=True)] or [{}] * len(numbers)
        sources = [source.path for source in self.settings.sources]
        parts = neighbors.parts
        ranks = np.tile(np.arange(1, neighbors.numbers.shape[1] + 1), len(neighbors.numbers)).tolist()
        return list(
            map(
                Hit,
                ranks,
                neighbors.scores.ravel().tolist(),
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
    """The tokens, words or spans of hits, from rows of the store of pieces."""
    pieces = []
    for position, text, pair in zip(positions.to_pylist(), texts, pairs, strict=True):
        start, end, in_pair = position["start"], position["end"], position["segment"] == 1
        whole = pair if in_pair else text
        string = None if whole is None else whole[start:end]
        pieces.append(HitPiece(position["number"], start, end, in_pair, string))
    return pieces


def living_values(index: Index, name: str) -> Iterator[pa.Array]:
    """A column of the documents, without those that were removed, block by block."""
    removed, start = index.vectors.removed_documents, 0
    for batch in index.vectors.documents.batches([name]):
        values = batch.column(0)
        yield values if removed is None else values.filter(pa.array(~removed[start : start + len(values)]))
        start += len(values)


def _within(answers: list[Answer], threshold: float | None, *, larger_is_nearer: bool) -> list[Answer]:
    """The answers without the hits whose scores are on the far side of a threshold."""
    if threshold is None:
        return answers
    is_near = operator.ge if larger_is_nearer else operator.le
    return [replace(each, hits=tuple(hit for hit in each.hits if is_near(hit.score, threshold))) for each in answers]

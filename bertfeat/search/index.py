"""Questions to an index: a text is embedded as the documents were, its nearest vectors come back with their texts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertfeat.errors import IndexFolderError, UsageError
from bertfeat.features import DocumentFeatures, DocumentPieces, ModelIdentity
from bertfeat.recipe import Pooling
from bertfeat.search import IndexSettings, Neighbours, VectorIndex, count_faiss_gpus
from bertfeat.search.hits import Answer, Hit, Place
from bertfeat.search.queries import query_text, query_texts, query_vectors
from bertfeat.where import parse_where, select_rows

__all__ = ["Answer", "Hit", "Index", "Place", "QueryEncoder", "SearchScope"]

_MARKED = re.compile(r"\*(\S(?:[^*]*\S)?)\*")
_SOURCE = "_source"  # the column of the store that says which feature set a document is from
_OWN_COLUMNS = ("row", "id", "text", "pair", _SOURCE)


@dataclass(frozen=True, slots=True)
class SearchScope:
    """What a search looks at."""

    documents: int
    vectors: int


class QueryEncoder(Protocol):
    """What embeds queries: an :class:`bertfeat.Extractor`, or a stand-in."""

    @property
    def model(self) -> ModelIdentity:
        """Which model it is."""
        ...

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """One vector a text, ``[n, width]``."""
        ...

    def features(self, texts: Sequence[str], /) -> list[DocumentFeatures]:
        """Tokens and words with their vectors."""
        ...


class Index:
    """An index folder that ``bertfeat index`` wrote, for search by text or by vectors.

    Queries are embedded by the model, recipe, pooling, precision and prompt that the index records. ``model`` says
    where that model is now, if not where it was; ``encoder`` replaces what embeds. ``device`` is where queries are
    embedded and searched.

    Raises:
        IndexFolderError: the folder is no index, a file is missing, cut off or foreign; or the model is another one.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        model: str | Path | None = None,
        encoder: QueryEncoder | None = None,
        device: str | None = None,
    ) -> None:
        self.vectors = VectorIndex(folder, device=device if count_faiss_gpus() else None)
        """The same index for search by vectors, without texts."""
        self._model, self._device = model, device
        if encoder is not None:
            self.encoder = encoder
            self._check_model(encoder)

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def settings(self) -> IndexSettings:
        """Settings and provenance of the index."""
        return self.vectors.settings

    @cached_property
    def encoder(self) -> QueryEncoder:
        """What embeds the queries; the model is loaded when it is first needed."""
        encoder = _open_query_encoder(self.settings, self._model, self._device)
        self._check_model(encoder)
        return encoder

    @property
    def kept(self) -> tuple[str, ...]:
        """The names of the kept columns, whose values every hit brings along."""
        return tuple(name for name in self.vectors.documents.schema.names if name not in _OWN_COLUMNS)

    def search(self, query: str, k: int = 10, *, where: str | None = None, exact: bool = False) -> Answer:
        """The ``k`` nearest documents (or tokens, or words) of a query.

        In an index of tokens or words a query asks for one of its words, which is marked: ``He sat on the *bank*.``
        ``where`` is a condition on kept columns, such as ``"year > 1900 and author like 'D%'"``; ``exact`` compares
        with every vector, whatever the type of the index.

        Raises:
            UsageError: a query that does not fit the index, ``k`` below 1, or a condition that cannot be read.
            IndexFolderError: the model at hand is not the one that the index was made with.
        """
        if not isinstance(query, str):
            raise UsageError(f"search() takes one text, not {type(query).__name__}; search_batch() takes a list")
        (answer,) = self.search_batch([query_text(query)], k, where=where, exact=exact)
        return answer

    def search_batch(
        self, queries: Sequence[str], k: int = 10, *, where: str | None = None, exact: bool = False
    ) -> list[Answer]:
        """One answer a query, in their order; see :meth:`search`."""
        texts = query_texts(queries)
        if where is not None:
            parse_where(self.vectors.documents, where, but=[_SOURCE])  # before the model is loaded
        if not texts:
            return []
        found = self.vectors.search(self.encode(texts), k, where=where, exact=exact)
        return self._answers(found, texts)

    def search_vectors(
        self, vectors: ArrayLike, k: int = 10, *, where: str | None = None, exact: bool = False
    ) -> list[Answer]:
        """One answer for each of your own query vectors ``[n, width]``, of whole or real numbers; see :meth:`search`.

        Raises:
            UsageError: an array of another shape or of other things than real numbers, or a value that is not finite.
        """
        matrix = query_vectors(vectors, self.settings.width)
        return self._answers(self.vectors.search(matrix, k, where=where, exact=exact), [None] * len(matrix))

    def count(self, where: str | None = None) -> SearchScope:
        """How much a search looks at: everything, or what meets a condition.

        Raises:
            UsageError: the condition cannot be read.
        """
        index = self.vectors
        if where is None and index.removed is None:
            return SearchScope(self.settings.documents, len(self))
        documents = index.documents
        met = np.ones(len(documents), bool) if where is None else select_rows(documents, where, but=[_SOURCE])
        if index.removed is not None:
            met[index.owners[index.removed]] = False
        return SearchScope(int(met.sum()), int(met[index.owners].sum()))

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of queries, ``[n, width]``, as :meth:`search` uses them."""
        if self.settings.column.pooling.per_document:
            return self.encoder.encode(texts)
        marked = [_marked(text) for text in texts]
        features = self.encoder.features([plain for plain, _ in marked])
        column = self.settings.column.name
        pairs = zip(features, marked, strict=True)
        return np.stack([_word_vector(document, span, column) for document, (_, span) in pairs])

    def reconstruct(self, numbers: NDArray[np.integer]) -> NDArray[np.float32]:
        """The vectors of hits by their ``number``, as the index stores them (normalised under cosine)."""
        return self.vectors.reconstruct(numbers)

    def check_sources(self) -> None:
        """See that the feature sets in their old places did not change since the index was made.

        Raises:
            IndexFolderError: one did.
        """
        self.vectors.check_sources()

    def _check_model(self, encoder: QueryEncoder) -> None:
        ours, theirs = self.settings.model, encoder.model
        if ours.fingerprint != theirs.fingerprint:
            raise IndexFolderError(
                f"{self.vectors.folder} was made with {ours.name} (fingerprint {ours.fingerprint[:12]}), but the model "
                f"at hand is {theirs.name} (fingerprint {theirs.fingerprint[:12]}): vectors of two models cannot be "
                f"compared. Give the first one with --model, or build the index again"
            )

    def _answers(self, found: Neighbours, queries: Sequence[str | None]) -> list[Answer]:
        hits = self._hits(found)
        width = found.numbers.shape[1]
        return [Answer(query, tuple(hits[at * width : (at + 1) * width])) for at, query in enumerate(queries)]

    def _hits(self, found: Neighbours) -> list[Hit]:
        """The hits of all queries, one query after the other."""
        numbers = found.numbers.ravel()
        if not len(numbers):
            return []
        pieces = self.vectors.pieces
        places = None if pieces is None else pieces.take(numbers).to_pylist()
        owners = numbers if places is None else np.array([place["document"] for place in places])
        table = self.vectors.documents.take(owners)
        # column by column, which is several times faster than row by row
        columns = {name: table[name].to_pylist() for name in table.column_names}
        nothing = [None] * len(numbers)
        texts, pairs = columns.get("text", nothing), columns.get("pair", nothing)
        kept = {name: values for name, values in columns.items() if name not in _OWN_COLUMNS}
        values = [dict(zip(kept, row, strict=True)) for row in zip(*kept.values(), strict=True)] or [{}] * len(numbers)
        sources = [source.path for source in self.settings.sources]
        found_places = nothing if places is None else list(map(_place_of_piece, places, texts, pairs))
        ranks = np.tile(np.arange(1, found.numbers.shape[1] + 1), len(found.numbers)).tolist()
        return list(
            map(
                Hit,
                ranks,
                found.scores.ravel().tolist(),
                columns["id"],
                columns["row"],
                texts,
                pairs,
                values,
                [sources[number] for number in columns[_SOURCE]],
                found_places,
                numbers.tolist(),
            )
        )


def _open_query_encoder(settings: IndexSettings, model: str | Path | None, device: str | None) -> QueryEncoder:
    from bertfeat.extraction import Extractor  # torch: seconds
    from bertfeat.models import find_model

    name = model or settings.model.name
    prompt = settings.query_prompt
    if prompt is None:  # the model's own prompt for queries, where it has one
        prompt = find_model(name, revision=None if model else settings.model.revision).prompts.get("query")
    return Extractor.from_record(
        settings.model, settings.extraction, [settings.column], name=model, device=device, prompt=prompt
    )


def _place_of_piece(piece: Mapping[str, Any], text: str | None, pair: str | None) -> Place:
    in_pair = piece["segment"] == 1
    whole = pair if in_pair else text
    string = None if whole is None else whole[piece["start"] : piece["end"]]
    return Place(piece["number"], piece["start"], piece["end"], in_pair, string)


def _marked(query: str) -> tuple[str, tuple[int, int]]:
    """A query without its marks, and the characters that they enclosed.

    Raises:
        UsageError: no mark in a query of several words, or several marks.
    """
    marks = list(_MARKED.finditer(query))
    if len(marks) == 1:
        (mark,) = marks
        return query[: mark.start()] + mark[1] + query[mark.end() :], (mark.start(), mark.start() + len(mark[1]))
    if marks or len(query.split()) != 1:
        raise UsageError(
            f"this index finds single tokens or words, so say which word of {query!r} is meant: He sat on the *bank*."
        )
    word = query.strip()
    return word, (0, len(word))


def _word_vector(document: DocumentFeatures, span: tuple[int, int], column: str) -> NDArray[np.float32]:
    """The mean vector of the tokens or words within a span of characters, ``[width]``."""
    pieces = document.tokens if Pooling(column.rpartition("_")[2]) is Pooling.TOKEN else document.words
    inside = np.empty(0, np.intp) if pieces is None else _pieces_within(pieces, *span)
    if not len(inside):
        raise UsageError(f"the model has no vector for {(document.text or '')[slice(*span)]!r} in the query")
    vector: NDArray[np.float32] = document.matrix(column)[inside].mean(axis=0)
    return vector


def _pieces_within(pieces: DocumentPieces, start: int, end: int) -> NDArray[np.intp]:
    inside = (pieces.start < end) & (pieces.end > start) & (pieces.end > pieces.start)
    if pieces.aligned is not None:
        inside &= pieces.aligned
    return np.flatnonzero(inside)

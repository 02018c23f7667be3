"""The encoder of queries: the model that an index or a feature set records, opened again, or a stand-in."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import BertfeatError, FeatureSetError, IndexFolderError, UsageError, parameter
from bertfeat.features import DocumentFeatures, DocumentPieces, FeatureSet, FeatureSettings, ModelIdentity
from bertfeat.io import Location
from bertfeat.recipe import FeatureColumn, Unit
from bertfeat.search.queries import unmark_words
from bertfeat.search.settings import REBUILD, IndexSettings


class QueryEncoder(Protocol):
    """Embeds queries, and the words of sentences: a :class:`bertfeat.Extractor`, or a stand-in."""

    @property
    def identity(self) -> ModelIdentity:
        """The identity of the model."""
        ...

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """One vector a text, ``[n, width]``."""
        ...

    def features(self, texts: Sequence[str], /) -> list[DocumentFeatures]:
        """Tokens and words with their vectors."""
        ...


@runtime_checkable
class ColumnsEncoder(Protocol):
    """Computes other columns on request: a :class:`bertfeat.Extractor`, or a stand-in that can."""

    def of_columns(self, columns: Sequence[FeatureColumn]) -> QueryEncoder:
        """The same encoder for other columns."""
        ...


def open_query_encoder(
    folder: Location, settings: IndexSettings, model: str | Path | None, device: str | None
) -> QueryEncoder:
    """Open the model that an index records, to embed queries as its documents were.

    ``model`` says where the model is now, if not where it was.

    Raises:
        ModelError: the model cannot be found.
        IndexFolderError: it is another one.
    """
    try:
        return open_column_encoder(
            settings.model, settings.extraction, settings.column, settings.query_prompt, model, device
        )
    except FeatureSetError as error:
        raise IndexFolderError(error.problem, where=folder, remedy=f"{error.remedy}, or {REBUILD}") from error


def open_column_encoder(
    recorded: ModelIdentity,
    settings: FeatureSettings,
    column: FeatureColumn,
    prompt: str | None,
    model: str | Path | None,
    device: str | None = None,
    *,
    where: object = "",
) -> QueryEncoder:
    """Open a recorded model, to embed queries in one column; ``prompt``: None is the model's own for queries.

    ``where`` is the folder of the record, for errors.

    Raises:
        ModelError: the model cannot be found.
        FeatureSetError: it is another one.
    """
    from bertfeat.extraction import Extractor  # torch: seconds

    prompt = query_prompt(recorded, model) if prompt is None else prompt
    return Extractor.from_record(recorded, settings, [column], name=model, device=device, prompt=prompt, where=where)


def embed_queries(encoder: QueryEncoder, column: FeatureColumn, texts: Sequence[str]) -> NDArray[np.float32]:
    """The vectors of queries in a column, ``[n, width]``; among tokens or words a query marks one of its words.

    Raises:
        UsageError: a query that marks no word or several, or one that has no vector.
    """
    if column.pooling.per_document:
        return encoder.encode(texts)
    marked = [_marked_word(text) for text in texts]
    features = encoder.features([text for text, _ in marked])
    pairs = zip(features, marked, strict=True)
    return np.stack([_word_vector(document, span, column) for document, (_, span) in pairs])


def encoder_of_columns(encoder: QueryEncoder, columns: Sequence[FeatureColumn]) -> QueryEncoder:
    """The same encoder for other columns; a stand-in that has no others is taken as it is."""
    return encoder.of_columns(columns) if isinstance(encoder, ColumnsEncoder) else encoder


def open_feature_encoder(
    features: FeatureSet, columns: Sequence[FeatureColumn], model: str | Path | None, device: str | None
) -> QueryEncoder:
    """Open the model that made a feature set, to embed queries in some of its columns as its documents were.

    Raises:
        ModelError: the model cannot be found.
        FeatureSetError: it is another one.
    """
    from bertfeat.extraction import Extractor  # torch: seconds

    header = features.header
    prompt = query_prompt(header.model, model)
    return Extractor.from_record(
        header.model, header.settings, columns, name=model, device=device, prompt=prompt, where=features.folder
    )


def query_prompt(recorded: ModelIdentity, model: str | Path | None) -> str | None:
    """The model's own prompt for queries; None where it has none. ``model`` says where it is now."""
    from bertfeat.models import find_model

    return find_model(model or recorded.name, revision=None if model else recorded.revision).prompts.get("query")


def check_same_model(
    folder: Location, recorded: ModelIdentity, encoder: QueryEncoder, error: type[BertfeatError], *, rebuild: str
) -> None:
    """Check that an encoder is the model that made a feature set or an index.

    Raises:
        BertfeatError: of the kind ``error``: it is another one; ``rebuild`` is the second remedy.
    """
    identity = encoder.identity
    if identity.fingerprint != recorded.fingerprint:
        raise error(
            f"{folder} was made with {recorded.name} (fingerprint {recorded.fingerprint[:12]}), but the model at hand "
            f"is {identity.name} (fingerprint {identity.fingerprint[:12]}): vectors of two models cannot be compared",
            remedy=f"give the first one with {parameter('model')}, or {rebuild}",
        )


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

"""The encoder of queries: the model that an index or a feature set records, opened again, or a stand-in."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import BertfeatError, FeatureSetError, IndexFolderError, parameter
from bertfeat.features import DocumentFeatures, FeatureSet, ModelIdentity
from bertfeat.io import Location
from bertfeat.recipe import FeatureColumn, Unit
from bertfeat.search.settings import REBUILD, IndexSettings


class WordEncoder(Protocol):
    """Embeds the tokens and words of a sentence: a :class:`bertfeat.Extractor`, or a stand-in."""

    @property
    def identity(self) -> ModelIdentity:
        """Which model it is."""
        ...

    def features(self, texts: Sequence[str], /) -> list[DocumentFeatures]:
        """Tokens and words with their vectors."""
        ...


class QueryEncoder(WordEncoder, Protocol):
    """Embeds queries: a :class:`bertfeat.Extractor`, or a stand-in."""

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """One vector a text, ``[n, width]``."""
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
    from bertfeat.extraction import Extractor  # torch: seconds

    prompt = query_prompt(settings.model, model) if settings.query_prompt is None else settings.query_prompt
    try:
        return Extractor.from_record(
            settings.model, settings.extraction, [settings.column], name=model, device=device, prompt=prompt
        )
    except FeatureSetError as error:
        raise IndexFolderError(error.problem, where=folder, remedy=f"{error.remedy}, or {REBUILD}") from error


def encoder_of_columns(encoder: QueryEncoder, columns: Sequence[FeatureColumn]) -> WordEncoder:
    """The same encoder, with the weights that it has, for other columns; a stand-in is taken as it is."""
    from bertfeat.extraction import Extractor

    if not isinstance(encoder, Extractor):
        return encoder
    units = {column.pooling.unit for column in columns}
    settings = replace(encoder.token_settings, with_tokens=Unit.TOKEN in units, with_words=Unit.WORD in units)
    return encoder.variant(tuple(columns), settings)


def open_feature_encoder(
    features: FeatureSet, columns: Sequence[FeatureColumn], model: str | Path | None, device: str | None
) -> WordEncoder:
    """Open the model that made a feature set, to embed queries in some of its columns as its documents were.

    Raises:
        ModelError: the model cannot be found.
        FeatureSetError: it is another one.
    """
    from bertfeat.extraction import Extractor  # torch: seconds

    header = features.header
    prompt = query_prompt(header.model, model)
    return Extractor.from_record(header.model, header.settings, columns, name=model, device=device, prompt=prompt)


def query_prompt(recorded: ModelIdentity, model: str | Path | None) -> str | None:
    """The model's own prompt for queries; None where it has none. ``model`` says where it is now."""
    from bertfeat.models import find_model

    return find_model(model or recorded.name, revision=None if model else recorded.revision).prompts.get("query")


def check_same_model(
    folder: Location, recorded: ModelIdentity, encoder: WordEncoder, error: type[BertfeatError], *, rebuild: str
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

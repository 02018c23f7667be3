"""The extractor that makes the word features of a corpus, and whether a feature set is what it would make."""

from collections.abc import Collection
from pathlib import Path
from typing import TypedDict

from bertfeat.corpus import CorpusSettings
from bertfeat.derivation import derive
from bertfeat.errors import BertfeatError, NotDerivableError, UsageError, parameter
from bertfeat.extraction import Extractor, record_settings
from bertfeat.features import FeatureSet
from bertfeat.models import Model, find_model
from bertfeat.recipe import Pooling
from bertfeat.training import DEFAULT_LAYERS, LayerInput, parse_input


class ExtractorArguments(TypedDict, total=False):
    """Arguments of :class:`bertfeat.Extractor`, for corpora whose features are not extracted yet."""

    model: str | Path | None
    revision: str | None
    precision: str
    device: str | None
    batch_tokens: int | None


def new_extractor(layers: str | None, arguments: ExtractorArguments) -> Extractor:
    """An extractor of word features of these layers: tagger inputs separated by commas."""
    files = find_model(arguments.get("model"), revision=arguments.get("revision"))
    return Extractor(
        layers=[layer_input.extracted for layer_input in parse_inputs(layers, files)], pooling="word", **arguments
    )


def recorded_extractor(like: FeatureSet, corpus_settings: CorpusSettings, device: str | None) -> Extractor:
    """The extractor that made the word features of another set.

    Raises:
        NotDerivableError: that set holds no word features.
        UsageError: it was extracted with document context and the new one would not be, or the reverse.
    """
    columns = [column for column in like.columns if column.pooling is Pooling.WORD]
    if not columns:
        raise NotDerivableError(
            "holds no features of words", where=like.folder, remedy=f"extract it with {parameter('pooling', 'word')}"
        )
    with_context = like.header.settings.document_context
    if with_context != corpus_settings.document_context:
        raise UsageError(
            f"{like.folder} was extracted {'with' if with_context else 'without'} {parameter('document_context')}",
            remedy="the other set has to be, too",
        )
    return Extractor.from_record(like.header.model, like.header.settings, columns, device=device)


def parse_inputs(layers: str | None, files: Model) -> list[LayerInput]:
    """The tagger inputs that are named, separated by commas; by default ``concat4``."""
    return [parse_input(spec, files.num_layers) for spec in (layers or DEFAULT_LAYERS).split(",")]


def open_with_layers(
    folder: Path, extractor: Extractor, layers: str | None, *, allow_unfinished: bool = False
) -> FeatureSet | None:
    """The feature set in a folder if it can be read and holds the layers; None for any other."""
    inputs = parse_inputs(layers, extractor.model)
    try:
        features = FeatureSet(folder, allow_unfinished=allow_unfinished)
        for layer_input in inputs:
            derive(layer_input.recipe, Pooling.WORD, features.columns)
    except BertfeatError:
        return None
    return features


DECISIVE_SETTINGS = ("long", "max_length", "prompt", "subword", "document_context", "context", "precision")
"""The settings of a feature set that decide the features of its words."""


def was_made_by(
    features: FeatureSet,
    extractor: Extractor,
    corpus_settings: CorpusSettings,
    decisive: Collection[str] = DECISIVE_SETTINGS,
) -> bool:
    """Whether a feature set was made by the extractor's model, with the extractor's value of the decisive settings."""
    ours = record_settings(
        extractor.identity,
        extractor.columns,
        extractor.token_settings,
        extractor.precision.value,
        document_context=corpus_settings.document_context,
    )
    differ = {difference.name for difference in ours.differences(features.header.settings)}
    return differ.isdisjoint(decisive) and features.header.model.fingerprint == extractor.model.fingerprint

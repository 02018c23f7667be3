"""The extractor that makes the word features of a corpus, and whether a feature set is what it would make."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from bertfeat.corpus import CorpusSettings
from bertfeat.errors import BertfeatError, NotDerivableError, UsageError, parameter
from bertfeat.extraction import Extractor
from bertfeat.features import FeatureSet
from bertfeat.models import Model, find_model
from bertfeat.recipe import Pooling, derive
from bertfeat.tagging.layer_input import DEFAULT_LAYERS, TaggerInput, parse_input


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
    with_context = bool(like.header.settings["document_context"])
    if with_context != corpus_settings.document_context:
        raise UsageError(
            f"{like.folder} was extracted {'with' if with_context else 'without'} {parameter('document_context')}",
            remedy="the other set has to be, too",
        )
    return Extractor.recorded(like.header.model, like.header.settings, columns, device=device)


def parse_inputs(layers: str | None, files: Model) -> list[TaggerInput]:
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


def extraction_settings(extractor: Extractor, corpus_settings: CorpusSettings) -> dict[str, object]:
    """The settings of a feature set that decide the features of its words."""
    tokens = extractor.token_settings
    return {
        "long": str(tokens.long),
        "max_length": tokens.max_length,
        "prompt": tokens.prompt,
        "subword": str(tokens.subword),
        "document_context": corpus_settings.document_context,
        "precision": extractor.precision.value,
    }


def was_made_by(features: FeatureSet, extractor: Extractor, expected: Mapping[str, object]) -> bool:
    """Whether a feature set was made by the extractor's model with these settings."""
    settings = features.header.settings
    same = all(settings.get(name) == value for name, value in expected.items())
    return same and features.header.model.fingerprint == extractor.model.fingerprint

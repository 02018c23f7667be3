"""Features of a corpus that lie beside it already: whether they are those that would be extracted now."""

from itertools import zip_longest
from pathlib import Path

from bertfeat.corpus import CorpusSettings, open_corpus
from bertfeat.extraction import PART_ROWS, PartLimits, bytes_per_character, bytes_per_row, plan_of_version
from bertfeat.features import FeatureSet
from bertfeat.tagging.dataset_extractors import (
    DECISIVE_SETTINGS,
    ExtractorArguments,
    new_extractor,
    open_with_layers,
    recorded_extractor,
    was_made_by,
)
from bertfeat.tagging.datasets import features_beside


def find_stored_features(
    corpus: Path,
    *,
    layers: str,
    corpus_settings: CorpusSettings,
    like: FeatureSet | None,
    arguments: ExtractorArguments,
) -> FeatureSet | None:
    """The feature set beside a corpus, if it equals one that would be extracted now; nothing is written.

    It has to be finished, to hold ``layers`` and the words themselves, and to be made by the same model with the same
    settings from the corpus as it is now. ``like`` is a set whose model and settings are taken over.

    Raises:
        BertfeatError: the corpus or the model cannot be read.
    """
    if like is not None:
        extractor = recorded_extractor(like, corpus_settings, arguments.get("device"))
    else:
        extractor = new_extractor(layers, arguments)
    features = open_with_layers(features_beside(corpus), extractor, layers)
    if features is None or "tags" not in features.names:
        return None
    decisive = (*DECISIVE_SETTINGS, "special_tokens", "dtype", "numerics", "text")
    if not was_made_by(features, extractor, corpus_settings, decisive):
        return None
    documents = open_corpus([corpus], corpus_settings)
    settings = features.header.settings
    limits = PartLimits(
        settings.part_rows or PART_ROWS,
        bytes_per_row(features.columns, special_tokens=extractor.token_settings.special_tokens),
        bytes_per_character(features.columns),
    )
    planned = plan_of_version(settings.plan, documents, limits)
    pairs = zip_longest(planned, features.parts)
    return features if all(None not in pair and pair[0].digest == pair[1].digest for pair in pairs) else None

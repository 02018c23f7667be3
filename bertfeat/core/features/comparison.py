"""Feature sets together: one or several opened, and the reason why the vectors of two cannot be compared."""

from collections.abc import Sequence
from pathlib import Path

from bertfeat.core.features.columns import ReadableColumn
from bertfeat.core.features.part import ModelIdentity, PartHeader
from bertfeat.core.features.reader import FeatureSet
from bertfeat.core.features.settings import FeatureSettings
from bertfeat.core.recipe import FeatureColumn
from bertfeat.core.spans import SpanRule
from bertfeat.io import Address

FeatureSets = str | Path | Address | FeatureSet | Sequence[str | Path | Address | FeatureSet]
"""One feature set or several, open or as folders, also at addresses."""


def open_feature_sets(features: FeatureSets) -> list[FeatureSet]:
    """The feature sets as a list."""
    several = [features] if isinstance(features, str | Path | Address | FeatureSet) else features
    return [one if isinstance(one, FeatureSet) else FeatureSet(one) for one in several]


def find_incomparability(
    model: ModelIdentity,
    settings: FeatureSettings,
    column: ReadableColumn | FeatureColumn,
    header: PartHeader,
    other: ReadableColumn | FeatureColumn,
    spans: SpanRule | None = None,
) -> str | None:
    """The reason why vectors of a model, settings and column cannot be compared with another set's, or None.

    With ``spans`` they are of spans, whose words must be counted alike.
    """
    ours, theirs = model.fingerprint, header.model.fingerprint
    if ours != theirs:
        return f"they come from different models (fingerprints {ours[:12]} and {theirs[:12]})"
    if (column.recipe, column.pooling) != (other.recipe, other.pooling):
        return f"{column.name} and {other.name} are different things"
    if column.width != other.width:
        return f"vectors of {column.width} and of {other.width} values"
    if differences := settings.incomparable_with(header.settings, column.pooling):
        differ = ", ".join(map(str, differences))
        return f"they were extracted with {differ}; extract one of them again like the other"
    if spans is not None and spans.kind == "words" and settings.words != header.settings.words:
        return f"words are counted as {settings.words} and as {header.settings.words}"
    if problem := model.canary_problem(header.model):
        return f"the model gave them different vectors: {problem}; extract one of them again"
    return None

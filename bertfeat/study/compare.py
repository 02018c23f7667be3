"""Compare two feature sets over the same rows, layer by layer."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertfeat.arguments import checked
from bertfeat.errors import NotDerivableError, UsageError, errors_within, parameter
from bertfeat.features import FeatureSet, ReadableColumn, single_layer_columns
from bertfeat.io import Address
from bertfeat.progress import ProgressOption, StepProgress, telling
from bertfeat.recipe import Pooling, parse_recipes
from bertfeat.study.comparison import ComparedSet, ComparisonReport
from bertfeat.study.layer_pairs import compare_layers, layer_name
from bertfeat.study.matched_items import ItemCounts, MatchedItems
from bertfeat.study.settings import ComparisonSettings


@checked
def compare_features(
    first: FeatureSet | str | Path | Address,
    second: FeatureSet | str | Path | Address,
    settings: ComparisonSettings | None = None,
    *,
    progress: ProgressOption[StepProgress] = None,
) -> ComparisonReport:
    """Compare two feature sets over the same rows: of two models, two precisions, or before and after training.

    Every layer of the first is compared with every layer of the second: by linear CKA and cosine over all documents,
    tokens or words, and by RSA and nearest neighbors over a sample of them. Tokens match if their characters do.

    Raises:
        FeatureSetError: the sets are not of the same rows.
        NotDerivableError: they have no vectors of the same pooling, or not of these layers.
        UsageError: several poolings, or too few items for ``k`` neighbors.
    """
    settings = settings or ComparisonSettings()
    sets = tuple(given if isinstance(given, FeatureSet) else FeatureSet(given) for given in (first, second))
    pooling = _common_pooling(sets, settings.pooling)
    ours, theirs = (_compared_columns(features, pooling, settings.layers) for features in sets)
    items = MatchedItems(sets[0], sets[1], pooling)
    counts = items.counts
    chosen = _choose_sample(counts.items, settings)
    with telling(progress) as tell:
        pairs = tuple(compare_layers(items, ours, theirs, chosen, settings.k, tell))
    return ComparisonReport(
        first=_describe_set(sets[0], ours, counts, 0),
        second=_describe_set(sets[1], theirs, counts, 1),
        pooling=str(pooling),
        by_text=items.by_text,
        documents=counts.documents,
        items=counts.items,
        sample=len(chosen),
        k=settings.k,
        seed=settings.seed,
        pairs=pairs,
    )


# ── columns and sample ──────────────────────────────────────────────────────────────────────────────────────


def _common_pooling(sets: Sequence[FeatureSet], asked: str | None) -> Pooling:
    stored = [{column.pooling for column in features.columns} for features in sets]
    common = [pooling for pooling in Pooling if pooling in stored[0] & stored[1] and asked in (None, pooling)]
    if not common:
        listed = " and ".join(
            f"{', '.join(pooling for pooling in Pooling if pooling in each)} in {features.folder}"
            for each, features in zip(stored, sets, strict=True)
        )
        raise NotDerivableError(
            f"vectors of {asked or 'the same'} pooling are not in both sets; stored are {listed}",
            remedy=f"extract with {parameter('pooling', asked or 'mean')}",
        )
    if len(common) > 1:
        raise UsageError(
            f"both sets have several poolings; say which with {parameter('pooling')}: {' or '.join(common)}"
        )
    return common[0]


def _compared_columns(features: FeatureSet, pooling: Pooling, layers: Sequence[str]) -> list[ReadableColumn]:
    with errors_within(features.folder):
        num_layers = features.header.model.num_layers
        if layers:
            return [features.find(recipe.name, pooling) for recipe in parse_recipes(layers, num_layers)]
        columns = single_layer_columns(features.columns, num_layers, pooling)
        if not columns:
            raise NotDerivableError(
                f"no single layer can be taken out of the stored {pooling} columns",
                remedy=f"name a combination with {parameter('layers')}",
            )
        return columns


def _choose_sample(items: int, settings: ComparisonSettings) -> NDArray[np.int64]:
    """Numbers of the items whose similarities are taken, ascending."""
    size = min(items, settings.sample)
    if size < settings.k + 2:
        raise UsageError(
            f"k={settings.k} needs {settings.k + 2} items, not {size}; {items:,} are in both sets",
            remedy="give a smaller k, or a larger sample if there are more items",
        )
    return np.sort(np.random.default_rng(settings.seed).choice(items, size, replace=False))


def _describe_set(
    features: FeatureSet, columns: Sequence[ReadableColumn], counts: ItemCounts, number: int
) -> ComparedSet:
    return ComparedSet(
        features=str(features.folder),
        model=features.header.model.name,
        precision=features.header.settings.precision,
        layers=tuple(layer_name(column) for column in columns),
        failed=counts.failed[number],
        without_vector=counts.without_vector[number],
        unmatched=counts.unmatched[number],
    )

"""Compare two feature sets over the same rows, layer by layer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bertfeat.arguments import checked
from bertfeat.core import FeatureSet, Pooling, ReadableColumn, parse_recipes
from bertfeat.display import displayed
from bertfeat.errors import NotDerivableError, UsageError, errors_within, parameter
from bertfeat.io import Address
from bertfeat.progress import OnStep, ProgressOption, StepProgress, telling
from bertfeat.study.likeness import CkaSums, CosineSums, Matrix64, find_similarity_structure
from bertfeat.study.matched_items import ItemCounts, MatchedItems, Vectors
from bertfeat.study.settings import ComparisonSettings

Measure = Literal["cka", "rsa", "neighbors", "cosine", "least_cosine"]
"""The name of a measure of two layers; see :class:`LayerPair`."""


@dataclass(frozen=True, slots=True)
class ComparedSet:
    """One of the two feature sets, and what of it was left out."""

    features: str
    model: str
    precision: str
    layers: tuple[str, ...]  # the compared columns, without their pooling: layer3, concat4
    failed: int  # rows that failed here and are documents of the other set
    without_vector: int  # tokens of no characters, which are special ones and white space; words that were not embedded
    unmatched: int  # tokens or words whose characters none of the other set has


@dataclass(frozen=True, slots=True)
class LayerPair:
    """The similarity of two layers, one of each set; None where a measure is undefined.

    CKA, RSA and neighbors are undefined where all vectors of a layer are equal, as the embeddings of ``[CLS]`` are, and
    cosines where the layers differ in width.
    """

    first: str
    second: str
    cka: float | None  # linear centered kernel alignment, 0 to 1: Kornblith et al. 2019, section 3
    rsa: float | None  # Spearman correlation of the cosines within each set: Kriegeskorte et al. 2008
    neighbors: float | None  # share of an item's k nearest by cosine that both sets have
    cosine: float | None  # mean over all items
    least_cosine: float | None


@displayed
@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """Two feature sets over the same rows, layer by layer."""

    first: ComparedSet
    second: ComparedSet
    pooling: str
    by_text: bool  # whether texts were compared; where a set stores none, rows are matched by number and id
    documents: int  # that both sets have
    items: int  # documents, tokens or words that were compared
    sample: int  # of them, for RSA and neighbors
    k: int
    seed: int
    pairs: tuple[LayerPair, ...]  # every layer of the first with every layer of the second, in this order

    @property
    def partners(self) -> tuple[LayerPair, ...]:
        """For each layer of the first set, its pair with one layer of the second.

        It is the layer at the same place if both sets have equally many layers, otherwise the most similar by CKA.
        """
        wide, high = len(self.second.layers), len(self.first.layers)
        rows = [self.pairs[at * wide : (at + 1) * wide] for at in range(high)]
        if wide == high:
            return tuple(row[at] for at, row in enumerate(rows))
        return tuple(max(row, key=lambda pair: -1.0 if pair.cka is None else pair.cka) for row in rows)

    def matrix(self, measure: Measure = "cka") -> NDArray[np.float64]:
        """A measure of every pair, ``[layers of the first, layers of the second]``; NaN where it is undefined."""
        values = np.array([getattr(pair, measure) for pair in self.pairs], np.float64)
        return values.reshape(len(self.first.layers), len(self.second.layers))


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
        pairs = tuple(_compare_layers(items, ours, theirs, chosen, settings.k, tell))
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
        columns = features.single_layers(pooling)
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
        layers=tuple(_layer_name(column) for column in columns),
        failed=counts.failed[number],
        without_vector=counts.without_vector[number],
        unmatched=counts.unmatched[number],
    )


def _layer_name(column: ReadableColumn) -> str:
    """The recipe of a column: ``layer12`` rather than ``last``, ``concat4``."""
    single = column.recipe.single_layer
    return column.recipe.name if single is None else f"layer{single}"


# ── every layer with every other, in one reading of both sets ───────────────────────────────────────────────


_MOST_BYTES = 1 << 30  # of the sums of CKA; both sets are read again for the layers that are left


def _compare_layers(
    items: MatchedItems,
    first: Sequence[ReadableColumn],
    second: Sequence[ReadableColumn],
    chosen: NDArray[np.int64],
    k: int,
    tell: OnStep,
) -> Iterator[LayerPair]:
    """Compare columns of the first set with those of the second, in this order.

    ``chosen`` are the numbers of the items whose similarities are taken. If the sums of CKA for all layers would take
    more than a GiB, both sets are read several times, each time for some layers of the first.
    """
    widest = max(column.width for column in first)
    size = max(1, _MOST_BYTES // (8 * widest * sum(column.width for column in second)))
    groups, count = [first[at : at + size] for at in range(0, len(first), size)], items.counts.items
    for number, group in enumerate(groups):
        vectors = _counted(items.vectors(group, second), tell, number * count, len(groups) * count)
        yield from _compare_group(vectors, group, second, chosen, k)


def _counted(
    pairs: Iterator[tuple[Vectors, Vectors]], tell: OnStep, done: int, total: int
) -> Iterator[tuple[Vectors, Vectors]]:
    for pair in pairs:
        yield pair
        done += len(pair[0][0])
        tell(StepProgress("", done, total, "vectors of each layer"))


def _compare_group(
    pairs: Iterator[tuple[Vectors, Vectors]],
    first: Sequence[ReadableColumn],
    second: Sequence[ReadableColumn],
    chosen: NDArray[np.int64],
    k: int,
) -> Iterator[LayerPair]:
    widths = [[column.width for column in columns] for columns in (first, second)]
    alignments, cosines = CkaSums(*widths), CosineSums(*widths)
    samples = [_SampledVectors(chosen), _SampledVectors(chosen)]
    for pair in pairs:
        alignments.add(*pair)
        cosines.add(*pair)
        for sample, vectors in zip(samples, pair, strict=True):
            sample.add(vectors)
    cka, means, least = alignments.matrix(), cosines.means, cosines.least
    structures = [find_similarity_structure(matrix, k) for matrix in samples[1].layers()]
    for at, (column, matrix) in enumerate(zip(first, samples[0].layers(), strict=True)):
        ours = find_similarity_structure(matrix, k)
        for to, (other, theirs) in enumerate(zip(second, structures, strict=True)):
            # in a layer that does not vary, ranks and neighbors would be noise
            varies = not np.isnan(cka[at, to])
            structure = (ours.correlate(theirs), ours.overlap(theirs)) if varies else (np.nan, np.nan)
            numbers = (cka[at, to], *structure, means[at, to], least[at, to])
            defined = (None if np.isnan(number) else float(number) for number in numbers)
            yield LayerPair(_layer_name(column), _layer_name(other), *defined)


class _SampledVectors:
    """Collects the vectors of chosen items, by their numbers, as the vectors of all items pass."""

    def __init__(self, chosen: NDArray[np.int64]) -> None:
        self._chosen, self._seen = chosen, 0
        self._taken: list[Vectors] = []

    def add(self, vectors: Vectors) -> None:
        """Take the chosen ones of the next n items: ``[n, W]`` of each layer."""
        stop = self._seen + len(vectors[0])
        begin, end = np.searchsorted(self._chosen, [self._seen, stop])
        places = self._chosen[begin:end] - self._seen
        self._taken.append([matrix[places] for matrix in vectors])
        self._seen = stop

    def layers(self) -> Iterator[Matrix64]:
        """The chosen vectors of each layer, ``[m, W]``."""
        for chunks in zip(*self._taken, strict=True):
            yield np.concatenate(chunks, dtype=np.float64)

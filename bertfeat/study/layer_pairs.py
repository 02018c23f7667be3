"""Every layer of one feature set compared with every layer of another, in one reading of both."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bertfeat.features import ReadableColumn
from bertfeat.progress import OnStep, StepProgress
from bertfeat.study.comparison import LayerPair
from bertfeat.study.cosines import CosineSums, SimilarityStructure, find_similarity_structure
from bertfeat.study.matched_items import MatchedItems, Vectors
from bertfeat.study.moments import CkaSums, Matrix64

_MOST_BYTES = 1 << 30  # of the sums of CKA; both sets are read again for the layers that are left


def compare_layers(
    items: MatchedItems,
    first: Sequence[ReadableColumn],
    second: Sequence[ReadableColumn],
    chosen: NDArray[np.int64],
    k: int,
    tell: OnStep,
) -> Iterator[LayerPair]:
    """Compare columns of the first set with those of the second, in this order.

    ``chosen`` are the numbers of the items whose similarities are taken. Both sets are read as often as the sums of CKA
    need to fit into a GiB.
    """
    groups, count = _layer_groups(first, second), items.counts.items
    for number, group in enumerate(groups):
        vectors = _counted(items.vectors(group, second), tell, number * count, len(groups) * count)
        yield from _compare_group(vectors, group, second, chosen, k)


def _layer_groups(first: Sequence[ReadableColumn], second: Sequence[ReadableColumn]) -> list[Sequence[ReadableColumn]]:
    """The columns of the first set, cut so that the sums of each group fit into memory."""
    widest = max(column.width for column in first)
    size = max(1, _MOST_BYTES // (8 * widest * sum(column.width for column in second)))
    return [first[at : at + size] for at in range(0, len(first), size)]


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
    samples = [SampledVectors(chosen), SampledVectors(chosen)]
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
            structure = _compare_structures(ours, theirs, defined=not np.isnan(cka[at, to]))
            numbers = (cka[at, to], *structure, means[at, to], least[at, to])
            yield LayerPair(layer_name(column), layer_name(other), *map(_defined, numbers))


def _compare_structures(
    ours: SimilarityStructure, theirs: SimilarityStructure, *, defined: bool
) -> tuple[float, float]:
    """RSA and the share of common neighbors; in a layer that does not vary both would be noise."""
    return (ours.correlate(theirs), ours.overlap(theirs)) if defined else (np.nan, np.nan)


def layer_name(column: ReadableColumn) -> str:
    """The recipe of a column: ``layer12`` rather than ``last``, ``concat4``."""
    single = len(column.recipe.layers) == 1
    return f"layer{column.recipe.layers[0]}" if single else column.recipe.name


def _defined(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


class SampledVectors:
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

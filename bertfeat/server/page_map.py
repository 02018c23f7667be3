"""The map that the page shows of an index: an even sample of its vectors in the plane, in clusters with names.

Shapes: n points, C principal components.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import MissingLibraryError
from bertfeat.plots import (
    MOST_TEXTS,
    Clustering,
    LabelWords,
    beginning,
    best_method,
    evenly,
    find_clusters,
    lay_out_apart,
)
from bertfeat.search import Index, PrincipalComponents, find_principal_components
from bertfeat.server.background import Background
from bertfeat.server.page_facets import MOST_NAMES, ColorEntry, PointColors
from bertfeat.server.problems import Kind, Problem

_MOST_POINTS = 100_000
_SAMPLE_BYTES = 32 << 20  # of the vectors from which the components are found
_BLOCK_BYTES = 8 << 20  # of the vectors that are placed at once
_COMPONENTS = 100  # of the vectors, from which they are laid out; more help little
_MOST_LABELS = 60  # words on the map, as far as there is room for them
_NEIGHBORS = 5  # points near which a document is placed that is not on the map
_FEWEST = 16  # points that have neighbors to tell of
_TEXTS_AT_ONCE = 100  # they are read whole
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class MapPoints:
    """The vectors that a map shows, by their principal components."""

    numbers: NDArray[np.int64]  # [n] of the vectors, ascending
    reduced: NDArray[np.float32]  # [n, C]
    components: PrincipalComponents


@dataclass(frozen=True, slots=True)
class MapLayout:
    """The places of the points of a map."""

    points: MapPoints
    flat: NDArray[np.float32]  # [n, 2]
    shares: tuple[float, ...] | None  # [2] of the variance that each dimension keeps; only under PCA

    def to_bytes(self) -> bytes:
        """All x (float32), then all y (float32), then all numbers (uint32), little-endian."""
        parts = (self.flat[:, 0].astype("<f4"), self.flat[:, 1].astype("<f4"), self.points.numbers.astype("<u4"))
        return b"".join(part.tobytes() for part in parts)

    def place(self, number: int, vector: NDArray[np.float32]) -> tuple[float, float]:
        """The place of a vector ``[W]``; one that is not on the map stands amid the points that are nearest to it."""
        points = self.points
        at = int(np.searchsorted(points.numbers, number))
        if at < len(points.numbers) and points.numbers[at] == number:
            x, y = self.flat[at].tolist()
            return x, y
        reduced = points.components.place(vector[None])[0]
        if self.shares is not None:
            return float(reduced[0]), float(reduced[1])
        near = np.argsort(((points.reduced - reduced) ** 2).sum(axis=1), kind="stable")[:_NEIGHBORS]
        x, y = np.median(self.flat[near], axis=0).tolist()
        return x, y


def read_points(index: Index) -> MapPoints:
    """Read the vectors of an index that were not removed, or 100,000 evenly spread ones of them, by their components.

    The components are those of an even sample, at most 32 MiB; all are then read in blocks, and none is kept whole.
    """
    removed, count = index.vectors.removed, index.settings.count
    living = np.arange(count) if removed is None else np.flatnonzero(~removed)
    numbers = evenly(living, _MOST_POINTS)
    width = index.settings.stored_width
    sample = evenly(numbers, max(1, _SAMPLE_BYTES // (4 * width)))
    vectors = index.reconstruct(sample) if len(sample) else np.empty((0, width), np.float32)
    components = find_principal_components(vectors, max(2, min(_COMPONENTS, width)))
    reduced = np.empty((len(numbers), len(components.shares)), np.float32)
    block = max(1, _BLOCK_BYTES // (4 * width))
    for start in range(0, len(numbers), block):
        reduced[start : start + block] = components.place(index.reconstruct(numbers[start : start + block]))
    return MapPoints(numbers, reduced, components)


def lay_out_points(points: MapPoints, method: str) -> MapLayout:
    """Lay points out by PCA, or by another method in a process of its own.

    Raises:
        BertfeatError: the other process failed.
    """
    if method == "pca":
        return MapLayout(points, points.reduced[:, :2], points.components.shares[:2])
    return MapLayout(points, lay_out_apart(points.reduced, method), None)


@dataclass(frozen=True, slots=True)
class MapClusters:
    """The clusters of a map: few of them give the points their colors, and more of them give it labels."""

    few: Clustering
    many: Clustering
    missing: str | None = None  # what keeps clusters from being found

    def to_json(self) -> dict[str, object]:
        """The colors of the points, and the labels, as JSON values."""
        return self.colors().to_json() | {"labels": self.labels(), "missing": self.missing}

    def colors(self) -> PointColors:
        """The colors of the points by their clusters."""
        entries = (
            ColorEntry(cluster.name or f"cluster {at + 1}", "name", at, cluster.count)
            for at, cluster in enumerate(self.few.clusters)
        )
        return PointColors("", tuple(entries), self.few.codes)

    def labels(self) -> list[dict[str, object]]:
        """The labels as JSON values, in the order in which they are given room."""
        clusters = (*self.few.clusters, *self.many.clusters)
        return [{"name": each.short_name, "x": each.x, "y": each.y} for each in clusters if each.words]


class MapWords:
    """The words of the texts on a map, or of an even sample of them."""

    def __init__(self, index: Index, points: MapPoints) -> None:
        self._places = evenly(np.arange(len(points.numbers)), MOST_TEXTS)
        texts = _texts_of_points(index, points.numbers[self._places])
        self._words = LabelWords(texts, index.settings.extraction.word_rule)

    def cluster(self, layout: MapLayout) -> MapClusters:
        """Find the clusters of a layout, named by these words.

        Raises:
            MissingLibraryError: scikit-learn is not installed.
        """
        few, many = (find_clusters(layout.flat, most, self._words, self._places) for most in (MOST_NAMES, _MOST_LABELS))
        return MapClusters(few, many)


def _texts_of_points(index: Index, numbers: NDArray[np.int64]) -> Iterator[str]:
    """The texts of documents, pairs with both of theirs; in an index of tokens, words or spans, these."""
    documents, pieces = index.vectors.documents, index.vectors.pieces
    for start in range(0, len(numbers), _TEXTS_AT_ONCE):
        some = numbers[start : start + _TEXTS_AT_ONCE]
        found = documents.take(index.vectors.document_numbers(some)).to_pylist()
        if pieces is None:
            yield from (beginning((each.get("text"), each.get("pair"))) for each in found)
        else:
            for each, piece in zip(found, pieces.take(some).to_pylist(), strict=True):
                text = each.get("pair" if piece["segment"] == 1 else "text") or ""
                yield text[piece["start"] : piece["end"]]


def map_methods(index: Index) -> tuple[str, ...]:
    """The methods by which the map of an index is laid out, the one that shows the most first."""
    points = min(len(index), _MOST_POINTS)
    return tuple(dict.fromkeys((best_method(points), "pca"))) if points >= _FEWEST else ("pca",)


class IndexMap:
    """The map of an index: its points, and layouts and clusters by each method, each computed when first wanted."""

    def __init__(self, index: Index) -> None:
        methods = map_methods(index)
        self.points = Background(lambda: read_points(index), "bertfeat-points")
        self._words = Background(lambda: MapWords(index, self.points.wait()), "bertfeat-words")
        self._layouts = {
            method: Background(partial(self._place_points, method), f"bertfeat-{method}") for method in methods
        }
        self._clusters = {
            method: Background(partial(self._cluster, method), f"bertfeat-{method}-clusters") for method in methods
        }

    def layout(self, method: str) -> Background[MapLayout]:
        """The places of the points by a method."""
        return _made_by(self._layouts, method)

    def clusters(self, method: str) -> Background[MapClusters]:
        """The clusters of the points by a method."""
        return _made_by(self._clusters, method)

    def _place_points(self, method: str) -> MapLayout:
        return lay_out_points(self.points.wait(), method)

    def _cluster(self, method: str) -> MapClusters:
        try:
            return self._words.wait().cluster(self._layouts[method].wait())
        except MissingLibraryError as error:
            none = Clustering((), np.empty(0, np.uint8))
            return MapClusters(none, none, str(error))


def _made_by(made: Mapping[str, Background[_T]], method: str) -> Background[_T]:
    if method not in made:
        raise Problem(Kind.WRONG_VALUE, f"the map is laid out by {', '.join(made)}, not by {method!r}", "layout")
    return made[method]

"""Maps: the vectors of a document column as points in the plane, by PCA, t-SNE or UMAP, as a picture or as a page.

The same vectors give the same points every time.
"""

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertfeat.arguments import checked
from bertfeat.corpus import Value
from bertfeat.errors import FeatureSetError, MissingLibraryError, UsageError, parameter
from bertfeat.features import FeatureSet, ReadableColumn, find_column
from bertfeat.io import Address
from bertfeat.plots.clusters import LONGEST, LabelWords, beginning, find_clusters
from bertfeat.plots.figure import GivenAxes, picture_path
from bertfeat.plots.layouts import METHOD_NAMES, PlaneLayout, best_method, lay_out_vectors
from bertfeat.plots.map_content import DocumentMap, cluster_colors, decide_colors
from bertfeat.plots.map_page import PAGE, TEXTS, page_fields, write_page
from bertfeat.plots.map_picture import draw_points
from bertfeat.plots.palette import NAMED
from bertfeat.recipe import Pooling

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_POINTS = 20_000
_FEWEST = 3  # points of a map
_BATCH = 4096  # rows that are read at a time


@checked
def draw_map(
    features: FeatureSet | str | Path | Address,
    path: str | Path | None = None,
    *,
    axes: GivenAxes | None = None,
    column: str | None = None,
    color: str | None = None,
    method: str | None = None,
    clusters: int | None = None,
    points: int = MOST_POINTS,
    width: float | None = None,
    height: float | None = None,
) -> "Figure":
    """Draw the vectors of a document column as points, with clusters named by the words of their texts.

    ``column`` is by default the last layer, stored or derived, if exactly one pooling has it, else the only document
    column. ``method`` is ``"pca"``, ``"tsne"`` or ``"umap"``, by default t-SNE for up to 20,000 points and UMAP for
    more, or PCA where scikit-learn or umap-learn is missing. Points have the colors of a kept column ``color``, by
    default those of their clusters. There are at most ``clusters`` of them (k-means), by default 10 where scikit-learn
    is installed and the set has texts; the words of a name are those that at least three times as large a share of the
    cluster's texts has as of the others, with the highest G² (Dunning 1993). At most ``points`` documents are drawn, an
    even sample of all; colors of a column are decided from all. ``path``, ``axes``, sizes: see :mod:`bertfeat.plots`.

    Raises:
        FeatureSetError: vectors that are not finite.
        UsageError: no such column, form or method; too many different names for colors; fewer than three documents;
            more than 10 clusters, or clusters of a set without texts; a size that does not fit the texts.
        MissingLibraryError: matplotlib, scikit-learn (for t-SNE and clusters) or umap-learn (for UMAP) is not
            installed.
        StorageError: the file cannot be written.
    """
    path = None if path is None else picture_path(path)
    made = map_documents(features, column=column, color=color, method=method, clusters=clusters, points=points)
    return draw_points(made, path, axes, width, height)


@checked
def write_map_page(
    features: FeatureSet | str | Path | Address,
    path: str | Path,
    *,
    column: str | None = None,
    color: str | None = None,
    method: str | None = None,
    clusters: int | None = None,
    points: int = MOST_POINTS,
) -> DocumentMap:
    """Write the map that :func:`draw_map` draws as a page: one HTML file that shows texts, zooms and searches.

    It needs no network, and no matplotlib.

    Raises:
        FeatureSetError, UsageError, MissingLibraryError, StorageError: see :func:`draw_map`.
    """
    path = picture_path(path, (PAGE,))
    made = map_documents(
        features, column=column, color=color, method=method, clusters=clusters, points=points, with_texts=True
    )
    write_page(made, path)
    return made


@checked
def map_documents(
    features: FeatureSet | str | Path | Address,
    *,
    column: str | None = None,
    color: str | None = None,
    method: str | None = None,
    clusters: int | None = None,
    points: int = MOST_POINTS,
    with_texts: bool = False,
) -> DocumentMap:
    """The points of a map and what they show, to be drawn by other means; ``with_texts``: their texts and values too.

    Raises:
        FeatureSetError, UsageError, MissingLibraryError: see :func:`draw_map`.
    """
    features = features if isinstance(features, FeatureSet) else FeatureSet(features)
    if method is not None and method not in METHOD_NAMES:
        raise UsageError(f"a map is drawn by {', '.join(METHOD_NAMES)}, not by {method!r}")
    if points < _FEWEST:
        raise UsageError(f"a map needs at least {_FEWEST} points, not {points}")
    source = _document_column(features, column)
    groups = _decide_clusters(features, clusters)
    coloring = decide_colors(features, color) if color is not None else None
    on_page = page_fields(features) if with_texts else ()
    of_words = [name for name in TEXTS if groups and name in features.names]
    wanted = {"row", *([coloring.column] if coloring else []), *on_page, *of_words}
    sample = _sample_documents(features, source.name, points, sorted(wanted))
    _check_sample(features, source, sample)
    method, layout = _lay_out_sample(sample.vectors, method)
    title, note, axis_names = _describe_map(features, source, method, layout)
    clustering = None
    if groups:
        documents = zip(*(sample.fields[name] for name in of_words), strict=True)
        texts = (beginning(part and str(part) for part in document) for document in documents)
        words = LabelWords(texts, features.header.settings.word_rule)
        clustering = find_clusters(layout.flat, groups, words, np.arange(len(layout.flat)))
    values = None if coloring is None else sample.fields[coloring.column]
    if coloring is None and clustering is not None:
        coloring, values = cluster_colors(clustering)
    return DocumentMap(
        flat=layout.flat,
        title=title,
        note=note,
        axis_names=axis_names,
        coloring=coloring,
        values=values,
        labels=() if clustering is None else clustering.clusters,
        fields={name: sample.fields[name] for name in on_page},
        of=len(features),
        explained=layout.explained,
    )


def _lay_out_sample(vectors: NDArray[np.float32], method: str | None) -> tuple[str, PlaneLayout]:
    """The layout by a method, by default the best one, or PCA where that cannot be; and the method."""
    if method is not None:
        return method, lay_out_vectors(vectors, method)
    best = best_method(len(vectors))
    try:
        return best, lay_out_vectors(vectors, best)
    except (UsageError, MissingLibraryError):
        return "pca", lay_out_vectors(vectors, "pca")


def _decide_clusters(features: FeatureSet, clusters: int | None) -> int:
    """The most clusters that are looked for; 0 for none."""
    possible = "text" in features.names
    if clusters is None:
        return len(NAMED) if possible and importlib.util.find_spec("sklearn") is not None else 0
    if not 0 <= clusters <= len(NAMED):
        raise UsageError(f"{clusters} clusters; there are colors for 0 to {len(NAMED)}", where=parameter("clusters"))
    if clusters and not possible:
        problem = "it has no texts, so clusters cannot be named by their words"
        raise UsageError(problem, where=features.folder, remedy=f"leave {parameter('clusters')} out")
    return clusters


def _document_column(features: FeatureSet, column: str | None) -> ReadableColumn:
    """The document column of that name or recipe; where neither is given, that of the layers that search best."""
    stored = [known for known in features.columns if known.pooling.per_document]
    if not stored:
        remedy = f"extract some with {parameter('pooling', 'mean')}"
        raise UsageError("a map shows one vector a document, and none is stored", where=features.folder, remedy=remedy)
    named = (column or "").rpartition("_")[2]
    if any(named == pooling and not pooling.per_document for pooling in Pooling):
        remedy = f"for example with {parameter('column', stored[0].name)}"
        fitting = ", ".join(known.name for known in stored)
        raise UsageError(
            f"{column} has a matrix for each document, and a map shows one vector; these fit: {fitting}", remedy=remedy
        )
    return find_column(stored, features.header.model.num_layers, column, task="search")


@dataclass(frozen=True, slots=True)
class _MapSample:
    """The documents of a feature set that are drawn, in row order."""

    vectors: NDArray[np.float32]  # [n, W]
    fields: Mapping[str, Sequence[Value]]  # by column, [n] each

    def __len__(self) -> int:
        return len(self.vectors)


def _sample_documents(features: FeatureSet, column: str, points: int, names: Sequence[str]) -> _MapSample:
    """At most ``points`` documents, evenly spread over the set, with the vectors of a document column.

    ``names`` are the columns whose values are read too; texts are cut.
    """
    count = len(features)
    numbers = np.arange(count) if count <= points else np.linspace(0, count - 1, points).astype(np.int64)
    vectors: list[NDArray[np.float32]] = []
    start = 0
    for part in features.batches(column, batch_rows=_BATCH):
        vectors.append(part.matrix[_places_in_batch(numbers, start, len(part.matrix))])
        start += len(part.matrix)
    fields: dict[str, list[Value]] = {name: [] for name in names}
    start = 0
    for batch in features.stream(names, batch_rows=_BATCH) if names else ():
        chosen = batch.take(_places_in_batch(numbers, start, len(batch)))
        for place, name in enumerate(names):
            values = chosen.column(place).to_pylist()
            fields[name].extend([text and text[:LONGEST] for text in values] if name in TEXTS else values)
        start += len(batch)
    return _MapSample(np.concatenate(vectors) if vectors else np.empty((0, 1), np.float32), fields)


def _places_in_batch(numbers: NDArray[np.int64], start: int, length: int) -> NDArray[np.int64]:
    """The places in a batch, which begins at document ``start``, of those documents of ``numbers`` that are in it."""
    return numbers[(numbers >= start) & (numbers < start + length)] - start


def _check_sample(features: FeatureSet, column: ReadableColumn, sample: _MapSample) -> None:
    if len(sample) < _FEWEST:
        problem = f"a map needs at least {_FEWEST} documents; there are {len(sample)}"
        raise UsageError(problem, where=features.folder)
    finite = np.isfinite(sample.vectors).all(axis=1)
    if not finite.all():
        row = sample.fields["row"][int(finite.argmin())]
        raise FeatureSetError(
            f"{column.name} of row {row} has values that are no finite numbers, and so have "
            f"{int((~finite).sum()):,} of {len(sample):,} rows",
            where=features.folder,
            remedy=f"extract again with {parameter('precision', 'fp32')} {parameter('dtype', 'float32')}",
        )


def _describe_map(
    features: FeatureSet, column: ReadableColumn, method: str, layout: PlaneLayout
) -> tuple[str, str, tuple[str, str]]:
    """The title, the note below it, and the names of the axes."""
    model = features.header.model.name.rstrip("/").rsplit("/", 1)[-1]
    title = f"{column.name} of {features.folder.resolve().name} ({model})"
    count, of = len(layout.flat), len(features)
    note = f"Each point is a document: {f'all {of:,}' if count == of else f'{count:,} of {of:,}'}. "
    name = METHOD_NAMES[method]
    if layout.shares is None:
        note += f"{name}: near points have similar vectors, far distances tell nothing."
        return title, note, (f"{name} 1", f"{name} 2")
    note += f"{name}, {layout.explained:.1%} of the variance kept."
    first, second = (f"component {at} ({share:.1%} of the variance)" for at, share in enumerate(layout.shares, 1))
    return title, note, (first, second)

"""Maps: the vectors of documents or spans as points in the plane, by PCA, t-SNE or UMAP, as a picture or as a page.

The same vectors give the same points every time.
"""

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertfeat.arguments import checked
from bertfeat.core import FeatureSet, Pooling, ReadableColumn, SpanReader, SpanRule, describe_vectors, find_column
from bertfeat.errors import MissingLibraryError, UsageError, parameter
from bertfeat.io import Address
from bertfeat.plots.clusters import LabelWords, beginning, find_clusters
from bertfeat.plots.figure import GivenAxes, picture_path
from bertfeat.plots.layouts import METHOD_NAMES, PlaneLayout, best_method, lay_out_vectors
from bertfeat.plots.map_content import DocumentMap, cluster_colors, decide_colors
from bertfeat.plots.map_page import PAGE, TEXTS, page_values, write_page
from bertfeat.plots.map_picture import draw_points
from bertfeat.plots.map_sample import FEWEST, MapSample, check_sample, sample_documents, sample_spans
from bertfeat.plots.palette import NAMED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_POINTS = 20_000


@checked
def draw_map(
    features: FeatureSet | str | Path | Address,
    path: str | Path | None = None,
    *,
    axes: GivenAxes | None = None,
    column: str | None = None,
    spans: str | None = None,
    color: str | None = None,
    method: str | None = None,
    clusters: int | None = None,
    points: int = MOST_POINTS,
    width: float | None = None,
    height: float | None = None,
) -> "Figure":
    """Draw the vectors of a document column as points, with clusters named by the words of their texts.

    ``column`` is by default the last layer, stored or derived, if exactly one pooling has it, else the only document
    column. With ``spans`` the points are sentences, paragraphs or runs of words, pooled from a column of tokens or
    words (:meth:`bertfeat.FeatureSet.spans`). ``method`` is ``"pca"``, ``"tsne"`` or ``"umap"``, by default t-SNE for
    up to 20,000 points and UMAP for more, or PCA where scikit-learn or umap-learn is missing. Points have the colors of
    a kept column ``color``, by default those of their clusters. There are at most ``clusters`` of them (k-means), by
    default 10 where scikit-learn is installed and the set has texts; the words of a name are those that at least three
    times as large a share of the cluster's texts has as of the others, with the highest G² (Dunning 1993). At most
    ``points`` of them are drawn, an even sample of all; colors of a column are decided from all. ``path``, ``axes``,
    sizes: see :mod:`bertfeat.plots`.

    Raises:
        FeatureSetError: vectors that are not finite.
        UsageError: no such column, form or method; too many different names for colors; fewer than three documents;
            more than 10 clusters, or clusters of a set without texts; a size that does not fit the texts.
        MissingLibraryError: matplotlib, scikit-learn (for t-SNE and clusters) or umap-learn (for UMAP) is not
            installed.
        StorageError: the file cannot be written.
    """
    path = None if path is None else picture_path(path)
    made = map_documents(
        features, column=column, spans=spans, color=color, method=method, clusters=clusters, points=points
    )
    return draw_points(made, path, axes, width, height)


@checked
def write_map_page(
    features: FeatureSet | str | Path | Address,
    path: str | Path,
    *,
    column: str | None = None,
    spans: str | None = None,
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
        features,
        column=column,
        spans=spans,
        color=color,
        method=method,
        clusters=clusters,
        points=points,
        with_texts=True,
    )
    write_page(made, path)
    return made


@checked
def map_documents(
    features: FeatureSet | str | Path | Address,
    *,
    column: str | None = None,
    spans: str | None = None,
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
    if points < FEWEST:
        raise UsageError(f"a map needs at least {FEWEST} points, not {points}")
    rule = SpanRule.of(spans)
    groups = _decide_clusters(features, clusters)
    coloring = decide_colors(features, color) if color is not None else None
    texts_of = [name for name in TEXTS if name in features.names and not (rule and name == "pair")]
    on_page = (*texts_of, *page_values(features)) if with_texts else ()
    of_words = texts_of if groups else []
    wanted = {"row", *([coloring.column] if coloring else []), *on_page, *of_words}
    if rule is None:
        source = _document_column(features, column)
        sample = sample_documents(features, source.name, points, sorted(wanted))
    else:
        source = SpanReader(features, rule, column).column
        sample = sample_spans(features, str(rule), source.name, points, sorted(wanted))
    contents = describe_vectors(source.name, rule)
    check_sample(features, contents, sample)
    method, layout = _lay_out_sample(sample.vectors, method)
    unit = "document" if rule is None else "span"
    title, note, axis_names = _describe_map(features, contents, unit, sample, method, layout)
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
        of=sample.of,
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


def _describe_map(
    features: FeatureSet, contents: str, unit: str, sample: MapSample, method: str, layout: PlaneLayout
) -> tuple[str, str, tuple[str, str]]:
    """The title, the note below it, and the names of the axes."""
    model = features.header.model.name.rstrip("/").rsplit("/", 1)[-1]
    title = f"{contents} of {features.folder.resolve().name} ({model})"
    count, of = len(sample), sample.of
    note = f"Each point is a {unit}: {f'all {of:,}' if count == of else f'{count:,} of {of:,}'}. "
    name = METHOD_NAMES[method]
    if layout.shares is None:
        note += f"{name}: near points have similar vectors, far distances tell nothing."
        return title, note, (f"{name} 1", f"{name} 2")
    note += f"{name}, {layout.explained:.1%} of the variance kept."
    first, second = (f"component {at} ({share:.1%} of the variance)" for at, share in enumerate(layout.shares, 1))
    return title, note, (first, second)

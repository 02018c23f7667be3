"""Maps: the vectors of a document column as points in the plane, as a picture or as a page."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bertfeat.arguments import checked
from bertfeat.errors import FeatureSetError, UsageError, parameter
from bertfeat.features import FeatureSet, ReadableColumn, find_column
from bertfeat.io import Address
from bertfeat.plots.coloring import decide_colors
from bertfeat.plots.figure import picture_path
from bertfeat.plots.map_content import DocumentMap
from bertfeat.plots.map_page import PAGE, page_fields, write_page
from bertfeat.plots.map_picture import draw_points
from bertfeat.plots.map_sample import MapSample, sample_documents
from bertfeat.plots.projection import METHOD_NAMES, METHODS, Projection
from bertfeat.plots.sheet import GivenAxes
from bertfeat.recipe import Pooling

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_POINTS = 20_000
_FEWEST = 3


@checked
def draw_map(
    features: FeatureSet | str | Path | Address,
    path: str | Path | None = None,
    *,
    axes: GivenAxes | None = None,
    column: str | None = None,
    color: str | None = None,
    method: str = "pca",
    points: int = MOST_POINTS,
    width: float | None = None,
    height: float | None = None,
) -> "Figure":
    """Draw the vectors of a document column as points, by PCA, t-SNE or UMAP, colored by a kept column.

    Without a ``column`` it is the last layer, stored or derived, where one pooling has it, else the only one. At most
    ``points`` documents are drawn, an even sample of all; their colors are decided from all. ``path``, ``axes`` and
    sizes: see :mod:`bertfeat.plots`.

    Raises:
        FeatureSetError: vectors that are not finite.
        UsageError: no such column, form or method; too many different names for colors; fewer than three documents; a
            size that does not fit the texts.
        MissingLibraryError: matplotlib, scikit-learn (for t-SNE) or umap-learn (for UMAP) is not installed.
        StorageError: the file cannot be written.
    """
    path = None if path is None else picture_path(path)
    made = map_documents(features, column=column, color=color, method=method, points=points)
    return draw_points(made, path, axes, width, height)


@checked
def write_map_page(
    features: FeatureSet | str | Path | Address,
    path: str | Path,
    *,
    column: str | None = None,
    color: str | None = None,
    method: str = "pca",
    points: int = MOST_POINTS,
) -> DocumentMap:
    """Write the map that :func:`draw_map` draws as a page: one HTML file that shows texts, zooms and searches.

    It needs no network, and no matplotlib.

    Raises:
        FeatureSetError, UsageError, MissingLibraryError, StorageError: see :func:`draw_map`.
    """
    path = picture_path(path, (PAGE,))
    made = map_documents(features, column=column, color=color, method=method, points=points, with_texts=True)
    write_page(made, path)
    return made


@checked
def map_documents(
    features: FeatureSet | str | Path | Address,
    *,
    column: str | None = None,
    color: str | None = None,
    method: str = "pca",
    points: int = MOST_POINTS,
    with_texts: bool = False,
) -> DocumentMap:
    """The points of a map and what they show, to be drawn by other means; ``with_texts``: their texts and values too.

    Raises:
        FeatureSetError, UsageError, MissingLibraryError: see :func:`draw_map`.
    """
    if method not in METHODS:
        raise UsageError(f"a map is drawn by {', '.join(METHODS)}, not by {method!r}")
    if points < _FEWEST:
        raise UsageError(f"a map needs at least {_FEWEST} points, not {points}")
    features = features if isinstance(features, FeatureSet) else FeatureSet(features)
    source = _document_column(features, column)
    coloring = decide_colors(features, color) if color is not None else None
    on_page = page_fields(features) if with_texts else ()
    sample = sample_documents(
        features, source.name, points, sorted({"row", *([coloring.column] if coloring else []), *on_page})
    )
    _check_sample(features, source, sample)
    projection = METHODS[method](sample.vectors)
    title, note, axis_names = _describe_map(features, source, method, projection)
    return DocumentMap(
        flat=projection.flat,
        title=title,
        note=note,
        axis_names=axis_names,
        coloring=coloring,
        values=None if coloring is None else sample.fields[coloring.column],
        fields={name: sample.fields[name] for name in on_page},
        of=len(features),
        explained=projection.explained,
    )


def _document_column(features: FeatureSet, column: str | None) -> ReadableColumn:
    """The column of that name or recipe among those of documents; without one, of the layers that search best."""
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


def _check_sample(features: FeatureSet, column: ReadableColumn, sample: MapSample) -> None:
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
    features: FeatureSet, column: ReadableColumn, method: str, projection: Projection
) -> tuple[str, str, tuple[str, str]]:
    """The title, the note below it, and the names of the axes."""
    model = features.header.model.name.rstrip("/").rsplit("/", 1)[-1]
    title = f"{column.name} of {features.folder.resolve().name} ({model})"
    count, of = len(projection.flat), len(features)
    note = f"Each point is a document: {f'all {of:,}' if count == of else f'{count:,} of {of:,}'}. "
    name = METHOD_NAMES[method]
    if projection.shares is None:
        note += f"{name}: near points have similar vectors, far distances tell nothing."
        return title, note, (f"{name} 1", f"{name} 2")
    note += f"{name}, {projection.explained:.1%} of the variance kept."
    first, second = (f"component {at} ({share:.1%} of the variance)" for at, share in enumerate(projection.shares, 1))
    return title, note, (first, second)

"""Maps: the vectors of a document column as points in the plane, as a picture or as a page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertfeat.arguments import checked
from bertfeat.corpus import Value
from bertfeat.errors import FeatureSetError, UsageError, parameter
from bertfeat.features import FeatureSet, ReadableColumn, find_column
from bertfeat.io import Address
from bertfeat.plots.coloring import decide_colors
from bertfeat.plots.figure import picture_path
from bertfeat.plots.map_content import DocumentMap
from bertfeat.plots.map_page import PAGE, page_fields, write_page
from bertfeat.plots.map_picture import draw_points
from bertfeat.plots.projection import METHOD_NAMES, METHODS, Projection
from bertfeat.plots.sheet import GivenAxes
from bertfeat.recipe import Pooling

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_POINTS = 20_000
_FEWEST = 3


_BATCH = 4096


@dataclass(frozen=True, slots=True)
class MapSample:
    """Documents of a feature set, in row order."""

    vectors: NDArray[np.float32]  # [n, W]
    fields: Mapping[str, Sequence[Value]]  # by column, [n] each

    def __len__(self) -> int:
        return len(self.vectors)


def sample_documents(features: FeatureSet, column: str, points: int, names: Sequence[str]) -> MapSample:
    """At most ``points`` documents, evenly spread over the set, with the vectors of a document column.

    ``names`` are the columns whose values are read too.
    """
    count = len(features)
    numbers = np.arange(count) if count <= points else np.linspace(0, count - 1, points).astype(np.int64)
    vectors: list[NDArray[np.float32]] = []
    sizes = (batch.matrix for batch in features.batches(column, batch_rows=_BATCH))
    start = 0
    for matrix in sizes:
        vectors.append(matrix[_places_in_batch(numbers, start, len(matrix))])
        start += len(matrix)
    fields: dict[str, list[Value]] = {name: [] for name in names}
    for name, values in _sampled_fields(features, names, numbers):
        fields[name].extend(values)
    return MapSample(np.concatenate(vectors) if vectors else np.empty((0, 1), np.float32), fields)


def _sampled_fields(
    features: FeatureSet, names: Sequence[str], numbers: NDArray[np.int64]
) -> Iterator[tuple[str, list[Value]]]:
    start = 0
    for batch in features.stream(names, batch_rows=_BATCH) if names else ():
        chosen = batch.take(_places_in_batch(numbers, start, len(batch)))
        for place, name in enumerate(names):
            yield name, chosen.column(place).to_pylist()
        start += len(batch)


def _places_in_batch(numbers: NDArray[np.int64], start: int, length: int) -> NDArray[np.int64]:
    """The places in a batch of the documents ``numbers`` that are in it."""
    return numbers[(numbers >= start) & (numbers < start + length)] - start


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

"""Maps: the vectors of a document column as points in the plane, by PCA, t-SNE or UMAP, as a picture or as a page.

The same vectors give the same points every time.
"""

import importlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertfeat.arguments import checked
from bertfeat.corpus import Value
from bertfeat.errors import FeatureSetError, UsageError, needed_library, parameter
from bertfeat.features import FeatureSet, ReadableColumn, find_column, find_principal_plane
from bertfeat.io import Address
from bertfeat.plots.figure import GivenAxes, picture_path
from bertfeat.plots.map_content import DocumentMap, decide_colors
from bertfeat.plots.map_page import PAGE, page_fields, write_page
from bertfeat.plots.map_picture import draw_points
from bertfeat.recipe import Pooling

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_POINTS = 20_000
_FEWEST = 3  # points of a map
_BATCH = 4096  # rows that are read at a time
_SEED = 4171  # of t-SNE and UMAP
_METHOD_NAMES: Mapping[str, str] = {"pca": "PCA", "tsne": "t-SNE", "umap": "UMAP"}


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

    ``column`` is by default the last layer, stored or derived, if exactly one pooling has it, else the only document
    column. At most ``points`` documents are drawn, an even sample of all; their colors are decided from all. ``path``,
    ``axes`` and sizes: see :mod:`bertfeat.plots`.

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
    sample = _sample_documents(
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

    ``names`` are the columns whose values are read too.
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
            fields[name].extend(chosen.column(place).to_pylist())
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


@dataclass(frozen=True, slots=True)
class _Projection:
    """Vectors laid out in the plane."""

    flat: NDArray[np.float64]  # [n, 2]
    shares: tuple[float, float] | None  # of the variance that each dimension keeps; only under PCA

    @property
    def explained(self) -> float | None:
        """Share of the variance that the two dimensions keep together."""
        return None if self.shares is None else sum(self.shares)


def _pca(vectors: NDArray[np.float32]) -> _Projection:
    """The two directions of most variance: ``[n, W]`` → ``[n, 2]``."""
    plane = find_principal_plane(vectors)
    return _Projection(plane.place(vectors).astype(np.float64), plane.shares)


def _tsne(vectors: NDArray[np.float32]) -> _Projection:
    """t-SNE by scikit-learn, initialized by the PCA."""
    with needed_library("t-SNE needs scikit-learn", "bertfeat[analysis]"):
        from sklearn.manifold import TSNE
    start = _start(vectors) * 1e-4  # small, as in van der Maaten and Hinton
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    flat = TSNE(init=start.astype(np.float32), perplexity=perplexity, random_state=_SEED).fit_transform(vectors)
    return _Projection(flat.astype(np.float64), None)


def _umap(vectors: NDArray[np.float32]) -> _Projection:
    """UMAP by umap-learn, initialized by the PCA."""
    with needed_library("UMAP needs umap-learn", "bertfeat[umap]"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ImportWarning)  # umap-learn warns that there is no TensorFlow
        library = importlib.import_module("umap")
    neighbors = min(15, len(vectors) - 1)
    # with a seed umap-learn uses one thread; without n_jobs=1 it warns of that
    reducer = library.UMAP(n_neighbors=neighbors, init=_start(vectors), random_state=_SEED, n_jobs=1)
    return _Projection(np.asarray(reducer.fit_transform(vectors), np.float64), None)


def _start(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """The layout from which t-SNE and UMAP begin: PCA, scaled to a standard deviation of 1 in the first dimension."""
    flat = _pca(vectors).flat
    spread = flat[:, 0].std()
    if not spread > 0:
        raise UsageError(f"all {len(vectors):,} vectors are equal: there are no neighbors to lay out")
    start: NDArray[np.float64] = flat / spread
    return start


METHODS: Mapping[str, Callable[[NDArray[np.float32]], _Projection]] = {"pca": _pca, "tsne": _tsne, "umap": _umap}


def _describe_map(
    features: FeatureSet, column: ReadableColumn, method: str, projection: _Projection
) -> tuple[str, str, tuple[str, str]]:
    """The title, the note below it, and the names of the axes."""
    model = features.header.model.name.rstrip("/").rsplit("/", 1)[-1]
    title = f"{column.name} of {features.folder.resolve().name} ({model})"
    count, of = len(projection.flat), len(features)
    note = f"Each point is a document: {f'all {of:,}' if count == of else f'{count:,} of {of:,}'}. "
    name = _METHOD_NAMES[method]
    if projection.shares is None:
        note += f"{name}: near points have similar vectors, far distances tell nothing."
        return title, note, (f"{name} 1", f"{name} 2")
    note += f"{name}, {projection.explained:.1%} of the variance kept."
    first, second = (f"component {at} ({share:.1%} of the variance)" for at, share in enumerate(projection.shares, 1))
    return title, note, (first, second)

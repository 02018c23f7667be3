"""From many dimensions to the two of a picture: PCA, t-SNE and UMAP, the same points every time."""

import importlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import UsageError, needed_library
from bertfeat.features import find_principal_plane

SEED = 4171


@dataclass(frozen=True, slots=True)
class Projection:
    """Vectors laid out in the plane."""

    flat: NDArray[np.float64]  # [n, 2]
    shares: tuple[float, float] | None  # of the variance, that each dimension keeps, under PCA

    @property
    def explained(self) -> float | None:
        """Share of the variance that the two dimensions keep together."""
        return None if self.shares is None else sum(self.shares)


def pca(vectors: NDArray[np.float32]) -> Projection:
    """The two directions of most variance: ``[n, W]`` → ``[n, 2]``."""
    plane = find_principal_plane(vectors)
    return Projection(plane.place(vectors).astype(np.float64), plane.shares)


def tsne(vectors: NDArray[np.float32]) -> Projection:
    """t-SNE by scikit-learn, initialized by the PCA."""
    with needed_library("t-SNE needs scikit-learn", "bertfeat[analysis]"):
        from sklearn.manifold import TSNE
    start = _start(vectors) * 1e-4  # small, as in van der Maaten and Hinton
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    flat = TSNE(init=start.astype(np.float32), perplexity=perplexity, random_state=SEED).fit_transform(vectors)
    return Projection(flat.astype(np.float64), None)


def umap(vectors: NDArray[np.float32]) -> Projection:
    """UMAP by umap-learn, initialized by the PCA."""
    with needed_library("UMAP needs umap-learn", "bertfeat[umap]"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ImportWarning)  # that there is no TensorFlow
        library = importlib.import_module("umap")
    neighbors = min(15, len(vectors) - 1)
    # a seed makes umap-learn use one thread; said here, or it warns
    reducer = library.UMAP(n_neighbors=neighbors, init=_start(vectors), random_state=SEED, n_jobs=1)
    return Projection(np.asarray(reducer.fit_transform(vectors), np.float64), None)


def _start(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """The PCA with a spread of one, where t-SNE and UMAP begin."""
    flat = pca(vectors).flat
    spread = flat[:, 0].std()
    if not spread > 0:
        raise UsageError(f"all {len(vectors):,} vectors are equal: there are no neighbors to lay out")
    start: NDArray[np.float64] = flat / spread
    return start


METHODS: Mapping[str, Callable[[NDArray[np.float32]], Projection]] = {"pca": pca, "tsne": tsne, "umap": umap}
METHOD_NAMES: Mapping[str, str] = {"pca": "PCA", "tsne": "t-SNE", "umap": "UMAP"}

"""Layouts: vectors as points in the plane, by PCA, t-SNE or UMAP.

The same vectors give the same points every time.

Shapes: n vectors, W values in each.
"""

import contextlib
import importlib.metadata
import io
import os
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray

from bertfeat.errors import BertfeatError, StorageError, UsageError, needed_library, parameter
from bertfeat.io import output_file, storage_errors, user_cache_folder
from bertfeat.search import find_principal_components

METHOD_NAMES: Mapping[str, str] = {"pca": "PCA", "tsne": "t-SNE", "umap": "UMAP"}
_LIBRARIES = {"tsne": "scikit-learn", "umap": "umap-learn"}
_MOST_OF_TSNE = 20_000  # points
_LENGTH = 8  # bytes of the length of what another process is given
_VERSION = 1  # of kept layouts: the seed, and the parameters of the methods
_SEED = 4171  # of t-SNE and UMAP


@dataclass(frozen=True, slots=True)
class PlaneLayout:
    """Vectors laid out in the plane."""

    flat: NDArray[np.float32]  # [n, 2]
    shares: tuple[float, ...] | None  # [2] of the variance that each dimension keeps; only under PCA

    @property
    def explained(self) -> float | None:
        """Share of the variance that the two dimensions keep together."""
        return None if self.shares is None else sum(self.shares)


def best_method(points: int) -> str:
    """The installed method that shows the most of so many points, in at most two minutes on two cores.

    That is t-SNE for up to 20,000 points, UMAP for more, and PCA where their libraries are missing.
    """
    if points <= _MOST_OF_TSNE and _installed_version("tsne"):
        return "tsne"
    return "umap" if _installed_version("umap") else "pca"


def lay_out_vectors(vectors: NDArray[np.float32], method: str) -> PlaneLayout:
    """Lay vectors ``[n, W]`` out by one of :data:`METHOD_NAMES`.

    Raises:
        UsageError: all vectors are equal, and the method is not PCA.
        MissingLibraryError: scikit-learn (for t-SNE) or umap-learn (for UMAP) is not installed.
    """
    if method == "pca":
        components = find_principal_components(vectors)
        return PlaneLayout(components.place(vectors), components.shares)
    return PlaneLayout(_kept(vectors, method, lambda: _lay_out_by_neighbors(vectors, method)), None)


def _lay_out_by_neighbors(vectors: NDArray[np.float32], method: str) -> NDArray[np.floating]:
    return {"tsne": _tsne, "umap": _umap}[method](vectors)


def _tsne(vectors: NDArray[np.float32]) -> NDArray[np.floating]:
    """t-SNE by scikit-learn, initialized by the PCA."""
    with needed_library("t-SNE needs scikit-learn", "bertfeat[analysis]"):
        from sklearn.manifold import TSNE
    start = _start(vectors) * 1e-4  # small, as in van der Maaten and Hinton
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    reducer = TSNE(init=start.astype(np.float32), perplexity=perplexity, random_state=_SEED)
    flat: NDArray[np.floating] = reducer.fit_transform(vectors)
    return flat


def _umap(vectors: NDArray[np.float32]) -> NDArray[np.floating]:
    """UMAP by umap-learn, initialized by the PCA."""
    with needed_library("UMAP needs umap-learn", "bertfeat[umap]"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ImportWarning)  # umap-learn warns that there is no TensorFlow
        library = importlib.import_module("umap")
    neighbors = min(15, len(vectors) - 1)
    # with a seed umap-learn uses one thread; without n_jobs=1 it warns of that
    reducer = library.UMAP(n_neighbors=neighbors, init=_start(vectors), random_state=_SEED, n_jobs=1)
    return np.asarray(reducer.fit_transform(vectors))


def _start(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """The layout from which t-SNE and UMAP begin: PCA, scaled to a standard deviation of 1 in the first dimension."""
    flat = lay_out_vectors(vectors, "pca").flat.astype(np.float64)
    spread = flat[:, 0].std()
    if not spread > 0:
        problem = f"all {len(vectors):,} vectors are equal: there are no neighbors to lay out"
        raise UsageError(problem, remedy=f"draw them with {parameter('method', 'pca')}")
    start: NDArray[np.float64] = flat / spread
    return start


# ── kept ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _kept(vectors: NDArray[np.float32], method: str, make: Callable[[], NDArray[np.floating]]) -> NDArray[np.float32]:
    """The layout that the user's cache has, by a digest of the vectors; else ``make`` it, and keep it there."""
    path = user_cache_folder("maps") / f"{_cache_key(vectors, method)}.npy"
    if (known := _read_kept(path, len(vectors))) is not None:
        return known
    flat = make().astype(np.float32)
    with contextlib.suppress(StorageError):  # a cache that cannot be written costs the next map its time
        with storage_errors(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        with output_file(path) as temporary, temporary.open("wb") as file:
            np.save(file, flat)
    return flat


def _cache_key(vectors: NDArray[np.float32], method: str) -> str:
    """XXH3 (128 bits) of vectors, the method, and the version of its library."""
    digest = xxhash.xxh3_128(vectors.tobytes())
    digest.update(f"{vectors.shape} {method} {_installed_version(method)} {_VERSION}".encode())
    return digest.hexdigest()


def _read_kept(path: Path, count: int) -> NDArray[np.float32] | None:
    """The layout in a file; None where there is none, or not a whole one."""
    try:
        flat = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    fits = flat.shape == (count, 2) and flat.dtype == np.float32 and np.isfinite(flat).all()
    return flat if fits else None


def _installed_version(method: str) -> str:
    """The version of a method's library; empty where it is not installed, even if files of it are left."""
    try:
        return importlib.metadata.version(_LIBRARIES[method])
    except importlib.metadata.PackageNotFoundError:
        return ""


# ── in a process of its own ────────────────────────────────────────────────────────────────────────────────────


def lay_out_apart(vectors: NDArray[np.float32], method: str) -> NDArray[np.float32]:
    """Lay vectors out as :func:`lay_out_vectors` does, in another process, so that this one goes on answering.

    Returns the places, ``[n, 2]``.

    Raises:
        BertfeatError: the other process failed.
    """
    return _kept(vectors, method, lambda: _run_apart(vectors, method))


def _run_apart(vectors: NDArray[np.float32], method: str) -> NDArray[np.float32]:
    script = f"from {__name__} import answer; answer({method!r})"
    # -P: a file umap.py in the working directory is not the library
    command = [sys.executable, "-P", "-c", script]
    pipe = subprocess.PIPE
    with tempfile.TemporaryFile() as log, subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # of a process that ended, which its log explains
            given = io.BytesIO()
            np.save(given, vectors)
            child.stdin.write(given.tell().to_bytes(_LENGTH) + given.getvalue())
            child.stdin.flush()
        made = child.stdout.read()  # its input stays open meanwhile: it ends with us
        if child.wait():
            log.seek(0)
            last = log.read().decode(errors="replace").strip().rpartition("\n")[2] or f"exit code {child.returncode}"
            raise BertfeatError(f"the layout by {METHOD_NAMES[method]} failed: {last.rpartition('Error: ')[2]}")
    flat: NDArray[np.float32] = np.load(io.BytesIO(made))
    return flat


def answer(method: str) -> None:
    """Lay out the vectors of standard input, a NumPy file after its length, and write the places to standard output.

    The process gives way to others, and ends when its input does, as it does with the process that asked.
    """
    if hasattr(os, "nice"):
        os.nice(10)
    length = int.from_bytes(sys.stdin.buffer.read(_LENGTH))
    vectors = np.load(io.BytesIO(sys.stdin.buffer.read(length)))
    threading.Thread(target=_end_with_input, daemon=True).start()
    np.save(sys.stdout.buffer, _lay_out_by_neighbors(vectors, method))


def _end_with_input() -> None:
    os.read(sys.stdin.fileno(), 1)  # not through the buffer, whose lock would keep the interpreter from ending
    os._exit(1)

"""Small feature sets made of given vectors, and NumPy's own idea of their neighbors."""

import itertools
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from bertfeat.core.corpus import KeptColumn, Value
from bertfeat.core.features import (
    FORMAT_VERSION,
    Counts,
    FeatureSettings,
    ModelIdentity,
    PartContent,
    PartHeader,
    content_table,
    write_manifest,
    write_part,
)
from bertfeat.core.grammar import feature_columns
from bertfeat.core.recipe import Pooling
from bertfeat.io import Location, Place
from bertfeat.search import VectorIndex, read_index_settings

LAYERS = 4


def clustered(count: int, width: int = 16, *, clusters: int = 12, seed: int = 0) -> NDArray[np.float32]:
    """Vectors of very different lengths around some centers, as embeddings lie."""
    random = np.random.default_rng(seed)
    centers = random.standard_normal((clusters, width)) * 2
    vectors = centers[random.integers(clusters, size=count)] + random.standard_normal((count, width))
    return (vectors * random.uniform(0.3, 3.0, (count, 1))).astype(np.float32)


def vector_set(
    folder: Place,
    vectors: NDArray[np.float32],
    *,
    ids: Sequence[str] | None = None,
    kept: Mapping[KeptColumn, Sequence[Value]] | None = None,
    text: bool | Sequence[str] = True,
    fingerprint: str = "f" * 64,
    parts: int = 2,
) -> Place:
    """A finished feature set whose column ``last_mean`` holds the vectors; equal ones are of equal texts."""
    if isinstance(folder, Path):
        folder.mkdir(parents=True, exist_ok=True)
    edges = np.linspace(0, len(vectors), parts + 1).astype(int)
    for number, (first, last) in enumerate(itertools.pairwise(edges)):
        rows = np.arange(first, last)
        listed = ids[first:last] if ids is not None else [str(row + 1) for row in rows]
        chosen = {column: values[first:last] for column, values in (kept or {}).items()}
        texts = [f"text of {each}" for each in listed] if isinstance(text, bool) else text[first:last]
        content = _content(vectors[first:last], rows, listed, chosen, texts if text else None)
        header = _header(number, int(first), int(last), vectors.shape[1], fingerprint)
        write_part(folder, header, content_table(content, header.columns))
    write_manifest(folder)
    return folder


def neighbors(
    vectors: NDArray[np.float32], queries: NDArray[np.float32], metric: str
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Every score ``[Q, n]`` in float64, best first, and whose it is."""
    stored, asked = vectors.astype(np.float64), queries.astype(np.float64)
    if metric == "l2":
        scores = cdist(asked, stored)
        order = np.argsort(scores, axis=1, kind="stable")
    else:
        if metric == "cosine":
            stored, asked = _unit(stored), _unit(asked)
        scores = asked @ stored.T
        order = np.argsort(-scores, axis=1, kind="stable")
    return np.take_along_axis(scores, order, 1), order


def power_of(transform: str) -> float:
    """The power of the variances in a whitening of that name."""
    return {"whiten": -0.5, "half-whiten": -0.25}[transform.partition(":")[0]]


def whitened(transform: str, of: NDArray[np.float32], by: NDArray[np.float32]) -> NDArray[np.float64]:
    """Vectors whitened by the mean and covariance of others: Su et al.'s algorithm 1, by NumPy's SVD."""
    centerd = by.astype(np.float64) - by.mean(axis=0, dtype=np.float64)
    axes, variances, _ = np.linalg.svd(centerd.T @ centerd / len(by))
    kept = int(transform.partition(":")[2] or len(variances))
    made: NDArray[np.float64] = (of - by.mean(axis=0, dtype=np.float64)) @ axes[:, :kept]
    return made * variances[:kept] ** power_of(transform)


def _unit(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    length = np.linalg.norm(matrix, axis=1, keepdims=True)
    return matrix / np.where(length > 0, length, 1)


def _header(number: int, first: int, last: int, width: int, fingerprint: str) -> PartHeader:
    settings = FeatureSettings(model=fingerprint)
    columns = feature_columns("last", [Pooling.MEAN], num_layers=LAYERS, hidden_size=width, dtype="float32")
    return PartHeader(
        format_version=FORMAT_VERSION,
        settings=settings,
        fingerprint=settings.fingerprint,
        number=number,
        first_row=first,
        last_row=last,
        digest=f"digest of part {number}",
        sketch=("aa",),
        blank=0,
        failures=(),
        model=ModelIdentity("toy/model", fingerprint, None, LAYERS, width),
        columns=columns,
        sources=("corpus.txt",),
        counts=Counts(documents=last - first),
        split_batches=0,
    )


def _content(
    vectors: NDArray[np.float32],
    rows: NDArray[np.int64],
    ids: Sequence[str],
    kept: Mapping[KeptColumn, Sequence[Value]],
    texts: Sequence[str] | None,
) -> PartContent:
    nothing = np.zeros(len(rows), np.int32)
    return PartContent(
        rows=rows,
        ids=ids,
        texts=texts,
        digests=None if texts is None else [blake2b(each, digest_size=16).hexdigest() for each in vectors],
        pairs=None,
        kept=kept,
        n_tokens=nothing + 3,
        n_unk=nothing,
        n_truncated=nothing,
        vectors={"last_mean": vectors},
        tokens=None,
        words=None,
        tags=None,
    )


RECORD = ".bertfeat/index.json"  # settings, provenance, and which version is the current one


def version_of(folder: Path) -> Path:
    """The folder with the files of an index: that of its current version."""
    return folder / read_index_settings(folder).version


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file of an index, by its path inside it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def current_files(folder: Path) -> dict[str, bytes]:
    """The files of the current version of an index, whatever its number, without its record, in which times stand."""
    return files_of(version_of(folder))


def ids_of(folder: Location) -> set[str]:
    """The ids of the living documents of an index, each of which is found by its own vector alone."""
    index = VectorIndex(folder)
    every = [name for batch in index.documents.batches(["id"]) for name in batch.column("id").to_pylist()]
    return {name for row, name in enumerate(every) if index.removed is None or not index.removed[row]}

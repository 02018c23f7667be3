"""FAISS as bertfeat uses it: make, train, fill, write, open, and how a kind of index is searched.

Everything that depends on the class of a FAISS index is here. Shapes: n vectors, Q queries, K hits, W values.
"""

import ctypes
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import IndexFolderError, UsageError
from bertfeat.index.library import explain, faiss
from bertfeat.index.metric import Metric

REFINED_FROM = 4  # an index that re-ranks with finer codes looks at this many times k
LISTS_NAME = "index.lists"  # inverted lists that pass the memory, beside the index
EMPTY = -1  # FAISS's label for a place without a hit
_SCAN_ROWS = 16384


def create(factory: str, width: int, metric: Metric) -> Any:
    """An empty FAISS index.

    Raises:
        UsageError: FAISS does not know the description, or it does not fit the width or metric.
    """
    try:
        index = faiss.index_factory(width, factory, metric.faiss_metric)
    except RuntimeError as error:
        raise UsageError(
            f"FAISS cannot make {factory!r} for vectors of {width} values and {metric}: {explain(error)}; "
            f"choose auto, flat, hnsw, ivf, ivfpq, sq8 or another FAISS factory string"
        ) from error
    for part in _layers(index):
        if isinstance(part, faiss.IndexRefine):
            part.k_factor = REFINED_FROM
        for clustering in (getattr(part, "cp", None), getattr(getattr(part, "pq", None), "cp", None)):
            if clustering is not None:
                clustering.min_points_per_centroid = 1  # else FAISS talks on stderr; choose() saw to it
    return index


def train(index: Any, sample: NDArray[np.float32], clusters: int) -> None:
    """Train on a sample ``[n, W]``.

    Raises:
        UsageError: fewer vectors than the index needs.
    """
    if index.is_trained:
        return
    if len(sample) < clusters:
        raise UsageError(
            f"{len(sample):,} vectors cannot be divided into {clusters:,} clusters; choose flat, or ivf, which "
            f"takes as many clusters as fit"
        )
    try:
        index.train(sample)
    except RuntimeError as error:
        raise UsageError(
            f"this type of index cannot be trained on {len(sample):,} vectors: {explain(error)}; choose flat or sq8"
        ) from error


def reserve(index: Any, count: int) -> None:
    """Make room for ``count`` vectors where they are stored in one piece, which else is copied whenever it grows."""
    plain = faiss.downcast_index(index)
    if isinstance(plain, faiss.IndexHNSW):
        plain = faiss.downcast_index(plain.storage)
    if isinstance(plain, faiss.IndexFlatCodes):
        plain.codes.resize(plain.code_size * count)
        plain.codes.resize(0)


def give_back_memory() -> None:
    """Give the operating system what growing inverted lists left behind: a third of their size, where it is glibc."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def write(index: Any, path: Path) -> None:
    """Write an index.

    Raises:
        IndexFolderError: the disk is full, or the folder cannot be written.
    """
    try:
        faiss.write_index(index, str(path))
    except RuntimeError as error:
        raise IndexFolderError(f"{path} cannot be written: {explain(error)}; is the disk full?") from error


def read(path: Path, *, mapped: bool = True) -> Any:
    """Open an index, mapped into memory unless it is to be changed.

    Raises:
        IndexFolderError: FAISS cannot read the file.
    """
    if path.with_name(LISTS_NAME).exists():
        flags = faiss.IO_FLAG_ONDISK_SAME_DIR | faiss.IO_FLAG_READ_ONLY  # the lists are mapped in any case
    else:
        # newer: maps every type and is searched as fast as memory; older: maps inverted lists only
        flags = getattr(faiss, "IO_FLAG_MMAP_IFC", faiss.IO_FLAG_MMAP) if mapped else 0
    try:
        return faiss.read_index(str(path), flags)
    except RuntimeError as error:
        raise IndexFolderError(
            f"{path}: FAISS cannot read this file ({explain(error)}); build the index again"
        ) from error


def effort_name(index: Any) -> str | None:
    """What can be tuned: ``nprobe`` of inverted lists, ``efSearch`` of a graph, or nothing."""
    if _inverted(index) is not None:
        return "nprobe"
    return "efSearch" if any(isinstance(part, faiss.IndexHNSW) for part in _layers(index)) else None


def most_effort(index: Any) -> int:
    """The largest sensible effort: all lists, or a graph search as wide as a few thousand candidates."""
    inverted = _inverted(index)
    return int(inverted.nlist) if inverted is not None else min(int(index.ntotal), 4096)


def set_effort(index: Any, effort: int) -> None:
    """Set the effort with which FAISS searches when nothing else is said."""
    for part in _layers(index):
        if isinstance(part, faiss.IndexIVF):
            part.nprobe = effort
        elif isinstance(part, faiss.IndexHNSW):
            part.hnsw.efSearch = effort


def threads() -> int:
    """How many threads FAISS works with."""
    return int(faiss.omp_get_max_threads())


def can_remove(index: Any) -> bool:
    """Whether vectors can be taken out; other types keep tombstones."""
    inner = faiss.downcast_index(index.index) if isinstance(index, faiss.IndexPreTransform) else index
    if isinstance(inner, faiss.IndexIVF):
        return isinstance(faiss.downcast_InvertedLists(inner.invlists), faiss.ArrayInvertedLists)
    return isinstance(inner, faiss.IndexFlatCodes) and not hasattr(inner, "bbs")


def lists_on_disk(index: Any) -> bool:
    """Whether the inverted lists are in a file of their own."""
    inverted = _inverted(index)
    if inverted is None:
        return False
    return isinstance(faiss.downcast_InvertedLists(inverted.invlists), faiss.OnDiskInvertedLists)


def remove(index: Any, removed: NDArray[np.bool_]) -> None:
    """Take vectors out (``[n]`` says which); the others close ranks, so that numbers go on from 0 to their count."""
    index.remove_ids(selector(removed))
    inverted = _inverted(index)
    if inverted is None:
        return  # flat codes close ranks by themselves
    number = np.cumsum(~removed) - 1
    lists = faiss.downcast_InvertedLists(inverted.invlists)
    for each in range(inverted.nlist):
        ids = faiss.rev_swig_ptr(lists.get_ids(each), lists.list_size(each))
        ids[:] = number[ids]


def selector(selected: NDArray[np.bool_]) -> Any:
    """A FAISS selector of the vectors for which ``selected [n]`` is true."""
    return faiss.IDSelectorBitmap(np.packbits(selected, bitorder="little"))


def search(
    index: Any, queries: NDArray[np.float32], k: int, effort: int | None, selected: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """FAISS's own search among all or some vectors: what it computes ``[Q, K]``, and their numbers or ``EMPTY``."""
    chosen = None if selected is None else selector(selected)
    parameters = _parameters(index, effort, chosen)
    try:
        scores, numbers = index.search(queries, k, params=parameters) if parameters else index.search(queries, k)
        return scores, numbers
    except RuntimeError:
        if selected is None:
            raise
        return scan(index, queries, k, selected)  # this type knows no selectors


def scan(
    index: Any, queries: NDArray[np.float32], k: int, selected: NDArray[np.bool_] | None
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Compare queries with every (selected) vector as the index stores it; shapes as in :func:`search`."""
    index = faiss.downcast_index(index)
    chosen = None if selected is None else selector(selected)
    inverted = _inverted(index)
    if inverted is not None and not isinstance(index, faiss.IndexRefine):
        return index.search(queries, k, params=_parameters(index, int(inverted.nlist), chosen))  # type: ignore[no-any-return]
    if (flat := flat_storage(index)) is not None:
        return flat.search(queries, k, params=_parameters(flat, None, chosen))  # type: ignore[no-any-return]
    return _scan_rows(index, queries, k, selected)


def flat_storage(index: Any) -> Any | None:
    """The whole vectors of an index, as a flat index of FAISS, where it has them in order."""
    index = faiss.downcast_index(index)
    if isinstance(index, faiss.IndexHNSW):
        index = faiss.downcast_index(index.storage)
    return index if isinstance(index, faiss.IndexFlat) else None


def reconstruct(index: Any, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
    """The vectors of those numbers as the index stores them, ``[n, W]``."""
    inverted = _inverted(index)
    if inverted is not None and inverted.direct_map.type == faiss.DirectMap.NoMap:
        inverted.make_direct_map()  # which list holds which vector: 8 bytes a vector
    out: NDArray[np.float32] = index.reconstruct_batch(np.ascontiguousarray(numbers, np.int64))
    return out


def merge(
    found: list[tuple[NDArray[np.float32], NDArray[np.int64]]], k: int, metric: Metric
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The best k of several results for the same queries; the best first, ties by number."""
    scores = np.concatenate([each for each, _ in found], axis=1)
    numbers = np.concatenate([each for _, each in found], axis=1)
    order = np.lexsort((numbers, -metric.nearness(scores)), axis=1)[:, :k]
    return np.take_along_axis(scores, order, 1), np.take_along_axis(numbers, order, 1)


def metric_of(index: Any) -> Metric:
    """What FAISS computes in this index; cosine is its inner product."""
    return Metric.L2 if index.metric_type == faiss.METRIC_L2 else Metric.IP


def gpus() -> int:
    """How many GPUs FAISS can work on; none where it was built without."""
    return int(faiss.get_num_gpus()) if hasattr(faiss, "StandardGpuResources") else 0


def to_device(index: Any, device: str | None) -> Any:
    """The index on a GPU (``cuda``, ``cuda:1``), or as it is.

    Raises:
        UsageError: there is no GPU, or FAISS was built without.
    """
    if device in (None, "cpu"):
        return index
    number = int(str(device).partition(":")[2] or 0)
    if number >= gpus():
        raise UsageError(
            f"--device {device}: FAISS sees {gpus()} GPUs; install faiss-gpu instead of faiss-cpu, or use cpu"
        )
    return faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), number, index)


def from_device(index: Any) -> Any:
    """The index back from a GPU, as it can be written."""
    on_gpu = hasattr(faiss, "GpuIndex") and isinstance(index, faiss.GpuIndex)
    return faiss.index_gpu_to_cpu(index) if on_gpu else index


def _layers(index: Any) -> list[Any]:
    """An index and those inside it, each as its own class."""
    found = [faiss.downcast_index(index)]
    for name in ("index", "base_index", "storage"):
        inner = getattr(found[0], name, None)
        if inner is not None:
            found += _layers(inner)
    return found


def _inverted(index: Any) -> Any | None:
    return next((part for part in _layers(index) if isinstance(part, faiss.IndexIVF)), None)


def _parameters(index: Any, effort: int | None, chosen: Any | None) -> Any | None:
    """FAISS's search parameters for this class of index; None where its own will do."""
    if effort is None and chosen is None:
        return None
    index = faiss.downcast_index(index)
    given = {} if chosen is None else {"sel": chosen}
    if isinstance(index, faiss.IndexPreTransform):
        return faiss.SearchParametersPreTransform(index_params=_parameters(index.index, effort, chosen))
    if isinstance(index, faiss.IndexRefine):
        inner = _parameters(index.base_index, effort, chosen)
        return faiss.IndexRefineSearchParameters(k_factor=REFINED_FROM, base_index_params=inner)
    make: Callable[..., Any] = faiss.SearchParameters
    if isinstance(index, faiss.IndexIVF):
        make, given = faiss.SearchParametersIVF, {**given, "nprobe": effort or index.nprobe}
    elif isinstance(index, faiss.IndexHNSW):
        make, given = faiss.SearchParametersHNSW, {**given, "efSearch": effort or index.hnsw.efSearch}
    return make(**given)


def _scan_rows(
    index: Any, queries: NDArray[np.float32], k: int, selected: NDArray[np.bool_] | None
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    metric = metric_of(index)
    numbers = np.arange(index.ntotal) if selected is None else np.flatnonzero(selected)
    worst = np.full((len(queries), k), metric.worst, np.float32)
    best = (worst, np.full((len(queries), k), EMPTY, np.int64))
    for start in range(0, len(numbers), _SCAN_ROWS):
        part = numbers[start : start + _SCAN_ROWS]
        vectors = reconstruct(index, part)
        scores, places = faiss.knn(queries, vectors, min(k, len(part)), metric.faiss_metric)
        best = merge([best, (scores, part[places])], k, metric)
    return best

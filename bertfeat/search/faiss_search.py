"""How FAISS is asked: its own search, an exact scan, selectors, vectors given back; for every class of index.

Shapes: n vectors, Q queries, K hits, W values.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import IndexFolderError
from bertfeat.search.faiss_import import faiss, faiss_errors, faiss_message
from bertfeat.search.faiss_index import REFINED_FROM, flat_storage, inverted_index, make_selector, search_parameter_name
from bertfeat.search.faiss_transforms import transform_of
from bertfeat.search.metric import Metric

EMPTY = -1  # FAISS's label for a place without a hit
_SCAN_ROWS = 16384


def search_faiss(
    index: Any, queries: NDArray[np.float32], k: int, effort: int | None, selected: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """FAISS's own search among all or some vectors: what it computes ``[Q, K]``, and their numbers or ``EMPTY``."""
    chosen = None if selected is None else make_selector(selected)
    parameters = _parameters(index, effort, chosen)
    try:
        scores, numbers = index.search(queries, k, params=parameters) if parameters else index.search(queries, k)
        return scores, numbers
    except (RuntimeError, MemoryError) as error:
        if selected is None or isinstance(error, MemoryError):
            raise IndexFolderError(
                f"FAISS cannot search this index: {faiss_message(error)}; ask for fewer hits, or choose another type"
            ) from error
        return scan_all_vectors(index, queries, k, selected)  # this type knows no selectors


def scan_all_vectors(
    index: Any, queries: NDArray[np.float32], k: int, selected: NDArray[np.bool_] | None
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Compare queries with every (selected) vector as the index stores it; shapes as in :func:`search`."""
    index = faiss.downcast_index(index)
    if (transform := transform_of(index)) is not None:
        return scan_all_vectors(index.index, transform(queries), k, selected)
    chosen = None if selected is None else make_selector(selected)
    inverted = inverted_index(index)
    if inverted is not None and not isinstance(index, faiss.IndexRefine):
        try:
            return index.search(queries, k, params=_parameters(index, int(inverted.nlist), chosen))  # type: ignore[no-any-return]
        except RuntimeError:
            return _scan_rows(index, queries, k, selected)  # this type knows no selectors
    if (flat := flat_storage(index)) is not None:
        return flat.search(queries, k, params=_parameters(flat, None, chosen))  # type: ignore[no-any-return]
    return _scan_rows(index, queries, k, selected)


def reconstruct_vectors(index: Any, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
    """The vectors of those numbers as the index stores them, ``[n, W]``.

    Raises:
        IndexFolderError: this class of index cannot tell.
    """
    problem, remedy = "this type of index cannot give its vectors back", "build it of another type"
    if isinstance(holder := _holder(index), faiss.IndexIVFFastScan):
        raise IndexFolderError(f"{problem}; {remedy}")  # FAISS would crash: what it needs is not in the file
    with faiss_errors(IndexFolderError, problem, remedy):
        inverted = inverted_index(holder)
        if inverted is not None and inverted.direct_map.type == faiss.DirectMap.NoMap:
            inverted.make_direct_map()  # which list holds which vector: 8 bytes a vector
        out: NDArray[np.float32] = index.reconstruct_batch(np.ascontiguousarray(numbers, np.int64))
        return out


def merge_neighbours(
    found: list[tuple[NDArray[np.float32], NDArray[np.int64]]], k: int, metric: Metric
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The best k of several results for the same queries; the best first, ties by number."""
    scores = np.concatenate([each for each, _ in found], axis=1)
    numbers = np.concatenate([each for _, each in found], axis=1)
    order = np.lexsort((numbers, -metric.nearness(scores)), axis=1)[:, :k]
    return np.take_along_axis(scores, order, 1), np.take_along_axis(numbers, order, 1)


def _holder(index: Any) -> Any:
    """The part of an index that stores the vectors that it gives back."""
    index = faiss.downcast_index(index)
    if isinstance(index, faiss.IndexRefine):
        return _holder(index.refine_index)
    return _holder(index.index) if isinstance(index, faiss.IndexPreTransform) else index


def _metric_of(index: Any) -> Metric:
    """What FAISS computes in this index; cosine is its inner product."""
    return Metric.L2 if index.metric_type == faiss.METRIC_L2 else Metric.IP


def _parameters(index: Any, effort: int | None, chosen: Any | None) -> Any | None:
    """FAISS's search parameters for this class of index; None where its own will do."""
    index = faiss.downcast_index(index)
    if chosen is None and (effort is None or search_parameter_name(index) is None):
        return None
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
    metric = _metric_of(index)
    numbers = np.arange(index.ntotal) if selected is None else np.flatnonzero(selected)
    worst = np.full((len(queries), k), metric.worst, np.float32)
    best = (worst, np.full((len(queries), k), EMPTY, np.int64))
    for start in range(0, len(numbers), _SCAN_ROWS):
        part = numbers[start : start + _SCAN_ROWS]
        vectors = reconstruct_vectors(index, part)
        scores, places = faiss.knn(queries, vectors, min(k, len(part)), metric.faiss_metric)
        best = merge_neighbours([best, (scores, part[places])], k, metric)
    return best

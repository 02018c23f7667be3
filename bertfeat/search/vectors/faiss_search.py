"""Searches in a FAISS index of any class: by FAISS's own search or by an exact scan, and access to the stored vectors.

Shapes: n vectors, Q queries, K hits, W values.
"""

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import IndexFolderError
from bertfeat.search.vectors.faiss_import import FaissIndex, Scored, faiss, faiss_errors, faiss_message
from bertfeat.search.vectors.faiss_index import (
    REFINED_FROM,
    flat_storage,
    inverted_index,
    make_selector,
    search_parameter_name,
)
from bertfeat.search.vectors.faiss_transforms import index_transform
from bertfeat.search.vectors.metric import Metric

EMPTY = -1  # FAISS's label for a place without a hit
_SCAN_ROWS = 16384  # stored vectors that are compared at once


def search_faiss(
    index: FaissIndex,
    queries: NDArray[np.float32],
    k: int,
    search_parameter: int | None,
    selected: NDArray[np.bool_] | None = None,
) -> Scored:
    """Search all or the ``selected [n]`` vectors with FAISS's own search.

    Returns the values that FAISS computes, ``[Q, K]`` (squared distances under L2), and the numbers of the vectors,
    ``EMPTY`` for missing hits.
    """
    selector = None if selected is None else make_selector(selected)
    parameters = _search_parameters(index, search_parameter, selector)
    try:
        return index.search(queries, k, params=parameters) if parameters else index.search(queries, k)
    except (RuntimeError, MemoryError) as error:
        if selected is None or isinstance(error, MemoryError):
            raise IndexFolderError(
                f"FAISS cannot search this index: {faiss_message(error)}",
                remedy="ask for fewer hits, or choose another type",
            ) from error
        return scan_all_vectors(index, queries, k, selected)  # this type does not support selectors


def scan_all_vectors(
    index: FaissIndex, queries: NDArray[np.float32], k: int, selected: NDArray[np.bool_] | None
) -> Scored:
    """Compare queries with every (selected) vector as the index stores it; shapes as in :func:`search_faiss`."""
    plain = faiss.downcast_index(index)
    if (transform := index_transform(plain)) is not None:
        return scan_all_vectors(plain.index, transform(queries), k, selected)
    selector = None if selected is None else make_selector(selected)
    inverted = inverted_index(plain)
    if inverted is not None and not isinstance(plain, faiss.IndexRefine):
        try:
            scored: Scored = plain.search(queries, k, params=_search_parameters(plain, int(inverted.nlist), selector))
            return scored
        except RuntimeError:
            return _scan_blocks(plain, queries, k, selected)  # this type does not support selectors
    if (flat := flat_storage(plain)) is not None:
        return flat.search(queries, k, params=_search_parameters(flat, None, selector))
    return _scan_blocks(plain, queries, k, selected)


def reconstruct_vectors(index: FaissIndex, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
    """The vectors of those numbers as the index stores them, ``[n, W]``.

    Raises:
        IndexFolderError: the class of the index cannot give its vectors back.
    """
    problem, remedy = "this type of index cannot give its vectors back", "build it of another type"
    if isinstance(holder := _storing_part(index), faiss.IndexIVFFastScan):
        raise IndexFolderError(problem, remedy=remedy)  # FAISS would crash: the file does not hold the data it needs
    with faiss_errors(IndexFolderError, problem, remedy):
        inverted = inverted_index(holder)
        if inverted is not None and inverted.direct_map.type == faiss.DirectMap.NoMap:
            inverted.make_direct_map()  # from each vector to its list: 8 bytes per vector
        return index.reconstruct_batch(np.ascontiguousarray(numbers, np.int64))


def merge_neighbors(results: list[Scored], k: int, metric: Metric) -> Scored:
    """The best k hits from several results for the same queries; best first, equal scores by number."""
    scores = np.concatenate([scores for scores, _ in results], axis=1)
    numbers = np.concatenate([numbers for _, numbers in results], axis=1)
    order = np.lexsort((numbers, -metric.nearness(scores)), axis=1)[:, :k]
    return np.take_along_axis(scores, order, 1), np.take_along_axis(numbers, order, 1)


def _storing_part(index: FaissIndex) -> FaissIndex:
    """The part of an index that stores the vectors."""
    plain = faiss.downcast_index(index)
    if isinstance(plain, faiss.IndexRefine):
        return _storing_part(plain.refine_index)
    part: FaissIndex = _storing_part(plain.index) if isinstance(plain, faiss.IndexPreTransform) else plain
    return part


def _search_parameters(index: FaissIndex, value: int | None, selector: object | None) -> object | None:
    """FAISS's search parameters for this class of index; None where its defaults will do."""
    plain = faiss.downcast_index(index)
    if selector is None and (value is None or search_parameter_name(plain) is None):
        return None
    arguments: dict[str, object] = {} if selector is None else {"sel": selector}
    parameters: object
    if isinstance(plain, faiss.IndexPreTransform):
        inner = _search_parameters(plain.index, value, selector)
        parameters = faiss.SearchParametersPreTransform(index_params=inner)
    elif isinstance(plain, faiss.IndexRefine):
        inner = _search_parameters(plain.base_index, value, selector)
        parameters = faiss.IndexRefineSearchParameters(k_factor=REFINED_FROM, base_index_params=inner)
    elif isinstance(plain, faiss.IndexIVF):
        parameters = faiss.SearchParametersIVF(**arguments, nprobe=value or plain.nprobe)
    elif isinstance(plain, faiss.IndexHNSW):
        parameters = faiss.SearchParametersHNSW(**arguments, efSearch=value or plain.hnsw.efSearch)
    else:
        parameters = faiss.SearchParameters(**arguments)
    return parameters


def _scan_blocks(index: FaissIndex, queries: NDArray[np.float32], k: int, selected: NDArray[np.bool_] | None) -> Scored:
    metric = Metric.L2 if index.metric_type == faiss.METRIC_L2 else Metric.IP  # for cosine FAISS uses IP too
    numbers = np.arange(index.ntotal) if selected is None else np.flatnonzero(selected)
    worst = np.full((len(queries), k), metric.worst, np.float32)
    best: Scored = (worst, np.full((len(queries), k), EMPTY, np.int64))
    for start in range(0, len(numbers), _SCAN_ROWS):
        block = numbers[start : start + _SCAN_ROWS]
        vectors = reconstruct_vectors(index, block)
        scores, places = faiss.knn(queries, vectors, min(k, len(block)), metric.faiss_metric)
        best = merge_neighbors([best, (scores, block[places])], k, metric)
    return best

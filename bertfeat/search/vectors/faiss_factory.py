"""FAISS's factory strings: the empty index that one describes, and which of them FAISS must not be given.

FAISS checks factory strings incompletely. Some thousand were tried, each built, searched, updated and read in a process
of its own (benchmarks/factory_strings.py): all that ended the process, or never ended, are refused here.
"""

import re

from bertfeat.errors import UsageError
from bertfeat.io import shorten
from bertfeat.search.settings import IndexSettings
from bertfeat.search.vectors.faiss_import import FaissIndex, faiss, faiss_errors
from bertfeat.search.vectors.faiss_index import REFINED_FROM, inverted_index, nested_indexes
from bertfeat.search.vectors.index_types import KNOWN_TYPES, clusters_named
from bertfeat.search.vectors.metric import Metric

_REFUSED = (  # pattern, why
    (re.compile(r"(?<!\d)0+(?!\d)"), "a number in it is 0"),
    (re.compile(r"HNSW1(?!\d)"), "a graph needs at least two links a vector"),
    (re.compile(r"NSG"), "an NSG graph takes no vectors later, and may never be done; choose hnsw"),
    (re.compile(r"_Ncqint"), "norms cannot be stored as cqint"),
    (re.compile(r"Refine\((?!(Flat|SQ\w+|PQ\d+(x\d+)?(np)?)\))"), "only Flat, SQ and PQ codes can refine"),
)
_ALIKE = {  # FAISS makes the one and reads the other back
    "IndexFlatIP": "IndexFlat",
    "IndexFlatL2": "IndexFlat",
    "IndexRefineFlat": "IndexRefine",
}
_MOST_LENGTH = 200
_REMEDY = f"choose {KNOWN_TYPES}"


def create_faiss_index(factory: str, width: int, metric: Metric) -> FaissIndex:
    """An empty FAISS index.

    Raises:
        UsageError: FAISS does not know the description, cannot work with it, or it does not fit the width or metric.
    """
    problem = f"FAISS cannot make {shorten(factory)!r} for vectors of {width} values and {metric}"
    if reason := refusal_of_factory(factory):
        raise UsageError(f"{problem}: {reason}", remedy=_REMEDY)
    with faiss_errors(UsageError, problem, _REMEDY):
        index: FaissIndex = faiss.index_factory(width, factory, metric.faiss_metric)
    parts = nested_indexes(index)
    if any(isinstance(part, (faiss.IndexIDMap, faiss.IndexIDMap2)) for part in parts):
        raise UsageError(f"{problem}: vectors are numbered as they come", remedy="leave out IDMap")
    if any(isinstance(part, faiss.IndexIVFFlatDedup) for part in parts):
        raise UsageError(
            f"{problem}: it keeps equal vectors once, and every document needs its own", remedy="write Flat"
        )
    if index.metric_type != metric.faiss_metric:
        raise UsageError(f"{problem}: it would use another metric without saying so", remedy=_REMEDY)
    for part in parts:
        if isinstance(part, faiss.IndexRefine):
            part.k_factor = REFINED_FROM
        if hasattr(part, "do_polysemous_training"):
            part.do_polysemous_training = False  # takes seconds to hours, for a search that is never used here
        for clustering in (getattr(part, "cp", None), getattr(getattr(part, "pq", None), "cp", None)):
            if clustering is not None:
                clustering.min_points_per_centroid = 1  # else FAISS warns on stderr; choose_index() saw to it
    return index


def find_mismatch(index: FaissIndex, settings: IndexSettings) -> str | None:
    """Describe how the outermost class of an index differs from what its factory string makes; None if it does not."""
    clusters, inverted = clusters_named(settings.factory), inverted_index(index)
    if clusters and (inverted is None or inverted.nlist != clusters):
        return f"it does not have the lists of {settings.factory}"  # compared by number, because making so many is slow
    expected = "IndexPreTransform"
    if settings.transform is None:
        try:
            expected = _class_name(create_faiss_index(settings.factory, settings.stored_width, settings.metric))
        except UsageError as error:
            return str(error)
    if _class_name(index) != expected:
        return f"it is {_class_name(index)}, where {settings.factory} has {expected}"
    return None


def _class_name(index: FaissIndex) -> str:
    name = type(faiss.downcast_index(index)).__name__
    return _ALIKE.get(name, name)


def refusal_of_factory(factory: str) -> str | None:
    """The reason why FAISS must not be given a factory string; None if nothing is known against it."""
    if not factory.isascii():
        return "it has characters that no factory string has"
    if len(factory) > _MOST_LENGTH:
        return f"it has {len(factory):,} characters"
    return next((reason for pattern, reason in _REFUSED if pattern.search(factory)), None)

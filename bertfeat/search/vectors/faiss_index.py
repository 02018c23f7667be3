"""Operations on a FAISS index: making it from a factory string, training, filling, files, removal; and its abilities.

FAISS checks factory strings incompletely. Some thousand were tried, each built, searched, updated and read in a process
of its own (benchmarks/factory_strings.py). Those that crashed the process, or never finished, are refused here.

Shapes: n vectors, W values in each.
"""

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import IndexFolderError, StorageError, UsageError, parameter, shorten
from bertfeat.search.settings import REBUILD, IndexSettings, SearchParameterName
from bertfeat.search.vectors.faiss_import import (
    FaissIndex,
    InvertedIndex,
    VectorSink,
    faiss,
    faiss_errors,
    faiss_message,
)
from bertfeat.search.vectors.index_types import KNOWN_TYPES, UPDATABLE, clusters_named
from bertfeat.search.vectors.metric import Metric

REFINED_FROM = 4  # an index that reranks with finer codes takes this many times k candidates

_REFUSED = (  # pattern, why
    (re.compile(r"(?<!\d)0+(?!\d)"), "a number in it is 0"),
    (re.compile(r"HNSW1(?!\d)"), "a graph needs at least two links a vector"),
    (re.compile(r"NSG"), "an NSG graph takes no vectors later, and may never be done; choose hnsw"),
    (re.compile(r"_Ncqint"), "norms cannot be stored as cqint"),
    (re.compile(r"Refine\((?!(Flat|SQ\w+|PQ\d+(x\d+)?(np)?)\))"), "only Flat, SQ and PQ codes can refine"),
)
_ALIKE = {  # class that FAISS makes → class that it reads back
    "IndexFlatIP": "IndexFlat",
    "IndexFlatL2": "IndexFlat",
    "IndexRefineFlat": "IndexRefine",
}


def create_faiss_index(factory: str, width: int, metric: Metric) -> FaissIndex:
    """An empty FAISS index."""
    problem = f"FAISS cannot make {shorten(factory)!r} for vectors of {width} values and {metric}"
    remedy = f"choose {KNOWN_TYPES}"
    if reason := refusal_of_factory(factory):
        raise UsageError(f"{problem}: {reason}", remedy=remedy)
    with faiss_errors(UsageError, problem, remedy):
        index: FaissIndex = faiss.index_factory(width, factory, metric.faiss_metric)
    parts = _nested_indexes(index)
    if any(isinstance(part, (faiss.IndexIDMap, faiss.IndexIDMap2)) for part in parts):
        raise UsageError(f"{problem}: vectors are numbered as they come", remedy="leave out IDMap")
    if any(isinstance(part, faiss.IndexIVFFlatDedup) for part in parts):
        raise UsageError(
            f"{problem}: it keeps equal vectors once, and every document needs its own", remedy="write Flat"
        )
    if index.metric_type != metric.faiss_metric:
        raise UsageError(f"{problem}: it would use another metric without saying so", remedy=remedy)
    for part in parts:
        if isinstance(part, faiss.IndexRefine):
            part.k_factor = REFINED_FROM
        if hasattr(part, "do_polysemous_training"):
            part.do_polysemous_training = False  # takes seconds to hours, for a search that is never used here
        for clustering in (getattr(part, "cp", None), getattr(getattr(part, "pq", None), "cp", None)):
            if clustering is not None:
                clustering.min_points_per_centroid = 1  # else FAISS warns on stderr; choose_index() saw to it
    return index


def refusal_of_factory(factory: str) -> str | None:
    """The reason why FAISS must not be given a factory string; None if nothing is known against it."""
    if not factory.isascii():
        return "it has characters that no factory string has"
    if len(factory) > 200:
        return f"it has {len(factory):,} characters"
    return next((reason for pattern, reason in _REFUSED if pattern.search(factory)), None)


def train_index(index: FaissIndex, sample: NDArray[np.float32], clusters: int) -> None:
    """Train on a sample ``[n, W]``; an error if it has fewer vectors than the index has ``clusters``."""
    if index.is_trained:
        return
    if len(sample) < clusters:
        raise UsageError(
            f"{len(sample):,} vectors cannot be divided into {clusters:,} clusters",
            remedy="choose flat, or ivf, which takes as many clusters as fit",
        )
    problem = f"this type of index cannot be trained on {len(sample):,} vectors"
    with faiss_errors(UsageError, problem, "choose flat or sq8"):
        index.train(sample)


def add_vectors(index: VectorSink, vectors: NDArray[np.float32]) -> None:
    """Add vectors ``[n, W]``."""
    problem = f"this type of index cannot take {len(vectors):,} vectors more"
    with faiss_errors(UsageError, problem, f"choose {UPDATABLE}"):
        index.add(vectors)


def reserve_vectors(index: FaissIndex, count: int) -> None:
    """Reserve memory for ``count`` vectors, if the index keeps them in one array, to avoid copies as it grows."""
    plain = faiss.downcast_index(index)
    if isinstance(plain, faiss.IndexPreTransform):
        plain = faiss.downcast_index(plain.index)
    if isinstance(plain, faiss.IndexHNSW):
        plain = faiss.downcast_index(plain.storage)
    if isinstance(plain, faiss.IndexFlatCodes):
        plain.codes.resize(plain.code_size * count)
        plain.codes.resize(0)


def write_faiss_index(index: FaissIndex, path: Path) -> None:
    """Write an index."""
    _forget_places(index)
    with faiss_errors(StorageError, f"{path} cannot be written", "free some space, or choose another folder"):
        faiss.write_index(index, str(path))


def read_faiss_index(path: Path, *, mapped: bool = True, lists: Path | None = None) -> FaissIndex:
    """Read an index, mapped into memory unless it is to be changed; ``lists`` is the file of its inverted lists."""
    with faiss_errors(IndexFolderError, "FAISS cannot read this file", REBUILD, where=path):
        if lists is not None:
            flags = faiss.IO_FLAG_READ_ONLY | faiss.IO_FLAG_SKIP_IVF_DATA
            return _map_lists(faiss.read_index(str(path), flags), lists)
        # newer FAISS maps every type, as fast as memory; older maps inverted lists only
        flags = getattr(faiss, "IO_FLAG_MMAP_IFC", faiss.IO_FLAG_MMAP) if mapped else 0
        index: FaissIndex = faiss.read_index(str(path), flags)
        return index


def _map_lists(index: FaissIndex, path: Path) -> FaissIndex:
    """Map the file of an index's inverted lists; FAISS's own search for the file would print on stdout."""
    inverted = inverted_index(index)
    lists = None if inverted is None else faiss.downcast_InvertedLists(inverted.invlists)
    if not isinstance(lists, faiss.OnDiskInvertedLists) or lists.totsize != path.stat().st_size:
        raise IndexFolderError(f"{path} is not the file of the inverted lists", remedy=REBUILD)
    lists.filename = str(path)
    lists.do_mmap()
    return index


def find_mismatch(index: FaissIndex, settings: IndexSettings) -> str | None:
    """Describe how the outermost class of an index differs from what its factory string makes; None if it does not."""
    clusters, inverted = clusters_named(settings.factory), inverted_index(index)
    if clusters and (inverted is None or inverted.nlist != clusters):
        # only the number of lists is compared, because making so many is slow
        return f"it does not have the lists of {settings.factory}"
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


def can_remove(index: FaissIndex) -> bool:
    """Whether vectors can be removed from the index; for other types tombstones are kept."""
    plain = faiss.downcast_index(index)
    inner = faiss.downcast_index(plain.index) if isinstance(plain, faiss.IndexPreTransform) else plain
    if isinstance(inner, faiss.IndexIVF) and not isinstance(inner, faiss.IndexIVFFlatDedup):
        return isinstance(faiss.downcast_InvertedLists(inner.invlists), faiss.ArrayInvertedLists)
    return isinstance(inner, faiss.IndexFlatCodes) and not hasattr(inner, "bbs")


def remove_vectors(index: FaissIndex, removed: NDArray[np.bool_]) -> None:
    """Remove the vectors for which ``removed [n]`` is true; the others are numbered anew from 0."""
    _forget_places(index)
    with faiss_errors(IndexFolderError, "vectors cannot be removed", REBUILD):
        index.remove_ids(make_selector(removed))
    inverted = inverted_index(index)
    if inverted is None:
        return  # flat codes are numbered by their place
    new_numbers = np.cumsum(~removed) - 1
    lists = faiss.downcast_InvertedLists(inverted.invlists)
    for number in range(inverted.nlist):
        if size := lists.list_size(number):
            ids = faiss.rev_swig_ptr(lists.get_ids(number), size)
            ids[:] = new_numbers[ids]


def _forget_places(index: FaissIndex) -> None:
    """Drop the map from vectors to inverted lists that giving vectors back has made: FAISS removes none beside it."""
    inverted = inverted_index(index)
    if inverted is not None and inverted.direct_map.type != faiss.DirectMap.NoMap:
        inverted.set_direct_map_type(faiss.DirectMap.NoMap)


def make_selector(selected: NDArray[np.bool_]) -> object:
    """A FAISS selector of the vectors for which ``selected [n]`` is true."""
    return faiss.IDSelectorBitmap(np.packbits(selected, bitorder="little"))


def search_parameter_name(index: FaissIndex) -> SearchParameterName | None:
    """The parameter that can be tuned: ``nprobe`` of inverted lists, ``efSearch`` of a graph, or nothing."""
    if inverted_index(index) is not None:
        return "nprobe"
    return "efSearch" if any(isinstance(part, faiss.IndexHNSW) for part in _nested_indexes(index)) else None


def largest_search_parameter(index: FaissIndex) -> int:
    """The largest sensible value: all lists, or a graph search with a few thousand candidates."""
    inverted = inverted_index(index)
    return int(inverted.nlist) if inverted is not None else min(int(index.ntotal), 4096)


def set_search_parameter(index: FaissIndex, value: int) -> None:
    """Set the default of FAISS's own searches in this index."""
    for part in _nested_indexes(index):
        if isinstance(part, faiss.IndexIVF):
            part.nprobe = value
        elif isinstance(part, faiss.IndexHNSW):
            part.hnsw.efSearch = value


def count_faiss_threads() -> int:
    """Return the number of threads that FAISS works with."""
    return int(faiss.omp_get_max_threads())


def count_faiss_gpus() -> int:
    """Count the GPUs that FAISS can work on; none where it was built without GPU support."""
    return int(faiss.get_num_gpus()) if hasattr(faiss, "StandardGpuResources") else 0


def copy_to_gpu(index: FaissIndex, device: str | None) -> FaissIndex:
    """A copy of the index on a GPU (``cuda``, ``cuda:1``); the index itself for ``cpu`` or None."""
    if device in (None, "cpu"):
        return index
    number = int(str(device).partition(":")[2] or 0)
    if number >= count_faiss_gpus():
        raise UsageError(
            f"{parameter('device', device)}: FAISS sees {count_faiss_gpus()} GPUs",
            remedy="install faiss-gpu instead of faiss-cpu, or use cpu",
        )
    try:
        copy: FaissIndex = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), number, index)
        return copy
    except RuntimeError as error:
        raise UsageError(
            f"this type of index cannot go to {device}: {faiss_message(error)}",
            remedy=f"leave out {parameter('device')}",
        ) from error


def copy_to_cpu(index: FaissIndex) -> FaissIndex:
    """A copy of the index on the CPU, if it is on a GPU; else the index itself."""
    on_gpu = hasattr(faiss, "GpuIndex") and any(isinstance(part, faiss.GpuIndex) for part in _nested_indexes(index))
    copy: FaissIndex = faiss.index_gpu_to_cpu(index) if on_gpu else index
    return copy


def flat_storage(index: FaissIndex) -> FaissIndex | None:
    """The flat FAISS index that holds the uncompressed vectors of an index; None if there is none."""
    plain = faiss.downcast_index(index)
    if isinstance(plain, faiss.IndexHNSW):
        plain = faiss.downcast_index(plain.storage)
    return plain if isinstance(plain, faiss.IndexFlat) else None


def stores_whole_vectors(index: FaissIndex) -> bool:
    """Whether an index gives back its vectors as they were added, and not what codes or a projection left of them."""
    return flat_storage(index) is not None or isinstance(faiss.downcast_index(index), faiss.IndexIVFFlat)


def has_lists_on_disk(index: FaissIndex) -> bool:
    """Whether the inverted lists are in a file of their own."""
    inverted = inverted_index(index)
    if inverted is None:
        return False
    return isinstance(faiss.downcast_InvertedLists(inverted.invlists), faiss.OnDiskInvertedLists)


def inverted_index(index: FaissIndex) -> InvertedIndex | None:
    """The index of inverted lists inside an index, if there is one."""
    inverted: InvertedIndex | None
    inverted = next((part for part in _nested_indexes(index) if isinstance(part, faiss.IndexIVF)), None)
    return inverted


def _nested_indexes(index: FaissIndex) -> list[FaissIndex]:
    """An index and those inside it, each as its own class."""
    indexes: list[FaissIndex] = [faiss.downcast_index(index)]
    for name in ("index", "base_index", "storage"):
        inner = getattr(indexes[0], name, None)
        if inner is not None:
            indexes += _nested_indexes(inner)
    return indexes

"""FAISS as bertfeat uses it: train, fill, write, open, remove; what a class of index can and cannot do.

Shapes: n vectors, W values in each.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import IndexFolderError, StorageError, UsageError
from bertfeat.search.faiss_import import explain, faiss, faiss_errors
from bertfeat.search.settings import EffortName

REFINED_FROM = 4  # an index that re-ranks with finer codes looks at this many times k


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
    problem = f"this type of index cannot be trained on {len(sample):,} vectors"
    with faiss_errors(UsageError, problem, "choose flat or sq8"):
        index.train(sample)


def add(index: Any, vectors: NDArray[np.float32]) -> None:
    """Add vectors ``[n, W]``.

    Raises:
        UsageError: this class of index cannot, or not any more.
    """
    problem = f"this type of index cannot take {len(vectors):,} vectors more"
    with faiss_errors(UsageError, problem, "choose flat, hnsw, ivf, ivfpq or sq8"):
        index.add(vectors)


def reserve(index: Any, count: int) -> None:
    """Make room for ``count`` vectors where they are stored in one piece, which else is copied whenever it grows."""
    plain = faiss.downcast_index(index)
    if isinstance(plain, faiss.IndexHNSW):
        plain = faiss.downcast_index(plain.storage)
    if isinstance(plain, faiss.IndexFlatCodes):
        plain.codes.resize(plain.code_size * count)
        plain.codes.resize(0)


def write(index: Any, path: Path) -> None:
    """Write an index.

    Raises:
        StorageError: the disk is full, or the folder cannot be written.
    """
    with faiss_errors(StorageError, f"{path} cannot be written", "free some space, or choose another folder"):
        faiss.write_index(index, str(path))


def read(path: Path, *, mapped: bool = True, lists: Path | None = None) -> Any:
    """Open an index, mapped into memory unless it is to be changed; ``lists`` is the file of its inverted lists.

    Raises:
        IndexFolderError: FAISS cannot read the file.
    """
    with faiss_errors(IndexFolderError, f"{path}: FAISS cannot read this file", "build the index again"):
        if lists is not None:
            return _with_lists(
                faiss.read_index(str(path), faiss.IO_FLAG_READ_ONLY | faiss.IO_FLAG_SKIP_IVF_DATA), lists
            )
        # newer: maps every type and is searched as fast as memory; older: maps inverted lists only
        return faiss.read_index(str(path), getattr(faiss, "IO_FLAG_MMAP_IFC", faiss.IO_FLAG_MMAP) if mapped else 0)


def _with_lists(index: Any, path: Path) -> Any:
    """Map the file of an index's inverted lists; FAISS's own way to find it writes on stdout."""
    inverted = inverted_part(index)
    lists = None if inverted is None else faiss.downcast_InvertedLists(inverted.invlists)
    if not isinstance(lists, faiss.OnDiskInvertedLists) or lists.totsize != path.stat().st_size:
        raise IndexFolderError(f"{path} is not the file of the inverted lists; build the index again")
    lists.filename = str(path)
    lists.do_mmap()
    return index


def effort_name(index: Any) -> EffortName | None:
    """What can be tuned: ``nprobe`` of inverted lists, ``efSearch`` of a graph, or nothing."""
    if inverted_part(index) is not None:
        return "nprobe"
    return "efSearch" if any(isinstance(part, faiss.IndexHNSW) for part in layers(index)) else None


def most_effort(index: Any) -> int:
    """The largest sensible effort: all lists, or a graph search as wide as a few thousand candidates."""
    inverted = inverted_part(index)
    return int(inverted.nlist) if inverted is not None else min(int(index.ntotal), 4096)


def set_effort(index: Any, effort: int) -> None:
    """Set the effort with which FAISS searches when nothing else is said."""
    for part in layers(index):
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
    if isinstance(inner, faiss.IndexIVF) and not isinstance(inner, faiss.IndexIVFFlatDedup):
        return isinstance(faiss.downcast_InvertedLists(inner.invlists), faiss.ArrayInvertedLists)
    return isinstance(inner, faiss.IndexFlatCodes) and not hasattr(inner, "bbs")


def lists_on_disk(index: Any) -> bool:
    """Whether the inverted lists are in a file of their own."""
    inverted = inverted_part(index)
    if inverted is None:
        return False
    return isinstance(faiss.downcast_InvertedLists(inverted.invlists), faiss.OnDiskInvertedLists)


def selector(selected: NDArray[np.bool_]) -> Any:
    """A FAISS selector of the vectors for which ``selected [n]`` is true."""
    return faiss.IDSelectorBitmap(np.packbits(selected, bitorder="little"))


def remove(index: Any, removed: NDArray[np.bool_]) -> None:
    """Take vectors out (``[n]`` says which); the others close ranks, so that numbers go on from 0 to their count."""
    with faiss_errors(IndexFolderError, "vectors cannot be removed", "build the index again"):
        index.remove_ids(selector(removed))
    inverted = inverted_part(index)
    if inverted is None:
        return  # flat codes close ranks by themselves
    number = np.cumsum(~removed) - 1
    lists = faiss.downcast_InvertedLists(inverted.invlists)
    for each in range(inverted.nlist):
        if size := lists.list_size(each):
            ids = faiss.rev_swig_ptr(lists.get_ids(each), size)
            ids[:] = number[ids]


def flat_storage(index: Any) -> Any | None:
    """The whole vectors of an index, as a flat index of FAISS, where it has them in order."""
    index = faiss.downcast_index(index)
    if isinstance(index, faiss.IndexHNSW):
        index = faiss.downcast_index(index.storage)
    return index if isinstance(index, faiss.IndexFlat) else None


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
    try:
        return faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), number, index)
    except RuntimeError as error:
        raise UsageError(f"this type of index cannot go to {device}: {explain(error)}; leave out --device") from error


def from_device(index: Any) -> Any:
    """The index back from a GPU, as it can be written."""
    on_gpu = hasattr(faiss, "GpuIndex") and isinstance(index, faiss.GpuIndex)
    return faiss.index_gpu_to_cpu(index) if on_gpu else index


def layers(index: Any) -> list[Any]:
    """An index and those inside it, each as its own class."""
    found = [faiss.downcast_index(index)]
    for name in ("index", "base_index", "storage"):
        inner = getattr(found[0], name, None)
        if inner is not None:
            found += layers(inner)
    return found


def inverted_part(index: Any) -> Any | None:
    """The inverted lists inside an index, if it has any."""
    return next((part for part in layers(index) if isinstance(part, faiss.IndexIVF)), None)

"""Which FAISS index: by number of vectors, their width, the memory there is and the recall that is wanted."""

import math
import os
import re
from dataclasses import dataclass
from enum import StrEnum

from bertfeat.errors import UsageError

EXACT_SCAN_BYTES = 256 << 20  # about 20 ms a query; below that nothing is gained by being approximate
POINTS_PER_CLUSTER = 64  # to train on; FAISS itself asks for 39 to 256
NEIGHBOURS = 32  # links of a vector in an HNSW graph; its bottom layer has twice as many
# "np" in a factory string: no polysemous training, which takes seconds to hours and is never used here
CODE_WIDTHS = (2, 4, 8, 16)  # values that one byte of a product quantiser stands for, best first
RECALL_OF_CODES = 0.8  # what product quantisation reaches without the vectors at hand; more is not promised


class IndexType(StrEnum):
    """Names for the usual FAISS indexes; a FAISS factory string stands for any other."""

    AUTO = "auto"
    FLAT = "flat"  # exact
    HNSW = "hnsw"  # a graph over whole vectors: quickest at high recall, slow to build, cannot remove
    IVF = "ivf"  # lists of whole vectors around cluster centres; a search reads the nearest lists
    IVFPQ = "ivfpq"  # the same with product-quantised vectors
    SQ8 = "sq8"  # every vector is scanned, a byte a value


@dataclass(frozen=True, slots=True)
class Choice:
    """An index to build."""

    factory: str  # FAISS's own description of it
    reason: str  # why this one
    bytes: int  # about how large it becomes
    clusters: int  # to be trained; 0 for none
    on_disk: bool = False  # inverted lists are kept in a file of their own, because they pass the memory


def choose(wanted: str, *, count: int, width: int, memory: int | None, recall: float) -> Choice:
    """Choose an index for ``count`` vectors of ``width`` values.

    ``wanted`` is an :class:`IndexType` or a FAISS factory string. ``memory`` is the budget in bytes that the index
    has to itself when it is built and searched; default half of this machine's.

    Raises:
        UsageError: a product quantiser does not fit the width or the number of vectors.
    """
    budget = memory or _half_of_memory()
    if wanted == IndexType.AUTO:
        return _automatic(count, width, budget, recall)
    if wanted not in list(IndexType):
        return Choice(wanted, "as asked", _factory_bytes(wanted, count, width), clusters_named(wanted))
    named = _named(IndexType(wanted), count, width)
    if named.clusters and named.bytes > budget:
        return Choice(named.factory, f"{named.reason}; its lists on disk: {_over(named.bytes, budget)}",
                      named.bytes, named.clusters, on_disk=True)  # fmt: skip
    return named


def cluster_count(count: int) -> int:
    """How many clusters ``count`` vectors are divided into: 4·√count, and enough vectors to train each."""
    return max(1, min(round(4 * math.sqrt(count)), count // 39))


def _automatic(count: int, width: int, budget: int, recall: float) -> Choice:
    flat, clusters = count * width * 4, cluster_count(count)
    said = f"{count:,} vectors of {width:,} values"
    if flat <= min(EXACT_SCAN_BYTES, budget) or (recall >= 1.0 and flat <= budget):
        why = "recall 1 is wanted" if flat > EXACT_SCAN_BYTES else "few enough to compare them all"
        return Choice("Flat", f"{said}: {why}, which is exact", flat, 0)
    lists = f"IVF{clusters}"
    overhead = count * 8 + clusters * width * 4
    whole, bytewise = flat + overhead, count * width + overhead
    why = f"{said}: comparing all reads {_size(flat)} a query, so a search reads the nearest of {clusters:,} clusters"
    if whole <= budget:
        return Choice(f"{lists},Flat", f"{why}; whole vectors fit the memory of {_size(budget)}", whole, clusters)
    if bytewise <= budget and recall < 1.0:
        reason = f"{why}; a byte a value, for {_over(whole, budget)}"
        return Choice(f"{lists},SQ8", reason, bytewise, clusters)
    if recall > RECALL_OF_CODES:
        code, size = ("Flat", whole) if recall >= 1.0 else ("SQ8", bytewise)
        reason = f"{why}; its lists on disk: {_over(size, budget)}, and smaller codes do not reach recall {recall}"
        return Choice(f"{lists},{code}", reason, size, clusters, on_disk=True)
    return _quantised(lists, clusters, count, width, budget, why)


def _quantised(lists: str, clusters: int, count: int, width: int, budget: int, why: str) -> Choice:
    for values in (each for each in CODE_WIDTHS if width % each == 0):
        size = count * (width // values + 8) + clusters * width * 4
        if size <= budget:
            break
    else:
        values, size = 1, count * (width + 8) + clusters * width * 4
    reason = f"{why}; a byte for {values} values, the best that fits {_size(budget)}"
    return Choice(f"{lists},PQ{width // values}np", reason, size, clusters, on_disk=size > budget)


def _named(wanted: IndexType, count: int, width: int) -> Choice:
    flat, clusters, asked = count * width * 4, cluster_count(count), f"{wanted} as asked"
    centres = clusters * width * 4
    if wanted is IndexType.FLAT:
        return Choice("Flat", asked, flat, 0)
    if wanted is IndexType.SQ8:
        return Choice("SQ8", asked, count * width, 0)
    if wanted is IndexType.HNSW:
        return Choice(f"HNSW{NEIGHBOURS}", asked, flat + count * (2 * NEIGHBOURS + 4) * 4, 0)
    if wanted is IndexType.IVF:
        return Choice(f"IVF{clusters},Flat", asked, flat + count * 8 + centres, clusters)
    if count < 256:
        raise UsageError(
            f"ivfpq cannot be trained on {count:,} vectors: its codes have 256 values each; choose flat, or sq8"
        )
    values = next((each for each in (4, 8, 2, 3, 5) if width % each == 0), 1)
    return Choice(f"IVF{clusters},PQ{width // values}np", asked, count * (width // values + 8) + centres, clusters)


def clusters_named(factory: str) -> int:
    """The number after IVF in a factory string; 0 if there is none."""
    named = re.search(r"IVF(\d+)(k?)", factory)
    return int(named[1]) * (1024 if named[2] else 1) if named else 0


def _factory_bytes(factory: str, count: int, width: int) -> int:
    return count * width * (1 if "SQ" in factory or "PQ" in factory else 4)


def _over(size: int, budget: int) -> str:
    return f"{_size(size)} pass the memory of {_size(budget)}"


def _size(number: float) -> str:
    return f"{number / 1e9:.1f} GB" if number >= 1e8 else f"{number / 1e6:.0f} MB"


def _half_of_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2

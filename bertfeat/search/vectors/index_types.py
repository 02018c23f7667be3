"""The types of index, and the choice among them by number of vectors, width, memory and target recall.

A new type is a member of :class:`IndexType` and a case of :func:`_plan_as_asked`.
"""

import math
import re
from dataclasses import dataclass, replace
from enum import StrEnum

from bertfeat.display import format_size
from bertfeat.errors import UsageError
from bertfeat.io import physical_memory

EXACT_SCAN_BYTES = 256 << 20  # about 20 ms per query; an approximate index gains nothing below that
POINTS_PER_CLUSTER = 64  # to train on; FAISS itself asks for 39 to 256
NEIGHBORS = 32  # links of a vector in an HNSW graph; its bottom layer has twice as many
# "np" in a factory string: no polysemous training, which takes seconds to hours and is never used here
CODE_WIDTHS = (2, 4, 8, 16)  # number of values that one byte of a product quantizer codes, best first
_CODE_VALUES = 256  # different values of such a byte; training needs at least as many vectors
RECALL_OF_CODES = 0.8  # the recall that product quantization is trusted to reach without the whole vectors


class IndexType(StrEnum):
    """Names for the usual FAISS indexes; a FAISS factory string stands for any other."""

    AUTO = "auto"
    FLAT = "flat"  # exact
    HNSW = "hnsw"  # a graph over whole vectors: quickest at high recall, slow to build, cannot remove vectors
    IVF = "ivf"  # lists of whole vectors around cluster centers; a search reads the nearest lists
    IVFPQ = "ivfpq"  # the same with product-quantized vectors
    SQ8 = "sq8"  # every vector is scanned, with one byte per value


_NAMED = [kind.value for kind in IndexType if kind is not IndexType.AUTO]
UPDATABLE = f"{', '.join(_NAMED[:-1])} or {_NAMED[-1]}"
"""The types that have a name, in words; vectors can be added to each."""
KNOWN_TYPES = f"auto, {', '.join(_NAMED)} or another FAISS factory string"


@dataclass(frozen=True, slots=True)
class IndexChoice:
    """An index to build."""

    factory: str  # FAISS's own description of it
    reason: str  # why this one
    bytes: int  # estimated size
    clusters: int  # to be trained; 0 for none
    on_disk: bool = False  # inverted lists are kept in a file of their own, because they do not fit in memory


def choose_index(kind: str, *, count: int, width: int, memory: int | None, recall: float) -> IndexChoice:
    """Choose an index for ``count`` vectors of ``width`` values.

    ``kind`` is an :class:`IndexType` or a FAISS factory string. ``memory`` is the budget in bytes for the index alone
    when it is built and searched; by default half of this machine's memory.
    """
    budget = memory or physical_memory() // 2
    if kind == IndexType.AUTO:
        return _choose_automatically(count, width, budget, recall)
    if kind not in list(IndexType):
        size = count * width * (1 if "SQ" in kind or "PQ" in kind else 4)
        return IndexChoice(kind, "as asked", size, clusters_named(kind))
    choice = _plan_as_asked(IndexType(kind), count, width)
    if choice.clusters and choice.bytes > budget:
        reason = f"{choice.reason}; its lists on disk: {_over_budget(choice.bytes, budget)}"
        return replace(choice, reason=reason, on_disk=True)
    return choice


def _plan_as_asked(kind: IndexType, count: int, width: int) -> IndexChoice:
    """The index of a type that has a name."""
    reason, whole, clusters = f"{kind} as asked", count * width * 4, cluster_count(count)
    if kind is IndexType.FLAT:
        return IndexChoice("Flat", reason, whole, 0)
    if kind is IndexType.SQ8:
        return IndexChoice("SQ8", reason, count * width, 0)
    if kind is IndexType.HNSW:
        return IndexChoice(f"HNSW{NEIGHBORS}", reason, whole + count * (2 * NEIGHBORS + 4) * 4, 0)
    if kind is IndexType.IVF:
        return IndexChoice(f"IVF{clusters},Flat", reason, whole + clusters * width * 4 + count * 8, clusters)
    if count < _CODE_VALUES:
        raise UsageError(
            f"ivfpq cannot be trained on {count:,} vectors: its codes have {_CODE_VALUES} values each",
            remedy="choose flat, or sq8",
        )
    values = next((values for values in (4, 8, 2, 3, 5) if width % values == 0), 1)
    size = count * (width // values + 8) + clusters * width * 4
    return IndexChoice(f"IVF{clusters},PQ{width // values}np", reason, size, clusters)


def cluster_count(count: int) -> int:
    """The number of clusters for ``count`` vectors: 4·√count, or fewer, so that each has enough vectors to train on."""
    return max(1, min(round(4 * math.sqrt(count)), count // 39))  # FAISS asks for at least 39 vectors per cluster


def clusters_named(factory: str) -> int:
    """The number after IVF in a factory string; 0 if there is none."""
    named = re.search(r"IVF(\d+)(k?)", factory)
    return int(named[1]) * (1024 if named[2] else 1) if named else 0


def _choose_automatically(count: int, width: int, budget: int, recall: float) -> IndexChoice:
    flat, clusters = count * width * 4, cluster_count(count)
    vectors = f"{count:,} vectors of {width:,} values"
    if flat <= min(EXACT_SCAN_BYTES, budget) or (recall >= 1.0 and flat <= budget):
        why = "recall 1 is wanted" if flat > EXACT_SCAN_BYTES else "few enough to compare them all"
        return IndexChoice("Flat", f"{vectors}: {why}, which is exact", flat, 0)
    lists = f"IVF{clusters}"
    overhead = count * 8 + clusters * width * 4
    whole, bytewise = flat + overhead, count * width + overhead
    why = (
        f"{vectors}: comparing all reads {format_size(flat)} a query, so a search reads the nearest of {clusters:,} "
        f"clusters"
    )
    if whole <= budget:
        fits = f"{why}; whole vectors fit the memory of {format_size(budget)}"
        return IndexChoice(f"{lists},Flat", fits, whole, clusters)
    if bytewise <= budget and recall < 1.0:
        reason = f"{why}; a byte a value, for {_over_budget(whole, budget)}"
        return IndexChoice(f"{lists},SQ8", reason, bytewise, clusters)
    if recall > RECALL_OF_CODES or count < _CODE_VALUES:
        code, size = ("Flat", whole) if recall >= 1.0 else ("SQ8", bytewise)
        no_less = f"do not reach recall {recall}" if recall > RECALL_OF_CODES else f"need {_CODE_VALUES} vectors"
        reason = f"{why}; its lists on disk: {_over_budget(size, budget)}, and smaller codes {no_less}"
        return IndexChoice(f"{lists},{code}", reason, size, clusters, on_disk=True)
    return _choose_codes(lists, clusters, count, width, budget, why)


def _choose_codes(lists: str, clusters: int, count: int, width: int, budget: int, why: str) -> IndexChoice:
    """Product quantization with the largest codes that fit."""
    for values in (values for values in CODE_WIDTHS if width % values == 0):
        size = count * (width // values + 8) + clusters * width * 4
        if size <= budget:
            break
    else:
        values, size = 1, count * (width + 8) + clusters * width * 4
    reason = f"{why}; a byte for {values} values, the best that fits {format_size(budget)}"
    if size > budget:
        reason = f"{why}; a byte a value, and its lists on disk: {_over_budget(size, budget)}"
    return IndexChoice(f"{lists},PQ{width // values}np", reason, size, clusters, on_disk=size > budget)


def _over_budget(size: int, budget: int) -> str:
    return f"{format_size(size)} pass the memory of {format_size(budget)}"

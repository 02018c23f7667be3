"""Memory settings: how the C library (if glibc) keeps and returns freed blocks, and huge pages; also memory size.

Keeping freed blocks is a setting of the whole process. Loading an encoder or training a tagger turns it on, since fp32
is 1.2 times as fast with it on a CPU (docs/speed.md); the environment variable ``BERTFEAT_MALLOC=0`` forbids it.
"""

import ctypes
import mmap
import os
from contextlib import suppress

_LEAST_HUGE = 1 << 22  # bytes: a block of 4 MiB contains a whole page of 2 MiB, wherever it begins
_MMAP_THRESHOLD, _TRIM_THRESHOLD, _ARENA_MAX = -3, -1, -8  # parameters of mallopt, from malloc.h


def physical_memory() -> int:
    """The size of the machine's memory in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def give_back_memory() -> None:
    """Return freed memory to the operating system; no setting is changed.

    Otherwise large freed blocks between small long-lived ones are kept, and the memory of a long run grows.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def keep_freed_memory() -> None:
    """Keep freed blocks of up to 1 GiB for later ones, unless ``BERTFEAT_MALLOC`` is 0.

    Otherwise each large array gets fresh memory from the operating system, page by page.
    """
    if os.environ.get("BERTFEAT_MALLOC") == "0":
        return
    with suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        # 32 MiB is the largest threshold that glibc before 2.35 accepts
        library.mallopt(_MMAP_THRESHOLD, 1 << 30) or library.mallopt(_MMAP_THRESHOLD, 1 << 25)
        library.mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)


def use_huge_pages(address: int, size: int) -> None:
    """Ask the operating system for pages of 2 MiB in a fresh block of memory, if it has them (Linux).

    The first write to a block of hundreds of MiB then takes a third of the time. A small block is left as it is.
    """
    if size < _LEAST_HUGE:
        return
    first, end = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE, (address + size) // mmap.PAGESIZE * mmap.PAGESIZE
    with suppress(AttributeError, OSError):
        advise = ctypes.CDLL(None).madvise
        advise(ctypes.c_void_p(first), ctypes.c_size_t(end - first), mmap.MADV_HUGEPAGE)


def use_one_arena() -> None:
    """Have threads that start later share the main thread's memory, so that they can reuse what any of them frees."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)

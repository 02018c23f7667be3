"""How the C library keeps and gives back freed memory, where it is glibc.

Keeping is a setting of the whole process, so a library call does not change it unasked. The command allows it for its
own process. A program in Python allows it by :func:`allow_malloc_tuning` or by ``BERTFEAT_MALLOC=1``: our encoder is
some per cent faster on a CPU then. ``BERTFEAT_MALLOC=0`` forbids it everywhere, in the command too.
"""

import ctypes
import os
from contextlib import suppress

VARIABLE = "BERTFEAT_MALLOC"
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # as mallopt numbers them

_allowed = False


def allow_malloc_tuning() -> None:
    """Let this process keep freed memory once a model computes on its CPU, unless ``BERTFEAT_MALLOC`` is 0."""
    global _allowed
    _allowed = True


def give_back_memory() -> None:
    """Give freed memory back to the operating system; no setting is changed.

    Large blocks that threads free between small ones that live long stay otherwise, and a long run's memory grows.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def keep_freed_memory() -> None:
    """Keep freed blocks of up to 1 GiB for later ones, if this process allows it.

    Otherwise each large array comes fresh from the operating system, page by page.
    """
    if os.environ.get(VARIABLE, "1" if _allowed else "0") != "1":
        return
    with suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        # 32 MiB is the most that glibc took before 2.35
        library.mallopt(_MMAP_THRESHOLD, 1 << 30) or library.mallopt(_MMAP_THRESHOLD, 1 << 25)
        library.mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)

"""How the C library keeps and gives back freed memory, where it is glibc.

Keeping is a setting of the whole process, so it is made only where the environment variable ``BERTFEAT_MALLOC`` is 1.
The command sets it for its own process (``BERTFEAT_MALLOC=0`` forbids it there); a program in Python may do the same.
On a CPU the encoder is some per cent faster with it.
"""

import ctypes
import os
from contextlib import suppress

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # as mallopt numbers them


def give_back_memory() -> None:
    """Give freed memory back to the operating system; no setting is changed.

    Large blocks that threads free between small ones that live long stay otherwise, and a long run's memory grows.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def keep_freed_memory() -> None:
    """Keep freed blocks of up to 1 GiB for later ones, if ``BERTFEAT_MALLOC`` is 1.

    Otherwise each large array comes fresh from the operating system, page by page.
    """
    if os.environ.get("BERTFEAT_MALLOC") != "1":
        return
    with suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        # 32 MiB is the most that glibc took before 2.35
        library.mallopt(_MMAP_THRESHOLD, 1 << 30) or library.mallopt(_MMAP_THRESHOLD, 1 << 25)
        library.mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)

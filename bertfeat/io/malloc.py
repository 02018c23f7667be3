"""Memory that the C library holds on to after it was freed: given back, or kept on purpose."""

import ctypes
from contextlib import suppress


def give_back_memory() -> None:
    """Give freed memory back to the operating system, where the C library is glibc.

    Large blocks that threads free between long-lived small ones otherwise stay, and a long run's memory creeps up.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def keep_freed_memory() -> None:
    """Keep freed blocks of up to 1 GiB for the next ones, where the C library is glibc.

    Else each large array comes fresh from the operating system, page by page.
    """
    trim_threshold, mmap_threshold = -1, -3
    with suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        library.mallopt(mmap_threshold, 1 << 30) or library.mallopt(mmap_threshold, 1 << 25)  # the most before 2.35
        library.mallopt(trim_threshold, (1 << 31) - 1)

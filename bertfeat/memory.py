"""Memory that the C library holds on to after it was freed."""

import ctypes
from contextlib import suppress


def give_back_memory() -> None:
    """Give freed memory back to the operating system, where the C library is glibc.

    Large blocks that threads free between long-lived small ones otherwise stay, and a long run's memory creeps up.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)

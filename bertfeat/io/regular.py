"""Files opened for reading only if they are files: a pipe in the place of one would make us wait for ever."""

import os
import stat
from io import BufferedReader
from pathlib import Path


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe is opened without waiting for a writer
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(f"not a regular file: {path}")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_regular(path: Path, most: int = -1) -> bytes:
    """Read a regular file, ``most`` bytes of it or all; errors as of :func:`open_regular`."""
    with open_regular(path) as file:
        return file.read(most)

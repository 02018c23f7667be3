"""Files that are opened only if they are regular files: reading a pipe in the place of one could wait for ever."""

import os
import stat
from io import BufferedReader
from pathlib import Path

MOST_BYTES = 1 << 28  # of a file that is read whole: the size of a manifest of 500,000 parts


def real_path(path: str | Path) -> Path:
    """The absolute path without links; where links lead in a circle, as far as they lead.

    ``Path.resolve`` raises an error in that case.
    """
    return Path(os.path.realpath(path))


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


def read_regular(path: Path) -> bytes:
    """Read a whole regular file.

    Raises:
        OSError: it cannot be opened, is no regular file, or is larger than any that is read whole.
    """
    with open_regular(path) as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(f"{path} has more than {MOST_BYTES:,} bytes, which is no file of this kind")
    return data

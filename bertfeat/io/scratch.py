"""Arrays that may be larger than memory: mapped from files without a name, which are gone with the process."""

import math
import os
import tempfile
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bertfeat.io.output import storage_errors

ScalarT = TypeVar("ScalarT", bound=np.generic)


def scratch_array(shape: tuple[int, ...], dtype: np.dtype[ScalarT], folder: Path | None = None) -> NDArray[ScalarT]:
    """A new array on the disk of a folder (default: the system's for temporary files).

    Raises:
        StorageError: the disk has no room for it.
    """
    size = math.prod(shape) * dtype.itemsize
    if not size:
        return np.empty(shape, dtype)
    folder = folder or Path(tempfile.gettempdir())
    with storage_errors(folder), tempfile.TemporaryFile(dir=folder) as file:  # the mapping outlasts the handle
        os.posix_fallocate(file.fileno(), 0, size)  # else writing to a full disk would kill the process
        return np.memmap(file, dtype, "r+", shape=shape)

"""Full and read-only disks, as libraries tell of them."""

import errno
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from bertfeat.io import storage_errors

_WRITERS = ("PytorchStreamWriter", "inline_container", "iostream error")  # what torch's errors of writing name


@contextmanager
def library_disk_errors(folder: Path) -> Iterator[None]:
    """Turn what safetensors and torch raise over a full or read-only disk into a StorageError."""
    with storage_errors(folder):
        try:
            yield
        except (SafetensorError, RuntimeError) as error:
            number = re.search(r"os error (\d+)", str(error))
            if number is None and not any(name in str(error) for name in _WRITERS):
                raise
            full = shutil.disk_usage(folder).free < 1 << 20
            code = int(number[1]) if number else errno.ENOSPC if full else errno.EIO
            raise OSError(code, str(error)) from error

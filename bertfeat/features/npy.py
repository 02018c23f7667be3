"""A ``.npy`` file written batch by batch, its number of rows filled in at the end."""

from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray


class NpyWriter:
    """Writes float32 matrices of one width below each other into one ``[n, width]`` array.

    Plain writes rather than a memory map: those do not count as memory, and a full disk is an error, not a crash.
    """

    def __init__(self, path: Path, width: int):
        self._width = width
        self._rows = 0
        self._file = path.open("wb")
        self._write_header()

    def write(self, matrix: NDArray[np.float32]) -> None:
        """Add ``[n, width]`` vectors."""
        self._rows += len(matrix)
        np.ascontiguousarray(matrix, "<f4").tofile(self._file)

    def __enter__(self) -> "NpyWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._file:
            if kind is None:
                self._file.seek(0)
                self._write_header()

    def _write_header(self) -> None:
        # NumPy pads a header for a shape that grows, so the final one takes as many bytes as the first
        shape = (self._rows, self._width)
        npy_format.write_array_header_1_0(self._file, {"descr": "<f4", "fortran_order": False, "shape": shape})

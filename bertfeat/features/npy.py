"""A ``.npy`` file written batch by batch, its number of rows filled in at the end."""

from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray


class NpyWriter:
    """Writes matrices of one width below each other into one ``[n, width]`` array, or, without a width, one ``[n]``.

    Plain writes rather than a memory map: those do not count as memory, and a full disk is an error, not a crash.
    """

    def __init__(self, path: Path, width: int | None, dtype: str = "float32"):
        self._width, self._dtype = width, np.dtype(dtype).newbyteorder("<")
        self._rows = 0
        self._file = path.open("wb")
        self._write_header()

    def write(self, matrix: NDArray[np.generic]) -> None:
        """Add ``[n, width]`` vectors, or ``[n]`` numbers."""
        self._rows += len(matrix)
        np.ascontiguousarray(matrix, self._dtype).tofile(self._file)

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
        shape = (self._rows,) if self._width is None else (self._rows, self._width)
        header = {"descr": npy_format.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape}
        npy_format.write_array_header_1_0(self._file, header)

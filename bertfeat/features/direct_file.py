"""A new file, written past the page cache where the system allows it, and hashed on the way.

The features of a corpus are mostly larger than the page cache, and displace what other programs keep there. Copying
them into it cost more processor time than everything else that writing does.
"""

import errno
import fcntl
import mmap
import os
from pathlib import Path
from typing import TYPE_CHECKING, Self

import xxhash

if TYPE_CHECKING:
    from typing_extensions import Buffer  # in collections.abc since Python 3.12

_BLOCK = 4 << 20  # bytes written at once, a multiple of every disk's block size
_DIRECT: int = getattr(os, "O_DIRECT", 0)
_REFUSALS = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP)  # of file systems without direct writing


class DirectFile:
    """A file that is written from its beginning to its end, with the methods that pyarrow calls.

    Whole blocks go to the disk directly; the rest, and everything on a file system without direct writing, goes
    through the page cache. Closing it does not sync it.
    """

    def __init__(self, path: Path) -> None:
        # shared, as mappings are by default: direct writing from private memory is unsafe beside a fork
        self._block = memoryview(mmap.mmap(-1, _BLOCK))  # begins at a page, as direct writing requires
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        try:
            self._handle = os.open(path, flags | _DIRECT, 0o666)
        except OSError as error:
            if error.errno not in _REFUSALS:
                raise
            self._handle = os.open(path, flags, 0o666)
        self._filled = self._written = 0
        self._hash = xxhash.xxh3_128()
        self.closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def digest(self) -> tuple[int, bytes]:
        """Number of bytes written so far, and their XXH3 (128 bits) in hexadecimal digits."""
        return self._written, self._hash.hexdigest().encode()

    def tell(self) -> int:
        """Number of bytes written so far."""
        return self._written

    def write(self, data: "Buffer") -> int:
        """Write bytes, all of them.

        Raises:
            OSError: of the system, also for earlier bytes.
            ValueError: the file is closed.
        """
        if self.closed:
            raise ValueError("write to a closed file")
        content = memoryview(data).cast("B")
        self._hash.update(content)
        rest = content
        while len(rest):
            count = min(_BLOCK - self._filled, len(rest))
            self._block[self._filled : self._filled + count] = rest[:count]
            self._filled += count
            rest = rest[count:]
            if self._filled == _BLOCK:
                self._empty()
        self._written += len(content)
        return len(content)

    def flush(self) -> None:
        """Do nothing: what is left is written at the end."""

    def close(self) -> None:
        """Write what is left, through the page cache: its size is not a multiple of a block."""
        if self.closed:
            return
        self.closed = True
        try:
            self._go_through_cache()
            self._empty()
        finally:
            os.close(self._handle)

    def _empty(self) -> None:
        rest = self._block[: self._filled]
        self._filled = 0
        while len(rest):
            try:
                count = os.write(self._handle, rest)
                if not count:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                rest = rest[count:]
            except OSError as error:  # some refuse only now; and a disk that is nearly full writes a piece
                if error.errno not in _REFUSALS or not self._go_through_cache():
                    raise

    def _go_through_cache(self) -> bool:
        """Write through the page cache from now on; returns whether that changes anything."""
        flags = fcntl.fcntl(self._handle, fcntl.F_GETFL)
        fcntl.fcntl(self._handle, fcntl.F_SETFL, flags & ~_DIRECT)
        return bool(flags & _DIRECT)

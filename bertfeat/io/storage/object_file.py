"""An object in a bucket as a Python file that is read by ranges; its end is already fetched when it is opened."""

import os
from collections.abc import Callable
from io import RawIOBase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer  # in collections.abc since Python 3.12

READ_AHEAD = 1 << 20
"""Bytes that a small read fetches."""

_MOST_AHEAD = 1 << 23  # bytes up to which the fetches of consecutive small reads grow


class ObjectFile(RawIOBase):
    """An object as a file.

    ``fetch(start, stop)`` returns the bytes of that range; ``tag`` is the e-tag of the object. Each fetch that goes on
    where the last one ended doubles the number of bytes that are fetched at once.
    """

    def __init__(self, size: int, tail: "Buffer", fetch: "Callable[[int, int], Buffer]", tag: str = "") -> None:
        super().__init__()
        self.tag = tag
        self._size, self._fetch = size, fetch
        self._tail = memoryview(tail)
        self._tail_start = size - len(self._tail)
        self._piece, self._piece_start = memoryview(b""), -1
        self._ahead = READ_AHEAD
        self._at = 0

    def readable(self) -> bool:
        """It can be read."""
        return True

    def seekable(self) -> bool:
        """It can be sought in."""
        return True

    def tell(self) -> int:
        """The position of the next byte."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a position."""
        at = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence] + offset
        if at < 0:
            raise OSError(22, os.strerror(22))
        self._at = at
        return at

    def readinto(self, buffer: "Buffer") -> int:
        """Read some of the next bytes: those that are already fetched, or those of one request."""
        view = memoryview(buffer).cast("B")
        if not len(view) or self._at >= self._size:
            return 0
        start, data = self._bytes_at(self._at, len(view))
        some = data[self._at - start : self._at - start + len(view)]
        view[: len(some)] = some
        self._at += len(some)
        return len(some)

    def _bytes_at(self, at: int, wanted: int) -> tuple[int, memoryview]:
        """The position at which a fetched range that includes the byte ``at`` begins, and its bytes."""
        if at >= self._tail_start:
            return self._tail_start, self._tail
        if not self._piece_start <= at < self._piece_start + len(self._piece):
            reads_on = at == self._piece_start + len(self._piece)
            self._ahead = min(2 * self._ahead, _MOST_AHEAD) if reads_on else READ_AHEAD
            stop = min(at + max(wanted, self._ahead), self._tail_start)
            self._piece, self._piece_start = memoryview(self._fetch(at, stop)), at
            if not self._piece:
                raise OSError(5, "the storage sent nothing of what was asked for")
        return self._piece_start, self._piece

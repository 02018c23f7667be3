"""The bytes of a file, decompressed, a block at a time, from any of them on.

Memory is bounded, however large the decompressed file is.
"""

import os
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from io import SEEK_END, BufferedIOBase
from itertools import chain

from bertfeat.corpus.compression import decompress
from bertfeat.corpus.sources import Source
from bertfeat.errors import CorpusError
from bertfeat.io import Address, Stamp, file_stamp, open_file

_CHUNK = 2**18  # bytes read at once
_MOST_REQUESTED = 2**22  # of object storage, where each request takes its time; the first ones are smaller
_HELD = 2**20  # decompressed bytes that are held at least: as far back a range may begin before the end of the last one


@dataclass(slots=True)
class Meter:
    """A counter of the bytes that have been read of the files, as they lie on disk."""

    read: int = 0


def read_blocks(source: Source, meter: Meter, offset: int = 0) -> Iterator[bytes]:
    """Read a file, from ``offset`` of its decompressed bytes on, in blocks of about 1 MiB or less (4 at addresses).

    Blocks are never empty. A file that is not compressed is not read up to there. A compressed one is decompressed up
    to there: from its beginning, or from where this thread closed its last reading, if that was one of the same file.

    Raises:
        CorpusError: the file does not exist, is not readable, is not a sound archive, or ends before ``offset``.
        StorageError: object storage that cannot be reached.
    """
    try:
        if source.compression is None:
            yield from _read_plain(source, meter, offset)
        else:
            yield from _read_archive(source, meter, offset)
    except OSError as error:
        raise CorpusError(f"cannot be read: {error.strerror or error}", where=source.name) from error


def changed_error(name: str) -> CorpusError:
    """The error of a file in which a position is no more."""
    return CorpusError("has changed since it was first read", where=name, remedy="start again")


def _read_plain(source: Source, meter: Meter, offset: int) -> Iterator[bytes]:
    with open_file(source.path) as file:
        if offset:
            if file.seek(0, SEEK_END) < offset:
                raise changed_error(source.name)
            file.seek(offset)
        for chunk in _read_chunks(source, file):
            meter.read += len(chunk)
            yield chunk


def _read_chunks(source: Source, file: BufferedIOBase) -> Iterator[bytes]:
    size, most = _CHUNK, _MOST_REQUESTED if isinstance(source.path, Address) else _CHUNK
    while chunk := file.read(size):
        yield chunk
        size = min(2 * size, most)


# ── archives ────────────────────────────────────────────────────────────────────────────────────────────────


class _OpenArchive:
    """A compressed file whose reading has come to some place, and its newest blocks."""

    def __init__(self, source: Source) -> None:
        self._name = source.name
        self._meter = Meter()
        self._held: deque[bytes] = deque()
        self._end = 0
        self.begin = 0  # of the blocks that are held
        self._fresh = self._decompress(source)

    def read(self, meter: Meter, offset: int) -> Iterator[bytes]:
        """Read on from an offset, which is not before ``begin``."""
        self._meter = meter
        at = self.begin
        for block in chain(tuple(self._held), self._fresh):
            if at + len(block) > offset:
                yield block[max(0, offset - at) :]
            at += len(block)
        if at < offset:
            raise changed_error(self._name)

    def _decompress(self, source: Source) -> Iterator[bytes]:
        assert source.compression is not None
        with open_file(source.path) as file:
            for block in decompress(self._count(_read_chunks(source, file)), source.compression, source.name):
                self._held.append(block)
                self._end += len(block)
                while self._end - self.begin - len(self._held[0]) >= _HELD:
                    self.begin += len(self._held.popleft())
                yield block

    def _count(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self._meter.read += len(chunk)
            yield chunk


_Key = tuple[int, Source, Stamp | None]


class _LeftOpen(threading.local):
    """The archive that this thread has read last, if that reading was closed before its end."""

    key: _Key | None = None
    archive: _OpenArchive | None = None

    def take(self, key: _Key, offset: int) -> _OpenArchive | None:
        archive = self.archive
        if archive is None or key != self.key or offset < archive.begin or offset == 0:
            return None
        self.key = self.archive = None  # it can be read by one at a time
        return archive


_left_open = _LeftOpen()


def _read_archive(source: Source, meter: Meter, offset: int) -> Iterator[bytes]:
    # a process that was forked has the same open file, whose place both would move; objects that change are told
    stamp = source.stamp if isinstance(source.path, Address) else file_stamp(source.path)
    key = (os.getpid(), source, stamp)
    archive = _left_open.take(key, offset) or _OpenArchive(source)
    try:
        yield from archive.read(meter, offset)
    except GeneratorExit:
        _left_open.key, _left_open.archive = key, archive
        raise

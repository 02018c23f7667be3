"""A reader of the bytes of a file, decompressed, one block at a time, from any offset on.

Memory is bounded, however large the decompressed file is. The data before a damaged place are still read. Archives of
several members are read to their end.
"""

import bz2
import lzma
import os
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import SEEK_END, BufferedIOBase
from itertools import chain
from typing import Protocol

import zstandard

from bertfeat.core.corpus.sources import Source
from bertfeat.errors import CorpusError
from bertfeat.io import Address, Stamp, file_stamp, open_file

_CHUNK = 2**18  # bytes read at once
_MOST_REQUESTED = 2**22  # most bytes of a request to object storage, where each takes time; the first ones are smaller
_HELD = 2**20  # least decompressed bytes that are held: a reading may begin this far before the end of the last one
_BLOCK = 2**20  # most bytes that a decompressed block has
_ZSTD_STEP = 2**11  # compressed bytes: zstandard returns all their output at once, at worst 64 MiB for 2 KiB
_MOST_PADDING = 2**24  # zeros after the data, as tapes leave them; more are damage


@dataclass(slots=True)
class Meter:
    """A counter of the bytes that have been read from files, before decompression."""

    read: int = 0


def read_blocks(source: Source, meter: Meter, offset: int = 0) -> Iterator[bytes]:
    """Read a file, from ``offset`` of its decompressed bytes on, in blocks of about 1 MiB or less (4 at addresses).

    Blocks are never empty. A file that is not compressed is not read before ``offset``. A compressed one is
    decompressed up to ``offset``: from its beginning, or from where this thread closed its last reading, if that was of
    the same file.

    A file that does not exist, is damaged, or ends before ``offset``, raises a ``CorpusError``.
    """
    try:
        if source.compression is None:
            yield from _read_plain(source, meter, offset)
        else:
            yield from _read_archive(source, meter, offset)
    except OSError as error:
        raise CorpusError(f"cannot be read: {error.strerror or error}", where=source.name) from error


def changed_error(name: str) -> CorpusError:
    """The error for a file in which an earlier position no longer exists."""
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


# ── archives ──────────────────────────────────────────────────────────────────────────────────────────────────


class _OpenArchive:
    """A compressed file that has been read up to some place, with its newest blocks."""

    def __init__(self, source: Source) -> None:
        self._name = source.name
        self._meter = Meter()
        self._held: deque[bytes] = deque()
        self._end = 0
        self.begin = 0  # offset of the first block that is held
        self._fresh = self._decompress(source)

    def read(self, meter: Meter, offset: int) -> Iterator[bytes]:
        """Read on from an offset, which is not before ``begin``; ``meter`` counts what is read of the file for it."""
        self._meter = meter
        at, held = self.begin, tuple(self._held)  # fresh blocks are held, too, and older ones are let go
        for block in chain(held, self._fresh):
            if at + len(block) > offset:
                yield block[max(0, offset - at) :]
            at += len(block)
        if at < offset:  # the file ended before it
            raise changed_error(self._name)

    def _decompress(self, source: Source) -> Iterator[bytes]:
        assert source.compression is not None
        with open_file(source.path) as file:
            for block in _decompress_members(self._count(_read_chunks(source, file)), source.compression, source.name):
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
        self.key = self.archive = None  # it serves one reading at a time
        return archive


_left_open = _LeftOpen()


def _read_archive(source: Source, meter: Meter, offset: int) -> Iterator[bytes]:
    # the process id, since a forked process shares the open file, and each would move the other's place in it;
    # the stamp of a local file anew, since only an object's reading finds by itself that it has changed
    stamp = source.stamp if isinstance(source.path, Address) else file_stamp(source.path)
    key = (os.getpid(), source, stamp)
    archive = _left_open.take(key, offset) or _OpenArchive(source)
    try:
        yield from archive.read(meter, offset)
    except GeneratorExit:
        _left_open.key, _left_open.archive = key, archive
        raise


# ── decompression ─────────────────────────────────────────────────────────────────────────────────────────────


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...


def _decompress_members(chunks: Iterator[bytes], compression: str, name: str) -> Iterator[bytes]:
    """Decompress one member after the other, in blocks of about 1 MiB or less, never empty."""
    new_decoder, feed, magics, padding = _ARCHIVES[compression]
    decoder: _Decoder | None = None
    rest = b""  # the beginning of a magic number that the end of a chunk cut in two
    started, padded = False, 0
    for chunk in chunks:
        data = rest + chunk
        rest = b""
        while data:
            if decoder is None:
                if started and padding:
                    padded += len(data) - len(data := data.lstrip(padding))
                    if padded > _MOST_PADDING:
                        raise _archive_error(name, compression, started)
                if len(data) < len(magics[0]):
                    rest, data = data, b""
                    continue
                if not data.startswith(magics):
                    raise _archive_error(name, compression, started)
                decoder, started = new_decoder(), True
            try:
                yield from feed(decoder, data)
            except (OSError, ValueError, EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError) as error:
                raise CorpusError(
                    f"damaged {compression} data ({error})", where=name, remedy="make the file again"
                ) from error
            data, decoder = (decoder.unused_data, None) if decoder.eof else (b"", decoder)
    if rest:
        raise _archive_error(name, compression, started)
    if decoder is not None or not started:
        raise CorpusError(
            f"the {compression} data end too early (truncated?)", where=name, remedy="make the file again"
        )


def _archive_error(name: str, compression: str, started: bool) -> CorpusError:
    if started:
        problem = f"something that is not {compression} data follows the {compression} data"
        return CorpusError(problem, where=name, remedy="make the file again")
    return CorpusError(f"not {compression} data, in spite of the ending", where=name, remedy="rename it")


def _feed_gzip(decoder: "zlib._Decompress", data: bytes) -> Iterator[bytes]:
    while data and not decoder.eof:
        if out := decoder.decompress(data, _BLOCK):
            yield out
        data = decoder.unconsumed_tail


def _feed_bounded(decoder: bz2.BZ2Decompressor | lzma.LZMADecompressor, data: bytes) -> Iterator[bytes]:
    while True:
        if out := decoder.decompress(data, _BLOCK):
            yield out
        if decoder.eof or decoder.needs_input:
            return
        data = b""


@dataclass(slots=True)
class _ZstdFrame:
    """zstandard's decoder with the unused bytes of the whole chunk, not only of the last step."""

    decoder: "zstandard.ZstdDecompressionObj"  # a name for type checkers only
    unused_data: bytes = b""

    @property
    def eof(self) -> bool:
        return bool(self.decoder.eof)


def _feed_zstd(frame: _ZstdFrame, data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), _ZSTD_STEP):
        if out := frame.decoder.decompress(data[start : start + _ZSTD_STEP]):
            yield out
        if frame.eof:
            frame.unused_data = frame.decoder.unused_data + data[start + _ZSTD_STEP :]
            return


# new decoder, how it is fed, magic numbers (of one length), padding that may follow a member
_ARCHIVES: dict[str, tuple[Callable[[], _Decoder], Callable[..., Iterator[bytes]], tuple[bytes, ...], bytes]] = {
    "gzip": (lambda: zlib.decompressobj(31), _feed_gzip, (b"\x1f\x8b",), b"\0"),  # 31: gzip, with the largest window
    "bzip2": (bz2.BZ2Decompressor, _feed_bounded, (b"BZh",), b""),
    "xz": (lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ), _feed_bounded, (b"\xfd7zXZ\0",), b"\0"),
    "zstd": (
        lambda: _ZstdFrame(zstandard.ZstdDecompressor(max_window_size=2**31).decompressobj()),
        _feed_zstd,
        (b"\x28\xb5\x2f\xfd", *(bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60))),  # skippable frames
        b"",
    ),
}

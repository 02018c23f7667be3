"""The bytes of a file, decompressed, a block at a time.

Memory is bounded, however large the decompressed file is. The data before a damaged place is still read. Archives of
several members are read to their end.
"""

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import zstandard

from bertfeat.errors import CorpusError

COMPRESSIONS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}
"""Compression by the last ending of a file name."""

_CHUNK = 2**18  # bytes read from disk at once
_BLOCK = 2**20  # most bytes that a decompressed block has
_ZSTD_STEP = 2**11  # zstandard gives all of a piece's output at once: 2 KiB become 64 MiB at worst
_MOST_PADDING = 2**24  # zeros after the data, as tapes leave them; more are damage


@dataclass(slots=True)
class Meter:
    """How many bytes of the files, as they lie on disk, have been read."""

    read: int = 0


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...


def read_blocks(path: Path, name: str, compression: str | None, meter: Meter) -> Iterator[bytes]:
    """Read a file from its start in blocks of about 1 MiB or less, never empty.

    Raises:
        CorpusError: the file does not exist, is not readable, or is not a sound archive; names it as ``name``.
    """
    try:
        with path.open("rb") as file:
            chunks = _count_bytes(iter(lambda: file.read(_CHUNK), b""), meter)
            yield from chunks if compression is None else _decompress(chunks, compression, name)
    except OSError as error:
        raise CorpusError(f"cannot be read: {error.strerror or error}", where=name) from error


def _count_bytes(chunks: Iterator[bytes], meter: Meter) -> Iterator[bytes]:
    for chunk in chunks:
        meter.read += len(chunk)
        yield chunk


def _decompress(chunks: Iterator[bytes], compression: str, name: str) -> Iterator[bytes]:
    """Decompress one member after the other. A file that ends inside a member was cut off."""
    new_decoder, feed, magics, padding = _ARCHIVES[compression]
    decoder: _Decoder | None = None
    rest = b""  # of a magic number that a chunk's end cut in two
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


def _new_zstd() -> _ZstdFrame:
    return _ZstdFrame(zstandard.ZstdDecompressor(max_window_size=2**31).decompressobj())


_ZSTD_MAGICS = (b"\x28\xb5\x2f\xfd", *(bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60)))

# new decoder, how it is fed, magic numbers (of one length), padding that may follow a member
_ARCHIVES: dict[str, tuple[Callable[[], _Decoder], Callable[..., Iterator[bytes]], tuple[bytes, ...], bytes]] = {
    "gzip": (lambda: zlib.decompressobj(31), _feed_gzip, (b"\x1f\x8b",), b"\0"),
    "bzip2": (bz2.BZ2Decompressor, _feed_bounded, (b"BZh",), b""),
    "xz": (lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ), _feed_bounded, (b"\xfd7zXZ\0",), b"\0"),
    "zstd": (_new_zstd, _feed_zstd, _ZSTD_MAGICS, b""),  # the others are of skippable frames
}

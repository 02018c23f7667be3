"""Compressed data, decompressed a block at a time.

Memory is bounded, however large the decompressed data are. Those before a damaged place are still read. Archives of
several members are read to their end.
"""

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import zstandard

from bertfeat.errors import CorpusError

COMPRESSIONS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}
"""Compression by the last ending of a file name."""

_BLOCK = 2**20  # most bytes that a decompressed block has
_ZSTD_STEP = 2**11  # zstandard gives all of a piece's output at once: 2 KiB become 64 MiB at worst
_MOST_PADDING = 2**24  # zeros after the data, as tapes leave them; more are damage


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...


def decompress(chunks: Iterator[bytes], compression: str, name: str) -> Iterator[bytes]:
    """Decompress one member after the other, in blocks of about 1 MiB or less, never empty.

    Raises:
        CorpusError: not a sound archive, or one that ends inside a member; names it as ``name``.
    """
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

"""The file of a part: written past the page cache, hashed on the way, and sealed so that no byte changes unnoticed.

The features of a corpus are mostly larger than the page cache, and displace what other programs keep there. Copying
them into it took more processor time than all other steps of writing.

Page checksums leave page headers, the footer and the header's text uncovered. The Parquet key ``bertfeat.seal``
therefore holds 96 hexadecimal digits: 32 of the XXH3 (128 bits) of all bytes before the footer, then 64 of the sha256
of everything from the footer to the end of the file, where these 64 digits themselves count as zeros. The second digest
covers the first, so it identifies the whole file, yet can be checked whenever the footer is read.
"""

import errno
import fcntl
import hashlib
import mmap
import os
import re
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Self

import xxhash

from bertfeat.errors import DamagedError
from bertfeat.io import Address, Location, file_identity, open_file

if TYPE_CHECKING:
    from typing_extensions import Buffer  # in collections.abc since Python 3.12

REDO_PART = "delete it, then run the same extract command again: it redoes this part"

# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────

_BLOCK = 4 << 20  # bytes written at once, a multiple of every disk's block size
_DIRECT: int = getattr(os, "O_DIRECT", 0)
_REFUSALS = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP)  # errors of file systems without direct writing


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
        """Write all the bytes, which are buffered; so an error may concern bytes of earlier calls."""
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
                self._write_buffer()
        self._written += len(content)
        return len(content)

    def flush(self) -> None:
        """Do nothing: the remaining bytes are written by :meth:`close`."""

    def close(self) -> None:
        """Write the remaining bytes through the page cache, since their size is not a multiple of a block."""
        if self.closed:
            return
        self.closed = True
        try:
            self._go_through_cache()
            self._write_buffer()
        finally:
            os.close(self._handle)

    def _write_buffer(self) -> None:
        rest = self._block[: self._filled]
        self._filled = 0
        while len(rest):
            try:
                count = os.write(self._handle, rest)
                if not count:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                rest = rest[count:]
            # some file systems refuse direct writing only here; a nearly full disk writes a part of a block
            except OSError as error:
                if error.errno not in _REFUSALS or not self._go_through_cache():
                    raise

    def _go_through_cache(self) -> bool:
        """Write through the page cache from now on; returns whether that changes anything."""
        flags = fcntl.fcntl(self._handle, fcntl.F_GETFL)
        fcntl.fcntl(self._handle, fcntl.F_SETFL, flags & ~_DIRECT)
        return bool(flags & _DIRECT)


# ── the seal ────────────────────────────────────────────────────────────────────────────────────────────────

_MAGIC = b"PAR1"
_HASHED = 1 << 20  # bytes that are hashed at once
_FETCHED = 16 << 20  # bytes of a part in object storage that are fetched at once
_PAGES_DIGITS, _FOOTER_DIGITS = 32, 64  # of XXH3, and of sha256

SEAL_KEY = b"bertfeat.seal"
EMPTY_SEAL = b"0" * (_PAGES_DIGITS + _FOOTER_DIGITS)
# in a footer, in Thrift's compact protocol: the key, a binary field, its length and its two digests
_SEAL = re.compile(
    re.escape(SEAL_KEY + b"\x18" + bytes([len(EMPTY_SEAL)]))
    + rb"([0-9a-f]{%d})([0-9a-f]{%d})" % (_PAGES_DIGITS, _FOOTER_DIGITS)
)


@dataclass(frozen=True, slots=True)
class SealedFooter:
    """The footer of a part, checked to be as it was written."""

    content: bytes  # up to the end of the file
    sha256: str  # of the footer, which contains the digest of the pages, so that it identifies the whole file
    size: int  # of the whole file
    identity: tuple[object, ...]  # of the file that it was read from


def write_seal(path: Path, known: tuple[int, bytes]) -> str:
    """Fill the digests into a part that was written with :data:`EMPTY_SEAL`, and return that of the footer.

    ``known`` is the number of bytes written before the footer, and their XXH3; if the footer begins after that number,
    the pages are not read again.
    """
    with path.open("r+b") as file:
        start, footer = _read_footer_bytes(file, path)
        match = _find_seal(footer, path)
        size, pages = known
        if size != start:
            pages = _pages_digest(file, start)
        footer = footer[: match.start(1)] + pages + footer[match.end(1) :]
        file.seek(start + match.start(1))
        sha256 = _footer_digest(footer, match)
        file.write(pages + sha256)
    return sha256.decode()


def check_footer(path: Location) -> SealedFooter:
    """Check the footer against its digest, and return it; nothing else of a file in object storage is read."""
    with open_file(path) as file:
        match, start = _read_checked_seal(file, path)
        return SealedFooter(match.string, match[2].decode(), start + len(match.string), file_identity(file))


def check_pages(path: Location) -> str:
    """Check every byte of the part, as :func:`check_footer` does for the footer, and return the footer's digest."""
    with open_file(path) as file:
        match, start = _read_checked_seal(file, path)
        if _pages_digest(file, start, _FETCHED if isinstance(path, Address) else _HASHED) != match[1]:
            raise DamagedError(
                "a checksum does not hold: the file changed after it was written", where=path, remedy=REDO_PART
            )
    return match[2].decode()


def names_seal(path: Location) -> bool:
    """Whether the bytes of the footer name a seal, however damaged the rest of it is."""
    with open_file(path) as file:
        return SEAL_KEY in _read_footer_bytes(file, path)[1]


def _read_checked_seal(file: BufferedIOBase, path: Location) -> tuple[re.Match[bytes], int]:
    """The seal, and where the footer begins."""
    start, footer = _read_footer_bytes(file, path)
    match = _find_seal(footer, path)
    if _footer_digest(footer, match) != match[2]:
        raise DamagedError(
            "the footer's checksum does not hold: the file changed after it was written", where=path, remedy=REDO_PART
        )
    return match, start


def _read_footer_bytes(file: BufferedIOBase, path: Location) -> tuple[int, bytes]:
    """Return the offset at which the footer begins, and its bytes up to the end of the file."""
    # reading the beginning of an object would be one more request; it is checked with the pages
    if not isinstance(path, Address) and file.read(4) != _MAGIC:
        raise DamagedError("this is no Parquet file, or its beginning is damaged", where=path, remedy=REDO_PART)
    size = file.seek(0, 2)
    file.seek(max(0, size - 8))
    tail = file.read(8)
    start = size - 8 - int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or start < 4:
        raise DamagedError("the file is truncated or its end is damaged", where=path, remedy=REDO_PART)
    file.seek(start)
    return start, file.read(size - start)


def _find_seal(footer: bytes, path: Location) -> re.Match[bytes]:
    seals = list(_SEAL.finditer(footer))
    if len(seals) != 1:
        raise DamagedError(
            "the file carries no checksum, so it is damaged or was not written by bertfeat",
            where=path,
            remedy=REDO_PART,
        )
    return seals[0]


def _footer_digest(footer: bytes, match: re.Match[bytes]) -> bytes:
    blanked = footer[: match.start(2)] + EMPTY_SEAL[-_FOOTER_DIGITS:] + footer[match.end(2) :]
    return hashlib.sha256(blanked).hexdigest().encode()


def _pages_digest(file: BufferedIOBase, stop: int, block: int = _HASHED) -> bytes:
    """XXH3 of the file's first ``stop`` bytes."""
    digest = xxhash.xxh3_128()
    buffer = memoryview(bytearray(min(block, stop)))
    file.seek(0)
    while stop > 0 and (count := file.readinto(buffer[: min(stop, len(buffer))])):
        digest.update(buffer[:count])
        stop -= count
    return digest.hexdigest().encode()

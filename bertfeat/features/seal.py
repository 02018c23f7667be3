"""Two digests inside every part: one over its pages, one over its footer, so that no byte can change unseen.

Page checksums leave page headers, the footer and the header's text uncovered. The Parquet key ``bertfeat.seal``
therefore holds 96 hexadecimal digits: XXH3 (128 bits) of all bytes before the footer, then sha256 of everything from
the footer to the end of the file, these last 64 digits themselves taken as zeros. The second covers the first, so it
stands for the whole file, yet can be checked whenever the footer is read.
"""

import hashlib
import re
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path

import xxhash

from bertfeat.errors import DamagedError
from bertfeat.io import Address, Location, file_identity, open_file

_MAGIC = b"PAR1"
_BLOCK = 1 << 20  # bytes that are hashed at once
_FETCHED = 16 << 20  # bytes of a part in object storage that are fetched at once
_PAGES_DIGITS, _FOOTER_DIGITS = 32, 64  # of XXH3, and of sha256

SEAL_KEY = b"bertfeat.seal"
EMPTY_SEAL = b"0" * (_PAGES_DIGITS + _FOOTER_DIGITS)
_SEAL_LENGTH = bytes([len(EMPTY_SEAL)])  # as Thrift writes it
# in a footer, in Thrift's compact protocol: the key, a binary field and its two digests
_SEAL = re.compile(
    re.escape(SEAL_KEY + b"\x18" + _SEAL_LENGTH) + rb"([0-9a-f]{%d})([0-9a-f]{%d})" % (_PAGES_DIGITS, _FOOTER_DIGITS)
)

REDO_PART = "delete it, then run the same extract command again: it redoes this part"


@dataclass(frozen=True, slots=True)
class SealedFooter:
    """The footer of a part, which is as it was written."""

    content: bytes  # up to the end of the file
    sha256: str  # of the footer, which holds the digest of the pages: it stands for the whole file
    size: int  # of the whole file
    identity: tuple[object, ...]  # of the file that it was read from


def write_seal(path: Path, known: tuple[int, bytes]) -> str:
    """Fill the digests into a part that was written with :data:`EMPTY_SEAL`, and return that of the footer.

    ``known`` is a number of bytes and their XXH3: if the pages are just those, they are not read again.
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
    """Check the footer against its digest, and return it; of a file in object storage nothing else is read.

    Raises:
        DamagedError: the file is truncated, is no Parquet file, or its footer changed.
    """
    with open_file(path) as file:
        match, start = _read_checked_seal(file, path)
        return SealedFooter(match.string, match[2].decode(), start + len(match.string), file_identity(file))


def check_pages(path: Location) -> str:
    """Check every byte of the part, as :func:`check_footer` does for the footer, and return the footer's digest."""
    with open_file(path) as file:
        match, start = _read_checked_seal(file, path)
        if _pages_digest(file, start, _FETCHED if isinstance(path, Address) else _BLOCK) != match[1]:
            raise DamagedError(
                "a checksum does not hold: the file changed after it was written", where=path, remedy=REDO_PART
            )
    return match[2].decode()


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
    # of an object the beginning would be one more request; it is checked with the pages
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


def _pages_digest(file: BufferedIOBase, stop: int, block: int = _BLOCK) -> bytes:
    """XXH3 of the file's first ``stop`` bytes."""
    digest = xxhash.xxh3_128()
    buffer = memoryview(bytearray(min(block, stop)))
    file.seek(0)
    while stop > 0 and (count := file.readinto(buffer[: min(stop, len(buffer))])):
        digest.update(buffer[:count])
        stop -= count
    return digest.hexdigest().encode()

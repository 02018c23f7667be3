"""Two sha256 inside every part: one over its pages, one over its footer, so that no byte can change unseen.

Page checksums leave page headers, the footer and the header's text uncovered. The Parquet key ``bertfeat.sha256``
therefore holds 128 hexadecimal digits: sha256 of all bytes before the footer, then sha256 of everything from the
footer to the end of the file, the last 64 digits themselves taken as zeros. The second covers the first, so it
stands for the whole file, yet can be checked whenever the footer is read.
"""

import hashlib
import re
from io import BufferedIOBase
from pathlib import Path

from bertfeat.errors import Damaged

SEAL_KEY = b"bertfeat.sha256"
EMPTY_SEAL = b"0" * 128

_MAGIC = b"PAR1"
# in Thrift's compact protocol: end of the key, a binary field, its length 128 as a varint, then the digits
_SEAL = re.compile(re.escape(SEAL_KEY) + rb"\x18\x80\x01([0-9a-f]{64})([0-9a-f]{64})")
_AGAIN = "run the same extract command again: it redoes this part"


def write_seal(path: Path) -> None:
    """Fill the digests into a part that was written with :data:`EMPTY_SEAL`."""
    with path.open("r+b") as file:
        start, footer = _footer(file, path)
        match = _find(footer, path)
        pages = _digest(file, start)
        footer = footer[: match.start(1)] + pages + footer[match.end(1) :]
        file.seek(start + match.start(1))
        file.write(pages + _own_digest(footer, match))


def check_footer(path: Path) -> str:
    """Check the footer against its digest, and return that digest, which stands for the whole file.

    Raises:
        Damaged: the file is truncated, is no Parquet file, or its footer changed.
    """
    with path.open("rb") as file:
        return _check_footer(file, path)[2].decode()


def check_pages(path: Path) -> str:
    """Check every byte of the part, as :func:`check_footer` does for the footer."""
    with path.open("rb") as file:
        start, pages, whole = _check_footer(file, path)
        if _digest(file, start) != pages:
            raise Damaged(f"{path}: a checksum does not hold: the file changed after it was written; {_AGAIN}")
    return whole.decode()


def _check_footer(file: BufferedIOBase, path: Path) -> tuple[int, bytes, bytes]:
    start, footer = _footer(file, path)
    match = _find(footer, path)
    if _own_digest(footer, match) != match[2]:
        raise Damaged(f"{path}: the footer's checksum does not hold: the file changed after it was written; {_AGAIN}")
    return start, match[1], match[2]


def _footer(file: BufferedIOBase, path: Path) -> tuple[int, bytes]:
    """Where the footer begins, and its bytes up to the end of the file."""
    if file.read(4) != _MAGIC:
        raise Damaged(f"{path}: this is no Parquet file, or its beginning is damaged; {_AGAIN}")
    size = file.seek(0, 2)
    file.seek(max(0, size - 8))
    tail = file.read(8)
    start = size - 8 - int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or start < 4:
        raise Damaged(f"{path}: the file is truncated or its end is damaged; {_AGAIN}")
    file.seek(start)
    return start, file.read()


def _find(footer: bytes, path: Path) -> re.Match[bytes]:
    found = list(_SEAL.finditer(footer))
    if len(found) != 1:
        raise Damaged(
            f"{path}: the file carries no checksum, so it is damaged or was not written by bertfeat; {_AGAIN}"
        )
    return found[0]


def _own_digest(footer: bytes, match: re.Match[bytes]) -> bytes:
    blanked = footer[: match.start(2)] + EMPTY_SEAL[:64] + footer[match.end(2) :]
    return hashlib.sha256(blanked).hexdigest().encode()


def _digest(file: BufferedIOBase, stop: int) -> bytes:
    """sha256 of the file's first ``stop`` bytes."""
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(1 << 20))
    file.seek(0)
    while stop > 0 and (count := file.readinto(buffer[: min(stop, len(buffer))])):
        digest.update(buffer[:count])
        stop -= count
    return digest.hexdigest().encode()

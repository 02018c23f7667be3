"""Two sha256 inside every part: one over its pages, one over its footer, so that no byte can change unseen.

Page checksums leave page headers, the footer and the header's text uncovered. The Parquet key ``bertfeat.sha256``
therefore holds 128 hexadecimal digits: sha256 of all bytes before the footer, then sha256 of everything from the
footer to the end of the file, the last 64 digits themselves taken as zeros. The second covers the first, so it
stands for the whole file, yet can be checked whenever the footer is read.
"""

import hashlib
import re
from concurrent.futures import Future, ThreadPoolExecutor
from io import BufferedIOBase
from pathlib import Path
from typing import Self

from bertfeat.errors import Damaged

SEAL_KEY = b"bertfeat.sha256"
EMPTY_SEAL = b"0" * 128

_MAGIC = b"PAR1"
# in Thrift's compact protocol: end of the key, a binary field, its length 128 as a varint, then the digits
_SEAL = re.compile(re.escape(SEAL_KEY) + rb"\x18\x80\x01([0-9a-f]{64})([0-9a-f]{64})")
_AGAIN = "run the same extract command again: it redoes this part"


class Seal:
    """Fills the digests into a part that is written with :data:`EMPTY_SEAL`; its pages are hashed as they are written.

    A thread hashes while another one writes, since an encoder on all cores is held up by its slowest one: two threads
    side by side are meant to hold it up for less long than one that does both.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._digest, self._hashed = path, hashlib.sha256(), 0
        self._thread = ThreadPoolExecutor(1, "bertfeat-seal")
        self._begun: list[Future[None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(cancel_futures=True)

    def follow(self) -> None:
        """Begin to hash the pages that were written since, unless that is still going on."""
        if not self._begun or self._begun[-1].done():
            self._begun.append(self._thread.submit(self._hash, self._path.stat().st_size))

    def write(self) -> None:
        """Hash the rest, now that the file is whole, and fill in the digests."""
        for each in self._begun:
            each.result()
        with self._path.open("r+b") as file:
            start, footer = _footer(file, self._path)
            match = _find(footer, self._path)
            self._hash(start)
            pages = self._digest.hexdigest().encode()
            footer = footer[: match.start(1)] + pages + footer[match.end(1) :]
            file.seek(start + match.start(1))
            file.write(pages + _own_digest(footer, match))

    def _hash(self, stop: int) -> None:
        with self._path.open("rb") as file:
            _update(self._digest, file, self._hashed, stop)
        self._hashed = stop


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
    _update(digest, file, 0, stop)
    return digest.hexdigest().encode()


def _update(digest: "hashlib._Hash", file: BufferedIOBase, start: int, stop: int) -> None:
    """Hash the file's bytes from ``start`` to ``stop``."""
    buffer = memoryview(bytearray(1 << 20))
    left = stop - start
    file.seek(start)
    while left > 0 and (count := file.readinto(buffer[: min(left, len(buffer))])):
        digest.update(buffer[:count])
        left -= count

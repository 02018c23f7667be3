"""Sizes and digests of a folder's files, by which a result is known to be as it was written.

The parts of a feature set carry their digests in themselves (:mod:`bertfeat.features.seal`), because a run in a bucket
sends them off while it writes them.
"""

import os
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Annotated

import xxhash
from msgspec import Meta

from bertfeat.io.regular import open_regular


@dataclass(frozen=True, slots=True)
class FileDigest:
    """The size and digest of a file, as another file records them."""

    bytes: Annotated[int, Meta(ge=0, le=2**62)]
    xxh3: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]  # 128 bits, computed seven times as fast as sha256


def digest_file(path: Path) -> FileDigest:
    """The size and digest of a file.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    with open_regular(path) as file:
        digest = file_digest(file, xxhash.xxh3_128)
        return FileDigest(os.fstat(file.fileno()).st_size, digest.hexdigest())


def find_difference(folder: Path, recorded: Mapping[str, FileDigest], *, unread: Collection[str] = ()) -> str | None:
    """Describe the first file that is not the one that was recorded, by name; None where all are.

    Args:
        folder: Where the files are.
        recorded: Their sizes and digests.
        unread: Names of files of which only the size is compared; of all others every byte is read.
    """
    for name, digest in recorded.items():
        path = folder / name
        try:
            status = path.stat()  # first, so that neither a pipe nor a huge file in its place is read
            if not stat.S_ISREG(status.st_mode):
                return f"{name} is not a regular file"
            if status.st_size != digest.bytes:
                sizes = f"{status.st_size:,} bytes, but {digest.bytes:,} were written"
                return f"{name} has {sizes}: it was cut off or replaced"
            if name not in unread and digest_file(path) != digest:
                return f"{name} was changed after it was written"
        except FileNotFoundError:
            return f"{name} is missing"
        except OSError as error:
            return f"{name} cannot be read ({error.strerror or error})"
    return None

"""Sizes and digests of a folder's files, as a record of the folder has them."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import file_digest
from os import fstat
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from bertfeat.io.regular import open_regular


class FilesDifferError(ValueError):
    """A file is not the one that was recorded. The message says why; the caller adds the remedy."""


@dataclass(frozen=True, slots=True)
class FileDigest:
    """The size and digest of a file, as another file records them."""

    bytes: Annotated[int, Meta(ge=0)]
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


def digest_file(path: Path) -> FileDigest:
    """The size and digest of a file.

    Raises:
        OSError: it cannot be read.
    """
    with open_regular(path) as file:
        digest = file_digest(file, "sha256")
        return FileDigest(fstat(file.fileno()).st_size, digest.hexdigest())


def check_recorded_files(folder: Path, digests: Mapping[str, FileDigest]) -> None:
    """Read every byte of a folder's files and compare it with what was recorded of them, by name.

    Raises:
        FilesDifferError: names the first file that is missing, or holds something else.
    """
    for name, recorded in digests.items():
        try:
            size = (folder / name).stat().st_size  # first, so that a huge file in its place is not read
            found = digest_file(folder / name) if size == recorded.bytes else FileDigest(size, "")
        except OSError as error:
            raise FilesDifferError(f"{name} is missing or cannot be read ({error.strerror or error})") from error
        if found.bytes != recorded.bytes:
            raise FilesDifferError(f"{name} has {found.bytes:,} bytes, and had {recorded.bytes:,} when it was written")
        if found != recorded:
            raise FilesDifferError(f"{name} was changed after it was written: its sha256 differs")

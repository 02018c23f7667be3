"""The interface of a store: the operations that a file system or bucket must support, and the stamps of files."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Protocol

MOST_BYTES = 1 << 28
"""Bytes of the largest file that is read whole (256 MiB): enough for a manifest of 500,000 parts."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """Values that change when a file does: size, and the store's tag (an e-tag; locally, time of change and inode)."""

    size: int
    tag: str
    version: str = field(default="", compare=False)  # needed by some stores besides the tag, but not in their listings


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file in a listing."""

    name: str  # below the folder that was listed
    stamp: Stamp


class Store(Protocol):
    """Storage of whole files by name: a local file system, or a bucket.

    Names of a local store are paths. A file appears whole or not at all. Errors are
    :class:`bertfeat.errors.StorageError`, except that reading a single local file raises ``OSError``, and a missing
    file in any store is a ``FileNotFoundError``.
    """

    def open(self, name: str) -> BufferedReader:
        """Open a file for reading; the stream can seek."""

    def read(self, name: str) -> bytes:
        """Read a whole file, of no more than :data:`MOST_BYTES`."""

    def stamp(self, name: str) -> Stamp:
        """Size and tag of a file."""

    def list(self, folder: str, prefix: str = "") -> Iterator[StoredFile]:
        """The files at any depth below a folder whose names, below it, begin with ``prefix``; in no order."""

    def put(self, name: str, content: bytes | Path, *, if_absent: bool = False) -> Stamp | None:
        """Write a file, replacing an existing one; ``content`` is bytes, or a local file to copy.

        With ``if_absent`` an existing file stays, and None is returned if its content differs: the first of several
        writers wins, and the others succeed if they write the same content.
        """

    def replace(self, name: str, content: bytes, stamp: Stamp) -> Stamp | None:
        """Replace a file only if it still has that stamp; else return None.

        As with :meth:`put`, a file that already has this content counts as written.
        """

    def move(self, name: str, target: str) -> None:
        """Give a file another name; what has that name is replaced."""

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""

"""The operations that storage must support."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Protocol

MOST_BYTES = 1 << 28
"""Bytes of the largest file that is read whole: the size of a manifest of 500,000 parts."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """Values that change when a file does: size, and the store's own tag (an e-tag; locally the time of its change)."""

    size: int
    tag: str
    version: str = field(default="", compare=False)  # what some stores ask for beside the tag, and do not list


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as a listing has it."""

    name: str  # below the folder that was listed
    stamp: Stamp


class Store(Protocol):
    """Storage of whole files by name: a local file system, or a bucket.

    Names of a local store are paths. A file appears whole or not at all. Errors are
    :class:`bertfeat.errors.StorageError`; what is said of one local file for reading is an ``OSError``, and of a
    missing file anywhere ``FileNotFoundError``.
    """

    def open(self, name: str) -> BufferedReader:
        """Open a file for reading; it can be sought in."""

    def read(self, name: str) -> bytes:
        """Read a whole file, of no more than :data:`MOST_BYTES`."""

    def stamp(self, name: str) -> Stamp:
        """Size and tag of a file."""

    def list(self, folder: str, prefix: str = "") -> Iterator[StoredFile]:
        """The files at any depth below a folder whose names, below it, begin with ``prefix``; in no order."""

    def put(self, name: str, content: bytes | Path, *, if_absent: bool = False) -> Stamp | None:
        """Write a file, its content given or copied from a local file; replace one of that name.

        With ``if_absent`` a file of that name stays, and None is returned if its content is another one: of several
        writers the first one wins, and those who wrote the same as it do no harm and need not know.
        """

    def replace(self, name: str, content: bytes, stamp: Stamp) -> Stamp | None:
        """Write a file only if the one that is there still has that stamp; else None.

        As with :meth:`put`, one that has this very content by now counts as written.
        """

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""

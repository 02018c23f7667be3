"""sha256 digests of a model's files. A file is hashed at most once while it stays as it is.

Digests are remembered in this process and, for large files, in ``digests.json`` in the user's cache folder
(``$XDG_CACHE_HOME/bertfeat``, by default ``~/.cache/bertfeat``). The environment variable ``BERTFEAT_CACHE`` names
another folder; where it is empty, no file is kept.
"""

import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from bertfeat.errors import BertfeatError
from bertfeat.io import atomic, decode_json, encode_json, open_regular, read_regular, user_cache

_FILE = "digests.json"
_MOST_ENTRIES = 256
_SETTLED = 2_000_000_000  # nanoseconds; a younger file may change again without a change of its time
_LEAST_BYTES = 1 << 20  # of a file whose digest is worth a line in the cache


@dataclass(frozen=True, slots=True)
class _FileStatus:
    """The identity of a file's content, by its status: it changes when the file does."""

    path: str
    device: int
    inode: int
    size: int
    modified: int  # nanoseconds
    changed: int  # nanoseconds, of the inode; no program can set this time back

    @classmethod
    def of(cls, path: str, status: os.stat_result) -> "_FileStatus":
        return cls(path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    @property
    def settled(self) -> bool:
        """Whether the file was last changed long enough ago."""
        return time.time_ns() - max(self.modified, self.changed) > _SETTLED


@dataclass(frozen=True, slots=True)
class _Entry:
    state: _FileStatus
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


@dataclass(frozen=True, slots=True)
class _Cache:
    entries: tuple[_Entry, ...] = ()  # the oldest first


_known_digests: dict[_FileStatus, str] = {}  # of this process


def file_digest(file: Path) -> str:
    """Compute the sha256 of a file, or recall it where the file is as it was.

    Raises:
        OSError: it cannot be read.
    """
    path = os.path.realpath(file)
    with open_regular(file) as stream:
        before = _FileStatus.of(path, os.fstat(stream.fileno()))
        if known := _known_digests.get(before) or _recall(before):
            _known_digests[before] = known
            return known
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        if _FileStatus.of(path, os.fstat(stream.fileno())) == before:  # else it was written to meanwhile
            _known_digests[before] = sha256
            _store(before, sha256)
    return sha256


# ── the cache on disk ───────────────────────────────────────────────────────────────────────────────────────


def _cache_file() -> Path | None:
    folder = user_cache()
    return None if folder is None else folder / _FILE


def _read_cache(file: Path) -> _Cache:
    """Read the cache; where it is missing, damaged or unreadable, it is empty."""
    try:
        return decode_json(read_regular(file), _Cache)
    except (OSError, ValueError):  # JsonError is one of these
        return _Cache()


def _recall(state: _FileStatus) -> str | None:
    file = _cache_file()
    if file is None or state.size < _LEAST_BYTES or not state.settled:
        return None
    return next((entry.sha256 for entry in _read_cache(file).entries if entry.state == state), None)


def _store(state: _FileStatus, sha256: str) -> None:
    """Keep a digest on disk. Where that cannot be done, nothing is lost but time."""
    file = _cache_file()
    if file is None or state.size < _LEAST_BYTES or not state.settled:
        return
    others = [entry for entry in _read_cache(file).entries if entry.state.path != state.path]
    entries = [*others, _Entry(state, sha256)][-_MOST_ENTRIES:]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic(file) as temporary:
            temporary.write_text(encode_json(_Cache(tuple(entries))), "utf-8")
    except (BertfeatError, OSError, ValueError):
        return

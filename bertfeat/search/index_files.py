"""The files of a version of an index: opened together and checked against the record; sealed after a build.

The record names the subfolder of the current version, whose files are never changed (:mod:`.versions`). A reader opens
all of them at once, and begins again if the record was replaced meanwhile. They stay open or mapped, so they can be
read even after the version is removed; no file is opened later.

At every opening the sizes of all files are checked, and the digests of those up to 16 MiB (5 ms). Digesting a larger
index, of which a search reads only a part, takes 0.4 s per 1.5 GB (a million vectors of 384 values) from memory and
1.8 s from disk; that is left to :func:`bertfeat.search.verify_index`. FAISS checks what it reads, with one exception:
where inverted lists are in a file of their own, it does not check their places in it. So an ``index.faiss`` that holds
such places is digested whatever its size. Arrow files are validated as they are read (:mod:`.document_store`).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.errors import BertfeatError, IndexFolderError, UsageError
from bertfeat.io import Stamp, digest_file, file_stamp, sync
from bertfeat.search.document_store import DIGEST_BYTES, PIECES_SCHEMA, SOURCE, ArrowStore
from bertfeat.search.reranking.kept_tokens import KeptTokens, map_array
from bertfeat.search.settings import (
    DIGESTS_NAME,
    DOCUMENTS_NAME,
    ENCODING_NAME,
    FAISS_NAME,
    FILE_NAMES,
    FORMAT_VERSION,
    INDEX_FORMAT,
    LISTS_NAME,
    PIECES_NAME,
    REBUILD,
    REMOVED_NAME,
    SETTINGS_NAME,
    IndexSettings,
    read_index_settings,
)
from bertfeat.search.vectors import faiss_index
from bertfeat.search.vectors.faiss_import import FaissIndex, faiss_message
from bertfeat.search.vectors.faiss_index import find_mismatch
from bertfeat.search.vectors.token_encoding import TokenEncoding

_DOCUMENTS = pa.schema([("row", pa.int64()), ("id", pa.large_string()), (SOURCE, pa.int32())])
_DIGESTED_AT_OPENING = 16 << 20  # bytes
_MOST_TRIES = 100

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _IndexContents:
    """The open files of one version."""

    settings: IndexSettings
    faiss_index: FaissIndex
    documents: ArrowStore
    text_digests: NDArray[np.uint8]  # [D, 16]
    pieces: ArrowStore | None  # None where there is one vector per document
    removed: NDArray[np.bool_] | None  # which vectors are tombstones; None if none are
    encoding: TokenEncoding | None  # None where vectors are not encodings of tokens
    tokens: KeptTokens | None  # None where none are kept


def read_current(folder: Path, read: Callable[[IndexSettings, Path], T]) -> T:
    """Call ``read`` with an index's record and its version's folder; again if the record was replaced meanwhile."""
    for _ in range(_MOST_TRIES):
        stamp = _record_stamp(folder)
        try:
            settings = read_index_settings(folder)
            result = read(settings, folder / settings.version)
            if _record_stamp(folder) == stamp:
                return result
        except (BertfeatError, OSError):
            if _record_stamp(folder) == stamp:
                raise
    raise IndexFolderError("other runs replace it without a pause", where=folder, remedy="try again when they are done")


def _record_stamp(folder: Path) -> Stamp | None:
    """The stamp of the record's file, by which a replaced record is recognized; None where there is no record."""
    try:
        return file_stamp(folder / SETTINGS_NAME)
    except OSError:  # reading the record reports it
        return None


def check_files(version: Path, settings: IndexSettings, *, digest_up_to: int = _DIGESTED_AT_OPENING) -> None:
    """Check the size of every file of a version, and the digests of files of at most ``digest_up_to`` bytes."""
    unread = {name for name, file in settings.files.items() if file.bytes > digest_up_to}
    if LISTS_NAME in settings.files:
        unread.discard(FAISS_NAME)
    INDEX_FORMAT.check_files(version, settings.files, "this is not the index that was written", unread=unread)


def open_contents(settings: IndexSettings, folder: Path, *, mapped: bool) -> _IndexContents:
    """Open every file of a version; the FAISS index is ``mapped``, or read into memory so that it can be changed."""
    check_files(folder, settings)
    schema = _DOCUMENTS.append(pa.field("text", pa.large_string())) if settings.has_text else _DOCUMENTS
    below = {"document": settings.documents, "segment": 2}
    pieces = None if settings.per_document else ArrowStore(folder / PIECES_NAME, PIECES_SCHEMA, below=below)
    lists = folder / LISTS_NAME if LISTS_NAME in settings.files else None
    contents = _IndexContents(
        settings,
        faiss_index.read_faiss_index(folder / FAISS_NAME, mapped=mapped, lists=lists),
        ArrowStore(folder / DOCUMENTS_NAME, schema, below={SOURCE: len(settings.sources)}, gaps=["text"]),
        map_array(folder / DIGESTS_NAME, np.dtype(np.uint8), (settings.documents, DIGEST_BYTES)),
        pieces,
        _read_removed(folder / REMOVED_NAME, settings.count) if settings.tombstones else None,
        _read_encoding(folder / ENCODING_NAME, settings),
        None if settings.tokens is None else KeptTokens(folder, settings, settings.tokens),
    )
    _check_contents(folder, contents)
    return contents


def _read_encoding(path: Path, settings: IndexSettings) -> TokenEncoding | None:
    shape = settings.encoding
    if shape is None:
        return None
    array = map_array(path, np.dtype(np.float32), (shape.partitions + shape.values, settings.column.width))
    return TokenEncoding.from_array(array, shape)


def _read_removed(path: Path, count: int) -> NDArray[np.bool_]:
    removed: NDArray[np.bool_] = map_array(path, np.dtype(np.bool_), (count,)).view(np.uint8) != 0
    return removed


def _check_contents(folder: Path, contents: _IndexContents) -> None:
    settings, index = contents.settings, contents.faiss_index
    if (index.ntotal, index.d) != (settings.count, settings.width):
        raise IndexFolderError(
            f"{folder / FAISS_NAME} holds {index.ntotal:,} vectors of {index.d} values, but "
            f"{settings.count:,} of {settings.width} were written",
            remedy=REBUILD,
        )
    if index.metric_type != settings.metric.faiss_metric:
        raise IndexFolderError(f"{folder / FAISS_NAME} is not of the metric {settings.metric}", remedy=REBUILD)
    if problem := find_mismatch(index, settings):
        raise IndexFolderError(f"{folder / FAISS_NAME} is not the index that was written: {problem}", remedy=REBUILD)
    removed = 0 if contents.removed is None else int(contents.removed.sum())
    pieces = settings.count if contents.pieces is None else len(contents.pieces)
    for name, read, written in (
        (DOCUMENTS_NAME, len(contents.documents), settings.documents),
        (PIECES_NAME, pieces, settings.count),
        (REMOVED_NAME, removed, settings.tombstones),
    ):
        if read != written:
            raise IndexFolderError(
                f"{folder / name} has {read:,} entries, but {written:,} were written", remedy=REBUILD
            )


def seal_version(settings: IndexSettings, version: Path) -> IndexSettings:
    """Flush the files of a new version to disk, and check that they can be opened.

    Returns the settings with the name of the version, and the sizes and digests of its files. The check is needed
    because FAISS cannot read every index that it writes.
    """
    paths = [path for path in sorted(version.iterdir()) if path.name in FILE_NAMES]
    for path in paths:
        sync(path)
    sync(version)
    sync(version.parent)
    files = {path.name: digest_file(path) for path in paths}
    settings = replace(
        settings, format_version=FORMAT_VERSION, version=version.name, made=int(time.time()), files=files
    )
    try:
        open_contents(settings, version, mapped=True)
    except IndexFolderError as error:
        if not isinstance(error.__cause__, RuntimeError):
            raise
        problem = f"FAISS cannot make {settings.factory!r}: what it wrote it cannot read again"
        raise UsageError(f"{problem} ({faiss_message(error.__cause__)})", remedy="choose another type") from error
    return settings

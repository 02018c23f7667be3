"""The files of a version: opened together and checked against the record of the index; sealed after a build."""

from dataclasses import dataclass, replace
from pathlib import Path
from tokenize import TokenError

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.errors import IndexFolderError, UsageError
from bertfeat.io import digest_file, open_regular, sync
from bertfeat.search.document_store import PIECES_SCHEMA, SOURCE, ArrowStore
from bertfeat.search.folder import check_files
from bertfeat.search.reranking.kept_tokens import KeptTokens
from bertfeat.search.settings import (
    DOCUMENTS_NAME,
    FAISS_NAME,
    FILE_NAMES,
    FORMAT_VERSION,
    LISTS_NAME,
    PIECES_NAME,
    REBUILD,
    REMOVED_NAME,
    IndexSettings,
)
from bertfeat.search.vectors import faiss_index
from bertfeat.search.vectors.faiss_factory import find_mismatch
from bertfeat.search.vectors.faiss_import import FaissIndex, faiss_message

_DOCUMENTS = pa.schema([("row", pa.int64()), ("id", pa.large_string()), (SOURCE, pa.int32())])
_TEXT = pa.field("text", pa.large_string())


@dataclass(frozen=True, slots=True)
class IndexContents:
    """The open files of one version."""

    settings: IndexSettings
    faiss_index: FaissIndex
    documents: ArrowStore
    pieces: ArrowStore | None  # None where there is one vector a document
    removed: NDArray[np.bool_] | None  # which vectors are tombstones, if any
    tokens: KeptTokens | None  # None where none are kept


def open_contents(settings: IndexSettings, folder: Path, *, mapped: bool) -> IndexContents:
    """Open every file of a version; the FAISS index ``mapped``, or read into memory so that it can be changed.

    Raises:
        IndexFolderError: a file is missing, changed, or contradicts the others.
    """
    check_files(folder, settings)
    below = {"document": settings.documents, "segment": 2}
    pieces = None if settings.per_document else ArrowStore(folder / PIECES_NAME, PIECES_SCHEMA, below=below)
    lists = folder / LISTS_NAME if LISTS_NAME in settings.files else None
    contents = IndexContents(
        settings,
        faiss_index.read_faiss_index(folder / FAISS_NAME, mapped=mapped, lists=lists),
        ArrowStore(
            folder / DOCUMENTS_NAME, _expected_schema(settings), below={SOURCE: len(settings.sources)}, gaps=["text"]
        ),
        pieces,
        _read_removed(folder / REMOVED_NAME, settings.count) if settings.tombstones else None,
        None if settings.tokens is None else KeptTokens(folder, settings, settings.tokens),
    )
    _check_contents(folder, contents)
    return contents


def _expected_schema(settings: IndexSettings) -> pa.Schema:
    return _DOCUMENTS.append(_TEXT) if settings.has_text else _DOCUMENTS


def _read_removed(path: Path, count: int) -> NDArray[np.bool_]:
    try:
        with open_regular(path) as file:
            np.lib.format.read_magic(file)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            if shape != (count,) or dtype != np.dtype(bool):
                raise ValueError(f"{list(shape)} of {dtype}, where [{count}] of bool is expected")
            data = file.read()
    except (OSError, ValueError, SyntaxError, TokenError) as error:
        raise IndexFolderError(f"cannot be read ({error})", where=path, remedy=REBUILD) from error
    if len(data) != count:
        raise IndexFolderError(f"cannot be read ({len(data):,} values of {count:,})", where=path, remedy=REBUILD)
    removed: NDArray[np.bool_] = np.frombuffer(data, np.uint8) != 0
    return removed


def _check_contents(folder: Path, contents: IndexContents) -> None:
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
    """Bring the files of a new version onto the disk, and check that they can be opened.

    Returns:
        The settings with the name of the version, and the sizes and digests of its files.

    Raises:
        UsageError: what FAISS wrote it cannot read again, which happens with some types.
        StorageError: the folder cannot be written.
    """
    paths = [path for path in sorted(version.iterdir()) if path.name in FILE_NAMES]
    for path in paths:
        sync(path)
    sync(version)
    sync(version.parent)
    files = {path.name: digest_file(path) for path in paths}
    settings = replace(settings, format_version=FORMAT_VERSION, version=version.name, files=files)
    try:
        open_contents(settings, version, mapped=True)
    except IndexFolderError as error:
        if not isinstance(error.__cause__, RuntimeError):
            raise
        problem = f"FAISS cannot make {settings.factory!r}: what it wrote it cannot read again"
        raise UsageError(f"{problem} ({faiss_message(error.__cause__)})", remedy="choose another type") from error
    return settings

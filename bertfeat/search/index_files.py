"""Everything that an index folder holds, opened together and held against its settings."""

from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.errors import IndexFolderError
from bertfeat.io import open_regular
from bertfeat.search import faiss_index
from bertfeat.search.document_store import PIECES_SCHEMA, SOURCE, ArrowStore
from bertfeat.search.faiss_structure import find_mismatch
from bertfeat.search.folder import check_files
from bertfeat.search.settings import (
    DOCUMENTS_NAME,
    FAISS_NAME,
    LISTS_NAME,
    PIECES_NAME,
    REMOVED_NAME,
    IndexSettings,
    read_index_settings,
)

_DOCUMENTS = pa.schema([("row", pa.int64()), ("id", pa.large_string())])
_TEXT = pa.field("text", pa.large_string())


@dataclass(frozen=True, slots=True)
class IndexContents:
    """The open files of one index."""

    settings: IndexSettings
    faiss_index: Any
    documents: ArrowStore
    pieces: ArrowStore | None  # None where there is one vector a document
    removed: NDArray[np.bool_] | None  # which vectors are tombstones, if any


def open_contents(folder: Path, *, mapped: bool) -> IndexContents:
    """Open every file of an index; the FAISS index ``mapped``, or read into memory so that it can be changed.

    Raises:
        IndexFolderError: it is no index, or a file is missing, changed, or does not fit the others.
    """
    settings = read_index_settings(folder)
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
    )
    _check_lengths(folder, contents)
    return contents


def _expected_schema(settings: IndexSettings) -> pa.Schema:
    source = pa.int16() if settings.format_version == 1 else pa.int32()
    schema = _DOCUMENTS.append(pa.field(SOURCE, source))
    return schema.append(_TEXT) if settings.has_text else schema


def _read_removed(path: Path, count: int) -> NDArray[np.bool_]:
    try:
        with open_regular(path) as file:
            np.lib.format.read_magic(file)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            if shape != (count,) or dtype != np.dtype(bool):
                raise ValueError(f"{list(shape)} of {dtype}, where [{count}] of bool is expected")
            data = file.read()
    except (OSError, ValueError, SyntaxError, TokenError) as error:
        raise IndexFolderError(f"{path}: cannot be read ({error}); build the index again") from error
    if len(data) != count:
        raise IndexFolderError(f"{path}: cannot be read ({len(data):,} values of {count:,}); build the index again")
    removed: NDArray[np.bool_] = np.frombuffer(data, np.uint8) != 0
    return removed


def _check_lengths(folder: Path, contents: IndexContents) -> None:
    settings, index = contents.settings, contents.faiss_index
    if (index.ntotal, index.d) != (settings.count, settings.width):
        raise IndexFolderError(
            f"{folder / FAISS_NAME} holds {index.ntotal:,} vectors of {index.d} values, but "
            f"{settings.count:,} of {settings.width} were written; build the index again"
        )
    if index.metric_type != settings.metric.faiss_metric:
        raise IndexFolderError(f"{folder / FAISS_NAME} is not of the metric {settings.metric}; build the index again")
    if problem := find_mismatch(index, settings, whole=False):
        raise IndexFolderError(
            f"{folder / FAISS_NAME} is not the index that was written: {problem}; build the index again"
        )
    removed = 0 if contents.removed is None else int(contents.removed.sum())
    pieces = settings.count if contents.pieces is None else len(contents.pieces)
    for name, found, written in (
        (DOCUMENTS_NAME, len(contents.documents), settings.documents),
        (PIECES_NAME, pieces, settings.count),
        (REMOVED_NAME, removed, settings.tombstones),
    ):
        if found != written:
            raise IndexFolderError(
                f"{folder / name} has {found:,} entries, but {written:,} were written; build the index again"
            )

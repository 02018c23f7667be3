"""Verification of an index: every byte against its digest, and its files against one another.

Shapes: n vectors of a block, D documents, W values in a vector.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from bertfeat.arguments import checked
from bertfeat.display import displayed
from bertfeat.errors import BertfeatError, IndexFolderError
from bertfeat.features import FeatureSet
from bertfeat.io import Address, Location
from bertfeat.search.building.feature_source import document_fields
from bertfeat.search.document_store import SOURCE, document_schema
from bertfeat.search.folder import check_files, read_current
from bertfeat.search.index_copy import index_on_disk
from bertfeat.search.reranking.kept_tokens import check_tokens
from bertfeat.search.settings import (
    DOCUMENTS_NAME,
    FAISS_NAME,
    PIECES_NAME,
    REBUILD,
    IndexSettings,
)
from bertfeat.search.source_sets import changed_sources, unchanged_sources
from bertfeat.search.vector_index import VectorIndex
from bertfeat.search.vectors.faiss_import import FaissIndex, InvertedIndex, faiss
from bertfeat.search.vectors.faiss_index import flat_storage, inverted_index
from bertfeat.search.vectors.faiss_structure import find_mismatch
from bertfeat.search.vectors.metric import Metric
from bertfeat.search.vectors.whitening import has_sound_matrix

_BLOCK_ROWS = 16_384
_UNKNOWN = np.iinfo(np.int64).max  # characters of a text that is not kept
_LENGTH_ERROR = 1e-3  # of a vector that was scaled to length 1 in float32


@displayed
@dataclass(frozen=True, slots=True)
class IndexReport:
    """A sound index, and how much of it was checked."""

    settings: IndexSettings
    files: int  # beside the record
    bytes: int
    documents: int
    vectors: int
    compared: int  # vectors that are stored whole, each of which was checked
    changed_sources: tuple[str, ...]  # feature sets that exist, but changed


@checked
def verify_index(folder: str | Path | Address) -> IndexReport:
    """Check every byte of an index against the digests in its record, then its files against one another.

    The digests come first, so nothing that was changed is handed to FAISS. Of an index at an address, the copy on this
    machine is checked that a search would open.

    Raises:
        IndexFolderError: the first thing that does not hold; or it is no index.
    """
    place = index_on_disk(folder)

    def check_digests(settings: IndexSettings, version: Path) -> tuple[VectorIndex, int]:
        size = check_files(version, settings, digest_up_to=1 << 62)
        return VectorIndex(place), size

    index, size = read_current(place, check_digests)
    _read_documents(index)
    _check_stored_columns(index)
    if index.pieces is not None:
        _check_pieces(index)
    if index.tokens is not None:
        living = np.ones(len(index.documents), bool) if index.removed is None else ~index.removed
        check_tokens(index.tokens, living)
    compared = _check_vectors(index)
    settings = index.settings
    changed = tuple(_list_changed_sources(settings))
    return IndexReport(settings, len(settings.files), size, settings.documents, settings.count, compared, changed)


def _file_of(index: VectorIndex, name: str) -> Location:
    return index.folder / index.settings.version / name


def _read_documents(index: VectorIndex) -> None:
    """Reading checks that values are of their types, and that every document has a row, an id and a source."""
    for _ in index.documents.batches():
        pass


def _check_stored_columns(index: VectorIndex) -> None:
    """Check that model, settings, columns and texts are those of the feature sets that did not change."""
    path, settings = _file_of(index, DOCUMENTS_NAME), index.settings
    ours = document_schema([(index.folder, index.documents.schema)])
    for number, features in unchanged_sources(settings):
        if number == 0 and not settings.updates:
            _check_recorded(index.folder, settings, features)
        for field in document_schema([(features.folder, document_fields(features, settings.has_text))]):
            if field not in ours:
                raise IndexFolderError(
                    f"{path} has no column {field.name!r} of {field.type}, and {features.folder} has", remedy=REBUILD
                )
        # a set that was appended again may have had no texts before
        if settings.has_text and not settings.updates and "text" in features.names:
            _refuse_if(_textless(index, number), path, f"documents have no text, and {features.folder} has them")


def _check_recorded(folder: Location, settings: IndexSettings, features: FeatureSet) -> None:
    """Check that the index records the model and the settings of the first feature set that it was built from."""
    header = features.header
    differ = [str(each) for each in settings.extraction.differences(header.settings)]
    if settings.model.fingerprint != header.model.fingerprint:
        differ.append(f"the fingerprint of the model {settings.model.fingerprint} and {header.model.fingerprint}")
    if differ:
        problem = f"it records other settings than {features.folder} has: {'; '.join(differ)}"
        raise IndexFolderError(problem, where=folder, remedy=REBUILD)


def _textless(index: VectorIndex, source: int) -> int:
    """Count the documents of a source that have no text."""
    count = 0
    for batch in index.documents.batches(["text", SOURCE]):
        without_text = batch.column("text").is_null().to_numpy(False)
        count += int((without_text & (batch.column(SOURCE).to_numpy() == source)).sum())
    return count


def _check_pieces(index: VectorIndex) -> None:
    """Check that every token or word is within the text of a document."""
    path, ends = _file_of(index, PIECES_NAME), _lengths_of_texts(index)
    for batch in index.pieces.batches() if index.pieces is not None else ():
        owner, start, end, segment = (batch.column(name).to_numpy() for name in ("document", "start", "end", "segment"))
        outside = (start < 0) | (end <= start)
        if ends is not None:
            outside |= end > ends[segment, owner]
        _refuse_if(int(outside.sum()), path, "tokens or words are not within their texts")


def _lengths_of_texts(index: VectorIndex) -> NDArray[np.int64] | None:
    """Count the characters in the text and the pair of each document, ``[2, D]``; None where no texts are kept.

    A document of a feature set without texts may have any number.
    """
    if not index.settings.has_text:
        return None
    lengths = np.zeros((2, len(index.documents)), np.int64)
    names = [name for name in ("text", "pair") if name in index.documents.schema.names]
    start = 0
    for batch in index.documents.batches(names):
        rows = slice(start, start + len(batch))
        for segment, column in enumerate(batch.columns):
            lengths[segment, rows] = pc.fill_null(pc.utf8_length(column), 0).to_numpy()
        lengths[:, rows][:, batch.column(0).is_null().to_numpy(False)] = _UNKNOWN
        start += len(batch)
    return lengths


def _check_vectors(index: VectorIndex) -> int:
    """Check that every vector is finite, of length 1 or 0 under cosine, and in one list; and count the zero vectors.

    Returns:
        How many vectors were checked: those that are stored whole.
    """
    path, settings = _file_of(index, FAISS_NAME), index.settings
    if problem := find_mismatch(index.faiss_index, settings, whole=True):
        raise IndexFolderError(f"{path} is not the index that was written: {problem}", remedy=REBUILD)
    if settings.transform is not None and not has_sound_matrix(index.faiss_index):
        raise IndexFolderError("the matrix that whitens vectors is not finite", where=path, remedy=REBUILD)
    seen, zero = np.zeros(settings.count, np.uint8), 0
    compared = 0
    for numbers, vectors in _stored_vectors(index.stored_index):
        _refuse_if(
            int(((numbers < 0) | (numbers >= settings.count)).sum()), path, "vectors have numbers beyond the last"
        )
        np.add.at(seen, numbers, 1)
        if vectors is None:
            continue
        compared += len(vectors)
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        _refuse_if(int((~np.isfinite(lengths)).sum()), path, "vectors are not finite")
        if settings.metric is Metric.COSINE:
            unscaled = (np.abs(lengths - 1) > _LENGTH_ERROR) & (lengths > 0)
            _refuse_if(int(unscaled.sum()), path, "vectors are not of length 1")
        living = np.ones(len(numbers), bool) if index.removed is None else ~index.removed[numbers]
        zero += int((living & (lengths == 0)).sum())
    _refuse_if(int((seen != 1).sum()), path, "vectors are missing, or there twice")
    if compared == settings.count and zero != settings.zero_vectors:
        raise IndexFolderError(
            f"{path} holds {zero:,} zero vectors, but {settings.zero_vectors:,} were written", remedy=REBUILD
        )
    return compared


def _stored_vectors(index: FaissIndex) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32] | None]]:
    """The numbers of all vectors, and the vectors where they are stored whole, as they were given to FAISS."""
    inverted = inverted_index(index)
    if inverted is not None:
        whole = type(faiss.downcast_index(index)) is faiss.IndexIVFFlat  # others of its kind order values otherwise
        yield from _list_vectors(inverted, whole)
        return
    flat = flat_storage(index)
    for start in range(0, int(index.ntotal), _BLOCK_ROWS):
        numbers = np.arange(start, min(start + _BLOCK_ROWS, int(index.ntotal)))
        yield numbers, None if flat is None else flat.reconstruct_n(start, len(numbers))


def _list_vectors(
    inverted: InvertedIndex, whole: bool
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32] | None]]:
    """The same of inverted lists, a list at a time."""
    lists = faiss.downcast_InvertedLists(inverted.invlists)
    for number in range(int(inverted.nlist)):
        size = int(lists.list_size(number))
        if not size:
            continue
        numbers = faiss.rev_swig_ptr(lists.get_ids(number), size).copy()
        codes = faiss.rev_swig_ptr(lists.get_codes(number), size * int(lists.code_size)) if whole else None
        yield numbers, None if codes is None else codes.copy().view(np.float32).reshape(size, int(inverted.d))


def _list_changed_sources(settings: IndexSettings) -> Iterator[str]:
    try:
        for source, _ in changed_sources(settings):
            yield source.path
    except BertfeatError as error:  # the folder is no sound feature set any more
        yield str(error)


def _refuse_if(count: int, path: Location, problem: str) -> None:
    if count:
        raise IndexFolderError(f"{count:,} {problem}", where=path, remedy=REBUILD)

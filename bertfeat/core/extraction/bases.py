"""The bases by which token and word vectors are stored in fewer values, learned from a sample of the corpus.

The directions are the eigenvectors of the greatest eigenvalues of the sample's second moments, ``XᵀX``: among all
choices of so many directions they lose least of the squared lengths of the sample's vectors X.

Shapes: n vectors of width W, stored by K coordinates.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertfeat.core.corpus import Corpus, Document
from bertfeat.core.extraction.sample import Reservoir
from bertfeat.core.features import FeatureSet, PartHeader
from bertfeat.core.recipe import Basis, FeatureColumn, Pooling
from bertfeat.errors import FeatureSetError, UsageError, parameter

if TYPE_CHECKING:
    from bertfeat.core.extraction.sentence_transformers.extractor import Extractor

DOCUMENTS = 2000
"""The documents of the sample."""
FIRST_ROWS = 100_000
"""The rows at the beginning of the corpus that the sample is drawn from."""
VECTORS = 50_000
"""The vectors after which no more documents of the sample are computed."""

_LONGEST_TEXT = 20_000  # characters of a long text that are read
_CHUNK = 500_000  # characters that are computed at once


def check_width(columns: Sequence[FeatureColumn], width: int) -> None:
    """Refuse a width that is not below that of every column of tokens or words.

    Raises:
        UsageError: it is not, or there is no such column.
    """
    pieces = [column for column in columns if not column.pooling.per_document]
    if not pieces:
        raise UsageError(
            "only vectors of tokens and words are shortened, and there are none",
            where=parameter("width", width),
            remedy=f"add {parameter('pooling', str(Pooling.WORD))}, or leave it out",
        )
    for column in pieces:
        if width >= column.width:
            problem = f"{column.name} has {column.width} values"
            raise UsageError(problem, where=parameter("width", width), remedy="give fewer, or leave it out")


def learn_bases(extractor: "Extractor", corpus: Corpus, width: int) -> tuple[FeatureColumn, ...]:
    """The extractor's columns, those of tokens and words with bases of ``width`` directions.

    They are learned from a random sample of 2,000 of the first 100,000 documents, always the same one.
    """
    moments = {
        column.name: np.zeros((column.width, column.width))
        for column in extractor.columns
        if not column.pooling.per_document
    }
    seen = dict.fromkeys(moments, 0)
    for documents in _sample_chunks(corpus):
        content = extractor.compute_rows(extractor.tokenize_rows(documents), pairs=corpus.has_pairs)
        for pieces in (content.tokens, content.words):
            for name, matrix in ({} if pieces is None else pieces.matrices).items():
                vectors = matrix.astype(np.float32, copy=False)
                moments[name] += vectors.T @ vectors
                seen[name] += len(vectors)
        if all(number >= VECTORS for number in seen.values()):
            break
    return tuple(
        replace(column, basis=_basis_of(moments[column.name], width)) if column.name in moments else column
        for column in extractor.columns
    )


def recorded_bases(
    columns: Sequence[FeatureColumn], recorded: PartHeader | None, width: int
) -> tuple[FeatureColumn, ...] | None:
    """The columns with the bases that an earlier run recorded; None where it has none of ``width`` directions."""
    known = {} if recorded is None else {column.name: column.basis for column in recorded.columns}
    found = [
        column if column.pooling.per_document else replace(column, basis=known.get(column.name)) for column in columns
    ]
    whole = all(column.pooling.per_document or (column.basis and column.basis.width == width) for column in found)
    return tuple(found) if whole else None


def take_bases(extractor: "Extractor", features: FeatureSet, width: int | None) -> tuple[FeatureColumn, ...]:
    """The extractor's columns, those of tokens and words with the bases of a feature set.

    Raises:
        FeatureSetError: the set is of another model, or lacks a basis of a column.
        UsageError: the bases do not have ``width`` directions.
    """
    if features.header.model.fingerprint != extractor.identity.fingerprint:
        problem = f"its components are those of vectors of {features.header.model.name}, not of {extractor.model.name}"
        raise FeatureSetError(problem, where=features.folder, remedy="name a set of the same model")
    known = {(column.recipe, column.pooling): column.basis for column in features.columns}
    columns = []
    for column in extractor.columns:
        if not column.pooling.per_document:
            basis = known.get((column.recipe, column.pooling))
            if basis is None:
                problem = f"it has no components of {column.name}"
                remedy = f"name a set that was made with {parameter('width')} and has this column"
                raise FeatureSetError(problem, where=features.folder, remedy=remedy)
            if width is not None and basis.width != width:
                problem = f"{features.folder} has {basis.width} components of {column.name}"
                raise UsageError(problem, where=parameter("width", width), remedy="leave it out")
            column = replace(column, basis=basis)
        columns.append(column)
    check_width(columns, 1)
    return tuple(columns)


def _sample_chunks(corpus: Corpus) -> Iterator[list[Document]]:
    """The documents of the sample, some at a time."""
    sample = Reservoir[Document](DOCUMENTS)
    for row in islice(corpus.rows(), FIRST_ROWS):
        if isinstance(row, Document):
            sample.add(row)
    chunk, characters = list[Document](), 0
    for document in sample.items:
        if document.words is None and document.ids is None:
            document = replace(document, text=document.text[:_LONGEST_TEXT])
        chunk.append(document)
        characters += len(document.text) + len(document.pair or "")
        if characters >= _CHUNK:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _basis_of(moments: NDArray[np.float64], width: int) -> Basis:
    """The eigenvectors of the greatest eigenvalues, the greatest first, each with its largest value positive."""
    _, vectors = np.linalg.eigh(moments)
    chosen = vectors[:, ::-1][:, :width]
    signs = np.sign(chosen[np.abs(chosen).argmax(axis=0), np.arange(width)])
    values = (chosen * signs).astype("<f2")
    exact = values.astype(np.float64)
    total = float(np.trace(moments))
    kept = float(np.einsum("wk,wv,vk->", exact, moments, exact, optimize=True)) / total if total else 1.0
    return Basis(width, round(min(kept, 1.0), 6), values.tobytes())

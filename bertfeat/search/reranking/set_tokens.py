"""The token or word vectors of an index's documents or spans, read from the feature sets that it was made from.

Shapes: D documents, N tokens of all of them, n tokens of one document, W values in a vector.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.core import (
    FeatureSet,
    PiecePositions,
    Pooling,
    ReadableColumn,
    Recipe,
    find_column,
    find_incomparability,
    stored_matrices,
    unit_vectors,
)
from bertfeat.errors import BertfeatError, IndexFolderError, NotDerivableError, parameter
from bertfeat.io import as_location
from bertfeat.search.building.feature_source import describe_source_set, stream_chosen
from bertfeat.search.document_store import SOURCE
from bertfeat.search.reranking.kept_tokens import TokenCounts, distinct_tokens, no_strings_error
from bertfeat.search.settings import REBUILD
from bertfeat.search.vector_index import VectorIndex
from bertfeat.search.verify import update_command


class DocumentTokens(Protocol):
    """The token or word vectors of an index's documents or spans."""

    column: ReadableColumn

    def read(self, numbers: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """The number of each of those documents or spans and its vectors ``[n, W]``, of length 1 or 0, in any order."""
        ...

    def counts(self) -> TokenCounts:
        """Count the documents of the index in which each token occurs, where the tokens themselves are kept."""
        ...


@dataclass(frozen=True, slots=True)
class _TokensWithVectors:
    """The tokens or words of a document that have a vector of their own."""

    vectors: NDArray[np.float32]  # [n, W]
    start: NDArray[np.int32]  # [n] character offsets in the text
    end: NDArray[np.int32]  # [n]
    segment: NDArray[np.int8] | None  # [n] 0 first text, 1 pair

    def whole(self) -> NDArray[np.float32]:
        """The vectors of all, of length 1 or 0."""
        return unit_vectors(self.vectors)

    def in_span(self, start: int, end: int) -> NDArray[np.float32]:
        """The vectors of those that have a character in a span of the first text, of length 1 or 0."""
        inside = (self.start < end) & (self.end > start)
        return unit_vectors(self.vectors[inside if self.segment is None else inside & (self.segment == 0)])


class FeatureSetTokens:
    """The token or word vectors of documents or spans, read from the feature sets: only the row groups of these.

    Refuses a feature set that is gone, has changed since the index was made, or has vectors that cannot be compared.
    """

    def __init__(self, index: VectorIndex, column: str | None) -> None:
        self._index = index
        self._sets = [_unchanged_source(index, number) for number in range(len(index.settings.sources))]
        settings = index.settings
        found = [find_token_column(features, column, settings.column.recipe) for features in self._sets]
        for features, theirs in zip(self._sets, found, strict=True):
            problem = find_incomparability(settings.model, settings.extraction, found[0], features.header, theirs)
            if problem:
                raise IndexFolderError(
                    f"its tokens cannot be compared with the others': {problem}", where=features.folder
                )
        self.column: ReadableColumn = found[0]
        self._columns = found

    def read(self, numbers: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """The number of each of those documents or spans and its vectors ``[n, W]``, a row group at a time."""
        if self._index.pieces is None:
            yield from ((document, tokens.whole()) for document, tokens in self._read_documents(numbers))
            return
        places = self._index.pieces.take(numbers)
        owners, start, end = (places[name].to_numpy() for name in ("document", "start", "end"))
        order = np.argsort(owners, kind="stable")
        documents, first = np.unique(owners[order], return_index=True)
        spans_of = dict(zip(documents.tolist(), np.split(order, first[1:]), strict=True))
        for document, tokens in self._read_documents(documents):
            for at in spans_of[document].tolist():
                yield int(numbers[at]), tokens.in_span(int(start[at]), int(end[at]))

    def _read_documents(self, documents: NDArray[np.int64]) -> Iterator[tuple[int, "_TokensWithVectors"]]:
        table = self._index.documents.take(documents, ["row", SOURCE, "id"])
        rows, sources, ids = table["row"].to_numpy(), table[SOURCE].to_numpy(), table["id"].to_pylist()
        for number in np.unique(sources).tolist():
            own = np.flatnonzero(sources == number)
            order = own[np.argsort(rows[own], kind="stable")].tolist()
            read = self._read_set(number, rows[order])
            for at in order:
                name, tokens = next(read, (None, None))
                if name != ids[at] or tokens is None:
                    raise _other_documents(self._index, number)
                yield int(documents[at]), tokens

    def _read_set(self, number: int, rows: NDArray[np.int64]) -> Iterator[tuple[str, "_TokensWithVectors"]]:
        """The id and the tokens of the document in each of the given rows of a set, which ascend."""
        features, derivation = self._sets[number], self._columns[number].derivation
        stored = derivation.inputs(features.columns)
        names = ["id", *derivation.columns, *PiecePositions.columns(self.column.pooling, features.names)]
        for batch in features.stream_rows(rows.tolist(), names):
            matrix = derivation.apply(stored_matrices(batch, stored))
            pieces = PiecePositions.read(batch, self.column.pooling)
            compared, ends = pieces.compared(self.column.recipe), pieces.offsets.tolist()
            for at, name in enumerate(batch.column("id").to_pylist()):
                own = ends[at] + np.flatnonzero(compared[ends[at] : ends[at + 1]])
                segment = None if pieces.segment is None else pieces.segment[own]
                yield name, _TokensWithVectors(matrix[own], pieces.start[own], pieces.end[own], segment)

    def counts(self) -> TokenCounts:
        """Count the documents in which each token occurs; the first call reads all tokens, without their vectors."""
        return self._counts

    @cached_property
    def _counts(self) -> TokenCounts:
        counts = TokenCounts()
        for number, rows in enumerate(_living_rows(self._index)):
            features, before = self._sets[number], counts.documents
            if not has_strings(features, self.column.pooling):
                raise no_strings_error(features.folder)
            for tokens in stream_tokens(features, self._columns[number], strings=True, vectors=False):
                inside = np.isin(tokens.rows, rows, assume_unique=True)
                owners = tokens.positions.owners
                chosen = tokens.positions.compared(self.column.recipe) & inside[owners]
                numbers, _ = distinct_tokens(counts.number(tokens.strings, chosen), owners[chosen])
                counts.add(numbers, int(inside.sum()))
            if counts.documents - before != len(rows):
                raise _other_documents(self._index, number)
        return counts


@dataclass(frozen=True, slots=True)
class StreamedTokens:
    """The tokens or words of some documents of a feature set."""

    rows: NDArray[np.int64]  # [D] of the documents
    positions: PiecePositions
    strings: pa.Array | None  # [N]; None where they were not asked for
    vectors: NDArray[np.float32] | None  # [N, W]; None where they were not asked for


def stream_tokens(
    features: FeatureSet,
    column: ReadableColumn,
    *,
    strings: bool,
    vectors: bool,
    rows: NDArray[np.int64] | None = None,
) -> Iterator[StreamedTokens]:
    """The tokens or words of the documents of a set in row order, all or in some rows; a row group at a time."""
    kind, read = column.pooling, column.derivation.columns if vectors else ()
    own = [*([f"{kind}s"] if strings else ()), *read, *PiecePositions.columns(kind, features.names)]
    stored = column.derivation.inputs(features.columns)
    for batch in stream_chosen(features, ["row", *own], rows):
        yield StreamedTokens(
            batch.column("row").to_numpy(),
            PiecePositions.read(batch, kind),
            batch.column(f"{kind}s").flatten() if strings else None,
            column.derivation.apply(stored_matrices(batch, stored)) if vectors else None,
        )


def has_strings(features: FeatureSet, pooling: Pooling) -> bool:
    """Whether a set keeps the tokens or words themselves, which sets without texts do not."""
    return f"{pooling}s" in features.names


def find_token_column(features: FeatureSet, name: str | None, recipe: Recipe) -> ReadableColumn:
    """The column of tokens or words with a name; by default by the model's modules, of ``recipe``, or the only one."""
    stored, num_layers, only = features.columns, features.header.model.num_layers, features.header.settings.only
    complete = (Pooling.TOKEN,) if only else (Pooling.TOKEN, Pooling.WORD)
    pieces = [column for column in stored if column.pooling in complete]
    if not pieces and only:
        raise NotDerivableError(
            f"{features.folder} keeps the vectors of some words only, and maxsim compares all",
            remedy=f"extract with {parameter('pooling', 'mean,token')}, or without {parameter('only')}",
        )
    if not pieces:
        raise NotDerivableError(
            f"there is one vector a document only ({', '.join(column.name for column in stored)}), and maxsim compares "
            "tokens",
            remedy=f"extract with {parameter('pooling', 'mean,token')} too",
        )
    if name is not None:
        named = name.rpartition("_")[2]
        if name != Pooling.SENTENCE and any(named == pooling and pooling.per_document for pooling in Pooling):
            raise NotDerivableError(f"{name} is one vector a document, and maxsim compares tokens")
        return find_column(pieces, num_layers, name)
    recipe = next((column.recipe for column in pieces if column.recipe.projected), recipe)
    for pooling in sorted({column.pooling for column in pieces}):  # tokens before words
        with suppress(NotDerivableError):
            return find_column(pieces, num_layers, recipe.name, pooling)
    if len(pieces) == 1:
        return find_column(pieces, num_layers)
    raise NotDerivableError(
        f"several columns of tokens fit: {', '.join(column.name for column in pieces)}",
        remedy=f"choose one, for example with {parameter('rerank_column', pieces[0].name)}",
    )


def _living_rows(index: VectorIndex) -> list[NDArray[np.int64]]:
    """The rows of the index's documents in each of its feature sets, without removed documents."""
    rows, sources = index.documents.numbers("row"), index.documents.numbers(SOURCE)
    if (removed := index.removed_documents) is not None:
        rows, sources = rows[~removed], sources[~removed]
    return [rows[sources == number] for number in range(len(index.settings.sources))]


def _other_documents(index: VectorIndex, number: int) -> IndexFolderError:
    """The error for an index to which a feature set was appended again with documents in other rows."""
    return IndexFolderError(
        f"documents of it are not in their rows of {index.settings.sources[number].path} any more",
        where=index.folder,
        remedy=REBUILD,
    )


def _unchanged_source(index: VectorIndex, number: int) -> FeatureSet:
    """Open a feature set of an index; an error if it is gone or has changed."""
    source = index.settings.sources[number]
    own = f", or build the index anew with {parameter('with_tokens')}: it then has its own"
    remedy = f"put it back{'' if index.settings.spans else own}"
    try:
        features = FeatureSet(as_location(source.path))
    except BertfeatError as error:
        raise IndexFolderError(
            f"its token vectors are read from {source.path}, which cannot be opened ({error.problem})",
            where=index.folder,
            remedy=remedy,
        ) from error
    if describe_source_set(features).digest != source.digest:
        raise IndexFolderError(
            f"its token vectors are read from {source.path}, which changed since the index was made from it",
            where=index.folder,
            remedy=f"bring it up to date: {update_command(index.settings, index.folder)}",
        )
    return features

"""Writing of the token vectors that an index keeps: from feature sets and, in an update, from the older index."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.core import FeatureColumn, FeatureSet, FeatureSettings, ModelIdentity, NpyWriter, find_incomparability
from bertfeat.errors import IndexFolderError, UsageError, parameter
from bertfeat.search.building.feature_source import FeatureSource
from bertfeat.search.document_store import ArrowStoreWriter
from bertfeat.search.reranking.kept_tokens import (
    VOCABULARY_SCHEMA,
    KeptTokens,
    TokenCounts,
    distinct_tokens,
    encode_directions,
)
from bertfeat.search.reranking.set_tokens import find_token_column, has_strings, stream_tokens
from bertfeat.search.reranking.token_pooling import pool_documents, require_scipy
from bertfeat.search.settings import (
    TOKEN_ID_OFFSETS_NAME,
    TOKEN_IDS_NAME,
    TOKEN_OFFSETS_NAME,
    TOKENS_NAME,
    VOCABULARY_NAME,
    StoredTokens,
)


class _RaggedWriter:
    """Writes a ragged array: the rows of one document after another's, and their offsets."""

    def __init__(self, rows: NpyWriter, offsets: NpyWriter) -> None:
        self._rows, self._offsets, self.count = rows, offsets, 0
        offsets.write(np.zeros(1, np.int64))

    def write(self, rows: NDArray[np.number], lengths: NDArray[np.int64]) -> None:
        """Append the rows of some documents, which have so many each."""
        self._rows.write(rows)
        self._offsets.write(self.count + np.cumsum(lengths))
        self.count += len(rows)


class KeptTokensWriter:
    """Writes the files of a token store, document after document.

    ``column`` is the stored column with its dtype; ``pooled`` says how many times fewer vectors than tokens are kept,
    and ``with_strings`` whether the tokens themselves are kept too.
    """

    def __init__(self, folder: Path, column: FeatureColumn, pooled: int, *, with_strings: bool) -> None:
        self._folder, self._column, self._pooled, self._with_strings = folder, column, pooled, with_strings
        self._counts = TokenCounts()
        self._files = ExitStack()

    def __enter__(self) -> "KeptTokensWriter":
        column = self._column
        self._vectors = self._ragged(TOKENS_NAME, TOKEN_OFFSETS_NAME, column.width, column.dtype)
        named = (TOKEN_IDS_NAME, TOKEN_ID_OFFSETS_NAME)
        self._ids = self._ragged(*named, None, "int32") if self._with_strings else None
        return self

    def _ragged(self, name: str, offsets_name: str, width: int | None, dtype: str) -> _RaggedWriter:
        rows = self._files.enter_context(NpyWriter(self._folder / name, width, dtype))
        return _RaggedWriter(rows, self._files.enter_context(NpyWriter(self._folder / offsets_name, None, "int64")))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.__exit__(kind, error, trace)
        if kind is None and self._with_strings:
            with ArrowStoreWriter(self._folder / VOCABULARY_NAME, VOCABULARY_SCHEMA) as file:
                columns = {"token": self._counts.strings, "documents": self._counts.counts}
                file.write(pa.table(columns, schema=VOCABULARY_SCHEMA))

    @property
    def stored(self) -> StoredTokens:
        """The record of what was written."""
        distinct = None if self._ids is None else self._ids.count
        return StoredTokens(self._column, self._vectors.count, self._pooled, distinct)

    def add_sets(self, sets: Sequence[FeatureSet], chosen: Sequence[NDArray[np.int64] | None]) -> None:
        """Append the documents of feature sets: those in the ``chosen`` rows of each, or all."""
        for features, rows in zip(sets, chosen, strict=True):
            column = features.find(self._column.name)
            if self._with_strings and not has_strings(features, column.pooling):
                raise IndexFolderError("it keeps no texts, and the index keeps tokens", where=features.folder)
            for tokens in stream_tokens(features, column, strings=self._with_strings, vectors=True, rows=rows):
                compared, documents = tokens.positions.compared(column.recipe), len(tokens.rows)
                owners = tokens.positions.owners[compared]
                assert tokens.vectors is not None
                lengths = np.bincount(owners, minlength=documents)
                try:
                    vectors, lengths = pool_documents(tokens.vectors[compared], lengths, self._pooled)
                    codes = encode_directions(vectors)
                except ValueError as error:
                    raise IndexFolderError(str(error), where=features.folder) from error
                self._vectors.write(codes, lengths)
                if tokens.strings is not None:
                    self._write_ids(self._counts.number(tokens.strings, compared), owners, np.ones(documents, bool))

    def copy(self, store: KeptTokens, kept: NDArray[np.bool_], living: NDArray[np.bool_]) -> None:
        """Append the documents of another store for which ``kept`` is true; only the ``living`` ones are counted.

        Both are masks over all documents of that store, ``[D]``. The counts are of documents per token.
        """
        for own, vectors, owners in store.vectors.blocks():
            lengths = np.bincount(owners, minlength=own.stop - own.start)
            self._vectors.write(vectors[kept[own][owners]], lengths[kept[own]])
        if store.ids is None:
            return
        strings = store.vocabulary.strings
        for own, ids, owners in store.ids.blocks():
            chosen = kept[own][owners]
            used, places = np.unique(ids[chosen], return_inverse=True)
            numbers = self._counts.numbers([strings[number] for number in used.tolist()])[places]
            new_owners = (np.cumsum(kept[own]) - 1)[owners[chosen]]
            self._write_ids(numbers, new_owners, living[own][kept[own]])

    def _write_ids(self, numbers: NDArray[np.int32], owners: NDArray[np.int64], living: NDArray[np.bool_]) -> None:
        """Append the tokens of one document per value of ``living``; ``owners`` has the document of each token."""
        assert self._ids is not None
        ids, owners = distinct_tokens(numbers, owners)
        self._ids.write(ids, np.bincount(owners, minlength=len(living)))
        self._counts.add(ids[living[owners]], int(living.sum()))


def plan_tokens(source: FeatureSource, name: str, pooled: int) -> FeatureColumn:
    """Find the token or word column that an index over a source is to keep, and check it in all feature sets."""
    if not source.per_document:
        what = (
            "spans are pooled from tokens or words" if source.spans else f"{source.column.name} is of tokens or words"
        )
        raise UsageError(f"{what}, so no others are kept beside them", where=parameter("with_tokens", name))
    first = source.sets[0]
    found = find_token_column(first, name, source.column.recipe)
    column = FeatureColumn(found.recipe, found.pooling, found.width, "int8")
    check_token_sets(source.sets, column, pooled, first.header.model, first.header.settings)
    return column


def keep_tokens(
    folder: Path, column: FeatureColumn, pooled: int, source: FeatureSource, *, keep_text: bool
) -> StoredTokens:
    """Write the token vectors of a source; with the tokens themselves, where its sets and the index keep texts."""
    with_strings = keep_text and all(has_strings(features, column.pooling) for features in source.sets)
    with KeptTokensWriter(folder, column, pooled, with_strings=with_strings) as writer:
        writer.add_sets(source.sets, source.rows)
    return writer.stored


def check_token_sets(
    sets: Sequence[FeatureSet], column: FeatureColumn, pooled: int, model: ModelIdentity, settings: FeatureSettings
) -> None:
    """Check that the tokens of feature sets can be compared with those of a model and its settings, and pooled."""
    if pooled > 1:
        require_scipy()
    for features in sets:
        theirs = features.find(column.name)
        if problem := find_incomparability(model, settings, column, features.header, theirs):
            raise IndexFolderError(f"its tokens cannot go into the index: {problem}", where=features.folder)

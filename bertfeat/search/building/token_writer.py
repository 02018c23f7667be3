"""Writing of the token vectors that an index keeps: from feature sets and, in an update, from the older index."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.errors import IndexFolderError, UsageError, parameter
from bertfeat.features import FeatureSet, FeatureSettings, ModelIdentity, NpyWriter, find_incomparability
from bertfeat.recipe import FeatureColumn
from bertfeat.search.building.feature_source import FeatureSource
from bertfeat.search.document_store import ArrowStoreWriter
from bertfeat.search.options import TokenDtype
from bertfeat.search.reranking.kept_tokens import VOCABULARY_SCHEMA, KeptTokens, TokenCounts, encode_directions
from bertfeat.search.reranking.set_tokens import find_token_column, has_strings, stream_tokens
from bertfeat.search.settings import (
    TOKEN_IDS_NAME,
    TOKEN_OFFSETS_NAME,
    TOKENS_NAME,
    VOCABULARY_NAME,
    StoredTokens,
)


class KeptTokensWriter:
    """Writes the files of a token store, document after document.

    ``column`` is the stored column with its dtype; ``with_strings`` says whether the tokens themselves are kept too.
    """

    def __init__(self, folder: Path, column: FeatureColumn, *, with_strings: bool) -> None:
        self._folder, self._column, self._with_strings = folder, column, with_strings
        self._counts, self._count = TokenCounts(), 0
        self._files = ExitStack()

    def __enter__(self) -> "KeptTokensWriter":
        folder, column = self._folder, self._column
        open_file = self._files.enter_context
        self._vectors = open_file(NpyWriter(folder / TOKENS_NAME, column.width, column.dtype))
        self._offsets = open_file(NpyWriter(folder / TOKEN_OFFSETS_NAME, None, "int64"))
        self._ids = open_file(NpyWriter(folder / TOKEN_IDS_NAME, None, "int32")) if self._with_strings else None
        self._offsets.write(np.zeros(1, np.int64))
        return self

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
        return StoredTokens(self._column, self._count, self._with_strings)

    def add_sets(self, sets: Sequence[FeatureSet]) -> None:
        """Append the documents of feature sets."""
        for features in sets:
            column = features.find(self._column.name)
            if self._with_strings and not has_strings(features, column.pooling):
                raise IndexFolderError("it keeps no texts, and the index keeps tokens", where=features.folder)
            for tokens in stream_tokens(features, column, strings=self._with_strings, vectors=True):
                usable, owners = tokens.positions.usable, tokens.positions.owners
                assert tokens.vectors is not None
                try:
                    codes = encode_directions(tokens.vectors[usable], self._column.dtype)
                except ValueError as error:
                    raise IndexFolderError(str(error), where=features.folder) from error
                ids = None if tokens.strings is None else self._counts.number(tokens.strings, usable)
                self._write(codes, ids, owners[usable], np.ones(len(tokens.rows), bool))

    def copy(self, store: KeptTokens, kept: NDArray[np.bool_], living: NDArray[np.bool_]) -> None:
        """Append the documents of another store for which ``kept`` is true; only the ``living`` ones are counted.

        Both are masks over all documents of that store, ``[D]``. The counts are of documents per token.
        """
        strings = None if store.ids is None else store.vocabulary.strings
        for start, stop in store.ranges():
            own = slice(int(store.offsets[start]), int(store.offsets[stop]))
            owners = store.owners(start, stop)
            chosen = kept[start:stop][owners]
            ids = None
            if store.ids is not None and strings is not None:
                used, places = np.unique(store.ids[own][chosen], return_inverse=True)
                ids = self._counts.numbers([strings[number] for number in used.tolist()])[places]
            new_number = np.cumsum(kept[start:stop]) - 1
            counted = living[start:stop][kept[start:stop]]
            self._write(store.vectors[own][chosen], ids, new_number[owners[chosen]], counted)

    def _write(
        self,
        codes: NDArray[np.number],
        ids: NDArray[np.int32] | None,
        owners: NDArray[np.int64],
        living: NDArray[np.bool_],
    ) -> None:
        """Append one document per value of ``living``, and their tokens; ``owners`` has the document of each token."""
        lengths = np.bincount(owners, minlength=len(living))
        self._vectors.write(codes)
        self._offsets.write(self._count + np.cumsum(lengths))
        self._count += len(codes)
        if self._ids is not None and ids is not None:
            self._ids.write(ids)
            counted = living[owners]
            self._counts.add(ids[counted], owners[counted], int(living.sum()))


def plan_tokens(source: FeatureSource, name: str, dtype: TokenDtype) -> FeatureColumn:
    """Find the token or word column that an index over a source is to keep, and check it in all feature sets."""
    if not source.per_document:
        what = (
            "spans are pooled from tokens or words" if source.spans else f"{source.column.name} is of tokens or words"
        )
        raise UsageError(f"{what}, so no others are kept beside them", where=parameter("with_tokens", name))
    first = source.sets[0]
    found = find_token_column(first, name, source.column.recipe)
    column = FeatureColumn(found.recipe, found.pooling, found.width, dtype)
    check_token_sets(source.sets, column, first.header.model, first.header.settings)
    return column


def keep_tokens(folder: Path, column: FeatureColumn, sets: Sequence[FeatureSet], *, keep_text: bool) -> StoredTokens:
    """Write the token vectors of feature sets; with the tokens themselves, where the sets and the index keep texts."""
    with_strings = keep_text and all(has_strings(features, column.pooling) for features in sets)
    with KeptTokensWriter(folder, column, with_strings=with_strings) as writer:
        writer.add_sets(sets)
    return writer.stored


def check_token_sets(
    sets: Sequence[FeatureSet], column: FeatureColumn, model: ModelIdentity, settings: FeatureSettings
) -> None:
    """Check that the tokens of feature sets can be compared with those of a model and its settings."""
    for features in sets:
        theirs = features.find(column.name)
        if problem := find_incomparability(model, settings, column, features.header, theirs):
            raise IndexFolderError(f"its tokens cannot go into the index: {problem}", where=features.folder)

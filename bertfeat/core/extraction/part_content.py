"""Rows of a part → its different documents, tokenized and computed once each → the part's content in row order."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from bertfeat.core.corpus import Document, Failure, KeptColumn, text_digest
from bertfeat.core.extraction.compute import FeatureMatrices
from bertfeat.core.features import CELL_LIMIT, Counts, PartContent, Pieces, Table, count_documents, vector_bytes
from bertfeat.core.recipe import FeatureColumn, Unit
from bertfeat.core.tokens import TokenizedDocuments, TokenSpans
from bertfeat.errors import shell_spelling
from bertfeat.ragged import offsets_of, ranges


@dataclass(frozen=True, slots=True)
class TokenizedRows:
    """The rows of a part: failures, blank lines, and documents, which have been tokenized, equal texts once."""

    documents: tuple[Document, ...]
    unique: tuple[Document, ...]  # one of each group of documents with equal texts
    unique_numbers: NDArray[np.int64]  # [documents] number of the equal document in unique
    failures: tuple[Failure, ...]
    blank: int
    tokens: TokenizedDocuments  # of unique
    rejected: Mapping[int, str]  # number in unique → why it cannot be embedded
    token_count: int  # tokens that go through the encoder, overlaps of windows included
    warnings: tuple[str, ...] = ()  # about the language of the texts


def find_unique(documents: Sequence[Document]) -> tuple[tuple[Document, ...], NDArray[np.int64]]:
    """Find the documents with different texts, which are computed once, and for each document the number of its equal.

    Shape of the numbers: ``[documents]``.
    """
    numbers: dict[object, int] = {}
    keys = (_key_of_features(document) for document in documents)
    unique_numbers = np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), np.int64, len(documents))
    if len(numbers) == len(documents):
        return tuple(documents), unique_numbers
    _, first = np.unique(unique_numbers, return_index=True)
    return tuple(documents[at] for at in first.tolist()), unique_numbers


def _key_of_features(document: Document) -> object:
    """A key by which documents with equal features are equal; a text alone is its own key."""
    others = (document.pair, document.words, document.ids)  # the text says which ids
    if others == (None, None, None) and not document.before and not document.after:
        return document.text
    return document.text, *others, document.before, document.after


def find_oversized(tokenized: TokenizedDocuments, columns: Sequence[FeatureColumn]) -> Mapping[int, str]:
    """The documents whose token or word matrix would exceed the size that one cell can hold, each with a reason."""
    reasons: dict[int, str] = {}
    for column in columns:
        spans = _spans_of(tokenized, column.pooling.unit)
        if spans is None:
            continue
        sizes = np.diff(spans.offsets) * vector_bytes(column)
        for at in np.flatnonzero(sizes > CELL_LIMIT).tolist():
            reasons[at] = (
                f"its {column.name} features would take {sizes[at] / 2**30:.1f} GiB and one cell holds 2 GiB; "
                f"split the text, or choose fewer layers"
            )
    return reasons


def without_texts(documents: Sequence[Document], numbers: Collection[int]) -> list[Document]:
    """The documents, those of some numbers without their texts."""
    return [
        replace(document, text="", pair=None, words=None, before="", after="", ids=None) if at in numbers else document
        for at, document in enumerate(documents)
    ]


def find_overflows(
    computed: FeatureMatrices, tokenized: TokenizedDocuments, columns: Sequence[FeatureColumn]
) -> Mapping[int, str]:
    """The documents whose features overflowed and must not be stored, each with a reason."""
    reasons: dict[int, str] = {}
    for column in columns:
        matrix = _held_values(computed.matrices[column.name], column)
        if not matrix.size or torch.stack(torch.aminmax(torch.from_numpy(matrix))).isfinite().all():
            continue  # the usual case; with a NaN, both the least and the greatest value are NaN
        spans = _spans_of(tokenized, column.pooling.unit)
        at = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
        documents = at if spans is None else np.searchsorted(spans.offsets, at, side="right") - 1
        undefined = set(documents[np.isnan(matrix[at]).any(axis=1)].tolist())
        # stored with the part, so it has the shell's spelling, whoever calls
        held, option = (
            ("float16", ("dtype", "float32")) if column.dtype == "float16" else ("float32", ("precision", "fp32"))
        )
        remedy = f"use {shell_spelling(*option)}"
        for document in np.unique(documents).tolist():
            what = "are no numbers (NaN)" if document in undefined else f"are beyond what {held} holds"
            reasons[document] = f"its {column.name} features {what}; {remedy}"
    return reasons


def _held_values(matrix: NDArray[np.floating], column: FeatureColumn) -> NDArray[np.floating]:
    """Values that are finite where what is stored is; a coordinate may be as great as the length of its vector."""
    if column.basis is None or column.dtype != "float16":
        return matrix
    with np.errstate(over="ignore"):
        lengths: NDArray[np.float16] = np.linalg.norm(matrix.astype(np.float32), axis=1, keepdims=True).astype("<f2")
    return lengths


def assemble_part(
    tokenized: TokenizedRows,
    computed: FeatureMatrices,
    columns: Sequence[FeatureColumn],
    *,
    kept: Sequence[KeptColumn],
    keep_text: bool,
    tags: bool,
    pairs: bool,
) -> PartContent:
    """Assemble the content of a part: one row for each document that can be stored, in the order of the corpus."""
    tokens = tokenized.tokens
    rejected = {**find_overflows(computed, tokens, columns), **tokenized.rejected}
    stay = ~np.isin(tokenized.unique_numbers, np.fromiter(rejected, np.int64, len(rejected)))
    documents = [document for document, stays in zip(tokenized.documents, stay.tolist(), strict=True) if stays]
    numbers = tokenized.unique_numbers[stay]
    by_unit: dict[Unit, dict[str, NDArray[np.floating]]] = {unit: {} for unit in Unit}
    for column in columns:
        by_unit[column.pooling.unit][column.name] = computed.matrices[column.name]
    return replace(
        identity_content(documents, kept, keep_text=keep_text, pairs=pairs),
        n_tokens=tokens.n_tokens[numbers],
        n_unk=tokens.n_unknown[numbers],
        n_truncated=tokens.n_truncated[numbers],
        vectors={name: _take_rows(matrix, numbers) for name, matrix in by_unit[Unit.DOCUMENT].items()},
        tokens=_take_pieces(tokens.tokens, numbers, by_unit[Unit.TOKEN], keep_text=keep_text, pairs=pairs),
        words=_take_pieces(tokens.words, numbers, by_unit[Unit.WORD], keep_text=keep_text, pairs=pairs),
        tags=_take_tags(documents, numbers, tokens.words) if tags else None,
        failures=_list_failures(tokenized, rejected),
        split_batches=computed.split_batches,
    )


def identity_content(
    documents: Sequence[Document], kept: Sequence[KeptColumn], *, keep_text: bool, pairs: bool
) -> PartContent:
    """The content of documents without their features: rows, ids, texts and kept columns."""
    nothing = np.zeros(len(documents), np.int32)
    return PartContent(
        rows=np.array([document.row for document in documents], np.int64),
        ids=[document.id for document in documents],
        texts=[document.text for document in documents] if keep_text else None,
        pairs=[document.pair or "" for document in documents] if keep_text and pairs else None,
        kept={column: [document.kept[at] for document in documents] for at, column in enumerate(kept)},
        n_tokens=nothing,
        n_unk=nothing,
        n_truncated=nothing,
        vectors={},
        tokens=None,
        words=None,
        tags=None,
    )


def _list_failures(tokenized: TokenizedRows, rejected: Mapping[int, str]) -> tuple[Failure, ...]:
    """The failures of the corpus and the documents that were rejected, in row order."""
    if not rejected:
        return tokenized.failures
    failures = [
        Failure(document.row, document.id, f"row {document.row} (id {document.id}): {rejected[number]}")
        for document, number in zip(tokenized.documents, tokenized.unique_numbers.tolist(), strict=True)
        if number in rejected
    ]
    return tuple(sorted([*tokenized.failures, *failures], key=lambda failure: failure.row))


def with_digests(content: PartContent, documents: Iterable[Document]) -> PartContent:
    """The content with the digests of its documents' texts, by which later runs find them."""
    stored = set(content.rows.tolist())
    return replace(content, digests=[text_digest(each).hex() for each in documents if each.row in stored])


def count_part(table: Table, documents: Iterable[Document]) -> Counts:
    """Count the embedded documents of a part, which are some of its ``documents``, and their tokens and words."""
    stored = set(table.column("row").to_pylist())
    empty = sum(not (d.text.strip() or (d.pair or "").strip()) for d in documents if d.row in stored)
    return replace(count_documents(table), empty_texts=empty)


def _spans_of(tokenized: TokenizedDocuments, unit: Unit) -> TokenSpans | None:
    return {Unit.TOKEN: tokenized.tokens, Unit.WORD: tokenized.words}.get(unit)


def _take_tags(
    documents: Sequence[Document], numbers: NDArray[np.int64], words: TokenSpans | None
) -> list[Sequence[str]]:
    """The tags of each document; where only some of its words are stored, the tags of these."""
    if words is None or words.places is None:
        return [document.tags or () for document in documents]
    places = words.places.tolist()
    bounds = zip(words.offsets[numbers].tolist(), words.offsets[numbers + 1].tolist(), strict=True)
    return [
        [document.tags[place] for place in places[begin:end]] if document.tags else ()
        for document, (begin, end) in zip(documents, bounds, strict=True)
    ]


def _take_pieces(
    spans: TokenSpans | None,
    documents: NDArray[np.int64],
    matrices: Mapping[str, NDArray[np.floating]],
    *,
    keep_text: bool,
    pairs: bool,
) -> Pieces | None:
    if spans is None:
        return None
    lengths = np.diff(spans.offsets)[documents]
    offsets = offsets_of(lengths)
    at = ranges(spans.offsets[documents], lengths)
    return Pieces(
        offsets=offsets,
        strings=[spans.strings[number] for number in at.tolist()] if keep_text else None,
        start=spans.start[at],
        end=spans.end[at],
        segment=spans.segment[at] if pairs else None,
        aligned=None if spans.aligned is None else spans.aligned[at],
        ids=None if spans.ids is None or not keep_text else spans.ids[at],
        matrices={name: _take_rows(matrix, at) for name, matrix in matrices.items()},
    )


def _take_rows(matrix: NDArray[np.floating], at: NDArray[np.int64]) -> NDArray[np.floating]:
    """Take rows of a matrix; without a copy where all are taken in order, as they mostly are."""
    if len(at) == len(matrix) and np.array_equal(at, np.arange(len(at))):
        return matrix
    taken: NDArray[np.floating] = torch.from_numpy(matrix).index_select(0, torch.from_numpy(at)).numpy()
    return taken

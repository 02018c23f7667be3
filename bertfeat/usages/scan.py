"""Scan of a feature set for a word: texts are read first, then the vectors of the row groups that contain the word.

Shapes: n occurrences, W width of the feature column.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.corpus import Value
from bertfeat.errors import FeatureSetError, errors_within
from bertfeat.features import (
    FeatureSet,
    FeatureSettings,
    ReadableColumn,
    RecordBatch,
    position_columns,
    read_positions,
    stored_matrices,
    unit_vectors,
)
from bertfeat.usages.match import VectorPicks, combine_vectors, find_occurrences
from bertfeat.usages.results import Site
from bertfeat.where import Condition, Slice, slice_number
from bertfeat.words import WordQuery

_WHOLE_GROUP = 1 << 40  # a batch size that no row group reaches, so that each batch is a whole row group
_NO_VECTORS = np.empty((0, 0), np.float32)


@dataclass(frozen=True, slots=True)
class ScannedGroup:
    """The occurrences of the word in a row group, in the order of the corpus."""

    documents: int  # in the row group; with a condition, those that meet it
    sites: Sequence[Site]  # [n]
    matrix: NDArray[np.float32]  # [n, W] of length 1; [0, 0] where vectors were not asked for
    skipped: Sequence[Site] = ()  # those without a vector, where vectors were asked for

    @property
    def rows(self) -> NDArray[np.int64]:
        """The row of each occurrence's document, ``[n]``."""
        return np.fromiter((site.row for site in self.sites), np.int64, len(self.sites))

    def first_of_documents(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Keep the first occurrence of each document in ``order``, an array of indices of occurrences."""
        _, first = np.unique(self.rows[order], return_index=True)
        return order[np.sort(first)]

    def within(self, by: str, slices: Sequence[Slice]) -> "ScannedGroup":
        """The occurrences whose documents are in one of the slices of a kept column."""

        def is_inside(site: Site) -> bool:
            return slice_number(slices, site.values[by]) is not None

        chosen = [at for at, site in enumerate(self.sites) if is_inside(site)]
        return ScannedGroup(
            self.documents,
            [self.sites[at] for at in chosen],
            self.matrix[chosen] if len(self.matrix) else self.matrix,
            [site for site in self.skipped if is_inside(site)],
        )


@dataclass(slots=True)
class ScanCounts:
    """The numbers of documents and usages that were scanned."""

    documents: int = 0
    found: int = 0
    skipped: int = 0  # without a vector

    def count(self, groups: Iterable[ScannedGroup]) -> Iterator[ScannedGroup]:
        """Yield the same groups, and count each."""
        for group in groups:
            self.add(group)
            yield group

    def add(self, group: ScannedGroup) -> None:
        """Count a group."""
        self.documents += group.documents
        self.found += len(group.sites) + len(group.skipped)
        self.skipped += len(group.skipped)


@dataclass(frozen=True, slots=True)
class _TextDocument:
    row: int
    id: str
    texts: tuple[str, ...]  # one, or two of a pair


def scan_features(
    features: FeatureSet,
    query: WordQuery,
    column: ReadableColumn,
    condition: Condition | None = None,
    *,
    vectors: bool,
) -> Iterator[ScannedGroup]:
    """Read a feature set, a row group at a time; ``vectors`` are read only where the word occurs.

    Documents that do not meet the condition are left out.
    """
    own = [name for name in ("row", "id", "text", "pair") if name in features.names]
    names = list(dict.fromkeys([*own, *(condition.names if condition else ())]))
    for batch in features.stream(names, batch_rows=_WHOLE_GROUP):
        if condition is not None:
            batch = condition.filter(batch)
        columns = (batch.column(name).to_pylist() for name in own)
        documents = (_TextDocument(row, id_, tuple(texts)) for row, id_, *texts in zip(*columns, strict=True))
        candidates = [document for document in documents if any(map(query.may_occur_in, document.texts))]
        if candidates:
            yield _scan_documents(features, query, column, candidates, vectors, len(batch))
        else:
            yield ScannedGroup(len(batch), (), _NO_VECTORS)


def _scan_documents(
    features: FeatureSet,
    query: WordQuery,
    column: ReadableColumn,
    documents: Sequence[_TextDocument],
    vectors: bool,
    searched: int,
) -> ScannedGroup:
    """The occurrences in some documents of one row group, in which ``searched`` documents were searched."""
    unit, kept = column.pooling.unit, [kept.name for kept in features.kept]
    stored = column.derivation.columns if vectors else ()
    names = ["row", *kept, *position_columns(unit, features.names), *stored]
    start, stop = documents[0].row, documents[-1].row + 1
    (batch,) = features.stream(names, start=start, stop=stop, batch_rows=_WHOLE_GROUP)
    with errors_within(features.folder):
        pieces = read_positions(batch, unit)
    subword = subword_rule(features.header.settings)
    sites: list[Site] = []
    picks: list[VectorPicks] = []
    numbers: list[int] = []
    rows = np.searchsorted(batch.column("row").to_numpy(), [document.row for document in documents]).tolist()
    for document, at, values in zip(documents, rows, _kept_values(batch, kept, rows), strict=True):
        for occurrence in find_occurrences(query, document.texts, pieces.of_document(at), unit, subword):
            text = document.texts[occurrence.in_pair]
            sites.append(
                Site(document.row, document.id, text, occurrence.in_pair, occurrence.start, occurrence.end, values)
            )
            picks.append(occurrence.picks)
            numbers.extend(int(pieces.offsets[at]) + number for number in occurrence.picks.numbers)
    if not vectors:
        return ScannedGroup(searched, sites, _NO_VECTORS)
    matrix = _occurrence_vectors(features, column, batch, numbers, [pick for pick in picks if pick.numbers])
    with_vectors = [at for at, pick in enumerate(picks) if pick.numbers]
    for at in np.flatnonzero(~np.isfinite(matrix).all(axis=1))[:1].tolist():
        site = sites[with_vectors[at]]
        problem = f"a vector of {column.name} in row {site.row:,} is not finite"
        raise FeatureSetError(problem, where=features.folder, remedy=f"bertfeat verify {features.folder} says more")
    nonzero = np.flatnonzero(matrix.any(axis=1))
    chosen = [with_vectors[at] for at in nonzero.tolist()]
    skipped = sorted(set(range(len(sites))).difference(chosen))
    return ScannedGroup(
        searched, [sites[at] for at in chosen], unit_vectors(matrix[nonzero]), [sites[at] for at in skipped]
    )


def subword_rule(settings: FeatureSettings) -> str:
    """The rule for which tokens represent a word; if the set has no word vectors, the default of an extraction."""
    return settings.subword or "first"


def _kept_values(batch: RecordBatch, kept: Sequence[str], rows: Sequence[int]) -> Iterator[dict[str, Value]]:
    """Yield the kept values of each of some rows of a batch, by column name."""
    columns = [batch.column(name).take(np.asarray(rows)).to_pylist() for name in kept]
    for at in range(len(rows)):
        yield {name: values[at] for name, values in zip(kept, columns, strict=True)}


def _occurrence_vectors(
    features: FeatureSet,
    column: ReadableColumn,
    batch: RecordBatch,
    numbers: Sequence[int],
    picks: Sequence[VectorPicks],
) -> NDArray[np.float32]:
    """The vector of each occurrence, ``[n, W]``, from the batch's tokens or words with the indices ``numbers``."""
    if not numbers:
        return np.empty((0, column.width), np.float32)
    stored = [stored for stored in features.columns if stored.name in column.derivation.columns]
    matrices = {name: matrix[numbers] for name, matrix in stored_matrices(batch, stored).items()}
    return combine_vectors(column.derivation.apply(matrices), picks)

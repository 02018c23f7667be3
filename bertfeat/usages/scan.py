"""A feature set read through for a word: texts first, then the vectors of those row groups in which it stands.

Shapes: n occurrences, W width of the feature column.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertfeat.corpus import Value
from bertfeat.features import (
    FeatureSet,
    FeatureSettings,
    ReadableColumn,
    position_columns,
    read_positions,
    stored_matrices,
)
from bertfeat.usages.match import WordQuery
from bertfeat.usages.occurrences import VectorPicks, combine_vectors, find_occurrences
from bertfeat.usages.results import Site
from bertfeat.where import Condition

_WHOLE_GROUP = 1 << 40
_NO_VECTORS = np.empty((0, 0), np.float32)


@dataclass(frozen=True, slots=True)
class ScannedGroup:
    """What a row group has of the word, in the order of the corpus."""

    documents: int  # in the row group
    found: int
    sites: Sequence[Site]  # [n] fewer than found, where some have no vector
    matrix: NDArray[np.float32]  # [n, W] of length 1; [0, 0] where vectors were not asked for

    @property
    def rows(self) -> NDArray[np.int64]:
        """The row of each occurrence's document, ``[n]``."""
        return np.fromiter((site.row for site in self.sites), np.int64, len(self.sites))


@dataclass(frozen=True, slots=True)
class _TextDocument:
    row: int
    id: str
    texts: tuple[str, ...]  # one, or two of a pair


def scan_features(
    features: FeatureSet, wanted: WordQuery, found: ReadableColumn, condition: Condition | None = None, *, vectors: bool
) -> Iterator[ScannedGroup]:
    """Read a feature set through, a row group at a time; ``vectors`` are read only where the word stands.

    Documents that do not meet the condition are passed over.
    """
    own = [name for name in ("row", "id", "text", "pair") if name in features.names]
    names = list(dict.fromkeys([*own, *(condition.names if condition else ())]))
    for batch in features.stream(names, batch_rows=_WHOLE_GROUP):
        if condition is not None:
            batch = condition.filter(batch)
        columns = (batch.column(name).to_pylist() for name in own)
        documents = (_TextDocument(row, id_, tuple(texts)) for row, id_, *texts in zip(*columns, strict=True))
        hopeful = [document for document in documents if any(map(wanted.may_stand_in, document.texts))]
        if hopeful:
            yield _located(features, wanted, found, hopeful, vectors, len(batch))
        else:
            yield ScannedGroup(len(batch), 0, (), _NO_VECTORS)


def _located(
    features: FeatureSet,
    wanted: WordQuery,
    found: ReadableColumn,
    documents: Sequence[_TextDocument],
    vectors: bool,
    searched: int,
) -> ScannedGroup:
    """The occurrences in these documents of one row group."""
    kept = [column.name for column in features.kept]
    names = [
        "row",
        *kept,
        *position_columns(found.pooling, features.names),
        *(found.derivation.columns if vectors else ()),
    ]
    start, stop = documents[0].row, documents[-1].row + 1
    (batch,) = features.stream(names, start=start, stop=stop, batch_rows=_WHOLE_GROUP)
    pieces = read_positions(batch, found.pooling)
    subword = subword_rule(features.header.settings)
    sites: list[Site] = []
    picks: list[VectorPicks] = []
    numbers: list[int] = []
    here = _places_of(documents, batch)
    for document, at, values in zip(documents, here, _kept_values(batch, kept, here), strict=True):
        for place in find_occurrences(wanted, document.texts, pieces.of_document(at), found.pooling, subword):
            text = document.texts[place.in_pair]
            sites.append(Site(document.row, document.id, text, place.in_pair, place.start, place.end, values))
            picks.append(place.picks)
            numbers.extend(int(pieces.offsets[at]) + number for number in place.picks.numbers)
    if not vectors:
        return ScannedGroup(searched, len(sites), sites, _NO_VECTORS)
    matrix = _occurrence_vectors(features, found, batch, numbers, [pick for pick in picks if pick.numbers])
    having = [site for site, pick in zip(sites, picks, strict=True) if pick.numbers]
    whole = np.flatnonzero(matrix.any(axis=1))
    return ScannedGroup(searched, len(sites), [having[at] for at in whole.tolist()], unit(matrix[whole]))


def subword_rule(settings: FeatureSettings) -> str:
    """Which tokens stand for a word; where the set has no words, the rule that ``extract`` follows by default."""
    return settings.subword or "first"


def unit(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """Vectors of length 1; zero vectors stay."""
    length = np.linalg.norm(matrix, axis=-1, keepdims=True)
    scaled: NDArray[np.float32] = np.divide(matrix, np.where(length > 0, length, 1), dtype=np.float32)
    return scaled


def _places_of(documents: Sequence[_TextDocument], batch: Any) -> list[int]:
    """Where in the batch each of the documents is."""
    places: list[int] = np.searchsorted(
        batch.column("row").to_numpy(), [document.row for document in documents]
    ).tolist()
    return places


def _kept_values(batch: Any, kept: Sequence[str], places: Sequence[int]) -> Iterator[dict[str, Value]]:
    """The kept values of the documents in those places of a batch."""
    columns = [batch.column(name).take(np.asarray(places)).to_pylist() for name in kept]
    for at in range(len(places)):
        yield {name: column[at] for name, column in zip(kept, columns, strict=True)}


def _occurrence_vectors(
    features: FeatureSet, found: ReadableColumn, batch: Any, numbers: Sequence[int], picks: Sequence[VectorPicks]
) -> NDArray[np.float32]:
    """The vector of each occurrence, ``[n, W]``, from the batch's tokens or words of those numbers."""
    if not numbers:
        return np.empty((0, found.width), np.float32)
    stored = [column for column in features.columns if column.name in found.derivation.columns]
    needed = {name: matrix[numbers] for name, matrix in stored_matrices(batch, stored).items()}
    return combine_vectors(found.derivation.apply(needed), picks)

"""The points of a map before they are laid out: an even sample of the documents of a feature set, or of their spans.

Shapes: n points, W values in a vector.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from bertfeat.core import FeatureSet, Value
from bertfeat.errors import FeatureSetError, UsageError, parameter
from bertfeat.plots.clusters import LONGEST
from bertfeat.plots.map_page import TEXTS

FEWEST = 3  # points of a map
_BATCH = 4096  # rows that are read at a time


@dataclass(frozen=True, slots=True)
class MapSample:
    """The documents or spans that are drawn, in row order."""

    vectors: NDArray[np.float32]  # [n, W]
    fields: Mapping[str, Sequence[Value]]  # by column, [n] each; texts are cut
    of: int  # all that there are

    def __len__(self) -> int:
        return len(self.vectors)


def sample_documents(features: FeatureSet, column: str, points: int, names: Sequence[str]) -> MapSample:
    """At most ``points`` documents, evenly spread over the set, with the vectors of a document column.

    ``names`` are the columns whose values are read too.
    """
    numbers = evenly(np.arange(len(features)), points)
    vectors: list[NDArray[np.float32]] = []
    start = 0
    for part in features.batches(column, batch_rows=_BATCH):
        vectors.append(part.matrix[_places_in_batch(numbers, start, len(part.matrix))])
        start += len(part.matrix)
    fields: dict[str, list[Value]] = {name: [] for name in names}
    start = 0
    for batch in features.stream(names, batch_rows=_BATCH) if names else ():
        chosen = batch.take(_places_in_batch(numbers, start, len(batch)))
        for place, name in enumerate(names):
            values = chosen.column(place).to_pylist()
            fields[name].extend([text and text[:LONGEST] for text in values] if name in TEXTS else values)
        start += len(batch)
    return MapSample(_joined(vectors), fields, len(features))


def sample_spans(features: FeatureSet, spans: str, column: str, points: int, names: Sequence[str]) -> MapSample:
    """At most ``points`` spans that have a vector, evenly spread over the set; they are read twice.

    ``names`` are the columns of their documents whose values are read too; ``text`` is the string of the span itself.
    """
    count = sum(int((batch.pieces > 0).sum()) for batch in features.spans(spans, column))
    numbers, start = evenly(np.arange(count), points), 0
    vectors: list[NDArray[np.float32]] = []
    rows: list[int] = []
    strings: list[Value] = []
    for each in features.spans(spans, column):
        pooled = np.flatnonzero(each.pieces)
        chosen = pooled[_places_in_batch(numbers, start, len(pooled))]
        vectors.append(each.matrix[chosen])
        rows += each.rows[chosen].tolist()
        strings += [each.strings[at][:LONGEST] for at in chosen.tolist()]
        start += len(pooled)
    of_documents = ["row", *(name for name in names if name not in ("row", "text"))]
    found = chain.from_iterable(batch.to_pylist() for batch in features.stream_rows(rows, of_documents))
    documents = {document["row"]: document for document in found}
    fields = {name: [documents[row][name] for row in rows] for name in of_documents}
    return MapSample(_joined(vectors), {**fields, "text": strings}, count)


def check_sample(features: FeatureSet, contents: str, sample: MapSample) -> None:
    """Check that there are enough points, whose vectors are finite; ``contents`` names these.

    Raises:
        UsageError: there are fewer than three.
        FeatureSetError: one is not finite.
    """
    if len(sample) < FEWEST:
        problem = f"a map needs at least {FEWEST} points; there are {len(sample)}"
        raise UsageError(problem, where=features.folder)
    finite = np.isfinite(sample.vectors).all(axis=1)
    if not finite.all():
        row = sample.fields["row"][int(finite.argmin())]
        raise FeatureSetError(
            f"{contents} of row {row} has values that are no finite numbers, and so have "
            f"{int((~finite).sum()):,} of {len(sample):,} points",
            where=features.folder,
            remedy=f"extract again with {parameter('precision', 'fp32')} {parameter('dtype', 'float32')}",
        )


def evenly(numbers: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """At most ``most`` of some numbers, evenly spread over them."""
    return numbers if len(numbers) <= most else numbers[np.linspace(0, len(numbers) - 1, most).astype(np.int64)]


def _places_in_batch(numbers: NDArray[np.int64], start: int, length: int) -> NDArray[np.int64]:
    """The places in a batch, which begins at number ``start``, of those ``numbers`` that are in it."""
    return numbers[(numbers >= start) & (numbers < start + length)] - start


def _joined(vectors: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    return np.concatenate(vectors) if vectors else np.empty((0, 1), np.float32)

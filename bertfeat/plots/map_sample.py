"""The documents that a map shows: an even sample of all, with their vectors and fields."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.corpus import Value
from bertfeat.features import FeatureSet

_BATCH = 4096


@dataclass(frozen=True, slots=True)
class MapSample:
    """Documents of a feature set, in row order."""

    vectors: NDArray[np.float32]  # [n, W]
    fields: Mapping[str, Sequence[Value]]  # by column, [n] each

    def __len__(self) -> int:
        return len(self.vectors)


def sample_documents(features: FeatureSet, column: str, points: int, names: Sequence[str]) -> MapSample:
    """At most ``points`` documents, evenly spread over the set, with the vectors of a document column.

    ``names`` are the columns whose values are read too.
    """
    count = len(features)
    numbers = np.arange(count) if count <= points else np.linspace(0, count - 1, points).astype(np.int64)
    vectors: list[NDArray[np.float32]] = []
    sizes = (batch.matrix for batch in features.batches(column, batch_rows=_BATCH))
    start = 0
    for matrix in sizes:
        vectors.append(matrix[_places_in_batch(numbers, start, len(matrix))])
        start += len(matrix)
    fields: dict[str, list[Value]] = {name: [] for name in names}
    for name, values in _sampled_fields(features, names, numbers):
        fields[name].extend(values)
    return MapSample(np.concatenate(vectors) if vectors else np.empty((0, 1), np.float32), fields)


def _sampled_fields(
    features: FeatureSet, names: Sequence[str], numbers: NDArray[np.int64]
) -> Iterator[tuple[str, list[Value]]]:
    start = 0
    for batch in features.stream(names, batch_rows=_BATCH) if names else ():
        chosen = batch.take(_places_in_batch(numbers, start, len(batch)))
        for place, name in enumerate(names):
            yield name, chosen.column(place).to_pylist()
        start += len(batch)


def _places_in_batch(numbers: NDArray[np.int64], start: int, length: int) -> NDArray[np.int64]:
    """The places in a batch of the documents ``numbers`` that are in it."""
    return numbers[(numbers >= start) & (numbers < start + length)] - start

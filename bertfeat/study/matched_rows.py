"""Two feature sets over the same rows, read side by side."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import DamagedError, FeatureSetError
from bertfeat.features import FeatureSet, RecordBatch

DAMAGE_REMEDY = "bertfeat verify says what else is damaged"
_SHOWN = 40  # characters of a text in a message
_CONTENT = ("id", "text", "pair")  # what makes two rows the same, as far as both sets store it


class MatchedRows:
    """The rows that two feature sets have in common, which have to be all but those that failed in one of them."""

    def __init__(self, first: FeatureSet, second: FeatureSet) -> None:
        self.sets = (first, second)
        self.failed = [0, 0]
        """Documents of the other set that failed in this one, among the rows that were read last."""
        self._content = [name for name in _CONTENT if all(name in features.names for features in self.sets)]
        self._failures = [_failed_rows(features) for features in self.sets]

    @property
    def by_text(self) -> bool:
        """Whether both sets hold texts, which are then compared."""
        return "text" in self._content

    def batches(self, first: Sequence[str], second: Sequence[str]) -> Iterator[tuple[RecordBatch, RecordBatch]]:
        """The common rows in their order, with columns of the first and of the second set, a row group at a time.

        Raises:
            FeatureSetError: names the first row that is in one set only, or that has another id or text there.
            DamagedError: the rows of a part are not in their order.
        """
        self.failed = [0, 0]
        names = (list(dict.fromkeys(["row", *self._content, *wanted])) for wanted in (first, second))
        streams = (_ascending(features, columns) for features, columns in zip(self.sets, names, strict=True))
        for pair in _stretches(*streams):
            rows = [batch.column("row").to_numpy() for batch in pair]
            _, *places = np.intersect1d(rows[0], rows[1], assume_unique=True, return_indices=True)
            common = [
                batch if len(kept) == len(batch) else batch.take(kept) for batch, kept in zip(pair, places, strict=True)
            ]
            if problems := [*self._lone_rows(rows), *self._other_contents(*common)]:
                raise self._refusal(*min(problems))
            for lacking, having in ((0, 1), (1, 0)):
                self.failed[lacking] += len(rows[having]) - len(common[having])
            if len(common[0]):
                yield common[0], common[1]

    def _lone_rows(self, rows: Sequence[NDArray[np.int64]]) -> Iterator[tuple[int, str]]:
        """The first row of each set that the other one lacks, though it did not fail there."""
        for lacking, having in ((0, 1), (1, 0)):
            missing = np.setdiff1d(rows[having], rows[lacking], assume_unique=True)
            for row in np.setdiff1d(missing, self._failures[lacking])[:1].tolist():
                yield row, f"is in {self.sets[having].folder} only"

    def _other_contents(self, first: RecordBatch, second: RecordBatch) -> Iterator[tuple[int, str]]:
        """The first row whose id, and the first one whose text, is not the same in both."""
        for name in self._content if len(first) else ():
            ours, theirs = first.column(name), second.column(name)
            if not ours.equals(theirs):
                values = zip(first.column("row").to_pylist(), ours.to_pylist(), theirs.to_pylist(), strict=True)
                row, *differing = next(value for value in values if value[1] != value[2])
                shown = " and ".join(repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…") for text in differing)
                yield row, f"has another {name} in each: {shown}"

    def _refusal(self, row: int, problem: str) -> FeatureSetError:
        first, second = (features.folder for features in self.sets)
        return FeatureSetError(
            f"not of the same rows as {first}: row {row:,} {problem}",
            where=second,
            remedy="extract both from the same corpus, read in the same way",
        )


def _failed_rows(features: FeatureSet) -> NDArray[np.int64]:
    return np.fromiter((failure.row for failure in features.failures()), np.int64)


def _ascending(features: FeatureSet, names: Sequence[str]) -> Iterator[RecordBatch]:
    """The rows of a set, refused where they are in another order, as in a damaged part."""
    last = -1
    for batch in features.stream(names):
        rows = batch.column("row").to_numpy()
        if np.any(np.diff(rows, prepend=last) <= 0):
            raise DamagedError("its rows are not in their order", where=features.folder, remedy=DAMAGE_REMEDY)
        if len(rows):
            last = int(rows[-1])
            yield batch


def _stretches(
    first: Iterator[RecordBatch], second: Iterator[RecordBatch]
) -> Iterator[tuple[RecordBatch, RecordBatch]]:
    """Batches of two sets cut so that each pair is of the same range of rows."""
    ours, theirs = next(first, None), next(second, None)
    while ours is not None and theirs is not None:
        stop = min(batch.column("row")[-1].as_py() for batch in (ours, theirs)) + 1
        (our_head, our_rest), (their_head, their_rest) = _cut_at_row(ours, stop), _cut_at_row(theirs, stop)
        yield our_head, their_head
        ours, theirs = our_rest or next(first, None), their_rest or next(second, None)
    while ours is not None:
        yield ours, ours.slice(0, 0)
        ours = next(first, None)
    while theirs is not None:
        yield theirs.slice(0, 0), theirs
        theirs = next(second, None)


def _cut_at_row(batch: RecordBatch, stop: int) -> tuple[RecordBatch, RecordBatch | None]:
    """The rows below ``stop``, and the others, if there are any."""
    at = int(np.searchsorted(batch.column("row").to_numpy(), stop))
    return batch.slice(0, at), batch.slice(at) if at < len(batch) else None

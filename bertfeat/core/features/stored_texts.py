"""An index of stored texts: the digests of many texts, each with its place, sorted, on disk.

Memory does not grow with their number: they are spread over buckets, and each bucket is sorted by itself.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bertfeat.core.features.open_parts import PartReader
from bertfeat.core.features.part import read_footer
from bertfeat.errors import FeatureSetError, parameter
from bertfeat.io import Location, scratch_array
from bertfeat.ragged import offsets_of

DigestBatch = tuple[Sequence[bytes], int, NDArray[np.int64]]
"""Digests of 16 bytes, the number of the set or part that holds their texts, and the row of each there."""

_BUCKET = 1 << 16  # digests that are sorted at once, about
_AT_ONCE = 1 << 16  # that are read at once
_HALF = np.uint64(32)  # bits of a key
_KEY, _CHECK, _OWNER, _ROW = range(4)  # a digest's first half, by which all are sorted, and second; its place

_Table = NDArray[np.uint64]  # [4, n]


class StoredTexts:
    """Texts by their digests; of equal ones the first that was given comes first.

    Raises:
        StorageError: the system's folder for temporary files has no room for 32 bytes a text, twice.
    """

    def __init__(self, count: int, batches: Iterable[DigestBatch]) -> None:
        given: _Table = scratch_array((4, count), np.dtype(np.uint64))
        at = 0
        for digests, owner, rows in batches:
            place = slice(at, at := at + len(digests))
            given[_KEY, place], given[_CHECK, place] = _halves(digests)
            given[_OWNER, place], given[_ROW, place] = owner, rows
        self._table: _Table = scratch_array((4, count), np.dtype(np.uint64))
        self._sort(given)

    @classmethod
    def of_parts(cls, parts: Sequence[Location]) -> "StoredTexts":
        """The texts of parts, by the digests that these hold; owners are the parts.

        Raises:
            FeatureSetError: a part holds none, as where texts are not stored.
            DamagedError: a part is damaged.
        """
        count = sum(read_footer(path).metadata.num_rows for path in parts)
        return cls(count, (batch for number, path in enumerate(parts) for batch in _digests_of_part(number, path)))

    def __len__(self) -> int:
        return len(self._table[_KEY])

    @property
    def owners(self) -> NDArray[np.uint64]:
        """The set or part that holds each text, ``[n]``."""
        owners: NDArray[np.uint64] = self._table[_OWNER]
        return owners

    @property
    def rows(self) -> NDArray[np.uint64]:
        """The row of each text there, ``[n]``."""
        rows: NDArray[np.uint64] = self._table[_ROW]
        return rows

    def find(self, digests: Sequence[bytes]) -> NDArray[np.int64]:
        """The number of the first text of each digest, ``[m]``; -1 where there is none."""
        keys, checks = _halves(digests)
        numbers = np.searchsorted(self._table[_KEY], keys)
        found: NDArray[np.int64] = np.full(len(keys), -1)
        inside = np.flatnonzero(numbers < len(self))
        at = numbers[inside]
        equal = (self._table[_KEY, at] == keys[inside]) & (self._table[_CHECK, at] == checks[inside])
        found[inside[equal]] = at[equal]
        return found

    def equals(self, number: int) -> slice:
        """The numbers of all texts that are equal to one that :meth:`find` gave."""
        return slice(number, int(np.searchsorted(self._table[_KEY], self._table[_KEY, number], "right")))

    def count_unmet(self, met: NDArray[np.bool_]) -> int:
        """Count the texts of which the first equal one is false in ``met``."""
        keys, unmet = self._table[_KEY], 0
        for start in range(0, len(self), _AT_ONCE):
            unmet += int(np.count_nonzero(~met[np.searchsorted(keys, keys[start : start + _AT_ONCE])]))
        return unmet

    def _sort(self, given: _Table) -> None:
        """Count what falls into each bucket, put it there, and sort the buckets."""
        number = max(1, len(self) // _BUCKET)
        counts = np.zeros(number, np.int64)
        for start in range(0, len(self), _AT_ONCE):
            counts += np.bincount(_buckets(given[_KEY, start : start + _AT_ONCE], number), minlength=number)
        ends = offsets_of(counts)
        free = ends[:-1].copy()
        for start in range(0, len(self), _AT_ONCE):
            texts = given[:, start : start + _AT_ONCE]
            buckets = _buckets(texts[_KEY], number)
            order = np.argsort(buckets, kind="stable")
            buckets = buckets[order]
            ranks = np.arange(len(buckets)) - np.searchsorted(buckets, buckets)
            self._table[:, free[buckets] + ranks] = texts[:, order]
            free += np.bincount(buckets, minlength=number)
        for start, stop in pairwise(ends.tolist()):
            bucket = self._table[:, start:stop]
            bucket[:] = bucket[:, np.lexsort((bucket[_CHECK], bucket[_KEY]))]


def _digests_of_part(number: int, path: Location) -> Iterator[DigestBatch]:
    part = PartReader(read_footer(path))
    if "text_digest" not in part.footer.schema.names:
        raise FeatureSetError(
            "it holds no digests of texts, by which features are found",
            where=path,
            remedy=f"extract the set without {parameter('keep_text', False)}",
        )
    last = part.footer.header.last_row
    for batch in part.batches(["row", "text_digest"], start=0, stop=last, batch_rows=_AT_ONCE):
        digests = map(bytes.fromhex, batch.column("text_digest").to_pylist())
        yield list(digests), number, batch.column("row").to_numpy()


def _halves(digests: Sequence[bytes]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The first and the second half of each digest, as integers in the digests' order."""
    halves = np.frombuffer(b"".join(digests), ">u8").astype(np.uint64).reshape(-1, 2)
    return np.ascontiguousarray(halves[:, 0]), np.ascontiguousarray(halves[:, 1])


def _buckets(keys: NDArray[np.uint64], number: int) -> NDArray[np.int64]:
    """The bucket of each key; buckets follow one another as keys do."""
    buckets: NDArray[np.int64] = ((keys >> _HALF) * np.uint64(number) >> _HALF).astype(np.int64)
    return buckets

"""The map of an index: an even sample of its vectors, placed in the plane of their two directions of most variance."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from bertfeat.features import PrincipalPlane, find_principal_plane
from bertfeat.search import Index

MOST_POINTS = 100_000
_SAMPLE_BYTES = 64 << 20  # of the vectors whose plane is found
_BLOCK_BYTES = 8 << 20  # of those that are placed at once
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class MapLayout:
    """Points of a map, and the plane in which others are placed beside them."""

    numbers: NDArray[np.int64]  # [n] of the vectors, ascending
    flat: NDArray[np.float32]  # [n, 2]
    plane: PrincipalPlane

    def to_bytes(self) -> bytes:
        """All x (float32), then all y (float32), then all numbers (uint32), little-endian."""
        parts = (self.flat[:, 0].astype("<f4"), self.flat[:, 1].astype("<f4"), self.numbers.astype("<u4"))
        return b"".join(part.tobytes() for part in parts)


def lay_out_index(index: Index, points: int = MOST_POINTS) -> MapLayout:
    """Lay out at most so many vectors of an index by PCA.

    The plane is that of an even sample of them, at most 64 MiB; all are then read in blocks, and none is kept.
    """
    numbers = _points_of_index(index, points)
    width = index.settings.stored_width
    sample = _evenly(numbers, _SAMPLE_BYTES // (4 * width))
    plane = find_principal_plane(index.reconstruct(sample) if len(sample) else np.empty((0, width), np.float32))
    flat = np.empty((len(numbers), 2), np.float32)
    block = max(1, _BLOCK_BYTES // (4 * width))
    for start in range(0, len(numbers), block):
        flat[start : start + block] = plane.place(index.reconstruct(numbers[start : start + block]))
    return MapLayout(numbers, flat, plane)


def _points_of_index(index: Index, points: int) -> NDArray[np.int64]:
    """The numbers of vectors that were not removed: all, or evenly spread ones."""
    removed, count = index.vectors.removed, index.settings.count
    living = np.arange(count) if removed is None else np.flatnonzero(~removed)
    return _evenly(living, points)


def _evenly(numbers: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """At most so many of numbers, and at least one, evenly spread."""
    most = max(1, most)
    return numbers if len(numbers) <= most else numbers[np.linspace(0, len(numbers) - 1, most).astype(np.int64)]


class Background(Generic[_T]):
    """A value that is computed once, on a thread of its own, from when it is first wanted."""

    def __init__(self, compute: Callable[[], _T], name: str) -> None:
        self._compute, self._name = compute, name
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._value: _T | None = None
        self._error: Exception | None = None

    def start(self) -> None:
        """Begin, if it has not begun."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()

    def value(self) -> _T | None:
        """Return the computed value; None while it is not there yet. An error of the computation is raised."""
        self.start()
        if self._error is not None:
            raise self._error.with_traceback(None)
        return self._value

    def _work(self) -> None:
        try:
            self._value = self._compute()
        except Exception as error:
            self._error = error

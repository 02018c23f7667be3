"""The map of an index: an even sample of its vectors, laid out in the plane by their two directions of most variance.

Shapes: n points, W values in a vector.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from bertfeat.search import Index

MOST_POINTS = 100_000
_BLOCK = 4096
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class MapLayout:
    """Points of a map, and how others are laid out beside them."""

    numbers: NDArray[np.int64]  # [n] of the vectors, ascending
    flat: NDArray[np.float32]  # [n, 2]
    centre: NDArray[np.float32]  # [W]
    directions: NDArray[np.float32]  # [W, 2]
    shares: tuple[float, float]  # of the variance, that each direction keeps

    def place(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Where vectors lie: ``[m, W]`` → ``[m, 2]``."""
        return ((vectors - self.centre) @ self.directions).astype(np.float32)

    def to_bytes(self) -> bytes:
        """All x (float32), then all y (float32), then all numbers (uint32), little-endian."""
        parts = (self.flat[:, 0].astype("<f4"), self.flat[:, 1].astype("<f4"), self.numbers.astype("<u4"))
        return b"".join(part.tobytes() for part in parts)


def lay_out_index(index: Index, points: int = MOST_POINTS) -> MapLayout:
    """Lay out at most so many vectors of an index by PCA, reading them twice and keeping none."""
    numbers = _points_of_index(index, points)
    width = index.settings.stored_width
    if not len(numbers):
        empty = np.zeros((width, 2), np.float32)
        return MapLayout(numbers, np.empty((0, 2), np.float32), np.zeros(width, np.float32), empty, (0.0, 0.0))
    near = next(_vector_blocks(index, numbers)).mean(axis=0)  # near the centre, so that no digits cancel
    total, products = np.zeros(width), np.zeros((width, width))
    for block in _vector_blocks(index, numbers):
        shifted = block - near
        total += shifted.sum(axis=0, dtype=np.float64)
        products += shifted.T @ shifted
    mean = total / len(numbers)
    variances, axes = np.linalg.eigh(products / len(numbers) - np.outer(mean, mean))
    best = _two_axes(axes)
    kept, whole = np.maximum([*variances[::-1][:2], 0.0][:2], 0.0), float(variances.sum())
    shares = (float(kept[0]) / whole, float(kept[1]) / whole) if whole > 0 else (1.0, 0.0)
    layout = MapLayout(numbers, np.empty((len(numbers), 2), np.float32), near + mean.astype(np.float32), best, shares)
    start = 0
    for block in _vector_blocks(index, numbers):
        layout.flat[start : start + len(block)] = layout.place(block)
        start += len(block)
    return layout


def _points_of_index(index: Index, points: int) -> NDArray[np.int64]:
    """The numbers of vectors that were not removed: all, or evenly spread ones."""
    removed, count = index.vectors.removed, index.settings.count
    living = np.arange(count) if removed is None else np.flatnonzero(~removed)
    if len(living) <= points:
        return living
    return living[np.linspace(0, len(living) - 1, points).astype(np.int64)]


def _vector_blocks(index: Index, numbers: NDArray[np.int64]) -> Iterator[NDArray[np.float32]]:
    for start in range(0, len(numbers), _BLOCK):
        yield index.reconstruct(numbers[start : start + _BLOCK])


def _two_axes(axes: NDArray[np.float64]) -> NDArray[np.float32]:
    """The last two of axes in ascending order, each with the sign that gives the same picture every time."""
    best = axes[:, ::-1][:, :2]
    best = best * np.sign(best[np.abs(best).argmax(axis=0), np.arange(best.shape[1])])
    if best.shape[1] < 2:
        best = np.pad(best, ((0, 0), (0, 1)))
    return np.ascontiguousarray(best, np.float32)


class Background(Generic[_T]):
    """Something that is computed once, on a thread of its own, from when it is first wanted."""

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
        """What was computed; None while it is not there yet. An error of the computation is raised."""
        self.start()
        if self._error is not None:
            raise self._error.with_traceback(None)
        return self._value

    def _work(self) -> None:
        try:
            self._value = self._compute()
        except Exception as error:
            self._error = error

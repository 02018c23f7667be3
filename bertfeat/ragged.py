"""Ragged arrays: the values of several rows, one after another, and the offsets at which the rows begin."""

from collections.abc import Sequence, Sized

import numpy as np
from numpy.typing import ArrayLike, NDArray

Int64s = NDArray[np.int64]


def lengths_of(rows: Sequence[Sized]) -> Int64s:
    """The number of values of each row. Shape: ``[R]``."""
    return np.fromiter(map(len, rows), np.int64, len(rows))


def offsets_of(lengths: ArrayLike) -> Int64s:
    """The offset at which each row begins, and that at which the last one ends. Shape: ``[R]`` → ``[R+1]``."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def ranges(starts: Int64s, lengths: Int64s) -> Int64s:
    """Concatenate ranges of numbers. Shape: ``[R]``, ``[R]`` → ``[sum of lengths]``."""
    offsets = offsets_of(lengths)
    shifts: Int64s = np.repeat(starts - offsets[:-1], lengths)
    return np.arange(offsets[-1]) + shifts

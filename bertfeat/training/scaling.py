"""Mean and standard deviation of features, which training brings to 0 and 1."""

from collections.abc import Callable, Iterator
from functools import reduce

import numpy as np
from numpy.typing import NDArray

_BLOCK = 512  # rows at a time in float64


def feature_scale(
    features: NDArray[np.floating], combine: Callable[[NDArray[np.floating]], NDArray[np.floating]] | None = None
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean and standard deviation of each value over words, in little memory: ``[N, W]`` → two of ``[W]``.

    With ``combine`` they are those of the V values that it makes of features: ``[n, W]`` → ``[n, V]``.
    """

    def blocks() -> Iterator[NDArray[np.floating]]:
        for at in range(0, len(features), _BLOCK):
            block = features[at : at + _BLOCK]
            yield block if combine is None else combine(block)

    mean = reduce(np.add, (block.sum(0, dtype=np.float64) for block in blocks())) / len(features)
    squares = reduce(np.add, (np.square(block - mean).sum(0) for block in blocks()))
    return mean.astype(np.float32), np.sqrt(squares / len(features)).astype(np.float32)

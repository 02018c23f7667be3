"""Mean and standard deviation of features, which training brings to 0 and 1."""

from functools import reduce

import numpy as np
from numpy.typing import NDArray

_BLOCK = 512  # rows at a time in float64


def feature_scale(features: NDArray[np.floating]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean and standard deviation of each value over words, in little memory: ``[N, W]`` → two of ``[W]``."""
    blocks = [features[at : at + _BLOCK] for at in range(0, len(features), _BLOCK)]
    mean = reduce(np.add, (block.sum(0, dtype=np.float64) for block in blocks)) / len(features)
    squares = reduce(np.add, (np.square(block - mean).sum(0) for block in blocks))
    return mean.astype(np.float32), np.sqrt(squares / len(features)).astype(np.float32)

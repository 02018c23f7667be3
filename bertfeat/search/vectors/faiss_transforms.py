"""The transforms that an index applies to vectors before it stores them: FAISS's chains, such as ``PCAW256,L2norm``.

Shapes: n vectors, W values in each.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bertfeat.search.vectors.faiss_import import FaissIndex, faiss

Transform = Callable[[NDArray[np.float32]], NDArray[np.float32]]


class FaissTransform(Protocol):
    """One step of a chain: FAISS's ``VectorTransform``."""

    def apply(self, vectors: NDArray[np.float32], /) -> NDArray[np.float32]:
        """Transform vectors ``[n, W]``; the width may change."""
        ...


def index_transform(index: FaissIndex) -> Transform | None:
    """The transform that a trained index applies to vectors ``[n, W]`` before it stores them; None without one."""
    plain = faiss.downcast_index(index)
    return partial(apply_transforms, plain) if isinstance(plain, faiss.IndexPreTransform) else None


def judged_transform(index: FaissIndex) -> Transform | None:
    """The transform after which exact search decides what is near; None for the vectors as they are.

    Whitening and scaling to length 1 change on purpose what is near, so they come before the comparison. Rotations and
    dropped dimensions are meant to keep what is near, so what they lose is the index's loss.
    """
    transform = index_transform(index)
    if transform is None or not any(map(_changes_neighbors, chained_transforms(faiss.downcast_index(index)))):
        return None
    return transform


def transformed_index(index: FaissIndex) -> FaissIndex:
    """The index behind the transforms of an ``IndexPreTransform``."""
    inner: FaissIndex = faiss.downcast_index(faiss.downcast_index(index).index)
    return inner


def chained_transforms(index: FaissIndex) -> list[FaissTransform]:
    """The transforms of an ``IndexPreTransform`` in order, each as its own class."""
    chain = faiss.downcast_index(index).chain
    return [faiss.downcast_VectorTransform(chain.at(number)) for number in range(chain.size())]


def apply_transforms(index: FaissIndex, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Vectors ``[n, W]`` as the chain of an ``IndexPreTransform`` makes them."""
    for step in chained_transforms(index):
        vectors = step.apply(np.ascontiguousarray(vectors, np.float32))
    return vectors


def _changes_neighbors(step: FaissTransform) -> bool:
    whitens = isinstance(step, faiss.PCAMatrix) and step.eigen_power != 0
    return whitens or isinstance(step, faiss.NormalizationTransform)

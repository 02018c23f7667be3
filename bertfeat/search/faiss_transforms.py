"""What an index does to vectors before it stores them: FAISS's chains of transforms, such as ``PCAW256,L2norm``.

Shapes: n vectors, W values in each.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertfeat.search.faiss_import import faiss

Transform = Callable[[NDArray[np.float32]], NDArray[np.float32]]


def transform_of(index: Any) -> Transform | None:
    """How a trained index transforms vectors ``[n, W]`` before it stores them; None where it does not."""
    index = faiss.downcast_index(index)
    return partial(_transformed, index) if isinstance(index, faiss.IndexPreTransform) else None


def judged_transform(index: Any) -> Transform | None:
    """The transform after which exact search says what is near; None for the vectors as they are.

    Whitening and scaling to length 1 change on purpose what is near, so they come before the comparison. Rotating and
    leaving out dimensions are meant to keep what is near, so what they lose is the index's loss.
    """
    transform = transform_of(index)
    if transform is None or not any(map(_alters_nearness, chained_transforms(faiss.downcast_index(index)))):
        return None
    return transform


def _transformed(index: Any, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    for step in chained_transforms(index):
        vectors = step.apply(np.ascontiguousarray(vectors, np.float32))
    return vectors


def chained_transforms(index: Any) -> list[Any]:
    """The transforms of an ``IndexPreTransform`` in order, each as its own class."""
    return [faiss.downcast_VectorTransform(index.chain.at(number)) for number in range(index.chain.size())]


def _alters_nearness(step: Any) -> bool:
    whitens = isinstance(step, faiss.PCAMatrix) and step.eigen_power != 0
    return whitens or isinstance(step, faiss.NormalizationTransform)

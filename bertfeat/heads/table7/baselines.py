"""Baselines of a head: the most frequent answer, and of two texts' likeness their plain cosine."""

from collections.abc import Iterator

import numpy as np

from bertfeat.heads.examples import HeadExamples
from bertfeat.heads.guesses import Guess

MOST_FREQUENT = "most-frequent"
COSINE = "cosine"
TITLES = {MOST_FREQUENT: "Most frequent answer", COSINE: "Cosine of the two vectors (last layer)"}


def cosine_guesses(examples: HeadExamples) -> list[Guess]:
    """The cosine of the two vectors of each example."""
    return [Guess(value) for value in _cosines(examples)]


def _cosines(examples: HeadExamples) -> Iterator[float]:
    for chunk in examples.store.chunks():
        first, second = np.split(chunk.features.astype(np.float32), 2, axis=1)
        norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
        yield from (np.einsum("nw,nw->n", first, second) / np.maximum(norms, 1e-12)).tolist()

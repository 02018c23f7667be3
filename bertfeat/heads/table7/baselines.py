"""What a head is held against: the most frequent answer, and of two texts' likeness their plain cosine."""

from collections import Counter
from collections.abc import Iterator
from typing import cast

import numpy as np

from bertfeat.heads.examples import HeadExamples
from bertfeat.heads.gold import GoldAnswer
from bertfeat.heads.guesses import NEVER, Guess
from bertfeat.heads.kinds import HeadKind

MOST_FREQUENT = "most-frequent"
COSINE = "cosine"
TITLES = {MOST_FREQUENT: "Most frequent answer", COSINE: "Cosine of the two vectors (last layer)"}


def frequent_guesses(train: HeadExamples, count: int, *, regression: bool) -> list[Guess]:
    """The guess that is most often right on the training set, for each of so many examples.

    Of numbers their mean; of questions that some passages do not answer, that there is no answer, else nothing.
    """
    if train.kind is HeadKind.ANSWER:
        answers = cast("tuple[tuple[GoldAnswer, ...], ...]", train.gold)
        never = NEVER if any(not given for given in answers) else 0.0
        return [Guess("", no_answer=never)] * count
    if regression:
        return [Guess(float(np.mean(np.array(train.gold, np.float64))))] * count
    value, _ = Counter(cast("tuple[str | int, ...]", train.gold)).most_common(1)[0]
    return [Guess(value)] * count


def cosine_guesses(examples: HeadExamples) -> list[Guess]:
    """The cosine of the two vectors of each example."""
    return [Guess(value) for value in _cosines(examples)]


def _cosines(examples: HeadExamples) -> Iterator[float]:
    for chunk in examples.store.chunks():
        first, second = np.split(chunk.features.astype(np.float32), 2, axis=1)
        norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
        yield from (np.einsum("nw,nw->n", first, second) / np.maximum(norms, 1e-12)).tolist()

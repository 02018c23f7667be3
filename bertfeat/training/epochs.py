"""The report of an epoch of training."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Epoch:
    """The result of one epoch."""

    number: int  # from 1
    loss: float
    score: float  # on the development set
    learning_rate: float
    words: int  # that were learnt from; of what has no words: examples
    seconds: float  # of learning, without the evaluation
    best: int  # number of the best epoch so far


OnEpoch = Callable[[Epoch], None]

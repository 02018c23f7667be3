"""The reports of a training: each epoch as it ends, and meanwhile of the first one how long it will take."""

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


@dataclass(frozen=True, slots=True)
class Pace:
    """The time that a training will take, measured on the first batches of its first epoch."""

    seconds: float  # of learning an epoch, without its evaluation
    epochs: int  # at most, this one included


OnPace = Callable[[Pace], None]

"""The course of a training: its epochs, the learning rate, and when it ends.

There are two schedules. ``plateau`` halves the rate where the score on the development set no longer rises, ends after
a number of epochs without a better score (the patience), and keeps the best epoch. ``linear`` lets the rate fall
linearly to 0 over all epochs, as BERT's code does (section A.2 of the paper), and keeps the last epoch, whatever its
score.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypedDict

from msgspec import Meta

from bertfeat.display import format_duration
from bertfeat.errors import parameter
from bertfeat.learning.settings import HeadSettings
from bertfeat.progress import Milestone

# ── progress ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Epoch(Milestone):
    """The result of one epoch."""

    number: int  # from 1
    epochs: int  # at most
    loss: float
    score: float  # on the development set
    learning_rate: float
    words: int  # words that were learned from; for tasks without words: examples
    noun: str  # what they are called: words or examples
    seconds: float  # of learning, without the evaluation
    best: int  # number of the best epoch so far

    @property
    def fraction(self) -> float:
        """The share of the epochs that is done, if none is left out."""
        return self.number / self.epochs

    def __str__(self) -> str:
        speed = f"{self.words / max(self.seconds, 1e-9):,.0f} {self.noun}/s"
        best = " *" if self.best == self.number else ""
        return f"epoch {self.number}: loss {self.loss:.4f}, dev {self.score:.4f}, {speed}{best}"


@dataclass(frozen=True, slots=True)
class Pace(Milestone):
    """The time that a long training will take, estimated from the first batches of its first epoch."""

    seconds: float  # of learning an epoch, without its evaluation
    epochs: int  # at most, this one included

    @property
    def fraction(self) -> float:
        """The share of the training that is done: none."""
        return 0.0

    def __str__(self) -> str:
        most = f"there are {self.epochs} at most, {format_duration(self.seconds * self.epochs)}"
        return f"an epoch takes about {format_duration(self.seconds)} to learn; {most}"


OnTraining = Callable[[Epoch | Pace], None]


# ── schedule ──────────────────────────────────────────────────────────────────────────────────────────────


_SHORTEST_WAIT = 2  # least epochs without a better score before the rate is halved; usually a third of the patience


class EpochRecord(TypedDict):
    """The record of an epoch."""

    loss: float  # mean over the words, or examples
    score: float  # on the development set
    rate: Annotated[float, Meta(gt=0, lt=1)]  # learning rate
    words: Annotated[int, Meta(ge=1, le=2**62)]  # words that were learned from; for tasks without words: examples
    seconds: Annotated[float, Meta(ge=0)]  # of learning, without the evaluation


def best_epoch(history: Sequence[EpochRecord], training: HeadSettings) -> int:
    """Number of the epoch whose weights are kept: the last one with a linear schedule, or while every score is 0; else
    the one with the best score, the first of equal ones. Of the zeros before the first other score, the last counts.
    """
    if training.schedule == "linear" or not any(epoch["score"] for epoch in history):
        return len(history)
    scored = next(number for number, epoch in enumerate(history, 1) if epoch["score"])
    return max(range(max(1, scored - 1), len(history) + 1), key=lambda number: history[number - 1]["score"])


def next_rate(history: Sequence[EpochRecord], training: HeadSettings) -> float:
    """The learning rate of the epoch after these."""
    if not history:
        return training.learning_rate
    number, rate = len(history), history[-1]["rate"]
    if training.schedule == "linear":
        return training.learning_rate * (training.epochs - number) / training.epochs
    waited = number - best_epoch(history, training)
    wait = max(_SHORTEST_WAIT, training.epochs_waited // 3)
    return rate / 2 if waited and waited % wait == 0 else rate


def is_over(history: Sequence[EpochRecord], training: HeadSettings) -> bool:
    """Whether no epoch follows these."""
    count = len(history)
    return count >= training.epochs or count - best_epoch(history, training) >= training.epochs_waited


def cut_short_warnings(epochs: Sequence[int], training: HeadSettings) -> tuple[str, ...]:
    """The warning about trainings of so many epochs each that ended only because no epoch was left."""
    cut = sum(each >= training.epochs for each in epochs)
    if not cut or training.schedule == "linear":  # which learns all epochs always
        return ()
    which = "the training" if len(epochs) == 1 else f"{cut:,} of {len(epochs):,} trainings"
    limit = parameter("epochs", training.epochs)
    return (f"{which} ended because of {limit}, not because the score no longer rose; more may give a better one",)

"""The course of a training: its epochs, the learning rate, and when it ends.

Two schedules: ``plateau`` halves the rate where the score on the development set no longer rises, ends after a while
without a better one, and keeps the best epoch; ``linear`` lets the rate fall in a line to 0 over all epochs, as BERT's
code does (section A.2 of the paper), and keeps the last one, whatever its score.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, TypedDict

from msgspec import Meta

from bertfeat.learning.settings import HeadSettings

# ── reports ───────────────────────────────────────────────────────────────────────────────────────────────


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


# ── schedule ──────────────────────────────────────────────────────────────────────────────────────────────


_SHORTEST_WAIT = 2  # epochs without a better score, after which the learning rate is halved; a third of the patience


class EpochRecord(TypedDict):
    """The record of an epoch."""

    loss: float  # mean over the words, or examples
    score: Annotated[float, Meta(ge=-1, le=1)]  # on the development set
    rate: Annotated[float, Meta(gt=0, lt=1)]  # learning rate
    words: Annotated[int, Meta(ge=1, le=2**62)]  # that were learnt from; of what has no words: examples
    seconds: Annotated[float, Meta(ge=0)]  # of learning, without the evaluation


def best_epoch(history: Sequence[EpochRecord], training: HeadSettings) -> int:
    """Number of the epoch whose weights are kept: of a linear schedule the last one; else the one with the best score,
    the first of equal ones, or the last one while every score is 0.
    """
    return max(_best_so_far(history, training), default=0)


def _best_so_far(history: Sequence[EpochRecord], training: HeadSettings) -> Iterator[int]:
    """The number of the best epoch after each one."""
    best, top, found = 0, 0.0, False
    for number, epoch in enumerate(history, 1):
        found = found or epoch["score"] != 0
        if best == 0 or not found or epoch["score"] > top or training.schedule == "linear":
            best, top = number, epoch["score"]
        yield best


def next_rate(history: Sequence[EpochRecord], training: HeadSettings) -> float:
    """The learning rate of the epoch after these."""
    if not history:
        return training.learning_rate
    return _rate_after(len(history), history[-1]["rate"], best_epoch(history, training), training)


def _rate_after(number: int, rate: float, best: int, training: HeadSettings) -> float:
    """The learning rate after an epoch that had a ``rate``."""
    if training.schedule == "linear":
        return training.learning_rate * (training.epochs - number) / training.epochs
    waited = number - best
    wait = max(_SHORTEST_WAIT, training.epochs_waited // 3)
    return rate / 2 if waited and waited % wait == 0 else rate


def is_over(history: Sequence[EpochRecord], training: HeadSettings) -> bool:
    """Whether no epoch follows these."""
    count = len(history)
    return count >= training.epochs or count - best_epoch(history, training) >= training.epochs_waited


def history_problem(history: Sequence[EpochRecord], training: HeadSettings) -> str | None:
    """Why a training with these settings cannot have this history; None if it can."""
    rate, best = training.learning_rate, 0
    for number, (epoch, best_now) in enumerate(zip(history, _best_so_far(history, training), strict=True), 1):
        if number > training.epochs or number - 1 - best >= training.epochs_waited:
            return f"epoch {number} comes after the end of the training"
        if epoch["rate"] != rate:
            return f"the learning rate of epoch {number} is {epoch['rate']}, not {rate}"
        if epoch["words"] != history[0]["words"]:
            return f"epoch {number} has {epoch['words']:,} words, and the first {history[0]['words']:,}"
        best = best_now
        rate = _rate_after(number, rate, best, training)
    return None

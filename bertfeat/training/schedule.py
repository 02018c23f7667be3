"""What follows from the epochs so far: which one is best, the next learning rate, and whether the training is over."""

from collections.abc import Iterator, Sequence
from typing import Annotated, TypedDict

from msgspec import Meta

from bertfeat.training.settings import LoopSettings

_WAIT = 2  # epochs without a better score, after which the learning rate is halved


class EpochRecord(TypedDict):
    """The record of an epoch."""

    loss: float  # mean over the words, or examples
    score: Annotated[float, Meta(ge=-1, le=1)]  # on the development set
    rate: Annotated[float, Meta(gt=0, lt=1)]  # learning rate
    words: Annotated[int, Meta(ge=1)]  # that were learnt from; of what has no words: examples
    seconds: Annotated[float, Meta(ge=0)]  # of learning, without the evaluation


def best_epoch(history: Sequence[EpochRecord]) -> int:
    """Number of the epoch with the best score, the first of equal ones; while every score is 0, the last one."""
    return max(_best_so_far(history), default=0)


def _best_so_far(history: Sequence[EpochRecord]) -> Iterator[int]:
    """The number of the best epoch after each one."""
    best, top, found = 0, 0.0, False
    for number, epoch in enumerate(history, 1):
        found = found or epoch["score"] != 0
        if best == 0 or not found or epoch["score"] > top:
            best, top = number, epoch["score"]
        yield best


def next_rate(history: Sequence[EpochRecord], training: LoopSettings) -> float:
    """The learning rate of the epoch after these."""
    if not history:
        return training.learning_rate
    return _rate_after(history[-1]["rate"], len(history) - best_epoch(history))


def _rate_after(rate: float, waited: int) -> float:
    return rate / 2 if waited and waited % _WAIT == 0 else rate


def is_over(history: Sequence[EpochRecord], training: LoopSettings) -> bool:
    """Whether no epoch follows these."""
    count = len(history)
    return count >= training.epochs or count - best_epoch(history) >= training.patience


def history_problem(history: Sequence[EpochRecord], training: LoopSettings) -> str | None:
    """Why a training with these settings cannot have this history; None if it can."""
    rate, best = training.learning_rate, 0
    for number, (epoch, best_now) in enumerate(zip(history, _best_so_far(history), strict=True), 1):
        if number > training.epochs or number - 1 - best >= training.patience:
            return f"epoch {number} comes after the end of the training"
        if epoch["rate"] != rate:
            return f"the learning rate of epoch {number} is {epoch['rate']}, not {rate}"
        if epoch["words"] != history[0]["words"]:
            return f"epoch {number} has {epoch['words']:,} words, and the first {history[0]['words']:,}"
        best = best_now
        rate = _rate_after(rate, number - best)
    return None

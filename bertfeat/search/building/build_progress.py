"""The progress of a build."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """How far a build is."""

    step: str  # whiten, sample, train, add, evaluate, write, tokens
    done: int  # vectors, of those that the step goes through
    total: int


OnBuildProgress = Callable[[BuildProgress], None]


def ignore_build_progress(_progress: BuildProgress) -> None:
    """The default: nobody watches."""

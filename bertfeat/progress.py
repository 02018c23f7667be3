"""Progress of long calls: the steps that they report, and the bar that notebooks show."""

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

_SECONDS_BETWEEN = 0.2  # between two updates of a bar


class AnyProgress(Protocol):
    """The progress of a call; ``str`` gives the text that a bar shows beside it."""

    @property
    def fraction(self) -> float:
        """The share that is done, 0 to 1."""
        ...


@dataclass(frozen=True, slots=True)
class StepProgress:
    """The progress of a step of a call; of some calls it is the only one."""

    step: str  # such as train; empty where there is only one
    done: int
    total: int
    noun: str  # of what is counted: vectors, words, parts

    @property
    def fraction(self) -> float:
        """The share that is done, 0 to 1."""
        return self.done / max(self.total, 1)

    def __str__(self) -> str:
        return f"{self.step} {self.done:,} of {self.total:,} {self.noun}".lstrip()


class Milestone:
    """Progress that a log keeps as a line of its own: a step that is done, or what was found out about the rest."""

    __slots__ = ()


ProgressT = TypeVar("ProgressT", bound=AnyProgress)

OnStep = Callable[[StepProgress], None]

ProgressOption = Callable[[ProgressT], None] | bool | None
"""The listener to the progress of a call: a function; True: a bar; False: nobody; None: a bar in notebooks alone."""


def ignore_progress(_: object) -> None:
    """Do nothing with the progress."""


@contextmanager
def telling(progress: ProgressOption[ProgressT]) -> Iterator[Callable[[ProgressT], None]]:
    """Yield the function that a call reports its progress to."""
    if callable(progress):
        yield progress
    elif progress or (progress is None and in_notebook()):
        with _bar() as show:
            yield show
    else:
        yield ignore_progress


def in_notebook() -> bool:
    """Whether the code runs in the kernel of a notebook (Jupyter, Colab, VS Code), and not in a terminal or script."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


@contextmanager
def _bar() -> Iterator[Callable[[AnyProgress], None]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tqdm warns that ipywidgets is missing; its bar of text does as well
        from tqdm.auto import tqdm  # type: ignore[import-untyped]
    next_time = 0.0
    with tqdm(total=1.0, bar_format="{percentage:3.0f}%|{bar}| {desc} [{elapsed}]") as bar:

        def show(progress: AnyProgress) -> None:
            nonlocal next_time
            if progress.fraction >= 1 or time.monotonic() >= next_time:
                next_time = time.monotonic() + _SECONDS_BETWEEN
                bar.n = progress.fraction
                bar.set_description_str(str(progress))

        yield show

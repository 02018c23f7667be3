"""The protocols between a room (a part of bertfeat) with work that is cut into tasks, and the engines that do the work.

A room with work has a :class:`Job`, of which any process can open a :class:`Worker`, and an :class:`Agenda` of tasks.
The engines (:mod:`bertfeat.scale`) do not know what the tasks do.
"""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from bertfeat.errors import BertfeatError


class NumberedTask(Protocol):
    """A piece of work, identified by its class and its number. It can be pickled."""

    @property
    def number(self) -> int:
        """Its number among those of its class."""


TaskKey = tuple[str, int]
"""The key of a task in every process: the name of its class, and its number."""


def key_of(task: NumberedTask) -> TaskKey:
    """The key of a task."""
    return type(task).__name__, task.number


TaskT = TypeVar("TaskT", bound=NumberedTask)
ResultT = TypeVar("ResultT")
GivenT = TypeVar("GivenT", covariant=True)
TakenT = TypeVar("TakenT", contravariant=True)


class Worker(Protocol[TaskT, GivenT]):
    """Does tasks, in any process."""

    def work(self, tasks: Iterator[TaskT], done: Callable[[TaskT, GivenT], None]) -> None:
        """Do the tasks; ``done`` gets the result of each, on any thread, once what it wrote is in its place."""

    def raise_failed_writes(self) -> None:
        """Raise the error of a write that has failed, on a thread that waits for tasks."""


class Job(Protocol[TaskT, GivenT]):
    """The facts of a run that workers need, so that each of them writes the same bytes. It can be pickled."""

    def open_worker(self, *, device: str | None, threads: int | None) -> Worker[TaskT, GivenT]:
        """Open a worker in this process, which from then on computes with ``threads`` threads, if given.

        Raises:
            BertfeatError: something that it needs cannot be found here, or is not the same as in the run.
        """

    def threads_in_use(self) -> int:
        """Return the number of threads that such work would use in this process; workers on this machine share them."""

    def repeat(self, task: TaskT) -> TaskT:
        """The task for another worker, since the one that had it died, perhaps right after the task was done."""

    def error_of_deaths(self, task: TaskT, problem: str) -> BertfeatError:
        """The error for a task over which several workers died, one after the other."""


class Agenda(Protocol[TaskT, TakenT]):
    """The tasks of a run that are still to be done."""

    @property
    def done(self) -> bool:
        """Whether there will be no more tasks."""

    def take(self) -> TaskT | None:
        """The next task; None where there is none now."""

    def finish(self, task: TaskT, result: TakenT) -> None:
        """Note the result of a task."""


class Engine(Protocol):
    """Workers, and how they get their tasks."""

    def run(self, job: Job[TaskT, ResultT], agenda: Agenda[TaskT, ResultT]) -> None:
        """Have every task of the agenda done.

        Raises:
            BertfeatError: a worker raised it, or no worker can be had.
        """

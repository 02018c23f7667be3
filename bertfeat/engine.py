"""Work that is cut into tasks, and who does it: the words between a room that has work and the engines that do it.

A room with work has a :class:`Job`, of which any process can open a :class:`Worker`, and an :class:`Agenda` of tasks.
The engines (:mod:`bertfeat.distributed`) know nothing of what the tasks are.
"""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from bertfeat.errors import BertfeatError


class NumberedTask(Protocol):
    """A piece of work. Can be pickled; its class and its number are what it is known by."""

    @property
    def number(self) -> int:
        """Its number among those of its class."""


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
    """The facts that workers have to know of a run, so that any of them writes the same bytes. Can be pickled."""

    def open_worker(self, *, device: str | None, threads: int | None) -> Worker[TaskT, GivenT]:
        """A worker in this process, which from now on computes with so many threads.

        Raises:
            BertfeatError: something that it needs is not to be found here, or is not the same.
        """

    def threads_in_use(self) -> int:
        """Return the number of threads that such work would use in this process; workers on this machine share them."""

    def repeat(self, task: TaskT) -> TaskT:
        """The task for another worker; the one that had it died, perhaps right after it was done."""

    def error_of_deaths(self, task: TaskT, problem: str) -> BertfeatError:
        """The error of a task over which one worker after the other died."""


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
            BertfeatError: of a worker, or it cannot be had.
        """

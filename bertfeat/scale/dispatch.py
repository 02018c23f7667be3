"""The dispatch of tasks to workers in processes of their own, with retries of the tasks of workers that died."""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from bertfeat.core import Agenda, Job, TaskKey, TaskT, key_of

ResultT = TypeVar("ResultT")

TASKS_AHEAD = 2
"""Tasks that a worker has at a time: one in its encoder, and one that is being read and tokenized."""

PATIENCE = 0.2
"""Seconds between looks at whether there is something to do, or a write has failed."""

_MOST_DEATHS = 3  # of workers over one task: with the third the run fails


class Dispatch(Generic[TaskT, ResultT]):
    """Hands out the tasks of an agenda, and again those of workers that died."""

    def __init__(self, job: Job[TaskT, ResultT], agenda: Agenda[TaskT, ResultT]) -> None:
        self._job, self._agenda = job, agenda
        self._lost: deque[TaskT] = deque()
        self._deaths: Counter[TaskKey] = Counter()
        self.out = 0  # tasks that workers have now

    @property
    def done(self) -> bool:
        """Whether all tasks are finished."""
        return not self.out and not self._lost and self._agenda.done

    def take(self) -> TaskT | None:
        """The next task; None where there is none now."""
        task = self._lost.popleft() if self._lost else self._agenda.take()
        self.out += task is not None
        return task

    def finish(self, task: TaskT, result: ResultT) -> None:
        """Note a result."""
        self.out -= 1
        self._agenda.finish(task, result)

    def give_back(self, task: TaskT) -> None:
        """Take a task back that a worker did not begin."""
        self.out -= 1
        self._lost.append(task)

    def lose(self, task: TaskT, reason: str) -> None:
        """Note that a worker died over a task, which then goes to another worker; the third death is an error."""
        self.out -= 1
        self._deaths[key_of(task)] += 1
        if self._deaths[key_of(task)] >= _MOST_DEATHS:
            raise self._job.error_of_deaths(task, f"{_MOST_DEATHS} workers died one after the other ({reason})")
        self._lost.append(self._job.repeat(task))


# ── in the process of a worker ──────────────────────────────────────────────────────────────────────────────


def serve_tasks(
    job: Job[TaskT, ResultT],
    *,
    device: str | None,
    threads: int | None,
    receive: Callable[[float], TaskT | None],
    done: Callable[[TaskT, ResultT], None],
) -> None:
    """Do the tasks that ``receive(seconds)`` gives, until it raises ``EOFError``; None means that there is none yet."""
    worker = job.open_worker(device=device, threads=threads)

    def tasks() -> Iterator[TaskT]:
        while True:
            try:
                task = receive(PATIENCE)
            except EOFError:
                return
            if task is not None:
                yield task
            worker.raise_failed_writes()
            del task

    worker.work(tasks(), done)


def wait_a_moment() -> None:
    """Wait before looking for tasks again."""
    time.sleep(PATIENCE)

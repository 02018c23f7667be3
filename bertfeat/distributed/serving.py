"""A worker in a process of its own, which gets its tasks from elsewhere."""

import time
from collections.abc import Callable, Iterator

from bertfeat.engine import Job, ResultT, TaskT

PATIENCE = 0.2
"""Seconds between looks at whether there is something to do, or a write has failed."""


def serve_tasks(
    job: Job[TaskT, ResultT],
    *,
    device: str | None,
    threads: int | None,
    receive: Callable[[float], TaskT | None],
    done: Callable[[TaskT, ResultT], None],
) -> None:
    """Do the tasks that ``receive(seconds)`` gives, until it raises ``EOFError``; None means that there is none yet.

    Raises:
        BertfeatError: what the job needs is not to be found here, or a task cannot be done.
    """
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

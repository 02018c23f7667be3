"""A worker in a process of its own, which gets its tasks from elsewhere."""

import time
from collections.abc import Callable, Iterator

from bertfeat.extraction import Job, OnDone, PartWorker, Task, use_threads

_PATIENCE = 0.2  # seconds between looks at whether a write has failed


def serve_tasks(
    job: Job, *, device: str | None, threads: int | None, receive: Callable[[float], Task | None], done: OnDone
) -> None:
    """Do the tasks that ``receive(seconds)`` gives, until it raises ``EOFError``; None means that there is none yet.

    Raises:
        BertfeatError: the model is not to be found here, or a task cannot be done.
    """
    if threads is not None:
        use_threads(threads)
    worker = PartWorker.of_job(job, device=device)

    def tasks() -> Iterator[Task]:
        while True:
            try:
                task = receive(_PATIENCE)
            except EOFError:
                return
            if task is not None:
                yield task
            worker.raise_failed_writes()
            del task

    worker.work(tasks(), done)


def wait_a_moment() -> None:
    """Wait before looking for tasks again."""
    time.sleep(_PATIENCE)

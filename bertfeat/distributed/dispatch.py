"""Which task a worker gets next, and what becomes of the tasks of workers that died."""

from collections import Counter, deque
from dataclasses import replace

from bertfeat.errors import BertfeatError, parameter
from bertfeat.extraction import Agenda, PlannedPart, Result, Task

TASKS_AHEAD = 2
"""Tasks that a worker has at a time: one in its encoder, and one that is being read and tokenized."""

_MOST_DEATHS = 3

TaskKey = tuple[str, int]
"""What a task is known by, in every process."""


def key_of(task: Task) -> TaskKey:
    """The key of a task."""
    return type(task).__name__, task.number


class Dispatch:
    """Hands out the tasks of an agenda, and again those of workers that died."""

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._lost: deque[Task] = deque()
        self._deaths: Counter[int] = Counter()  # by the part's number
        self.out = 0  # tasks that workers have now

    @property
    def done(self) -> bool:
        """Whether all tasks are finished."""
        return not self.out and not self._lost and self._agenda.done

    def take(self) -> Task | None:
        """The next task; None where there is none now."""
        task = self._lost.popleft() if self._lost else self._agenda.take()
        self.out += task is not None
        return task

    def finish(self, task: Task, result: Result) -> None:
        """Note a result."""
        self.out -= 1
        self._agenda.finish(task, result)

    def give_back(self, task: Task) -> None:
        """Take a task back that a worker did not begin."""
        self.out -= 1
        self._lost.append(task)

    def lose(self, task: Task, reason: str) -> None:
        """Note that a worker died over a task, which then goes to another one.

        Raises:
            BertfeatError: it has killed three workers.
        """
        self.out -= 1
        if isinstance(task, PlannedPart):
            task = replace(task, exists=True)  # it may have been written just before
            self._deaths[task.number] += 1
            if self._deaths[task.number] >= _MOST_DEATHS:
                raise BertfeatError(
                    f"{_MOST_DEATHS} workers died one after the other ({reason})",
                    where=f"part {task.number}",
                    remedy=f"if memory ran out, use fewer workers, a smaller {parameter('batch_tokens')} or a smaller "
                    f"{parameter('part_rows')}",
                )
        self._lost.append(task)

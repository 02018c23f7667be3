"""The tasks that heads learn, a file each, and the table of them and of those that other packages register."""

from collections.abc import Mapping
from functools import cache

from bertfeat.errors import HeadError, UsageError, parameter
from bertfeat.io import CORRECT_EXTENSION, load_extensions
from bertfeat.learning.kinds import HeadKind
from bertfeat.learning.task import Task
from bertfeat.learning.tasks.answers import Answers
from bertfeat.learning.tasks.choices import Choices
from bertfeat.learning.tasks.labels import Labels
from bertfeat.learning.tasks.multi_labels import MultiLabels
from bertfeat.learning.tasks.numbers import Numbers
from bertfeat.learning.tasks.tags import Tags

TASKS: Mapping[str, Task] = {
    task.name: task for task in (Tags(), Labels(), MultiLabels(), Numbers(), Answers(), Choices())
}
"""The tasks of this room by name; of each verb the first is the one that is learned if none is named."""

_GROUP = "bertfeat.tasks"


@cache
def all_tasks() -> Mapping[str, Task]:
    """The tasks of this room and those that packages register as entry points of the group ``bertfeat.tasks``.

    An entry point names a subclass of :class:`bertfeat.learning.Task` that is made without arguments.

    Raises:
        HeadError: an entry point cannot be loaded, is no such class or cannot be made, or has another task's name.
    """
    tasks = dict(TASKS)
    for place, made in load_extensions(_GROUP, HeadError):
        if not (isinstance(made, type) and issubclass(made, Task)):
            raise HeadError(f"this entry point of {_GROUP} is no Task", where=place, remedy=CORRECT_EXTENSION)
        try:
            task = made()
        except Exception as cause:
            problem = f"this entry point of {_GROUP} cannot be made a task ({type(cause).__name__}: {cause})"
            raise HeadError(problem, where=place, remedy=CORRECT_EXTENSION) from cause
        if task.name in tasks:
            problem = f"there are two tasks with the name {task.name}"
            raise HeadError(problem, where=place, remedy=CORRECT_EXTENSION)
        tasks[task.name] = task
    return tasks


def task_of(kind: HeadKind | str, name: str | None = None) -> Task:
    """The task of a verb by its name; by default the first one."""
    tasks = {task.name: task for task in TASKS.values() if task.kind == kind}
    if name is None:
        return next(iter(tasks.values()))
    if name not in tasks:  # here, so that a package that cannot be loaded stops its own task only
        tasks = {task.name: task for task in all_tasks().values() if task.kind == kind}
    if name not in tasks:
        problem = f"no task of {kind}; there {'are' if len(tasks) > 1 else 'is'} {', '.join(tasks)}"
        raise UsageError(
            problem, where=parameter("task", name), remedy="name one of these, or install the package with it"
        )
    return tasks[name]

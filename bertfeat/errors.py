"""Every error that bertfeat raises on purpose, and the exit code of the command that meets it.

::

    BertfeatError                1   something is wrong; the message says where, what, and the remedy
    ├── UsageError               2   an option or argument that cannot be right
    │   └── RecipeError          2   a layer specification that does not parse or does not fit the model
    ├── CorpusError              1   an input that cannot be read at all
    │   └── WrongColumnsError    2   the first 100 rows all failed: wrong format or wrong column names
    ├── ModelError               1   a model that cannot be found, trusted or loaded
    ├── RowFailedError           1   a row failed and ``strict`` asked to stop at the first
    ├── StorageError             1   a file or folder that cannot be written: no room, no permission, no such folder
    │   └── FolderLockedError    1   another run is at work on the folder
    ├── FeatureSetError          1   a folder that is not a sound feature set
    │   ├── SettingsDifferError  1   a run over a folder that was made with other settings
    │   ├── AnotherCorpusError   1   a run over a folder that was made from another corpus
    │   ├── DamagedError         1   a checksum or the accounting does not hold
    │   └── NotDerivableError    2   the stored columns do not contain the recipe that is asked for
    ├── IndexFolderError         1   a folder that is not a sound index, or does not fit its features
    ├── DatabaseError            1   a vector database that cannot be reached or written, or holds something else
    ├── TaggerError              1   a folder that is not a sound tagger, or does not fit what it is given
    └── PretrainingError         1   a pre-training that cannot go on, or a folder of another one

Interruptions are not errors: Ctrl-C ends a command with 130, SIGTERM with 143, both resumable.
A run in which rows failed ends with 3 (:data:`ROWS_FAILED`).

An error names parameters as its caller writes them: ``part_rows=0`` in Python, ``--part-rows 0`` in the shell.
Messages therefore say :func:`parameter`, and the command sets its own spelling once, by :func:`spell_parameters`.
"""

import enum
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

ROWS_FAILED = 3
INTERRUPTED = 130
TERMINATED = 143


class BertfeatError(Exception):
    """Base of all errors that bertfeat raises on purpose.

    Printed, it is ``where: problem; remedy``, without the fields that are empty.
    """

    exit_code = 1

    def __init__(self, problem: object, *, where: object = "", remedy: str = "") -> None:
        super().__init__(problem)
        self.problem = str(problem)
        self.where = str(where)  # the file, folder, row or value that it is about
        self.remedy = remedy  # what to do about it

    def __str__(self) -> str:
        said = f"{self.where}: {self.problem}" if self.where else self.problem
        return f"{said}; {self.remedy}" if self.remedy else said

    def within(self, where: object) -> Self:
        """The same error, found inside of something: ``corpus.txt`` before ``row 3``."""
        outer = type(self)(self.problem, where=f"{where}: {self.where}" if self.where else where, remedy=self.remedy)
        outer.__cause__ = self
        return outer


@contextmanager
def errors_within(where: object) -> Iterator[None]:
    """Put an outer place, such as the file that is read, in front of the errors that are raised inside."""
    try:
        yield
    except BertfeatError as error:
        raise error.within(where) from error


Spelling = Callable[[str, object], str]
"""How a parameter and its value (or :data:`UNSET`) are written."""

UNSET = object()


def python_spelling(name: str, value: object = UNSET) -> str:
    """A parameter as a call in Python has it: ``part_rows``, ``precision='fp32'``."""
    return name if value is UNSET else f"{name}={value!r}"


OPTIONS = {
    "as_json": "--json",
    "folder": "-o",
    "keep_text": "--text",
    "out": "-o",
    "output": "-o",
    "text_columns": "--text-column",
}
"""Options whose name is not that of the parameter; all others are the parameter's name with dashes."""

SWITCHES = frozenset({"--auth", "--crf", "--special-tokens", "--text", "--evaluate", "--index", "--rerank-idf"})
"""Options that are switched off by ``--no-…``."""


def shell_spelling(name: str, value: object = UNSET) -> str:
    """A parameter as the command line has it: ``--part-rows``, ``--precision fp32``, ``--no-special-tokens``.

    The reasons of failed rows always have this spelling: they are stored, and must not depend on who called.
    """
    option = option_of(name)
    if value is UNSET or value is True:
        return option
    if value is False and option in SWITCHES:
        return f"--no-{option.removeprefix('--')}"
    if value is None or value is False:
        return f"no {option}"
    return f"{option} {_shell_value(value)}"


def option_of(name: str) -> str:
    """The option that sets a parameter."""
    return OPTIONS.get(name) or "--" + name.replace("_", "-")


def _shell_value(value: object) -> str:
    if isinstance(value, tuple | list | set | frozenset):
        return ",".join(map(_shell_value, sorted(value) if isinstance(value, set | frozenset) else value))
    if isinstance(value, enum.Enum):
        value = value.value
    return shlex.quote(str(value))


_spelling: Spelling = python_spelling


def parameter(name: str, value: object = UNSET) -> str:
    """A parameter, with a value or without one, as the caller writes it; for messages."""
    return _spelling(name, value)


def current_spelling() -> Spelling:
    """How parameters are written now, for workers in other processes."""
    return _spelling


@contextmanager
def spell_parameters(spelling: Spelling) -> Iterator[None]:
    """Let messages write parameters in another way, in this process; the command does, for the time it runs."""
    global _spelling
    before, _spelling = _spelling, spelling
    try:
        yield
    finally:
        _spelling = before


class UsageError(BertfeatError):
    """An option or argument that cannot be right."""

    exit_code = 2


class RecipeError(UsageError):
    """A layer specification that does not parse or does not fit the model."""


class CorpusError(BertfeatError):
    """An input that cannot be read at all."""


class WrongColumnsError(CorpusError):
    """The first rows of a corpus all failed: wrong format or wrong column names."""

    exit_code = 2


class ModelError(BertfeatError):
    """A model that cannot be found, trusted or loaded."""


class RowFailedError(BertfeatError):
    """A row failed and ``strict`` asked to stop at the first."""


class StorageError(BertfeatError):
    """A file or folder that cannot be written, or object storage that cannot be reached."""


class FolderLockedError(StorageError):
    """Another run is at work on the folder."""


class FeatureSetError(BertfeatError):
    """A folder that is not a sound feature set."""


class SettingsDifferError(FeatureSetError):
    """A run over a folder that was made with other settings."""

    def __str__(self) -> str:
        return f"{self.problem}\n{self.remedy}"  # the problem is a list, a line each


class AnotherCorpusError(FeatureSetError):
    """A run over a folder that was made from another corpus."""


class DamagedError(FeatureSetError):
    """A checksum or the accounting does not hold."""


class NotDerivableError(FeatureSetError):
    """The stored columns do not contain the recipe that is asked for."""

    exit_code = 2


class IndexFolderError(BertfeatError):
    """A folder that is not a sound index, or does not fit its features."""


class DatabaseError(BertfeatError):
    """A vector database that cannot be reached or written, or holds something else."""


class TrainingError(BertfeatError):
    """Examples that nothing can be learnt from, or what does not fit what was trained."""


class TaggerError(TrainingError):
    """A folder that is not a sound tagger, or does not fit what it is given."""


class HeadError(TrainingError):
    """A folder that is not a sound head, or does not fit what it is given."""


class PretrainingError(TrainingError):
    """A pre-training that cannot go on, or a folder of another one."""

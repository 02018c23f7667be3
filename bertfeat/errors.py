"""Every error that bertfeat raises on purpose, and the exit code of the command that meets it.

::

    BertfeatError                1   something is wrong; the message says where, what, and the remedy
    ├── UsageError               2   an option or argument that cannot be right; a ``ValueError``
    │   ├── RecipeError          2   a layer specification that does not parse or does not fit the model
    │   └── WrongTypeError       2   an argument of another type than is taken; a ``TypeError``, too
    ├── CorpusError              1   an input that cannot be read at all
    │   └── WrongColumnsError    2   the first 100 rows all failed: wrong format or wrong column names
    ├── ModelError               1   a model that cannot be found, trusted or loaded
    ├── RowFailedError           1   more rows failed than ``max_failures`` allows
    ├── StorageError             1   a file or folder that cannot be written, or object storage that cannot be reached
    │   └── FolderLockedError    1   another run is at work on the folder
    ├── FeatureSetError          1   a folder that is not a sound feature set
    │   ├── SettingsDifferError  1   a run over a folder that was made with other settings
    │   ├── AnotherCorpusError   1   a run over a folder that was made from another corpus
    │   ├── RemovalError         1   a run that would remove finished parts
    │   ├── DamagedError         1   a checksum or the accounting does not hold
    │   └── NotDerivableError    2   the stored columns do not contain the recipe that is asked for
    ├── IndexFolderError         1   a folder that is not a sound index, or does not fit its features
    ├── DatabaseError            1   a vector database that cannot be reached or written, or holds something else
    ├── TrainingError            1   examples that nothing can be learned from, or data unfit for what was trained
    │   ├── HeadError            1   a folder that is not a sound head, or does not fit what it is given
    │   └── PretrainingError     1   a pre-training that cannot go on, or a folder of another one
    ├── ClusterLostError         1   a Ray cluster whose head no longer answers
    └── MissingLibraryError      1   a library of an extra, or that an adapter is for, which cannot be imported

Interruptions are not errors: Ctrl-C ends a command with 130, SIGTERM with 143, both resumable.
A run in which rows failed ends with 3 (:data:`ROWS_FAILED`).

An error names parameters as its caller writes them: ``part_rows=0`` in Python, ``--part-rows 0`` in the shell.
Messages therefore use :func:`parameter`, and callers set the spelling by :func:`spell_parameters`: the command once,
the server for each request.
"""

import enum
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
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
        self.where = str(where)  # the file, folder, row or value with the problem
        self.remedy = remedy  # what to do about it

    def __str__(self) -> str:
        said = f"{self.where}: {self.problem}" if self.where else self.problem
        return f"{said}; {self.remedy}" if self.remedy else said

    def within(self, where: object) -> Self:
        """The same error with an outer place in front: ``corpus.txt`` before ``row 3``."""
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


_LONGEST_ARGUMENT = 200  # characters: most paths are shown whole, so that they can be typed again


def shorten(value: object, most: int = 80) -> str:
    """A value that a message shows, in at most ``most`` characters that can be stored as UTF-8."""
    text = value if isinstance(value, str) else repr(value)
    if len(text) > most:
        text = text[: most - 1] + "…"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")[:most]


def quote_names(names: Sequence[str], limit: int = 30) -> str:
    """Write names for a message: quoted, separated by commas, at most ``limit``, then the number of the others."""
    shown = ", ".join(f"'{shorten(name)}'" for name in names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown or "none"


def pluralize(number: int, noun: str) -> str:
    """Write a number with its noun: ``1 part``, ``1,024 parts``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


Spelling = Callable[[str, object], str]
"""A function that writes a parameter and its value (or :data:`UNSET`) as text."""

UNSET = object()


_FIELDS = {f"rerank_{name}": ("MaxSim", name) for name in ("column", "depth", "weight", "idf")}
"""Parameters that are fields of a class in Python, and options or fields of their own elsewhere."""


def python_spelling(name: str, value: object = UNSET) -> str:
    """A parameter as a call in Python has it: ``part_rows``, ``precision='fp32'``, ``MaxSim(depth=9)``."""
    owner, own_name = _FIELDS.get(name, ("", name))
    if value is UNSET:
        return f"{owner}.{own_name}" if owner else name
    return f"{owner}({own_name}={value!r})" if owner else f"{name}={value!r}"


OPTIONS = {
    "allowed_hosts": "--allowed-host",
    "api_keys": "--api-key",
    "also_models": "--also-model",
    "as_json": "--json",
    "cors_origins": "--cors",
    "folder": "-o",
    "for_task": "--for",
    "keep_text": "--text",
    "out": "-o",
    "output": "-o",
    "request_seconds": "--timeout",
    "served_names": "--served-model-name",
    "text_columns": "--text-column",
    "transforms": "--transform",
}
"""Options whose name is not that of the parameter; all others are the parameter's name with dashes."""

SWITCHES = frozenset({"--auth", "--bos", "--crf", "--special-tokens", "--text", "--evaluate", "--rerank-idf"})
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
    return f"{option} {shell_value(value)}"


def option_of(name: str) -> str:
    """The option that sets a parameter."""
    return OPTIONS.get(name) or ("-" if len(name) == 1 else "--") + name.replace("_", "-")


def shell_value(value: object) -> str:
    """A value as it is typed in a shell: quoted where it has to be, a list with commas."""
    if isinstance(value, tuple | list | set | frozenset):
        return ",".join(map(shell_value, sorted(value) if isinstance(value, set | frozenset) else value))
    if isinstance(value, enum.Enum):
        value = value.value
    return shlex.quote(str(value))


_spelling: ContextVar[Spelling] = ContextVar("bertfeat.errors.spelling", default=python_spelling)


def parameter(name: str, value: object = UNSET) -> str:
    """A parameter, with a value or without one, as the caller writes it; for messages, so a long text is cut."""
    return _spelling.get()(name, shorten(value, _LONGEST_ARGUMENT) if isinstance(value, str) else value)


def did_you_mean(name: str, known: Iterable[str], alike: float = 0.6) -> str:
    """The beginning of a remedy, ``did you mean year? ``, where a known name is near enough (difflib's ratio)."""
    from difflib import get_close_matches  # only where something is wrong

    near = get_close_matches(name[:_LONGEST_ARGUMENT], list(known), 1, alike)
    shown = [each if each.isprintable() else repr(each) for each in near]
    return f"did you mean {shown[0]}? " if shown else ""


def current_spelling() -> Spelling:
    """The spelling of parameters in this context, to hand to workers in other processes."""
    return _spelling.get()


@contextmanager
def spell_parameters(spelling: Spelling) -> Iterator[None]:
    """Let messages write parameters in another way while this runs: a command's, or a request's.

    It holds in this context only (PEP 567), and in the threads of :class:`bertfeat.io.ContextPool` that work for
    it: other threads, requests and users of the library in the same process are not affected.
    """
    token = _spelling.set(spelling)
    try:
        yield
    finally:
        _spelling.reset(token)


class UsageError(BertfeatError, ValueError):
    """An option or argument that cannot be right: a ``ValueError``, which callers in Python expect."""

    exit_code = 2


class RecipeError(UsageError):
    """A layer specification that does not parse or does not fit the model."""


class WrongTypeError(UsageError, TypeError):
    """An argument of another type than is taken: a ``TypeError``, too."""


class CorpusError(BertfeatError):
    """An input that cannot be read at all."""


class WrongColumnsError(CorpusError):
    """The first rows of a corpus all failed: wrong format or wrong column names."""

    exit_code = 2


class ModelError(BertfeatError):
    """A model that cannot be found, trusted or loaded."""


class RowFailedError(BertfeatError):
    """More rows failed than ``max_failures`` allows."""


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


class RemovalError(FeatureSetError):
    """A run that would remove finished parts, though it was not asked to."""


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
    """Examples that nothing can be learned from, or data that does not fit what was trained."""


class HeadError(TrainingError):
    """A folder that is not a sound head, or does not fit what it is given."""


class PretrainingError(TrainingError):
    """A pre-training that cannot go on, or a folder of another one."""


class ClusterLostError(BertfeatError):
    """A Ray cluster whose head no longer answers: calls into Ray would not return."""


class MissingLibraryError(BertfeatError, ImportError):
    """A library of an extra, or that an adapter is for, which cannot be imported."""


@contextmanager
def needed_library(problem: str, package: str) -> Iterator[None]:
    """Import, in the block, a library that the plain installation does not bring.

    ``with needed_library("pictures need matplotlib", "bertfeat[analysis]")``: the beginning of the error's message if
    the library is missing, and the package that pip has to install.

    Raises:
        MissingLibraryError: a library that is imported in the block is missing or broken.
    """
    try:
        yield
    except MissingLibraryError:
        raise
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "bertfeat":
            raise
        fault = "is not installed" if isinstance(error, ModuleNotFoundError) else f"cannot be imported ({error})"
        remedy = f"pip install {shlex.quote(package)}"
        raise MissingLibraryError(f"{problem}, which {fault}", remedy=remedy) from error

"""The output of a command: results on stdout; notes, warnings and progress on stderr.

Progress is a bar on a terminal, one line per minute elsewhere, and nothing with ``--quiet``. A program that stands in
for a terminal gets lines if it sets ``TERM=dumb`` or ``CI``; otherwise the bar is drawn only twice a second, so that a
log of the terminal stays small.
"""

import dataclasses
import io
import json
import os
import re
import stat
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bertfeat.progress import AnyProgress, Milestone, ignore_progress

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_SHOWN = 200  # characters that are shown of an endless name
_LONGEST = 2000  # characters of a line; of a longer one, a quarter of these is shown from each end
_ENDLESS = re.compile(r"\S{500,}")
_MESSAGE = re.compile(r"\n(?=(?:error|warning):)")  # a line break in a name that would begin another message
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Console:
    """The printer of a command's results and messages, in the form that ``--json`` and ``--quiet`` choose."""

    as_json: bool
    quiet: bool

    def result(self, value: object, lines: Iterable[str]) -> None:
        """Print a result on stdout: ``value`` as one line of JSON if that was asked for, else ``lines``."""
        if self.as_json:
            click.echo(json.dumps(value, default=_to_json_type, ensure_ascii=False))
            return
        for line in lines:
            click.echo(line)

    def say(self, line: str) -> None:
        """Print a note on stderr; nothing with ``--quiet``."""
        if not self.quiet:
            write_stderr(line)

    def warn(self, line: str) -> None:
        """Print a warning on stderr, even with ``--quiet``."""
        write_stderr(f"warning: {line}")


def print_csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table as CSV on stdout; in a file it begins with a byte order mark, by which Excel knows UTF-8."""
    import csv  # here, because the help needs none

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    click.echo(("\ufeff" if _stdout_is_new_file() else "") + out.getvalue(), nl=False)


def _stdout_is_new_file() -> bool:
    """Whether stdout goes to a file that is empty yet, as by ``> table.csv``."""
    try:
        status = os.fstat(sys.stdout.fileno())
    except OSError:  # a stream that has no file
        return False
    return stat.S_ISREG(status.st_mode) and not status.st_size


def write_stderr(line: str) -> None:
    """Write a message to stderr; a name in it cannot control the terminal, fill it, or look like another message."""
    shortened = _ENDLESS.sub(lambda name: f"{name[0][:_SHOWN]}…", escape_controls(line))
    click.echo(_MESSAGE.sub(r"\\n", "\n".join(map(_cut_middle, shortened.split("\n")))), err=True)


def _cut_middle(line: str) -> str:
    """A line of a message; a very long one, which repeats what the user gave, is cut to its beginning and its end."""
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST // 4]} … {line[-_LONGEST // 4 :]}"


def escape_controls(text: str) -> str:
    """Escape the characters of a text that control a terminal or change the direction of writing."""
    return _HIDDEN.sub(lambda sign: repr(sign[0])[1:-1], text)


def two_columns(rows: Iterable[tuple[str, object]]) -> list[str]:
    """Lay out names and values in two columns; a value of several lines is indented under its first."""
    shown = [(name, escape_controls(str(value)).split("\n")) for name, value in rows if value is not None]
    width = max((len(name) for name, _ in shown), default=0)
    return [
        f"{name if at == 0 else '':<{width}}  {line}".rstrip() for name, lines in shown for at, line in enumerate(lines)
    ]


def fields_of(value: "DataclassInstance") -> dict[str, Any]:
    """The fields of a dataclass by name."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _to_json_type(value: object) -> object:
    """Convert types that JSON does not have: dataclasses become objects, paths strings, sets and arrays lists."""
    from bertfeat.io import Address  # here, because the help needs none

    if isinstance(value, Address):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return value.encode() if hasattr(value, "encode") else fields_of(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"JSON has no form of {type(value).__name__}")


SECONDS_BETWEEN_LINES = 60.0


@contextmanager
def progress_display(console: Console) -> Iterator[Callable[[AnyProgress], None]]:
    """Yield a function that shows the progress that it is called with; with ``--quiet`` it shows nothing.

    A :class:`bertfeat.progress.Milestone` is a line of its own; the bar begins again below it.
    """
    if console.quiet:
        yield ignore_progress
        return
    live, lines = _is_live_terminal(), _ProgressLines()
    show: Callable[[AnyProgress], None] | None = None
    with ExitStack() as bar:

        def display(progress: AnyProgress) -> None:
            nonlocal show
            if isinstance(progress, Milestone):
                bar.close()
                show = None
                console.say(str(progress))
                return
            show = show or (bar.enter_context(_progress_bar()) if live else lines)
            show(progress)

        yield display


def _is_live_terminal() -> bool:
    dumb = os.environ.get("TERM", "") in ("", "dumb", "unknown") and os.name != "nt"
    return sys.stderr.isatty() and not dumb and os.environ.get("CI", "") in ("", "0", "false")


class _ProgressLines:
    """Writes at most one line of progress per minute to stderr."""

    def __init__(self) -> None:
        self._next = time.monotonic() + SECONDS_BETWEEN_LINES

    def __call__(self, progress: AnyProgress) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + SECONDS_BETWEEN_LINES
            write_stderr(f"{progress.fraction:.0%}: {progress}")


@contextmanager
def _progress_bar() -> Iterator[Callable[[AnyProgress], None]]:
    from rich.console import Console as RichConsole
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=RichConsole(stderr=True), refresh_per_second=2, transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda progress: bar.update(task, completed=progress.fraction, description=str(progress))

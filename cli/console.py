"""The output of a command: results on stdout, everything else on stderr."""

import dataclasses
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_SHOWN = 200  # characters of a name
_LONGEST = 2000  # characters of a line
_ENDLESS = re.compile(r"\S{500,}")
_MESSAGE = re.compile(r"\n(?=(?:error|warning):)")
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Console:
    """The printer of a command's results and messages, as ``--json`` and ``--quiet`` ask."""

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


def write_stderr(line: str) -> None:
    """Write a message to stderr; a name in it cannot control the terminal, fill it, or look like another message."""
    shortened = _ENDLESS.sub(lambda name: f"{name[0][:_SHOWN]}…", escape_controls(line))
    click.echo(_MESSAGE.sub(r"\\n", "\n".join(map(_cut_middle, shortened.split("\n")))), err=True)


def _cut_middle(line: str) -> str:
    """A line of a message; of a very long one, which repeats what somebody gave, its beginning and its end."""
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


def fields_of(value: "DataclassInstance") -> dict[str, object]:
    """The fields of a dataclass by name."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _to_json_type(value: object) -> object:
    """Convert what JSON does not know: dataclasses become objects, paths strings, sets and arrays lists."""
    from bertfeat.io import Address  # here, because the help needs none

    if isinstance(value, Address):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return value.encode() if hasattr(value, "encode") else fields_of(value)
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"JSON has no form of {type(value).__name__}")

"""How the library's parameters are written in the shell: ``part_rows=0`` becomes ``--part-rows 0``."""

import enum
import shlex

from bertfeat.errors import UNSET

OPTIONS = {
    "as_json": "--json",
    "folder": "-o",
    "keep_text": "--text",
    "out": "-o",
    "output": "-o",
    "text_columns": "--text-column",
}
"""Options whose name is not that of the parameter; all others are the parameter's name with dashes."""

SWITCHES = frozenset({"--special-tokens", "--text", "--evaluate"})
"""Options that are switched off by ``--no-…``."""


def shell_spelling(name: str, value: object = UNSET) -> str:
    """A parameter as the command line has it: ``--part-rows``, ``--precision fp32``, ``--no-special-tokens``."""
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

"""Parameters as the shell writes them."""

import ast
from pathlib import Path

import pytest
from click.testing import CliRunner

from bertfeat.errors import OPTIONS, SWITCHES, UNSET, UsageError, option_of, parameter, shell_spelling
from tests.cli.test_app import toy_program
from tests.support.commands import declared_options

ROOT = Path(__file__).parents[2]

_STREAM = "streams of vectors are for Python"
_FIGURE = "a figure of the caller's own"
_STORED = "an argument of StoredEncoder"
NOT_IN_THE_SHELL = {
    "shard": _STREAM,
    "shards": _STREAM,
    "start": _STREAM,
    "drop_special": _STREAM,
    "drop_norms": _STREAM,
    "axes": _FIGURE,
    "path": _FIGURE,
    "missing": _STORED,
    "mask": "an argument of PretrainingSettings",
    "patience": "an argument of HeadSettings",
    "schedule": "an argument of HeadSettings",
}
"""Parameters that messages name and no command sets, and why."""


@pytest.mark.parametrize(
    ("name", "value", "written"),
    [
        ("part_rows", UNSET, "--part-rows"),
        ("part_rows", 0, "--part-rows 0"),
        ("overwrite", True, "--overwrite"),
        ("overwrite", False, "no --overwrite"),
        ("special_tokens", False, "--no-special-tokens"),
        ("keep_text", False, "--no-text"),
        ("layers", ("last", "-2"), "--layers last,-2"),
        ("prompt", "query: ", "--prompt 'query: '"),
        ("text_columns", "title", "--text-column title"),
        ("max_length", None, "no --max-length"),
        ("out", "a.index", "-o a.index"),
    ],
)
def test_spelling(name: str, value: object, written: str) -> None:
    assert shell_spelling(name, value) == written


def test_messages_are_spelt_for_the_shell_while_a_command_runs() -> None:
    def refuse() -> None:
        raise UsageError(f"{parameter('part_rows', 0)} is no number of rows")

    result = CliRunner().invoke(toy_program(refuse), ["toy"])
    assert result.stderr == "error: --part-rows 0 is no number of rows\n"
    assert parameter("part_rows", 0) == "part_rows=0"


def named_parameters() -> dict[str, str]:
    """What messages of the library name by :func:`parameter`, with a place where they do."""
    places = {}
    for path in sorted((ROOT / "bertfeat").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "parameter":
                name = node.args[0]
                if isinstance(name, ast.Constant):
                    places[str(name.value)] = f"{path.relative_to(ROOT)}:{node.lineno}"
    return places


def test_every_parameter_of_a_message_is_an_option() -> None:
    options = declared_options()
    places = {name: place for name, place in named_parameters().items() if option_of(name) not in options}
    assert {name: place for name, place in places.items() if name not in NOT_IN_THE_SHELL} == {}
    assert [name for name in NOT_IN_THE_SHELL if name not in places] == [], "no exception any more"


def test_the_table_of_options_is_honest() -> None:
    options = declared_options()
    assert set(OPTIONS.values()) <= options
    # whatever is switched off by --no-… is known to be
    assert {f"--{name.removeprefix('--no-')}" for name in options if name.startswith("--no-")} == SWITCHES

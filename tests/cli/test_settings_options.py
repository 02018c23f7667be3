"""One description of a setting: its check in Python, its option in the shell, its help, its environment variable."""

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated, Any, Literal

import click
import msgspec
import pytest
from click.testing import CliRunner

from bertfeat import (
    ChangeSettings,
    ComparisonSettings,
    CorpusSettings,
    HeadSettings,
    MaxSim,
    PretrainingSettings,
    ProbeSettings,
)
from bertfeat.arguments import checked
from bertfeat.cli.app import Command
from bertfeat.cli.bundles import settings_options
from bertfeat.errors import UsageError, shell_spelling, spell_parameters
from bertfeat.options import Option, check_bounds, described_settings
from bertfeat.search import BuildOptions
from bertfeat.server import ServerSettings


class Shade(StrEnum):
    DARK = "dark"
    LIGHT = "light"


@checked
@dataclass(frozen=True, slots=True)
class PaintSettings:
    coats: Annotated[int, Option("Coats of paint.", basic=True, least=1, most=9)] = 2
    share: Annotated[float, Option("Share of water.", metavar="SHARE", above=0, below=1)] = 0.5
    weight: Annotated[float | None, Option("Weight of a tin.", default="as it is", least=0)] = None
    shade: Annotated[Shade, Option("How light.")] = Shade.DARK
    finish: Annotated[Literal["matt", "gloss"] | None, Option("How it shines.", default="by the wall")] = None
    keep_text: Annotated[bool, Option("Whether letters stay.", default="they do")] = True
    exact: Annotated[bool, Option("To the millimetre.")] = False
    walls: Annotated[tuple[str, ...], Option("Which walls.", metavar="WALL[,WALL]")] = ()
    labels: Annotated[tuple[str, ...], Option("What is written.", metavar="TEXT", repeated=True)] = ()
    memory: Annotated[int, Option("Size of the plan.", metavar="SIZE", in_bytes=True, least=1)] = 2**30
    width: Annotated[int, Option("Of the brush.", least=1, python_only=True)] = 7

    def __post_init__(self) -> None:
        check_bounds(self)


@click.command(cls=Command, name="paint", context_settings={"auto_envvar_prefix": "PAINT"})
@settings_options("settings", PaintSettings)
def paint(settings: PaintSettings) -> None:
    """Paint a wall."""
    click.echo(repr(settings))


def painted(*arguments: str, **environment: str) -> str:
    result = CliRunner().invoke(paint, arguments, env=environment)
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"coats": 0}, "coats=0: must be from 1 to 9"),
        ({"coats": 10}, "coats=10: must be from 1 to 9"),
        ({"coats": 1.5}, "coats=1.5: must be a whole number"),
        ({"share": 0.0}, r"share=0\.0: must be above 0 and below 1"),
        ({"share": 1.0}, r"share=1\.0: must be above 0 and below 1"),
        ({"weight": -1.0}, r"weight=-1\.0: must be at least 0"),
        ({"weight": float("nan")}, "weight=nan: must be a finite number"),
        ({"shade": "pink"}, "shade='pink': must be one of 'dark', 'light'"),
        ({"memory": 0}, "memory=0: must be at least 1"),
        ({"width": 0}, "width=0: must be at least 1"),
    ],
)
def test_bounds_hold_in_python(given: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        PaintSettings(**given)


def test_bounds_are_told_as_the_shell_writes_them() -> None:
    with spell_parameters(shell_spelling), pytest.raises(UsageError, match=r"^--share 2\.0: must be above 0 and below"):
        PaintSettings(share=2.0)


def test_bounds_hold_for_settings_that_are_read() -> None:
    assert msgspec.json.decode(b'{"coats": 3, "shade": "light"}', type=PaintSettings) == PaintSettings(3, shade="light")  # type: ignore[arg-type]
    with pytest.raises(msgspec.ValidationError, match="coats=12: must be from 1 to 9"):
        msgspec.json.decode(b'{"coats": 12}', type=PaintSettings)


def test_the_default_of_a_field_is_always_right() -> None:
    assert HeadSettings().hidden == -1
    with pytest.raises(UsageError, match="hidden=-2: must be from 0 to 65,536"):
        HeadSettings(hidden=-2)


def test_options_that_are_not_given_leave_the_defaults() -> None:
    assert painted() == repr(PaintSettings())


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        (["--coats", "3"], {"coats": 3}),
        (["--shade", "light"], {"shade": Shade.LIGHT}),
        (["--finish", "gloss"], {"finish": "gloss"}),
        (["--no-text", "--exact"], {"keep_text": False, "exact": True}),
        (["--walls", "north,south", "--walls", "west"], {"walls": ("north", "south", "west")}),
        (["--labels", "a, b", "--labels", "c"], {"labels": ("a, b", "c")}),
        (["--memory", "1.5MiB"], {"memory": 3 * 2**19}),
    ],
)
def test_values_arrive(arguments: list[str], given: dict[str, Any]) -> None:
    assert painted(*arguments) == repr(PaintSettings(**given))


def test_values_of_the_environment_arrive() -> None:
    assert painted(PAINT_COATS="4", PAINT_TEXT="0") == repr(PaintSettings(coats=4, keep_text=False))
    assert painted("--coats", "5", PAINT_COATS="4") == repr(PaintSettings(coats=5))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--coats", "0"], "0 is not in the range 1<=x<=9"),
        (["--shade", "pink"], "'pink' is not one of 'dark', 'light'"),
        (["--memory", "a"], "'a' is not a size"),
        (["--width", "3"], "No such option"),
    ],
)
def test_wrong_values_are_wrong_usage(arguments: list[str], told: str) -> None:
    result = CliRunner().invoke(paint, arguments)
    assert result.exit_code == 2
    assert told in result.stderr


def test_the_help_tells_defaults_and_bounds() -> None:
    shown = " ".join(CliRunner().invoke(paint, ["--help"], env={"COLUMNS": "200"}).stdout.split())
    first, further = shown.split("Further options:")
    assert "--coats N Coats of paint. [default: 2; from 1 to 9]" in first
    for line in (
        "--share SHARE Share of water. [default: 0.5; above 0 and below 1]",
        "--weight NUMBER Weight of a tin. [default: as it is]",
        "--shade [dark|light] How light. [default: dark]",
        "--text / --no-text Whether letters stay. [default: they do]",
        "--exact To the millimetre. --walls",
        "--walls WALL[,WALL] Which walls. --labels",
        "--memory SIZE Size of the plan. [default: 1GiB]",
    ):
        assert line in further
    assert "--width" not in shown


@pytest.mark.parametrize(
    "owner",
    [
        BuildOptions,
        ChangeSettings,
        ComparisonSettings,
        CorpusSettings,
        HeadSettings,
        MaxSim,
        PretrainingSettings,
        ProbeSettings,
        ServerSettings,
    ],
)
def test_every_field_of_the_settings_is_described(owner: type) -> None:
    assert [each.name for each in described_settings(owner)] == [field.name for field in fields(owner)]

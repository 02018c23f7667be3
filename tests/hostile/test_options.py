"""Every option of every verb, as click knows them, with values that are no values, out of range or out of mind."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click
import pytest

from bertfeat.cli import main
from bertfeat.cli.option_types import ByteSize, CommaList
from tests.hostile.judge import Rule
from tests.hostile.process import Command
from tests.hostile.verbs import BASES
from tests.hostile.world import HEADS
from tests.hostile.yard import GROUPS, Result, Tell, Use, Yard

NOBODY = 65534
_TEXTS = (
    "",
    "nonsense",
    "z" * 5000,
    "a\nb",
    "\x1b[31mred",
    "\udcff",
    "\u202eabc",
    "nan",
    "-",
    "..",
    "a,b,c",
    "{}",
    "%s %n {0}",
)
_OUTPUTS = (
    *(
        "",
        ".",
        "docs.jsonl",
        "docs.features",
        "plain.txt",
        "plain.txt/x",
        "z" * 300,
        "z" * 5000,
        "a\nb",
        "\udcff",
        "\x1b[31mred",
    ),
    *("nowhere", "itself", "null", "full", "/", "\u202eabc", "no/such/folder/out"),
)
_PREDICT = ("tag predict", *(f"{kind} predict" for kind in HEADS))
_REPLACES = (*_PREDICT, "plot map", "plot layers")  # verbs that write over a file, but never over their input
_TAKEN = ("", ".", "docs.jsonl", "plain.txt", "plain.txt/x", "nowhere", "itself")
"""Outputs that there are already, and that no command may touch that was not told to."""
_INPUTS = (
    *("", ".", "missing", "z" * 5000, "a\nb", "\udcff", "\x1b[31mred", "nowhere", "itself", "null", "zero", "pipe"),
    *("docs.features", "plain.txt", "vectors.npy", "flat.index/version-1/index.faiss", "-"),
)


def commands() -> dict[str, click.Command]:
    """Every verb that ends by itself, by its name; tests/server has ``serve``, which does not."""
    context = click.Context(main)
    found: dict[str, click.Command] = {}
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        if isinstance(command, click.Group):
            found |= {f"{name} {each}": sub for each, sub in command.commands.items()}
        elif name != "serve":
            assert command is not None
            found[name] = command
    return found


COMMANDS = commands()
OPTIONS = [
    (use, parameter)
    for use in BASES.values()
    for parameter in COMMANDS[use.verb].params
    if isinstance(parameter, click.Option)
]


def wrong_values(option: click.Option) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Values for an option, and the codes with which the command may end."""
    kind, bad, any_code = option.type, (2,), (0, 1, 2, 3)
    if isinstance(kind, click.IntRange | click.types.IntParamType):
        yield from ((value, bad) for value in ("", "x", "1.5", "nan", "inf", "1e3", "0x10", "--1"))
        least = getattr(kind, "min", None)
        for value in ("-1", "0"):
            yield value, bad if least is not None and int(value) < least else any_code
        yield from ((value, any_code) for value in ("1", "2147483648", "9223372036854775808", "9" * 40, "9" * 5000))
    elif isinstance(kind, click.types.FloatParamType):
        yield from ((value, bad) for value in ("", "x", "1,5"))
        yield from ((value, (1, 2)) for value in ("nan", "inf", "-inf"))
        yield from ((value, any_code) for value in ("-1", "0", "1e308", "1e-320", "-0.0", "2"))
    elif isinstance(kind, click.Choice):
        yield from ((value, bad) for value in ("", "nonsense", "z" * 5000, "a\nb", "\udcff"))
    elif isinstance(kind, ByteSize):
        yield from ((value, bad) for value in ("", "x", "-1", "0", "nan", "inf", "1Q", "9" * 40, "9" * 5000, "1 2"))
        yield from ((value, any_code) for value in ("1", "1k", "0.5", "4G"))
    elif isinstance(kind, CommaList):
        yield from ((value, bad) for value in ("", ",", "a,,b", " , "))
        yield from ((value, any_code) for value in (*_TEXTS[1:], "all,all", ",".join("abcdefgh" * 200)))
    elif isinstance(kind, click.File):  # a pipe is what a shell gives for <(…)
        yield from ((value, any_code) for value in _INPUTS if value != "pipe")
    elif isinstance(kind, click.Path):
        yield from ((value, any_code) for value in (_OUTPUTS if option.name == "output" else _INPUTS))
    else:
        yield from ((value, any_code) for value in _TEXTS)


def _id(pair: tuple[Use, click.Option]) -> str:
    return f"{pair[0].name} {pair[1].opts[-1]}"


@pytest.mark.hostile
@pytest.mark.parametrize("pair", OPTIONS, ids=_id)
def test_an_option(yard: Yard, tell: Tell, pair: tuple[Use, click.Option]) -> None:
    base, option = pair
    if option.is_flag:
        tell(_flag(yard, base, option))
    else:
        tell(_valued(yard, base, option, value, codes) for value, codes in wrong_values(option))


@pytest.mark.parametrize("number", range(0, len(OPTIONS), 7))
def test_some_options(yard: Yard, tell: Tell, number: int) -> None:
    base, option = OPTIONS[number]
    if not option.is_flag:
        values = list(wrong_values(option))
        tell([_valued(yard, base, option, *values[number % len(values)])])


@pytest.mark.hostile
@pytest.mark.parametrize("pair", OPTIONS, ids=_id)
def test_an_option_in_the_environment(yard: Yard, tell: Tell, pair: tuple[Use, click.Option]) -> None:
    """What is wrong on the command line is wrong in the environment."""
    base, option = pair
    name = f"BERTFEAT_{base.verb}_{option.name}".replace(" ", "_").replace("-", "_").upper()
    values = [("maybe", (2,))] if option.is_flag else [pair for pair in wrong_values(option) if pair[0]][:3]
    tell(_in_environment(yard, base, name, value, codes) for value, codes in values)


@pytest.mark.hostile
@pytest.mark.parametrize("verb", COMMANDS)
def test_arguments(yard: Yard, tell: Tell, verb: str) -> None:
    base = BASES[verb]
    given = base.command.arguments
    head = given[: len(verb.split())]
    cases = {
        "no argument": (head, (0, 2)),
        "an unknown option": ((*given, "--nonsense"), (2,)),
        "an unknown short option": ((*given, "-Z"), (2,)),
        "an option without its value": ((*given, _valued_option(verb)), (2,)),
        "an argument too many": ((*given, "surplus", "surplus"), (1, 2)),
        "an empty argument": ((*head, "", *given[len(head) + 1 :]), (1, 2)),
        "an argument of 5,000 characters": ((*head, "z" * 5000, *given[len(head) + 1 :]), (1, 2)),
        "an argument with a newline": ((*head, "a\nerror: b", *given[len(head) + 1 :]), (1, 2)),
        "an argument with an escape sequence": ((*head, "\x1b]0;x\x07\x1b[31m", *given[len(head) + 1 :]), (1, 2)),
        "an argument that is no UTF-8": ((*head, "a\udcff", *given[len(head) + 1 :]), (1, 2)),
        "an argument that turns the direction": ((*head, "a\u202eb", *given[len(head) + 1 :]), (1, 2)),
        "10,000 arguments": ((*head, *["x"] * 10_000), (1, 2)),
        "a misspelt verb": ((verb.split()[0] + "x", *given[1:]), (2,)),
    }
    if verb.split()[0] in GROUPS:
        cases["a group alone"] = (head[:1], (0, 2))
        cases["a verb of no group"] = ((head[0], "nonsense"), (2,))
    tell(_case(yard, base, arguments, what, codes) for what, (arguments, codes) in cases.items())


def _valued_option(verb: str) -> str:
    return next(p.opts[-1] for p in COMMANDS[verb].params if isinstance(p, click.Option) and not p.is_flag)


def _flag(yard: Yard, base: Use, option: click.Option) -> Iterator[Result]:
    for name in (*option.opts, *option.secondary_opts):
        if name.startswith("--"):
            yield _case(yard, base, (*base.command.arguments, f"{name}=1"), f"{name}=1", (2,))
            yield _case(yard, base, (*base.command.arguments, name, name), f"{name} twice", (0, 1, 2, 3))


def _valued(yard: Yard, base: Use, option: click.Option, value: str, codes: tuple[int, ...]) -> Result:
    given, name = base.command.arguments, option.opts[-1]
    for each in option.opts:
        if each in given:  # given twice the last one counts, but of lists all do
            at = given.index(each)
            given = (*given[:at], *given[at + 2 :])
    made = _made(base, option, value, given)
    return _case(yard, base, (*given, name, value), f"{name} {_short(value)}", codes, made)


def _made(base: Use, option: click.Option, value: str, given: Sequence[str]) -> tuple[str, ...]:
    """What a command may make at a place that it is given."""
    taken = (*given, *(() if base.verb in _REPLACES else (*_TAKEN, *base.needs)))
    behind = ("gone",) if value == "nowhere" else ()  # to which that link leads
    writes = option.name == "output" or (base.verb, option.name) == ("evaluate", "run")
    return (value, f"{value}.*", *behind) if writes and value not in taken else behind


def _in_environment(yard: Yard, base: Use, name: str, value: str, codes: tuple[int, ...]) -> Result:
    short = name.removeprefix("BERTFEAT_").removeprefix(base.verb.upper().replace(" ", "_")).strip("_").lower()
    option = next(p for p in COMMANDS[base.verb].params if isinstance(p, click.Option) and p.name == short)
    given = base.command.arguments
    typed = any(
        each in given for each in (*option.opts, *option.secondary_opts)
    )  # what is typed comes before what is in the environment
    command = replace(base.command, environment={name: value})
    codes = (0, 1, 2, 3) if typed else codes
    made = _made(base, option, value, given)
    return _run(yard, replace(base, command=command), f"{base.name}: {name}={_short(value)}", codes, made)


def _case(
    yard: Yard, base: Use, arguments: tuple[str, ...], what: str, codes: tuple[int, ...], made: tuple[str, ...] = ()
) -> Result:
    user = NOBODY if "/" in arguments else None
    return _run(yard, replace(base, command=Command(arguments, user=user)), f"{base.name}: {what}", codes, made)


def _run(yard: Yard, use: Use, case: str, codes: tuple[int, ...], made: tuple[str, ...] = ()) -> Result:
    use = replace(use, needs=(*use.needs, *(name for name in ("docs.jsonl", "plain.txt") if name not in use.needs)))
    return yard.run(use, case, "options", prepare=_with_devices, rule=Rule(codes=codes, writes=made))


def _with_devices(place: Path) -> None:
    for name, target in (
        ("null", "/dev/null"),
        ("zero", "/dev/zero"),
        ("full", "/dev/full"),
        ("nowhere", "gone"),
        ("itself", "itself"),
    ):
        (place / name).symlink_to(target)
    os.mkfifo(place / "pipe")


def _short(value: str) -> str:
    return repr(value if len(value) < 40 else f"{value[:10]}… ({len(value):,} characters)").strip("'")

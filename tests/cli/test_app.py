"""The frame around the commands: help, options, environment, errors, exit codes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import bertfeat
from bertfeat.cli import main
from bertfeat.cli.app import Command, Program, option
from bertfeat.cli.console import Console, two_columns
from bertfeat.cli.errors import reported_errors
from bertfeat.cli.option_types import listed_option
from bertfeat.cli.options import default_output, output_options
from bertfeat.display import format_duration, format_size
from bertfeat.errors import DamagedError, RecipeError
from tests.support.commands import COMMANDS, find_command
from tests.support.features_toy import toy_part, toy_set

TOUR = (Path(__file__).parents[2] / "docs" / "tour.md").read_text()


VERBS = main.list_commands(click.Context(main))


# ── every command is documented ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_command_is_documented(words: tuple[str, ...]) -> None:
    documented, called = find_command(words), f"bertfeat {' '.join(words)}"
    assert documented.name == words[-1]
    assert documented.help is not None
    assert f"{called} " in documented.help, "the help shows no example"
    assert called in TOUR, "the tour does not show the command"


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_defaults_stand_in_brackets_once(words: tuple[str, ...]) -> None:
    context = click.Context(find_command(words))
    for each in find_command(words).params:
        if isinstance(each, click.Option):
            assert "efault" not in (each.help or ""), each.name
            assert isinstance(each.show_default, str) or each.is_flag or each.show_default, each.name
            shown = each.get_help_extra(context).get("default", "")
            assert not shown.startswith("("), each.name


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_options_are_set_in_the_environment_by_their_names(words: tuple[str, ...]) -> None:
    context = click.Context(find_command(words), auto_envvar_prefix="BERTFEAT_X")
    for each in find_command(words).params:
        if isinstance(each, click.Option) and each.name != "help":
            name = max(each.opts, key=len).lstrip("-").replace("-", "_").upper()
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv(f"BERTFEAT_X_{name}", "1")
                assert each.resolve_envvar_value(context) == "1", name


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_option_has_help(words: tuple[str, ...]) -> None:
    options = [parameter for parameter in find_command(words).params if isinstance(parameter, click.Option)]
    assert [option.name for option in options if not option.help] == []
    assert {"as_json", "quiet"} <= {option.name for option in options}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_begins_with_about_ten_options(words: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(main, [*words, "-h"])
    assert shown.exit_code == 0
    first = shown.output.split("Options:")[1].split("Further options:")[0]
    assert sum(line.startswith("  -") for line in first.splitlines()) <= 12
    assert f"BERTFEAT_{'_'.join(words).upper()}_" in shown.output


def test_help_lists_every_command() -> None:
    shown = CliRunner().invoke(main, ["--help"]).output
    assert [verb for verb in VERBS if f"\n  {verb} " not in shown] == []


def test_version() -> None:
    assert CliRunner().invoke(main, ["--version"]).output == f"bertfeat {bertfeat.__version__}\n"


def test_unknown_command_is_wrong_usage() -> None:
    result = CliRunner().invoke(main, ["extrakt"])
    assert result.exit_code == 2
    assert "No such command 'extrakt'. Did you mean 'extract'?" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nonsense"], "error: No such option '--nonsense'.\nTry 'main -h' for help.\n"),
        (["search"], "error: Missing argument 'INDEX'.\nTry 'main search -h' for help.\n"),
        (["search", "x.index", "y", "--where"], "error: Option '--where' requires an argument.\n"),
        (["index"], "error: name the feature set: bertfeat index corpus.features\n"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_worded_as_all_errors_are(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(message)
    assert "Usage:" not in result.stderr


def test_a_group_without_a_command_shows_its_help() -> None:
    result = CliRunner().invoke(main, ["tag"])
    assert result.exit_code == 2
    assert "Usage: main tag" in result.output
    assert "error:" not in result.output


def test_a_process_is_set_up_as_the_user_wants_it() -> None:
    code = (
        "from bertfeat.cli.process import prepare_process as p; p(); import os; print(os.environ['LRU_CACHE_CAPACITY'])"
    )
    for environment, capacity in (({}, "128"), ({"LRU_CACHE_CAPACITY": "7"}, "7")):
        told = subprocess.run(
            [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, check=True
        )
        assert told.stdout == f"{capacity}\n"


@pytest.mark.slow
def test_names_of_files_in_a_c_locale(tmp_path: Path) -> None:
    """Libraries of C++ and Rust take UTF-8 only, and Python is forbidden to use it."""
    folder = toy_set(tmp_path / "ü/ö.features", toy_part(layers="last", poolings=("mean",)))
    environment = {**os.environ, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    for arguments in (
        ("index", folder, "-o", tmp_path / "é.index", "--type", "flat"),
        ("export", folder, "--to", "npy", "-o", tmp_path / "é.npy"),
        ("verify", folder, "--sample", "0"),
    ):
        code = "from bertfeat.cli import run; run()"
        told = subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)], env=environment, capture_output=True, encoding="utf-8"
        )
        assert (told.returncode, "Traceback" in told.stderr) == (0, False), told.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"ü", "é.index", "é.npy", "é.ids.jsonl"}


def test_importing_the_command_changes_no_process() -> None:
    code = "import os; before = dict(os.environ); import bertfeat.cli, bertfeat; print(before == dict(os.environ))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "True\n"


def test_the_first_sentence_of_every_command_is_whole() -> None:
    shown = " ".join(CliRunner().invoke(main, ["--help"]).output.split())
    for verb in VERBS:
        told = find_command((verb,)).help
        assert told is not None
        first = " ".join(told.split("\n\n")[0].split())
        assert first.partition(". ")[0].rstrip(".") in shown


CLOSED = "import os, sys; from bertfeat.cli import run; sys.argv[0] = 'bertfeat'; run()"


def closed(stream: int, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the program with one of its standard streams closed, as a shell's <&- and >&- do."""
    again = f"[sys.executable, '-c', {CLOSED!r}, *sys.argv[1:]]"
    code = f"import os, sys; os.close({stream}); os.execv(sys.executable, {again})"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=folder, check=False, timeout=120
    )


@pytest.mark.slow
def test_closed_streams(tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("a river bank\n")
    told = closed(0, "extract", "-", "-o", "out", folder=tmp_path)
    assert (told.returncode, "standard input is closed" in told.stderr, "Traceback" in told.stderr) == (2, True, False)
    told = closed(1, "extract", "c.txt", folder=tmp_path)
    assert (told.returncode, "standard output is closed" in told.stderr) == (1, True)
    assert os.listdir(tmp_path) == ["c.txt"]
    told = closed(2, "info", "c.txt", folder=tmp_path)
    assert (told.returncode, "documents" in told.stdout) == (0, True)


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("[enforce fail] not enough memory: you tried"), ValueError("std::bad_alloc")],
    ids=repr,
)
def test_memory_that_runs_out_is_no_bug(error: Exception) -> None:
    def fail() -> None:
        raise error

    result = CliRunner().invoke(toy_program(fail), ["toy"])
    assert result.exit_code == 1
    assert "memory ran out" in result.stderr
    assert "bug" not in result.stderr


def test_shell_completion_knows_the_commands() -> None:
    environment = os.environ | {"_BERTFEAT_COMPLETE": "bash_complete", "COMP_WORDS": "bertfeat ", "COMP_CWORD": "1"}
    code = "from bertfeat.cli import run; run()"
    told = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert {f"plain,{verb}" for verb in VERBS} <= set(told.stdout.split())


# ── options ─────────────────────────────────────────────────────────────────────────────────────────────────


@click.command(cls=Command, name="toy")
@listed_option("--layers", help="Layers.")
@listed_option("--kind", choices=("mean", "max"), help="Kinds.")
@option("--rare", further=True, help="Rarely wanted.")
@output_options
def toy(layers: tuple[str, ...], kind: tuple[str, ...], rare: str | None, console: Console) -> None:
    """Show what arrives."""
    console.say("by the way")
    console.warn("mind this")
    console.result({"layers": layers, "kind": kind, "path": Path("a")}, [f"{layers} {kind} {rare}"])


def toy_program(invoked: Callable[[], Any] | None = None) -> Program:
    program = Program(name="bertfeat", sections={"Toys": ("toy",)}, context_settings={"auto_envvar_prefix": "BERTFEAT"})

    def get_command(_context: click.Context, _name: str) -> click.Command:
        return toy if invoked is None else click.Command("toy", callback=invoked)

    program.get_command = get_command
    return program


@pytest.mark.parametrize(
    ("arguments", "arrives"),
    [
        (["--layers", "-1,-2"], ("-1", "-2")),
        (["--layers=-1,-2"], ("-1", "-2")),
        (["--layers", "-1"], ("-1",)),
        (["--layers", "concat4", "--layers", "last,-3"], ("concat4", "last", "-3")),
        (["--layers", "sum=-4..-1,sum=-4..-1"], ("sum=-4..-1",)),
        ([], ()),
    ],
)
def test_lists_arrive_flat(arguments: list[str], arrives: tuple[str, ...]) -> None:
    result = CliRunner().invoke(toy_program(), ["toy", "--json", *arguments])
    assert json.loads(result.stdout)["layers"] == list(arrives)


@pytest.mark.parametrize(("value", "told"), [("mean,median", "median"), ("mean,,max", "empty")])
def test_wrong_list_items_are_wrong_usage(value: str, told: str) -> None:
    result = CliRunner().invoke(toy_program(), ["toy", "--kind", value])
    assert result.exit_code == 2
    assert told in result.stderr


def test_options_are_read_from_the_environment() -> None:
    environment = {"BERTFEAT_TOY_LAYERS": "-1,last", "BERTFEAT_TOY_RARE": "bird", "BERTFEAT_TOY_QUIET": "1"}
    result = CliRunner().invoke(toy_program(), ["toy"], env=environment)
    assert result.stdout == "('-1', 'last') () bird\n"
    assert result.stderr == "warning: mind this\n"


def test_results_go_to_stdout_and_talk_to_stderr() -> None:
    result = CliRunner().invoke(toy_program(), ["toy", "--json"])
    assert json.loads(result.stdout) == {"layers": [], "kind": [], "path": "a"}
    assert result.stderr == "by the way\nwarning: mind this\n"


def test_further_options_have_their_own_heading() -> None:
    shown = CliRunner().invoke(toy_program(), ["toy", "--help"]).output
    first, further = shown.split("Further options:")
    assert "--layers" in first
    assert "--rare" in further
    assert "--quiet" in further


# ── how a command ends ──────────────────────────────────────────────────────────────────────────────────────


def raising(error: BaseException) -> Callable[[], Any]:
    def raise_it() -> None:
        raise error

    return raise_it


@pytest.mark.parametrize(
    ("error", "exit_code", "told"),
    [
        (DamagedError("part-00000.parquet: checksum"), 1, "error: part-00000.parquet: checksum\n"),
        (RecipeError("layer 9 is outside"), 2, "error: layer 9 is outside\n"),
        (OSError(28, "No space left on device", "x.parquet"), 1, "error: No space left on device: x.parquet\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (click.exceptions.Exit(3), 3, ""),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_errors_become_a_line_and_an_exit_code(error: BaseException, exit_code: int, told: str) -> None:
    result = CliRunner().invoke(toy_program(raising(error)), ["toy"])
    assert (result.exit_code, result.stderr, result.stdout) == (exit_code, told, "")


def test_a_bug_keeps_its_traceback() -> None:
    result = CliRunner().invoke(toy_program(raising(ZeroDivisionError("division"))), ["toy"])
    assert result.exit_code == 1
    assert "raise_it" in result.stderr
    assert "ZeroDivisionError" in result.stderr
    assert "this is a bug in bertfeat" in result.stderr


def run(code: str, **settings: Any) -> subprocess.Popen[Any]:
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | settings
    start = "import sys, time, click; from bertfeat.cli.errors import reported_errors\n"
    guard = "try:\n    with reported_errors():\n        {}\nexcept click.exceptions.Exit as e: sys.exit(e.exit_code)"
    return subprocess.Popen([sys.executable, "-c", start + guard.format(code)], **settings)


@pytest.mark.parametrize(
    ("number", "exit_code", "told"), [(signal.SIGTERM, 143, "terminated\n"), (signal.SIGINT, 130, "interrupted\n")]
)
def test_signals_unwind_the_stack(number: signal.Signals, exit_code: int, told: str) -> None:
    code = "\n        ".join(
        ["try:", "    click.echo('ready'); time.sleep(60)", "finally:", "    click.echo('cleaned up')"]
    )
    with run(code) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=10)
    assert (out, err, process.returncode) == ("cleaned up\n", told, exit_code)


@pytest.mark.parametrize(
    ("number", "exit_code", "told"), [(signal.SIGTERM, 143, "terminated\n"), (signal.SIGINT, 130, "interrupted\n")]
)
def test_signals_during_an_import_end_at_once(
    tmp_path: Path, number: signal.Signals, exit_code: int, told: str
) -> None:
    # an exception raised inside the import of torch aborts the process now and then
    (tmp_path / "slow.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    with run("import slow", env=os.environ | {"PYTHONPATH": str(tmp_path)}) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=10)
    assert (err, process.returncode) == (told, exit_code)


def test_a_closed_pipe_ends_in_silence() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed, run("click.echo('to nobody')", stdout=closed) as process:
        _, err = process.communicate(timeout=10)
    assert (err, process.returncode) == ("", 141)


def test_warnings_are_one_line() -> None:
    with run("import warnings; warnings.warn('few known words')") as process:
        out, err = process.communicate(timeout=10)
    assert (out, err, process.returncode) == ("", "warning: few known words\n", 0)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_any_text_can_be_printed(encoding: str) -> None:
    text = "\udc80 é 은행"
    with run(f"click.echo({text!a})", env=os.environ | {"PYTHONIOENCODING": encoding}, text=False) as process:
        out, err = process.communicate(timeout=10)
    assert (out, err, process.returncode) == (f"{text}\n".encode(encoding, "backslashreplace"), b"", 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_handed_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with reported_errors():
        assert signal.getsignal(number) is not before
    assert signal.getsignal(number) is before


# ── small things ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("corpus.txt", "corpus.features"),
        ("news/corpus.jsonl.gz", "corpus.features"),
        ("news/", "news.features"),
        ("v1.2.csv.zst", "v1.2.features"),
        ("plain", "plain.features"),
    ],
)
def test_default_output(source: str, output: str) -> None:
    assert default_output((source,), ".features") == Path(output)


@pytest.mark.parametrize(
    "sources", [("a.txt", "b.txt"), ("a.txt", "*.txt"), ("a.txt", "s3://b/c.txt"), ("-",), ("*.txt",)]
)
def test_no_default_output(sources: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("b.txt").touch()
    with pytest.raises(click.UsageError, match="name the output with -o"):
        default_output(sources, ".features")


def test_numbers_for_people() -> None:
    assert [format_size(number) for number in (0, 999, 1500, 2_500_000, 7e12)] == [
        "0 B",
        "999 B",
        "1.5 kB",
        "2.5 MB",
        "7 TB",
    ]
    assert [format_duration(number) for number in (0.4, 59, 200, 18_720)] == ["0 s", "59 s", "3 min 20 s", "5 h 12 min"]


def test_table_aligns_and_leaves_out_nothing_known() -> None:
    assert two_columns([("a", 1), ("long", "x\ny"), ("none", None)]) == ["a     1", "long  x", "      y"]

"""Options of ``bertfeat tag`` and ``probe`` that mean nothing are refused, and files and streams are what they are."""

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from bertfeat.core.extraction import Extractor
from tests.support.tagging_toy import sentences, write_conll
from tests.support.tiny_models import Tiny

QUICK = ("--hidden", "4", "--epochs", "1", "--batch-size", "8", "--precision", "fp32")
MADE = "made/features"
SETS = ("--train", f"{MADE}/train.features", "--dev", f"{MADE}/dev.features")
PROGRAM = [sys.executable, "-c", "from bertfeat.cli import run; run()"]


@pytest.fixture(scope="module")
def home(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("options")
    for number, name in ((40, "train"), (20, "dev")):
        write_conll(home / f"{name}.conll", sentences(number, number + len(name)))
    (home / "news.txt").write_text("the bank of the river, below\n")
    (home / "model").symlink_to(tiny("bert").folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        done = tag("train", "--train", "train.conll", "--dev", "dev.conll", *QUICK, "--model", "model", "-o", "made")
        assert done.exit_code == 0, done.output
    return home


@pytest.fixture(autouse=True)
def in_the_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)


def tag(*arguments: str, **settings: object) -> Result:
    return CliRunner().invoke(main, ["tag", *arguments], **settings)  # type: ignore[arg-type]


# ── options ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ["train", *SETS, "--tag-column", "2", "--encoding", "cp1252"],
            "--encoding, --tag-column apply to the reading of corpora; made/features/train.features is a feature "
            "set, and no corpus is given; leave them out",
        ),
        (
            ["train", *SETS, "--precision", "bf16"],
            "--precision applies to the extraction of corpora and fine-tuning; made/features/train.features is a "
            "feature set and records its own",
        ),
        (
            ["predict", "made", "news.txt", "--json", "--to", "conll"],
            "--json is --to jsonl; leave it or --to conll out",
        ),
        (["predict", "made", "news.txt", "--keep", "all"], "No such option"),
        (["predict", "made", "dev.conll", "--tag-column", "2"], "No such option"),
        (["evaluate", "made", "dev.conll", "--keep", "all"], "No such option"),
        (["evaluate", "made", "dev.conll", "--pairs"], "No such option"),
        (["train", *SETS, "--pair-column", "b"], "No such option"),
        (["train", *SETS, "--learning-rate", "nan"], "--learning-rate nan: must be a finite number"),
        (["train", *SETS, "--hidden", "10000000"], "10000000 is not in the range 0<=x<=65536"),
        (["train", *SETS, "--seed", "9" * 30], "is not in the range"),
    ],
)
def test_what_nothing_would_come_of_is_refused(home: Path, arguments: list[str], problem: str) -> None:
    result = tag(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert problem in " ".join(result.stderr.split())
    assert not Path("train.tagger").exists()
    assert not Path("train.table7").exists()


@pytest.mark.parametrize("verb", ["train", "predict", "evaluate", "table7"])
def test_help_says_every_default_once(verb: str) -> None:
    shown = tag(verb, "--help", env={"COLUMNS": "100"}).stdout
    told = " ".join(shown[shown.index("\nOptions:") :].split())
    defaults = {
        "--hidden": "256", "--seed": "1", "--seeds": "5", "--batch-size": "32",
        "--learning-rate": "0.001", "--epochs": "40",
        "-o,": "", "--rows": "paper]",
        "--to": "text on a terminal, else conll]",
    }  # fmt: skip
    there = [name for name in defaults if f" {name} " in told]
    assert len(there) > 1 or verb == "evaluate"
    for name in there:
        text = told.split(f" {name} ", 1)[1]
        text = text[: text.index("[default: ") + 60]
        assert f"[default: {defaults[name]}" in text
        assert "efault" not in text.split("[default: ")[0]


def test_the_list_of_commands_is_not_cut() -> None:
    told = " ".join(tag("--help").stdout.split())
    for name in ("train", "evaluate", "predict", "table7"):
        first = " ".join(tag(name, "--help").stdout.split("\n\n")[1].split())
        assert first.split("; -")[0].rstrip(".") in told
    assert "..." not in told.replace("[ARGS]...", "")


def test_a_misspelt_command_gets_a_suggestion() -> None:
    result = tag("trian")
    assert (result.exit_code, "Did you mean 'train'?" in result.stderr) == (2, True)


def test_one_file_may_be_both_sets(home: Path, tmp_path: Path) -> None:
    done = tag(
        "train", "--train", "dev.conll", "--dev", "dev.conll", *QUICK, "--model", "model", "-o", str(tmp_path / "t")
    )
    assert done.exit_code == 0, done.output


# ── where predictions go ────────────────────────────────────────────────────────────────────────────────────


def test_predictions_go_whole_or_not_at_all(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.conll"
    shown = tag("predict", "made", "dev.conll", "--to", "conll")
    assert tag("predict", "made", "dev.conll", "-o", str(out)).exit_code == 0
    assert out.read_text() == shown.stdout
    assert tag("predict", "made", "dev.conll", "--to", "conll", "-o", "-").stdout == shown.stdout
    out.write_text("before")
    assert tag("predict", "made", "nowhere.txt", "-o", str(out)).exit_code == 1
    assert out.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["out.conll"]


@pytest.mark.parametrize("given", ["folder", ".", "/", "none/out.conll", "out.conll/x"])
def test_places_that_cannot_be_written(home: Path, tmp_path: Path, given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "out.conll").write_text("mine")
    made = str(Path("made").absolute())
    monkeypatch.chdir(tmp_path)
    Path("news.txt").write_text("the bank\n")
    result = tag("predict", made, "news.txt", "-o", given)
    assert (result.exit_code, "Traceback" in result.stderr) == (1, False), result.stderr
    assert result.stderr.startswith("error: ")
    assert Path("out.conll").read_text() == "mine"


def test_devices_are_written_to_as_they_are(home: Path) -> None:
    assert tag("predict", "made", "news.txt", "-o", "/dev/null").exit_code == 0
    assert not Path("/dev/null").is_file()
    full = tag("predict", "made", "news.txt", "-o", "/dev/full")
    assert (full.exit_code, "No space left on device" in full.stderr) == (1, True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a small disk needs root")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_or_read_only_disk(home: Path, tmp_path: Path, small_disk: Path) -> None:
    long = write_conll(tmp_path / "long.conll", sentences(600, 5))
    full = tag("predict", "made", str(long), "-o", str(small_disk / "out"))
    assert (full.exit_code, "No space left on device; free some space" in full.stderr) == (1, True), full.stderr
    assert list(small_disk.iterdir()) == []
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    readonly = tag("predict", "made", "news.txt", "-o", str(small_disk / "out"))
    assert (readonly.exit_code, "Read-only file system" in readonly.stderr) == (1, True)


def test_words_that_no_line_of_conll_holds(home: Path, tmp_path: Path) -> None:
    lines = [{"text": ["the", word, "bank"]} for word in ("a\tb", "c\nd")]
    (tmp_path / "w.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    conll = tag("predict", "made", str(tmp_path / "w.jsonl"), "--pretokenized", "--to", "conll")
    assert conll.exit_code == 2
    assert r"text 1: 'a\tb' does not fit a line of CoNLL" in " ".join(conll.stderr.split())
    shown = tag("predict", "made", str(tmp_path / "w.jsonl"), "--pretokenized", "--json")
    assert [json.loads(line)["text"] for line in shown.stdout.splitlines()] == ["the a\tb bank", "the c\nd bank"]


# ── what comes in ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "arguments",
    [["predict", "made", "-"], ["evaluate", "made", "-", "--format", "conll"], ["evaluate", "--predictions", "-"]],
)
@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"caf\xe9 O O\n" * 50, "not utf-8; it looks like cp1252: give --encoding cp1252"),
        (b"\x1f\x8b\x08\x00" + bytes(range(256)), "not text"),
        (b"\0" * 500, "not text"),
    ],
)
def test_standard_input_that_is_no_utf_8(home: Path, arguments: list[str], data: bytes, problem: str) -> None:
    result = tag(*arguments, input=data)
    assert result.exit_code in (1, 2)
    assert "Traceback" not in result.stderr
    assert problem in " ".join(result.stderr.split())
    assert "/tmp" not in result.stderr


def test_a_byte_order_mark_is_no_part_of_a_word(home: Path) -> None:
    plain = tag("predict", "made", "-", "--to", "jsonl", input=b"the bank\n")
    marked = tag("predict", "made", "-", "--to", "jsonl", input=b"\xef\xbb\xbfthe bank\n")
    assert marked.stdout == plain.stdout
    read = ("evaluate", "--predictions", "-", "--json")
    both = [tag(*read, input=mark + b"EU B-X B-X\n\nit O O\n") for mark in (b"", b"\xef\xbb\xbf")]
    assert both[0].stdout == both[1].stdout
    assert json.loads(both[1].stdout)["f1"] == 1.0


def test_what_fails_in_standard_input_is_told_without_its_place(home: Path) -> None:
    result = tag("evaluate", "--predictions", "-", input="EU B-X\n")
    assert result.stderr.startswith("error: standard input, sentence of line 1: there must be three columns")


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["predict", "made", "-"], ["evaluate", "--predictions", "-"]])
def test_a_closed_standard_input(home: Path, arguments: list[str]) -> None:
    result = subprocess.run(["sh", "-c", '"$@" <&-', "sh", *PROGRAM, "tag", *arguments], capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr.startswith("error: standard input is closed")


@pytest.mark.parametrize(
    "arguments",
    [
        ["tag", "predict", "made", "news.txt"],
        ["tag", "evaluate", "made", "dev.conll"],
        ["tag", "train", *SETS, "-o", "closed"],
        ["tag", "table7", *SETS, "--rows", "last", "-o", "closed"],
        ["probe", f"{MADE}/dev.features", "--label", "tags"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_closed_standard_output_is_told_before_anything_is_done(home: Path, arguments: list[str]) -> None:
    result = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *PROGRAM, *arguments], stderr=subprocess.PIPE, text=True)
    assert result.returncode == 1
    assert result.stderr.startswith("error: standard output is closed")
    assert not Path("closed").exists()


def test_surrogates_are_written_as_escapes(home: Path, tmp_path: Path) -> None:
    (tmp_path / "w.jsonl").write_text('{"text": "the \\ud800 bank"}\n')
    for form in ("jsonl", "conll", "text"):
        out = tmp_path / f"out.{form}"
        done = tag("predict", "made", str(tmp_path / "w.jsonl"), "--to", form, "-o", str(out))
        assert "Traceback" not in done.stderr
        assert done.exit_code in (0, 2, 3), done.stderr


def test_a_text_table_of_odd_labels_stays_in_its_lines(tmp_path: Path) -> None:
    Path(tmp_path / "odd.conll").write_text("w\tB-a\x1b[31mb\tB-a\x1b[31mb\nv\tO\tO\n")
    shown = tag("evaluate", "--predictions", str(tmp_path / "odd.conll"))
    assert shown.exit_code == 0
    assert "\x1b" not in shown.stdout


def test_a_set_made_in_memory_of_stdin(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the bank\n")))
    Extractor("model", layers="concat4", pooling="word", precision="fp32", device="cpu").extract("-", "in.features")
    assert tag("predict", "made", "in.features", "--to", "conll").stdout.startswith("the\t")
    shutil.rmtree("in.features")

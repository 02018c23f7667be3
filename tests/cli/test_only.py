"""Chosen words from the shell: an option, a file with a word a line, or both."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from bertfeat.core.features import FeatureSet
from tests.support.runs import text_file
from tests.support.tiny_models import TEXTS, Tiny


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text_file(tmp_path / "a.txt", TEXTS)


def extract(tiny: Tiny, *arguments: str) -> Result:
    line = ["extract", "a.txt", "-o", "a.features", "--model", str(tiny.folder), "--pooling", "word", *arguments]
    return CliRunner().invoke(main, line)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_words_of_an_option_and_of_a_file(bert: Tiny, encoding: str) -> None:
    Path("words.txt").write_bytes("Water*\n\n  은행*\r\nbank\n".encode(encoding))
    result = extract(bert, "--only", "don't,@words.txt,BANK")
    assert result.exit_code == 0, result.stderr
    assert FeatureSet("a.features").header.settings.only == ("bank", "don't", "water*", "은행*")
    Path("more.txt").write_text("don't\n은행*")
    again = extract(bert, "--only", "bank,@more.txt,water*")
    assert "nothing to do, all of it was there" in again.output
    other = extract(bert, "--only", "bank")
    assert (other.exit_code, "  only: ['bank', " in other.stderr) == (1, True), other.stderr


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "--only @words.txt: there are no words in it"),
        (b"\n \n", "--only @words.txt: there are no words in it"),
        (b"bank\n\xff\xfe\xfa\n", "words.txt, line 2: "),
        (b"bank\n*\n", "an asterisk alone chooses every word"),
    ],
)
def test_files_without_words(bert: Tiny, content: bytes, told: str) -> None:
    Path("words.txt").write_bytes(content)
    result = extract(bert, "--only", "@words.txt")
    assert (result.exit_code in (1, 2), told in result.stderr) == (True, True), result.stderr
    assert not Path("a.features").exists()
    for place, problem in (("nowhere.txt", "No such file or directory"), (".", "Is a directory")):
        refused = extract(bert, "--only", f"bank,@{place}")
        assert refused.exit_code == 2
        told = " ".join(refused.stderr.split())
        assert f"--only @{place}: cannot be read: {problem}; a word that begins with @ is written @@{place}" in told


def test_words_that_do_not_occur(bert: Tiny) -> None:
    result = extract(bert, "--only", "nowhere")
    assert result.exit_code == 0
    assert "no word of the corpus is among those of --only, so that no vector is stored" in result.stderr
    assert "no word" not in extract(bert, "--only", "bank", "--overwrite").stderr


def test_words_of_standard_input(bert: Tiny) -> None:
    model = ["--model", str(bert.folder), "--device", "cpu", "--pooling", "word"]
    result = CliRunner().invoke(main, ["extract", "a.txt", "--only", "@-", "-o", "in.features", *model], input="bank\n")
    assert result.exit_code == 0, result.stderr
    assert FeatureSet("in.features").header.settings.only == ("bank",)


def test_a_word_that_begins_with_the_sign_of_files(bert: Tiny) -> None:
    result = extract(bert, "--only", "@@bank,river")
    assert result.exit_code == 0, result.stderr
    assert FeatureSet("a.features").header.settings.only == ("@bank", "river")


def test_standard_input_is_read_once(bert: Tiny) -> None:
    model = ["--model", str(bert.folder), "--pooling", "word"]
    result = CliRunner().invoke(main, ["extract", "-", "--only", "@-", "-o", "in.features", *model], input="bank\n")
    assert result.exit_code == 2
    assert "--only @- and CORPUS - would both read standard input; give one of them as a file" in result.stderr
    assert not Path("in.features").exists()

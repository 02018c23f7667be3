"""Which of several columns is meant: where one fits it is taken, else those that fit are listed with what to type."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from bertfeat.core.corpus import CorpusSettings
from bertfeat.study import ChangeSettings, measure_change
from tests.support.runs import extractor, jsonl_file
from tests.support.tiny_models import Tiny

DOCUMENTS, WORDS = {"last_mean", "last_cls", "layer4_mean", "layer4_cls"}, {"last_word", "layer4_word"}
ALL = DOCUMENTS | WORDS | {"last_token", "layer4_token"}


@pytest.fixture(scope="module")
def home(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("columns")
    records = [{"text": f"the bank of the river {at}", "year": 1900 + at} for at in range(12)]
    corpus = jsonl_file(home / "docs.jsonl", records)
    for name, layers, pooling in (
        ("many", "last,-2", "mean,cls,token,word"),
        ("words", "last", "word,token"),
        ("middle", "2,-2", "word"),
        ("four", "concat4", "mean,word"),
    ):
        extractor(tiny("bert"), layers=layers, pooling=pooling).extract(
            corpus, home / name, corpus_settings=CorpusSettings(keep=("year",))
        )
    return home


@pytest.fixture(autouse=True)
def in_the_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)


def run(line: str) -> Result:
    return CliRunner().invoke(main, line.split())


@pytest.mark.parametrize(
    ("line", "fitting"),
    [
        ("usages middle bank", {"layer2_word", "layer4_word"}),
        ("usages middle bank --senses 2", {"layer2_word", "layer4_word"}),
        ("change many bank --by year", WORDS),
        ("plot map many -o map.png", DOCUMENTS),
        ("index many -o many.index", ALL),
        ("export many --to csv -o many.csv", ALL),
    ],
)
def test_several_that_fit_are_listed_with_what_to_type(line: str, fitting: set[str]) -> None:
    result = run(line)
    assert result.exit_code == 2, result.output
    listed = re.search(r"several columns fit: (.*); choose one, for example with (--column \w+)", result.stderr)
    assert listed, result.stderr
    assert set(listed[1].split(", ")) == fitting
    chosen = run(f"{line} {listed[2]}")
    assert "--column" not in chosen.stderr, chosen.stderr


def test_one_that_fits_is_taken() -> None:
    assert run("usages words bank").exit_code == 0
    assert "last_word" in run("usages words bank").output


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ("usages many bank", "last_word"),
        ("usages many bank --senses 2", "last_word"),
        ("usages four bank", "last_word"),
        ("index four -o four.index", "last_mean"),
        ("plot map four -o map.svg", ""),
        ("usages four bank --column concat4", "concat4_word"),
    ],
)
def test_the_layers_that_are_best_for_the_task_are_taken(line: str, column: str) -> None:
    result = run(line)
    assert (result.exit_code, column in result.output) == (0, True), result.output


def test_change_reads_the_last_four_layers() -> None:
    assert measure_change("four", ["bank"], "year", ChangeSettings(least=2)).column == "concat4_word"


@pytest.mark.parametrize("line", ["usages many bank", "index many -o wrong.index", "export many --to csv -o wrong.csv"])
def test_a_column_that_is_nearly_right_is_proposed(line: str) -> None:
    result = run(f"{line} --column layer4_wrod")
    assert (result.exit_code, "did you mean layer4_word? stored are: " in result.stderr) == (2, True), result.stderr


def test_of_several_poolings_the_best_layers_are_proposed() -> None:
    assert "choose one, for example with --column last_mean" in run("index many -o many.index").stderr


def test_values_of_an_option_are_no_inputs() -> None:
    result = run("extract docs.jsonl --keep year title")
    told = "there is no file or folder 'title'; several values of an option stand together: --keep year,title"
    assert (result.exit_code, told in result.stderr) == (2, True), result.stderr


def test_a_star_finds_words_that_begin_so() -> None:
    assert run("usages words ban*").stdout == run("usages words bank|bankx").stdout.replace("bank|bankx:", "ban*:")
    assert "'banx' does not stand in the" in (told := run("usages words banx").stderr)
    assert "; banx* also finds words that begin so" in told
    assert "also finds" not in run("usages words banx*").stderr


def test_a_map_says_what_it_can_take() -> None:
    result = run("plot map many --column last_word -o map.png")
    assert (result.exit_code, "these fit: last_mean, last_cls, layer4_mean, layer4_cls; " in result.stderr) == (2, True)
    result = run("plot map words -o map.png")
    assert (result.exit_code, "none is stored; extract some with --pooling mean" in result.stderr) == (2, True)

"""Which of several columns is meant: where one fits it is taken, else those that fit are listed with what to type."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from bertfeat.corpus import CorpusSettings
from tests.support.runs import extractor, jsonl_file
from tests.support.tiny_models import Tiny

DOCUMENTS, WORDS = {"last_mean", "last_cls", "layer4_mean", "layer4_cls"}, {"last_word", "layer4_word"}
ALL = DOCUMENTS | WORDS | {"last_token", "layer4_token"}


@pytest.fixture(scope="module")
def home(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("columns")
    records = [{"text": f"the bank of the river {at}", "year": 1900 + at} for at in range(12)]
    corpus = jsonl_file(home / "docs.jsonl", records)
    for name, layers, pooling in (("many", "last,-2", "mean,cls,token,word"), ("words", "last", "word,token")):
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
        ("usages many bank", WORDS),
        ("usages many bank --senses 2", WORDS),
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


def test_a_map_says_what_it_can_take() -> None:
    result = run("plot map many --column last_word -o map.png")
    assert (result.exit_code, "these fit: last_mean, last_cls, layer4_mean, layer4_cls; " in result.stderr) == (2, True)
    result = run("plot map words -o map.png")
    assert (result.exit_code, "none is stored; extract some with --pooling mean" in result.stderr) == (2, True)

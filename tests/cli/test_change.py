"""``bertfeat change``: the table, usages that moved, JSON, the picture, and how wrong uses end."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from bertfeat.study import ChangeSettings, measure_change
from tests.study.test_change import TYPES, toy_documents
from tests.support.change_toy import dated_set

PERIODS = ("--by", "year", "--slices", "1850-1870,1900-1920", "--least", "5")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("change")
    dated_set(home / "toy.features", toy_documents(), TYPES)
    return home


@pytest.fixture(autouse=True)
def in_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def change(*arguments: str, **settings: Any) -> Result:
    result = CliRunner().invoke(main, ["change", "toy.features", *arguments], **settings)
    assert "Traceback" not in result.output
    return result


def test_table_and_usages() -> None:
    result = change("door", "cell", *PERIODS, "--usages", "1", "--width", "70")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["word", "PRT", "APD", "JSD", "usages"]
    assert [line.split()[0] for line in lines[1:3]] == ["cell", "door"]
    assert lines[1].endswith("24, 24")
    assert [line for line in lines if "least like" in line] == [
        "cell in 1850-1870, least like 1900-1920",
        "cell in 1900-1920, least like 1850-1870",
        "door in 1850-1870, least like 1900-1920",
        "door in 1900-1920, least like 1850-1870",
    ]
    usage = lines[lines.index("cell in 1850-1870, least like 1900-1920") + 1]
    assert "the Cell a door" in usage
    assert usage.split()[2] in {"1850", "1860", "1870"}
    assert "2 of 2 words by PRT, 1850-1870 against 1900-1920 (concat4_word)" in result.stderr
    assert "slices of year: 1850-1870 (25 documents), 1900-1920 (24 documents)" in result.stderr
    assert "8 documents outside of the slices left out" in result.stderr
    assert change("door", "cell", *PERIODS, "--quiet").stderr == ""


def test_each_step_has_a_line() -> None:
    lines = change("cell", "--by", "year", "--slices", "3", "--least", "5", "--usages", "0").stdout.splitlines()
    assert [line.split("  ")[-1].strip() for line in lines] == [
        "usages", "16, 16, 16", "1850-1860 to 1870-1900", "1870-1900 to 1910-1920",
    ]  # fmt: skip


def test_json_is_a_word_a_line() -> None:
    result = change("cell", "door", *PERIODS, "--layer", "last", "--usages", "2", "--json")
    settings = ChangeSettings(slices="1850-1870,1900-1920", least=5, column="last", usages=2)
    report = measure_change("toy.features", ["cell", "door"], "year", settings)
    told = [json.loads(line) for line in result.stdout.splitlines()]
    assert [word["word"] for word in told] == [word.word for word in report.words]
    for word, measured in zip(told, report.words, strict=True):
        for name in ("apd", "prt", "jsd"):
            interval = getattr(measured.overall, name)
            assert word[name] == interval.value
            assert word[f"{name}_interval"] == [interval.low, interval.high]
            assert word["steps"][0][name] == interval.value
        assert word["counts"] == {"1850-1870": 24, "1900-1920": 24}
        assert word["senses"] == {name: list(senses) for name, senses in measured.senses.items()}
        assert [usage["row"] for usage in word["after"]] == [usage.row for usage in measured.after]
        assert {*word["before"][0]["values"]} == {"year"}


def test_all_words() -> None:
    result = change(*PERIODS, "--measure", "jsd", "-k", "2", "--json")
    told = [json.loads(line) for line in result.stdout.splitlines()]
    assert (len(told), told[0]["word"]) == (2, "cell")
    assert "2 of 4 words by JSD" in result.stderr


def test_some_words_that_cannot_be_measured() -> None:
    result = change("cell", "gone", "window", *PERIODS)
    assert result.exit_code == 3
    assert result.stdout.count("\ncell ") == 3
    assert "warning: 'gone' does not occur in the documents of any slice" in result.stderr
    assert "warning: 'window' does not occur in" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("gone", "went", *PERIODS), "'gone' does not occur in the documents of any slice; 'went' does not occur in "),
        (("cell", *PERIODS, "--json", "--width", "9"), "--width is for lines, and --json has none"),
        (("cell",), "Missing option '--by'"),
        (("cell", "--by", "author"), "there is no kept column 'author'; there are: year, kind, share, good"),
        (("cell", "--by", "kind", "--slices", "1850-1900,1901-1950"), "'kind' does not hold numbers but names"),
        (("cell", "--by", "year", "--slices", "early,late"), "'early' is no range of numbers"),
        (("cell", "--by", "year", "--slices", "1850-1900,1880-1920"), "overlap"),
        (("cell", *PERIODS, "--layer", "2_mean"), "--column 2_mean is one vector a document"),
        (("cell", *PERIODS, "--plot", "a.jpg"), "the form of a picture goes by the ending"),
        (("cell", *PERIODS, "--plot", "missing/a.png"), "missing: No such file or directory"),
    ],
)
def test_wrong_uses(arguments: tuple[str, ...], told: str) -> None:
    result = change(*arguments)
    assert result.exit_code == (1 if "missing/a.png" in arguments else 2)
    assert told in result.stderr
    assert result.stdout == ""


def test_picture() -> None:
    pytest.importorskip("matplotlib")
    assert change("cell", "door", *PERIODS, "--plot", "change.svg").exit_code == 0
    source = Path("change.svg").read_text()
    for text in ("How far the usages of words moved", "prototype distance", "1850-1870", "cell", "door", "year"):
        assert f">{text}<" in source

"""What ``bertfeat compare`` prints, draws and refuses."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from tests.support.features_toy import toy_part, toy_parts, toy_set


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with two sets: of three parts, with a failure, and of one part, with another failure."""
    monkeypatch.chdir(tmp_path)
    toy_set(tmp_path / "a.features", *toy_parts())
    toy_set(tmp_path / "b.features", toy_part(0, 0, 18, blank=[6, 8], failures=[10], layers="all"))
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["compare", "a.features", "b.features", "-k", "2", *arguments])


def test_the_table() -> None:
    result = run("--pooling", "mean")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "first     a.features, toy/model, fp32"
    assert lines[2] == "compared  mean vectors of 14 documents"
    assert lines[5] == "CKA, layers of the first down, of the second across"
    assert lines[6].split() == ["0", "1", "2", "3", "4"]
    # concat4 holds layers 1 to 4 of the first set: of each the likest of the second
    assert [line.split()[0] for line in lines[7:11]] == ["1", "2", "3", "4"]
    assert lines[12].split() == ["first", "second", "CKA", "RSA", "neighbors", "mean", "cosine", "least"]
    assert [line.split()[0] for line in lines[13:]] == ["layer1", "layer2", "layer3", "layer4"]
    assert result.stderr == (
        "a.features: 1 row left out that failed here\nb.features: 1 row left out that failed here\n"
    )


def test_the_json() -> None:
    value = json.loads(run("--pooling", "token", "--json", "--layers", "last,2", "--sample", "8").stdout)
    assert list(value) == [
        *("first", "second", "pooling", "by_text", "documents", "items", "sample", "k", "seed", "pairs"),
    ]
    assert list(value["first"]) == [
        *("features", "model", "precision", "layers", "failed", "without_vector", "unmatched"),
    ]
    assert value["first"]["layers"] == ["layer4", "layer2"]
    assert [(pair["first"], pair["second"]) for pair in value["pairs"]] == [
        *(("layer4", "layer4"), ("layer4", "layer2"), ("layer2", "layer4"), ("layer2", "layer2")),
    ]
    assert list(value["pairs"][0]) == ["first", "second", "cka", "rsa", "neighbors", "cosine", "least_cosine"]
    assert (value["sample"], value["seed"], value["k"]) == (8, 1, 2)


def test_what_was_left_out_is_said() -> None:
    result = run("--pooling", "token", "--layers", "last")
    assert "a.features: 28 tokens left out that stand for no characters\n" in result.stderr
    result = run("--pooling", "word", "--layers", "last")
    assert "a.features: 1 word left out without a vector\n" in result.stderr
    assert "CKA, layers" not in result.stdout
    assert run("--pooling", "word", "--layers", "last", "--quiet").stderr == ""


def test_sets_without_texts_are_warned_about(folder: Path) -> None:
    toy_set(folder / "c.features", *toy_parts(text=False))
    result = CliRunner().invoke(main, ["compare", "a.features", "c.features", "-k", "2", "--pooling", "mean"])
    assert "warning: texts are not stored in both sets, so rows were matched by their numbers and ids" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("form", [pytest.param("png", marks=pytest.mark.slow), "pdf", "svg"])
def test_the_picture(folder: Path, form: str) -> None:
    result = run("--pooling", "mean", "--plot", f"x.{form}")
    assert result.exit_code == 0, result.stderr
    once = (folder / f"x.{form}").read_bytes()
    assert run("--pooling", "mean", "--plot", f"x.{form}").exit_code == 0
    assert (folder / f"x.{form}").read_bytes() == once
    if form == "svg":
        assert all(f">{title}<".encode() in once for title in ("CKA", "RSA", "neighbors"))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--pooling", "mean", "--plot", "x.html"], "the form of a picture goes by the ending of its name"),
        (["--pooling", "mean", "--plot", "no/x.png"], "no"),
        ([], "both sets have several poolings; say which with --pooling: mean or token or word"),
        (["--pooling", "mean", "--sample", "2"], "--sample"),
    ],
    ids=range(4),
)
def test_wrong_usage_is_told_before_anything_is_computed(arguments: list[str], problem: str) -> None:
    result = run(*arguments)
    assert result.exit_code in (1, 2)
    assert result.stdout == ""
    assert problem in result.stderr
    assert "Traceback" not in result.stderr

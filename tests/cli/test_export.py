"""``bertfeat export``: thin, so that what is written is tested with the features, and the command here."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from bertfeat.cli.export import FILE_ENDINGS
from bertfeat.features import EXPORT_FORMATS, FeatureSet
from tests.support.features_toy import toy_set


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return toy_set(Path("toy.features"))


def export(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["export", *map(str, arguments)])


def test_every_form_is_offered() -> None:
    assert set(FILE_ENDINGS) == set(EXPORT_FORMATS)


def test_npy_with_ids(folder: Path) -> None:
    result = export(folder, "--to", "npy", "--column", "concat4_mean")
    assert result.exit_code == 0
    assert "15 documents, 15 vectors" in result.stdout
    vectors = np.load("toy.npy")
    assert np.array_equal(vectors, FeatureSet(folder).matrix("concat4_mean"))
    ids = [json.loads(line)["id"] for line in Path("toy.ids.jsonl").read_text().splitlines()]
    assert ids == [document.id for document in FeatureSet(folder)]


@pytest.mark.parametrize(("form", "lines"), [("jsonl", 15), ("bert-jsonl", 15), ("csv", 16)])
def test_other_forms(folder: Path, form: str, lines: int) -> None:
    column = ["--column", "sum4"] if form == "csv" else []
    result = export(folder, "--to", form, "--json", *column)
    assert result.exit_code == 0, result.stderr
    (written,) = json.loads(result.stdout)["files"]
    assert written == "toy" + FILE_ENDINGS[form]
    assert len(Path(written).read_text().splitlines()) == lines


@pytest.mark.parametrize(
    ("arguments", "exit_code", "word"),
    [
        (["nowhere", "--to", "npy"], 1, "nowhere"),
        (["toy.features"], 2, "--to"),
        (["toy.features", "--to", "xml"], 2, "bert-jsonl"),
        (["toy.features", "--to", "csv", "--column", "layer0_mean"], 2, "concat4_mean"),
        (["toy.features", "--to", "csv", "--column", "concat4_mean", "-o", "there.csv"], 1, "--overwrite"),
        (["toy.features", "--to", "csv", "--column", "concat4_mean", "-o", "no/such/folder.csv"], 1, "no/such"),
    ],
)
def test_wrong_uses(folder: Path, arguments: list[str], exit_code: int, word: str) -> None:
    Path("there.csv").write_text("mine")
    result = export(*arguments)
    assert result.exit_code == exit_code
    assert word in result.stderr
    assert "Traceback" not in result.stderr
    assert Path("there.csv").read_text() == "mine"

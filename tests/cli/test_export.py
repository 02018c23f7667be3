"""``bertfeat export``: thin, so that what is written is tested with the features, and the command here."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from bertfeat.cli.export import FILE_ENDINGS
from bertfeat.core.features import EXPORT_FORMATS, FeatureSet
from bertfeat.core.features.exports import FOLDERS
from bertfeat.display import format_size
from tests.support.features_toy import toy_part, toy_set
from tests.support.index_toy import clustered, vector_set
from tests.support.qdrant_server import QdrantServer


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return toy_set(Path("toy.features"))


def export(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["export", *map(str, arguments)])


def test_every_form_is_offered() -> None:
    assert set(FILE_ENDINGS) == {*EXPORT_FORMATS, *FOLDERS}


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


def test_hidden_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder; its size is that of all files in it."""
    monkeypatch.chdir(tmp_path)
    result = export(toy_set(tmp_path / "toy.features", toy_part(poolings=("token",))), "--to", "hidden-states")
    assert result.exit_code == 0, result.stderr
    size = sum(path.stat().st_size for path in Path("toy.hidden_states").iterdir())
    assert result.stdout.splitlines()[1].split("  ") == ["toy.hidden_states", format_size(size)]
    again = export(tmp_path / "toy.features", "--to", "hidden-states")
    assert again.exit_code == 1
    assert "this folder is there already; choose another name or overwrite it (--overwrite)" in again.stderr
    assert export(tmp_path / "toy.features", "--to", "hidden-states", "--overwrite").exit_code == 0


def test_lance(folder: Path) -> None:
    result = export(folder, "--to", "lance", "--column", "concat4_mean")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "database   toy.lance",
        "vectors    15 of concat4_mean, cosine",
        "documents  15",
        "index      no index: so few are scanned, search is exact",
        "recall     1.000 at 10, for stored vectors disturbed as questions are (15)",
    ]
    again = export(folder, "--to", "lance", "--column", "concat4_mean")
    assert again.exit_code == 1
    assert again.stderr == (
        "error: toy.lance: a Lance dataset is there already; bring it up to date (--update), "
        "replace it (--overwrite), or choose another name\n"
    )
    replaced = export(folder, "--to", "lance", "--column", "last_word", "--overwrite", "--no-evaluate", "--json")
    told = json.loads(replaced.stdout)
    assert (told["place"], told["vectors"], told["skipped"], told["recall"]) == ("toy.lance", 38, 2, None)


def test_low_recall_is_warned_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertfeat.search.databases.lance_dataset.INDEXED_FROM", 3000)
    vectors = clustered(3000)
    vectors[5] = 0
    result = export(vector_set(tmp_path / "f", vectors), "--to", "lance", "-o", tmp_path / "f.lance")
    assert result.exit_code == 0
    zero, recall = result.stderr.splitlines()
    assert zero == "warning: 1 zero vector without direction, which no search will find"
    assert recall.startswith("warning: recall at 10 is 0.")
    assert re.search(r" and [01]\.\d+ with refine_factor=\d+(, nprobes=\d+)?; search with these$", recall)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
def test_qdrant_takes_its_key_from_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with QdrantServer(api_key="secret") as server:
        arguments = (folder, "--to", "qdrant", "--url", server.url, "--column", "concat4_mean", "--no-evaluate")
        refused = export(*arguments)
        assert refused.exit_code == 1
        assert refused.stderr.endswith("(401); set the key in QDRANT_API_KEY\n")
        monkeypatch.setenv("QDRANT_API_KEY", "secret")
        result = export(*arguments)
        assert result.exit_code == 0, result.stderr
        assert "collection  toy\n" in result.stdout
        assert server.local.count("toy").count == 15


def test_qdrant_without_a_server(folder: Path) -> None:
    result = export(folder, "--to", "qdrant", "-o", "q", "--collection", "mine", "--column", "concat4_mean", "--json")
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert (told["place"], told["collection"], told["vectors"], told["added"]) == ("q", "mine", 15, 15)
    whole = {"default": 1.0, "best": 1.0, "parameters": {}}
    assert told["recall"] == {"nearest": 10, "queries": 15, "of": "disturbed", **whole}


@pytest.mark.parametrize(
    ("arguments", "exit_code", "word"),
    [
        (["nowhere", "--to", "npy"], 1, "nowhere"),
        (["toy.features"], 2, "--to"),
        (["toy.features", "--to", "xml"], 2, "bert-jsonl"),
        (["toy.features", "--to", "csv", "--column", "layer0_mean"], 2, "concat4_mean"),
        (["toy.features", "--to", "csv", "--column", "concat4_mean", "-o", "there.csv"], 1, "--overwrite"),
        (["toy.features", "--to", "csv", "--column", "concat4_mean", "-o", "no/such/folder.csv"], 1, "no/such"),
        (["toy.features", "--to", "npy", "--column", "concat4_mean", "-o", "s3://b/k.npy"], 2, "local files"),
        (["toy.features", "--to", "lance", "--column", "concat4_mean", "-o", "toy.features"], 1, "no Lance dataset"),
        (["toy.features", "--to", "lance", "--url", "http://here"], 2, "--url does nothing for --to lance"),
        (["toy.features", "--to", "qdrant", "--column", "concat4_mean"], 2, "--url or a folder with -o"),
        (["toy.features", "--to", "qdrant", "--column", "concat4_mean", "--url", "http://127.0.0.1:9"], 1, "refused"),
        (["toy.features", "--to", "npy", "--update"], 2, "--update does nothing for --to npy"),
    ],
)
def test_wrong_uses(folder: Path, arguments: list[str], exit_code: int, word: str) -> None:
    Path("there.csv").write_text("mine")
    result = export(*arguments)
    assert result.exit_code == exit_code
    assert word in result.stderr
    assert "Traceback" not in result.stderr
    assert Path("there.csv").read_text() == "mine"

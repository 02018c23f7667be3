"""``bertfeat index``, ``search``, ``evaluate`` and ``plot``: thin, so only what the commands add is tested here."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from bertfeat.corpus import KeptColumn
from tests.index_toy import clustered, vector_set


@pytest.fixture
def features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return vector_set(Path("toy.features"), clustered(100), kept={KeptColumn("year", "int64"): list(range(100))})


@pytest.fixture
def index(features: Path) -> Path:
    assert run("index", features).exit_code == 0
    np.save("queries.npy", clustered(100)[:3])
    return Path("toy.index")


def run(*arguments: str | Path, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)


def test_an_index_is_built_and_told(features: Path) -> None:
    result = run("index", features)
    assert result.exit_code == 0
    assert "100 of 16 values, last_mean, cosine" in result.stdout
    assert "few enough to compare them all" in result.stdout
    assert "1.000 at 10" in result.stdout
    assert Path("toy.index/index.faiss").exists()


def test_the_same_as_json(features: Path) -> None:
    told = json.loads(run("index", features, "--type", "ivf", "--json").stdout)
    assert (told["folder"], told["count"], told["factory"]) == ("toy.index", 100, "IVF2,Flat")
    assert told["effort"]["name"] == "nprobe"
    assert told["evaluation"]["recall"]["10"] >= 0.9


def test_zero_vectors_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    vector_set(Path("toy.features"), np.zeros((5, 8), np.float32))
    assert "5 zero vectors have no direction" in run("index", "toy.features").stderr


@pytest.mark.parametrize(
    ("memory", "size"),
    [("4G", 4 * 10**9), ("1.5 GB", 15 * 10**8), ("512MiB", 512 * 2**20), ("100k", 10**5), ("7", 7)],
)
def test_sizes(memory: str, size: int) -> None:
    from bertfeat.cli.index import Bytes

    assert Bytes().convert(memory, None, None) == size


def test_append_and_remove(index: Path, tmp_path: Path) -> None:
    vector_set(Path("more.features"), clustered(10, seed=1), ids=[f"new {row}" for row in range(9)] + ["5"])
    result = run("index", "more.features", "-o", index, "--append")
    assert result.exit_code == 0
    assert "10 documents" in result.stdout
    Path("ids.txt").write_text("new 3\n7\n\nnobody\n")
    result = run("index", "-o", index, "--remove", "ids.txt", "--json")
    assert json.loads(result.stdout)["vectors"] == 107
    assert "1 ids are not in the index: nobody" in result.stderr


def test_tombstones_are_said(features: Path) -> None:
    run("index", features, "--type", "hnsw")
    result = run("index", "-o", "toy.index", "--remove", "-", stdin="3\n4\n")
    assert "HNSW32 cannot remove: 2 vectors stay in it as tombstones" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["index"], id="nothing"),
        pytest.param(["index", "a.features", "b.features"], id="no name"),
        pytest.param(["index", "a.features", "--remove", "-"], id="remove from features"),
        pytest.param(["index", "toy.features", "--memory", "much"], id="memory"),
        pytest.param(["index", "toy.features", "--target-recall", "2"], id="recall"),
        pytest.param(["index", "toy.features", "--type", "fast"], id="type"),
        pytest.param(["search", "toy.index"], id="no query"),
        pytest.param(["search", "toy.index", "a", "--vectors", "queries.npy"], id="two queries"),
        pytest.param(["search", "toy.index", "--vectors", "toy.features/_manifest.json"], id="no vectors"),
        pytest.param(["search", "toy.index", "--vectors", "queries.npy", "--where", "yaer > 3"], id="where"),
        pytest.param(["search", "toy.index", "--vectors", "queries.npy", "-k", "0"], id="k"),
    ],
)
def test_wrong_uses(index: Path, arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_search_by_vectors(index: Path) -> None:
    result = run("search", index, "--vectors", "queries.npy", "-k", "2", "--where", "year < 50")
    assert result.exit_code == 0
    heading, first, *_ = result.stdout.splitlines()
    assert heading == "vector 0"
    assert first.split(maxsplit=2) == ["1.0000", "1", "text of 1"]
    answers = [
        json.loads(line) for line in run("search", index, "--vectors", "queries.npy", "--json").stdout.splitlines()
    ]
    assert [answer["hits"][0]["id"] for answer in answers] == ["1", "2", "3"]
    assert answers[0]["query"] is None
    assert set(answers[0]["hits"][0]) == {"rank", "id", "score", "text", "row", "values"}


def test_nothing_found(index: Path) -> None:
    assert "nothing found" in run("search", index, "--vectors", "queries.npy", "--where", "year > 5000").stdout


def test_features_that_changed_are_an_error_unless_stale_is_said(index: Path, features: Path) -> None:
    shutil.rmtree(features)
    vector_set(features, clustered(50))
    result = run("search", index, "--vectors", "queries.npy")
    assert result.exit_code == 1
    assert "changed since the index" in result.stderr
    assert run("search", index, "--vectors", "queries.npy", "--stale").exit_code == 0


def test_control_characters_do_not_reach_the_terminal() -> None:
    from bertfeat.cli.search import _text
    from bertfeat.retrieval import Hit

    hit = Hit(1, 0.5, "1", 0, "a\x1b[2J\nb\tc", None, {}, "", None, 0)
    assert _text(hit) == "a [2J b c"


def test_a_map(features: Path) -> None:
    result = run("plot", "map", features, "--color", "year")
    assert result.exit_code == 0
    assert "100 of 100" in result.stdout
    assert Path("toy.map.png").exists()

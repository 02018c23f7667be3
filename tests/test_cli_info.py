"""``bertfeat info`` of a feature set, a model and a corpus."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from tests.features_toy import toy_set


def info(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["info", *map(str, arguments)])


def told(*arguments: str | Path) -> Any:
    result = info(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_feature_set(tmp_path: Path) -> None:
    value = told(toy_set(tmp_path / "toy.features"))
    # toy_parts: 18 rows, of which one failed and two are blank
    assert (value["kind"], value["finished"]) == ("features", True)
    assert (value["documents"], value["failed"], value["blank"], value["parts"]) == (15, 1, 2, 3)
    assert value["bytes"] == sum(path.stat().st_size for path in tmp_path.glob("*/part-*.parquet"))
    assert {"name": "concat4_mean", "width": 32, "dtype": "float32", "layers": [1, 2, 3, 4]} in value["columns"]
    assert [column["name"] for column in value["kept"]] == ["year", "title", "score", "good.or.bad"]
    assert value["model"]["name"] == "toy/model"


def test_feature_set_for_people(tmp_path: Path) -> None:
    shown = info(toy_set(tmp_path / "toy.features")).stdout
    assert "documents    15; failed 1; blank lines 2" in shown
    assert "concat4_token  32 × float16  layers 1, 2, 3, 4" in shown
    assert "not finished" not in shown


def test_unfinished_feature_set_says_so(tmp_path: Path) -> None:
    folder = toy_set(tmp_path / "toy.features", finished=False)
    assert told(folder)["finished"] is False
    assert "not finished" in info(folder).stdout


def test_default_model() -> None:
    value = told("sentence-transformers/all-MiniLM-L6-v2")
    assert (value["num_layers"], value["hidden_size"], value["max_tokens"], value["pooling"]) == (6, 384, 512, "mean")
    assert value["stored_limits"] == {"tokenizer.json": 128, "sentence_bert_config.json": 256}
    assert value["heads_not_applied"] == ["Normalize"]
    assert "switched off  128 tokens, says tokenizer.json" in info("sentence-transformers/all-MiniLM-L6-v2").stdout


def test_corpus(tmp_path: Path) -> None:
    corpus = tmp_path / "news.jsonl"
    corpus.write_text('{"title": "A", "body": "bc", "year": 1900}\n{"title": null}\n{"title": "D", "body": "e"}\n')
    value = told(corpus, "--text-column", "title,body", "--keep", "year")
    assert value["kind"] == "corpus"
    assert (value["documents"], value["failed"], value["characters"]) == (2, 1, len("A bc") + len("D e"))
    assert value["kept"] == [{"name": "year", "type": "int64"}]
    shown = info(corpus, "--text-column", "title,body").stdout
    assert "documents      2; unreadable 1; blank lines 0" in shown
    assert "first failure  row 1: " in shown


@pytest.mark.parametrize(
    ("arguments", "exit_code", "word"),
    [
        (["./nowhere.txt"], 1, "nowhere.txt"),
        ([], 2, "Missing argument"),
        (["corpus.txt", "--format", "word"], 2, "jsonl"),
        (["corpus.txt", "--pairs", "--pretokenized"], 2, "--pairs"),
    ],
)
def test_wrong_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], exit_code: int, word: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("corpus.txt").write_text("one\n")
    result = info(*arguments)
    assert result.exit_code == exit_code
    assert word in result.stderr
    assert "Traceback" not in result.stderr

"""``bertfeat info`` of a feature set, a model and a corpus."""

import base64
import json
import os
import re
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import bertfeat
from bertfeat import Extractor, memory_corpus
from bertfeat.cli import main
from bertfeat.core import environment
from bertfeat.core.encoder import kernels_in_use, resolve_device, resolve_precision
from bertfeat.core.features import SUCCESSOR
from bertfeat.io import ResultKind, claim_folder, folder_lock
from tests.support.features_toy import H, toy_set
from tests.support.sentence_models import sentence_folder, with_encoder_apart
from tests.support.tiny_architectures import ARCHITECTURES
from tests.support.tiny_models import Tiny


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
    assert np.frombuffer(base64.b64decode(value["model"]["canary"]["values"]), "<f4").tolist() == list(range(5 * H))
    assert (value["documents"], value["failed"], value["blank"], value["parts"]) == (15, 1, 2, 3)
    assert value["bytes"] == sum(path.stat().st_size for path in tmp_path.glob("*/part-*.parquet"))
    assert {
        "name": "concat4_mean",
        "width": 32,
        "dtype": "float32",
        "layers": [1, 2, 3, 4],
        "site": "output",
        "components": None,
        "kept": None,
    } in value["columns"]
    assert [column["name"] for column in value["kept"]] == ["year", "title", "score", "good.or.bad"]
    assert value["model"]["name"] == "toy/model"


def test_what_computed_a_feature_set(bert: Tiny, tmp_path: Path) -> None:
    extractor = Extractor(bert.folder, precision="fp32", device="cpu")
    extractor.extract(memory_corpus(["The bank."]), tmp_path / "c.features")
    (line,) = re.findall("^computed +(.+)$", info(tmp_path / "c.features").stdout, re.MULTILINE)
    kernels, company = kernels_in_use(extractor.device, extractor.precision), bert.encoder.path.same_bytes
    by = "" if kernels == "none" else f" by {kernels} kernels"
    assert line == f"in fp32{by}; a text in company has {'the same bytes' if company else 'nearly the same'}"


def test_feature_set_for_people(tmp_path: Path) -> None:
    shown = info(toy_set(tmp_path / "toy.features")).stdout
    assert "documents    15; failed 1; blank lines 2" in shown
    assert "concat4_token  32 × float16  layers 1, 2, 3, 4" in shown
    assert "not finished" not in shown


def test_unfinished_feature_set_says_so(tmp_path: Path) -> None:
    folder = toy_set(tmp_path / "toy.features", finished=False)
    assert told(folder)["finished"] is False
    assert "not finished: run the same extract command again" in info(folder).stdout
    with folder_lock(folder):
        shown = info(folder).stdout
    assert "not finished: others are at work on it" in shown
    assert f"lock: process {os.getpid()} on " in shown


def test_an_update_at_work_is_told(tmp_path: Path) -> None:
    folder = toy_set(tmp_path / "toy.features")
    assert told(folder)["run"] is None
    (folder / SUCCESSOR).mkdir()
    shutil.copy(next(folder.glob("part-*")), folder / SUCCESSOR)
    assert "1 part made beside the set, and nobody is at work: the same extract command goes on" in info(folder).stdout
    assert told(folder)["run"]["updated_parts"] == 1
    with folder_lock(folder):
        shown = info(folder).stdout
    assert f"lock: process {os.getpid()} on " in shown
    assert shown.splitlines()[2] == "update       1 part made beside the set"


def test_default_model() -> None:
    value = told("sentence-transformers/all-MiniLM-L6-v2")
    assert (value["num_layers"], value["hidden_size"], value["max_tokens"], value["pooling"]) == (6, 384, 512, "mean")
    assert value["stored_limits"] == {"tokenizer.json": 128, "sentence_bert_config.json": 256}
    assert value["sentence"] == "384 values: the last layer by mean, Normalize"
    assert "switched off  128 tokens, says tokenizer.json" in info("sentence-transformers/all-MiniLM-L6-v2").stdout


def test_a_model_whose_encoder_lies_in_a_folder_below(bert_folder: Path, tmp_path: Path) -> None:
    folder = with_encoder_apart(sentence_folder(bert_folder, tmp_path / "model"))
    assert told(folder)["pooling"] == "mean"


def test_what_is_known_of_a_family_is_told(tmp_path: Path) -> None:
    folder = ARCHITECTURES["clip_text_model"].build(tmp_path / "clip")
    (tmp_path / "a.txt").write_text("a river bank\n")
    note = "its last layer is taken before the final norm"
    assert any(each.startswith(note) for each in told(folder)["path"]["notes"])
    assert note in info(folder).stdout
    arguments = ["extract", tmp_path / "a.txt", "-o", tmp_path / "a.features", "--model", folder]
    extracted = CliRunner().invoke(main, list(map(str, arguments)))
    assert extracted.exit_code == 0, extracted.stderr
    assert note in extracted.stderr


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


def test_every_row_of_a_corpus_is_counted_once(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"text": "a bank"}\n\n{"title": "no text"}\nnot JSON\n{"text": ""}\n')
    value = told(corpus)
    assert (value["documents"], value["failed"], value["blank"]) == (2, 2, 1)
    assert (value["characters"], value["words"]) == (len("a bank"), 0)
    assert "first failure  row 2: " in info(corpus).stdout


def test_words_that_the_corpus_brings_are_counted(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("two words\nthree more words\n")
    value = told(corpus, "--pretokenized")
    assert (value["documents"], value["words"]) == (2, 5)
    assert "first failure" not in info(corpus, "--pretokenized").stdout


def test_what_is_installed() -> None:
    value = told()
    assert (value["kind"], value["bertfeat"]) == ("installation", bertfeat.__version__)
    assert value["versions"]["torch"] == version("torch")
    assert value["versions"]["faiss-cpu"] == version("faiss-cpu")
    assert value["kernels"] == kernels_in_use(resolve_device(None), resolve_precision("auto", resolve_device(None)))
    assert Path(value["default_model"], "config.json").exists()
    shown = info().stdout
    assert "default model" in shown
    assert f"pyarrow {version('pyarrow')}" in shown


def test_kernels_that_were_not_built_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "processor_flags", lambda: {"avx2"})
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert "there was no C compiler at installation, or this is a clone" in environment.kernels_note()
    monkeypatch.setattr(environment, "processor_flags", lambda: {"sse2"})
    assert environment.kernels_note() == ""


def test_the_note_on_kernels_is_shown_in_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "kernels_note", lambda: "were not built")
    assert re.search(r"^kernels +were not built$", info().stdout, re.MULTILINE)
    assert told()["kernels_note"] == "were not built"


def test_options_that_mean_nothing_here_are_refused(tmp_path: Path) -> None:
    toy_set(tmp_path / "toy.features")
    for arguments in (["--text-column", "body"], ["--revision", "main"]):
        result = info(tmp_path / "toy.features", *arguments)
        assert result.exit_code == 2
        assert "and this is none" in result.stderr
    environment = {"BERTFEAT_INFO_FORMAT": "jsonl", "BERTFEAT_INFO_TEXT_COLUMN": "body", "BERTFEAT_INFO_JSON": "1"}
    found = CliRunner(env=environment).invoke(
        main, ["info", str(tmp_path / "toy.features")], auto_envvar_prefix="BERTFEAT"
    )
    assert (found.exit_code, json.loads(found.stdout)["kind"]) == (0, "features")  # what is set is meant for others too


@pytest.mark.parametrize("kind", ["head", "table7", "index", "model"])
def test_a_result_that_is_none_is_told_in_a_sentence(tmp_path: Path, kind: str) -> None:
    claim_folder(tmp_path / "x", ResultKind(kind))
    result = info(tmp_path / "x")
    assert result.exit_code == (0 if kind in ("table7", "model") else 1)
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "exit_code", "word"),
    [
        (["./nowhere.txt"], 1, "nowhere.txt"),
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

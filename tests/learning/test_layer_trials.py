"""Heads that are given several layers choose one by their development set, as scikit-learn would."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from bertfeat import CorpusSettings, Extractor, FeatureSet, open_corpus, train_head
from bertfeat.cli import main
from bertfeat.errors import HeadError, NotDerivableError, RecipeError, UsageError
from bertfeat.learning import GridPoint, Head, HeadReport, HeadSettings
from tests.support.runs import jsonl_file, lines
from tests.support.tiny_models import Tiny

pytest.importorskip("sklearn")

from tests.support.layer_oracle import WORDS, label_texts, macro_f1, means

LAYERS = "1,2,concat4"
QUICK = HeadSettings(epochs=1, hidden=4, seed=1)


@pytest.fixture(scope="module")
def labeled(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts with a label that follows from the first value of one layer's mean, to learn from and to choose by."""
    folder, texts = tmp_path_factory.mktemp("labeled"), lines(150)
    known = label_texts(tiny("bert"), texts)
    records = [{"id": str(at), "b": texts[-at], **each} for at, each in enumerate(known)]
    jsonl_file(folder / "train.jsonl", records[:60])
    jsonl_file(folder / "dev.jsonl", records[60:])
    return folder


def learn(bert: Tiny, labeled: Path, folder: Path, layers: str = LAYERS, **more: Any) -> HeadReport:
    asked: dict[str, Any] = {"label": "label", "model": str(bert.folder), "precision": "fp32", "device": "cpu"}
    asked |= {"settings": QUICK, "picture": False, "layers": layers}
    return train_head("classify", labeled / "train.jsonl", labeled / "dev.jsonl", folder, **asked | more)


def test_labels(bert: Tiny, labeled: Path, tmp_path: Path) -> None:
    report = learn(bert, labeled, tmp_path / "made.head")
    records = [json.loads(line) for line in (labeled / "dev.jsonl").read_text("utf-8").splitlines()]
    states = np.stack([means(bert, record["text"]) for record in records])  # [n, L+1, H]
    vectors = {"1": states[:, 1], "2": states[:, 2], "concat4": states[:, -4:].reshape(len(records), -1)}
    assert report.choice is not None
    for trial in report.choice.trials:
        expected = macro_f1(vectors[trial.layers], [record["label"] for record in records])
        assert trial.score == pytest.approx(expected, abs=0.05), trial.layers
    assert (report.choice.task, report.choice.examples) == ("labels", len(records))
    assert report.record.layers == report.choice.layers
    assert report.record.choice == report.choice.to_json()
    again = learn(bert, labeled, tmp_path / "made.head")
    assert again.scores is None  # trained already
    assert again.record == report.record
    head = Head(tmp_path / "made.head", device="cpu")
    assert head.record.layers == report.record.layers
    assert len(head.predict_texts(["The bank.", "A river."])) == 2


def test_tags(bert: Tiny, tmp_path: Path) -> None:
    draw = random.Random(3)
    for name, count in (("train", 20), ("dev", 40)):
        sentences = [[draw.choice(WORDS) for _ in range(6)] for _ in range(count)]
        tagged = (
            "\n".join(f"{word} {'B-X' if word in ('river', 'bank') else 'O'}" for word in each) for each in sentences
        )
        (tmp_path / f"{name}.conll").write_text("\n\n".join(tagged) + "\n", "utf-8")
    asked: dict[str, Any] = {"model": str(bert.folder), "settings": QUICK, "picture": False, "device": "cpu"}
    train, dev = tmp_path / "train.conll", tmp_path / "dev.conll"
    report = train_head("tag", train, dev, tmp_path / "made.head", layers="concat4,0,1", **asked)
    assert report.choice is not None
    assert (report.choice.task, report.choice.examples) == ("tags", 240)
    assert report.record.layers == "0"  # the word alone tells its tag


def extract(bert: Tiny, labeled: Path, folder: Path, layers: str, **reading: Any) -> list[FeatureSet]:
    extractor = Extractor(bert.folder, layers=layers, pooling="mean", precision="fp32", device="cpu")
    made = []
    for name in ("train", "dev"):
        corpus = open_corpus(labeled / f"{name}.jsonl", CorpusSettings(keep=("label:string",), **reading))
        extractor.extract(corpus, folder / f"{name}.features")
        made.append(FeatureSet(folder / f"{name}.features"))
    return made


def test_stored_features_and_what_they_contain(bert: Tiny, labeled: Path, tmp_path: Path) -> None:
    train, dev = extract(bert, labeled, tmp_path, "concat4")
    asked: dict[str, Any] = {"label": "label", "settings": QUICK, "picture": False, "device": "cpu"}
    report = train_head("classify", train, dev, tmp_path / "made.head", layers="2,sum4,concat4", **asked)
    assert report.choice is not None
    assert [trial.layers for trial in report.choice.trials] == ["2", "sum4", "concat4"]
    with pytest.raises(NotDerivableError, match="needs layer 1"):
        train_head("classify", train, dev, tmp_path / "other.head", layers="1,2", **asked)


def test_pairs_apart_and_together(bert: Tiny, labeled: Path, tmp_path: Path) -> None:
    reading = CorpusSettings(pair_column="b")
    apart = learn(bert, labeled, tmp_path / "apart.head", corpus_settings=reading, layers="1,2")
    assert apart.choice is not None
    assert apart.choice.task == "pairs"
    records = [json.loads(line) for line in (labeled / "dev.jsonl").read_text("utf-8").splitlines()]
    for trial, layer in zip(apart.choice.trials, (1, 2), strict=True):
        one, two = (np.stack([means(bert, record[name])[layer] for record in records]) for name in ("text", "b"))
        inputs = np.hstack([one, two, np.abs(one - two), one * two])
        assert trial.score == pytest.approx(macro_f1(inputs, [each["label"] for each in records]), abs=0.05)
    together = learn(
        bert, labeled, tmp_path / "one.head", corpus_settings=reading, layers="1,2", embed_pairs="together"
    )
    assert together.choice is not None
    assert together.choice.task == "labels"


# ── in the shell, and what cannot be ────────────────────────────────────────────────────────────────────────


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_in_the_shell(bert: Tiny, labeled: Path, tmp_path: Path) -> None:
    asked = ["--train", labeled / "train.jsonl", "--dev", labeled / "dev.jsonl", "--label", "label", "--epochs", 1]
    made = tmp_path / "made.head"
    result = run("classify", "train", *asked, "--model", bert.folder, "--layers", LAYERS, "-o", made, "--json")
    assert result.exit_code == 0, result.output
    told = [line for line in result.stderr.splitlines() if "values" in line]
    assert [line.strip("* ").split()[0] for line in told] == LAYERS.split(",")
    (taken,) = [line.split()[1] for line in told if line.startswith("*")]
    assert json.loads(result.stdout)["layers"] == taken
    assert f"taken: --layers {taken}, the smallest within one standard error of the best" in result.stderr
    shown = json.loads(run("info", made, "--json").stdout)
    assert shown["choice"]["layers"] == taken
    assert [trial["layers"] for trial in shown["choice"]["trials"]] == LAYERS.split(",")


@pytest.mark.parametrize(
    ("layers", "error", "told"),
    [
        ("mix4,2", UsageError, "a mix of layers is learned, and not read by a solved head"),
        ("2,99", RecipeError, "layer 99"),
        ("2,,3", RecipeError, "empty layer specification"),
    ],
)
def test_layers_that_cannot_be_chosen(
    bert: Tiny, labeled: Path, tmp_path: Path, layers: str, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        learn(bert, labeled, tmp_path / "made.head", layers)


def test_tasks_that_choose_none(bert: Tiny, labeled: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="layers are chosen for tags and labels, and this head learns multi-labels"):
        learn(bert, labeled, tmp_path / "made.head", settings=HeadSettings(task="multi-labels"))
    with pytest.raises(UsageError, match="leave"):
        learn(bert, labeled, tmp_path / "made.head", fine_tune=GridPoint(32, 3e-5, 1))
    assert not (tmp_path / "made.head" / "features").exists()
    train, dev = extract(bert, labeled, tmp_path, "1,2")
    asked: dict[str, Any] = {"settings": QUICK, "picture": False, "device": "cpu", "layers": "1,2"}
    with pytest.raises(HeadError, match="label"):
        train_head("classify", train, dev, tmp_path / "other.head", **asked)


def test_too_few_examples_of_a_label(bert: Tiny, labeled: Path, tmp_path: Path) -> None:
    records = [json.loads(line) for line in (labeled / "dev.jsonl").read_text("utf-8").splitlines()]
    few = tmp_path / "few"
    few.mkdir()
    jsonl_file(few / "train.jsonl", records)
    jsonl_file(few / "dev.jsonl", [{**record, "label": "high"} for record in records])
    with pytest.raises(UsageError, match="needs at least two classes of 'label'"):
        learn(bert, few, tmp_path / "made.head")

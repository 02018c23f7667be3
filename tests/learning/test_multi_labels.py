"""Any number of labels a text: learned and scored as scikit-learn does, from lists and from columns of yes and no."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from bertfeat.cli import main
from bertfeat.core.features import FeatureSet
from bertfeat.errors import HeadError, UsageError
from bertfeat.learning import (
    GridPoint,
    Head,
    HeadSettings,
    evaluate_head,
    score_multi_labels,
    train_head_table7,
    verify_head,
    write_predictions,
)
from tests.support.heads_toy import FP32, MONEY, QUICK, WATER, plain_rows, sentence, train, write_records

NAMES = ("money", "water")


def listed(count: int, seed: int) -> list[dict[str, Any]]:
    """Texts of both topics, one or none, which are their labels."""
    draw = random.Random(seed)
    made = []
    for at in range(count):
        labels = [name for name in NAMES if draw.random() < 0.5]
        parts = [sentence(draw, MONEY if name == "money" else WATER) for name in labels] or ["the of was and"]
        made.append({"id": str(at), "text": " ".join(parts), "topics": labels})
    return made


def as_columns(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same with a column of yes and no a label."""
    return [
        {"id": each["id"], "text": each["text"], **{name: name in each["topics"] for name in NAMES}} for each in records
    ]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("many")
    made = {}
    for number, name in enumerate(("train", "dev", "test")):
        records = listed(96, number)
        made[name] = write_records(folder / f"{name}.jsonl", records)
        made[f"{name}-columns"] = write_records(folder / f"{name}-columns.csv", as_columns(records))
    return made


@pytest.fixture(scope="module")
def head(home: Path, sources: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("heads") / "head"
    given = (sources["train"], sources["dev"], folder)
    train("classify", *given, label="topics", model=home / "model", settings=QUICK, **FP32)
    return folder


def gold_of(count: int, seed: int) -> list[list[str]]:
    return [each["topics"] for each in listed(count, seed)]


def test_lists_are_known_by_themselves(head: Path, sources: dict[str, Path]) -> None:
    record = Head(head).record
    assert (record.training.task, record.measure, record.outputs.labels) == ("multi-labels", "micro F1", NAMES)
    assert isinstance(record.threshold, tuple)
    assert len(record.threshold) == 2
    report = evaluate_head(head, sources["test"])
    assert report.scores.value > 0.8
    assert report.unknown == ()
    assert verify_head(head).labels == 2


def test_scores_are_scikit_learns(head: Path, sources: dict[str, Path]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    binarizer = pytest.importorskip("sklearn.preprocessing").MultiLabelBinarizer(classes=NAMES)
    predicted = Head(head).predict(sources["test"])
    gold, guesses = (
        binarizer.fit_transform(rows) for rows in (gold_of(96, 2), [row.value for row in plain_rows(predicted)])
    )
    scores: Any = predicted.scores
    for average in ("micro", "macro"):
        right = metrics.f1_score(gold, guesses, average=average)
        assert getattr(scores, f"{average}_f1") == pytest.approx(right, abs=1e-12)
    assert scores.micro_precision == pytest.approx(metrics.precision_score(gold, guesses, average="micro"))
    assert scores.micro_recall == pytest.approx(metrics.recall_score(gold, guesses, average="micro"))
    assert scores.exact_match == pytest.approx(metrics.accuracy_score(gold, guesses))


@pytest.mark.parametrize("seed", range(5))
def test_scores_of_random_sets_are_scikit_learns(seed: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    draw = random.Random(seed)
    sides = [[[name for name in "abcde" if draw.random() < 0.4] for _ in range(30)] for _ in range(2)]
    found = score_multi_labels(*sides)
    used = sorted({name for side in sides for labels in side for name in labels})
    binarizer = preprocessing.MultiLabelBinarizer(classes=used)
    gold, predicted = (binarizer.fit_transform(side) for side in sides)
    assert found.macro_f1 == pytest.approx(metrics.f1_score(gold, predicted, average="macro", zero_division=0))
    assert found.micro_f1 == pytest.approx(metrics.f1_score(gold, predicted, average="micro"))


def test_a_solved_head_is_scikit_learns_one_against_the_rest(
    home: Path, sources: dict[str, Path], tmp_path: Path
) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    settings = HeadSettings(hidden=0, weight_decay=0.05)
    given = (sources["train"], sources["dev"], tmp_path / "head")
    train("classify", *given, label="topics", layers="concat4", model=home / "model", settings=settings, **FP32)
    loaded = Head(tmp_path / "head")
    features = FeatureSet(tmp_path / "head" / "features" / "train.features")
    vectors = np.stack([row.vector("concat4", "mean") for row in features])
    scaled = (vectors - vectors.mean(0)) / vectors.std(0)
    rows = plain_rows(loaded.predict(features))
    for name in NAMES:
        right = [name in labels for labels in gold_of(96, 0)]
        theirs = linear_model.LogisticRegression(C=1 / (0.05 * 96), tol=1e-8, max_iter=5000).fit(scaled, right)
        shares = [row.probabilities[name] for row in rows if row.probabilities is not None]
        np.testing.assert_allclose(shares, theirs.predict_proba(scaled)[:, 1], atol=0.02)


def test_thresholds_have_the_best_f1_on_the_development_set(head: Path, sources: dict[str, Path]) -> None:
    rows = plain_rows(Head(head).predict(sources["dev"]))
    thresholds = Head(head).record.threshold
    assert isinstance(thresholds, tuple)
    for name, threshold in zip(NAMES, thresholds, strict=True):
        right = np.array([name in labels for labels in gold_of(96, 1)])
        shares = np.array([row.probabilities[name] for row in rows if row.probabilities is not None])

        def f1(cut: float, right: np.ndarray = right, shares: np.ndarray = shares) -> float:
            guessed = shares >= cut
            return float(2 * (guessed & right).sum() / max(1, guessed.sum() + right.sum()))

        assert f1(threshold) == pytest.approx(max(f1(cut) for cut in shares))


def test_columns_of_yes_and_no_are_the_same_as_lists(
    home: Path, head: Path, sources: dict[str, Path], tmp_path: Path
) -> None:
    given = (sources["train-columns"], sources["dev-columns"], tmp_path / "head")
    done = train("classify", *given, label="money,water", model=home / "model", settings=QUICK, **FP32)
    assert done.record.candidates == Head(head).record.candidates
    assert done.record.threshold == Head(head).record.threshold
    scores = evaluate_head(tmp_path / "head", sources["test-columns"]).scores
    assert scores == evaluate_head(head, sources["test"]).scores
    sets = FeatureSet(tmp_path / "head" / "features" / "dev.features")
    assert Head(tmp_path / "head").predict(sets).scores is not None


def test_lines_hold_labels_and_all_probabilities(head: Path, sources: dict[str, Path], tmp_path: Path) -> None:
    write_predictions(head, sources["test"], tmp_path / "out.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    thresholds = Head(head).record.threshold
    assert isinstance(thresholds, tuple)
    assert len(lines) == 96
    for line in lines:
        assert list(line) == ["id", "labels", "probabilities"]
        shares = [line["probabilities"][name] for name in NAMES]
        reached = [name for name, share, cut in zip(NAMES, shares, thresholds, strict=True) if share >= cut]
        assert line["labels"] == reached
    assert any(not line["labels"] for line in lines)


@pytest.mark.slow
def test_the_shell_trains_and_scores(home: Path, sources: dict[str, Path], tmp_path: Path) -> None:
    columns = ["--label", "money,water", "--epochs", "2", "--device", "cpu", "--precision", "fp32"]
    files = ["--train", str(sources["train-columns"]), "--dev", str(sources["dev-columns"])]
    model = ["--model", str(home / "model"), "-o", str(tmp_path / "head")]
    done = CliRunner().invoke(main, ["classify", "train", *files, *columns, *model])
    assert done.exit_code == 0, done.stderr
    assert "micro F1" in done.stdout + done.stderr
    scored = CliRunner().invoke(main, ["classify", "evaluate", str(tmp_path / "head"), str(sources["test-columns"])])
    assert scored.exit_code == 0, scored.stderr
    assert "macro f1" in scored.stdout
    assert "exact match" in scored.stdout


@pytest.mark.slow
def test_a_table_of_layers(home: Path, sources: dict[str, Path], tmp_path: Path) -> None:
    report = train_head_table7(
        "classify",
        sources["train"],
        sources["dev"],
        sources["test"],
        tmp_path / "table",
        rows=("last", "concat4"),
        seeds=(1,),
        label="topics",
        settings=HeadSettings(hidden=0),
        model=home / "model",
        **FP32,
    )
    assert report.table.measure == "micro F1"
    frequent, last, concat4 = report.table.rows
    assert frequent.test[0] < min(last.test[0], concat4.test[0])


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([["money"], "water"] * 8, "the topics of row 1 is 'water', which is no list of labels"),
        ([["money"], [3]] * 8, "which is no list of labels"),
        ([["money"], None] * 8, "the topics of row 1 is None, which is no list of labels"),
        ([["money"]] * 16, "every example has the labels money: there is nothing to learn"),
        ([[]] * 16, "every example has no label: there is nothing to learn"),
    ],
)
def test_what_is_no_list_of_labels_is_told(home: Path, tmp_path: Path, values: list[Any], told: str) -> None:
    records = [{"text": "the river", "topics": value} for value in values]
    path = write_records(tmp_path / "train.jsonl", records)
    with pytest.raises(HeadError, match=told):
        train("classify", path, path, tmp_path / "head", label="topics", model=home / "model", settings=QUICK, **FP32)
    assert not (tmp_path / "head" / "head.json").exists()


def test_what_is_neither_yes_nor_no_is_told(home: Path, sources: dict[str, Path], tmp_path: Path) -> None:
    records = [{"text": "the river", "money": 1, "water": number % 3} for number in range(8)]
    path = write_records(tmp_path / "train.jsonl", records)
    given = (path, path, tmp_path / "head")
    with pytest.raises(HeadError, match=r"the water of row 2 is '?2'?, which is neither yes nor no"):
        train("classify", *given, label="money,water", model=home / "model", settings=QUICK, **FP32)
    with pytest.raises(HeadError, match="there is no column 'fire'"):
        train(
            "classify",
            sources["train-columns"],
            sources["dev-columns"],
            tmp_path / "head",
            label="money,fire",
            model=home / "model",
            settings=QUICK,
            **FP32,
        )
    with pytest.raises(UsageError, match="no task of classify; there are labels, multi-labels, numbers"):
        train("classify", path, path, tmp_path / "head", label="money", settings=replace(QUICK, task="answers"), **FP32)


def with_fire(path: Path, records: list[dict[str, Any]], burning: int) -> Path:
    """A file with a third column, which is true in the first rows."""
    return write_records(path, [{**each, "fire": at < burning} for at, each in enumerate(as_columns(records))])


@pytest.mark.parametrize("tuned", [False, True], ids=["features", "fine-tuned"])
def test_a_label_that_no_example_has_is_refused(home: Path, tmp_path: Path, *, tuned: bool) -> None:
    """It would be missing from the head without a word."""
    paths = [with_fire(tmp_path / f"{name}.csv", listed(24, at), at) for at, name in enumerate(("train", "dev"))]
    point = GridPoint(8, 1e-4, 1) if tuned else None
    given: dict[str, Any] = {"label": "money,water,fire", "model": home / "model", "fine_tune": point, **FP32}
    given["settings"] = HeadSettings() if tuned else QUICK
    with pytest.raises(HeadError, match="no example has the label fire: there is nothing to learn of it") as raised:
        train("classify", *paths, tmp_path / "head", **given)
    assert "leave it out of label, or add examples that have it" in str(raised.value)
    assert not (tmp_path / "head" / "head.json").exists()
    done = train("classify", *paths, tmp_path / "head", **given | {"label": "money,water"}, overwrite=True)
    assert done.record.outputs.labels == NAMES


@pytest.mark.parametrize("tuned", [False, True], ids=["features", "fine-tuned"])
def test_a_label_of_the_development_set_alone_is_told(home: Path, tmp_path: Path, *, tuned: bool) -> None:
    records = listed(24, 1)
    train_path = write_records(tmp_path / "train.jsonl", listed(24, 0))
    dev_path = write_records(tmp_path / "dev.jsonl", [{**records[0], "topics": ["money", "fire"]}, *records[1:]])
    point = GridPoint(8, 1e-4, 1) if tuned else None
    given: dict[str, Any] = {"label": "topics", "model": home / "model", "fine_tune": point, **FP32}
    given["settings"] = HeadSettings() if tuned else QUICK
    done = train("classify", train_path, dev_path, tmp_path / "head", **given)
    assert "the development set has labels that the training set lacks: fire" in done.warnings


def test_a_table_tells_of_it_too(home: Path, tmp_path: Path) -> None:
    records = listed(24, 1)
    paths = write_records(tmp_path / "train.jsonl", listed(24, 0)), tmp_path / "dev.jsonl"
    write_records(paths[1], [{**records[0], "topics": ["money", "fire"]}, *records[1:]])
    settings, given = HeadSettings(hidden=0), {"label": "topics", "model": home / "model", **FP32}
    report = train_head_table7(
        "classify", *paths, None, tmp_path / "t", rows=("last",), seeds=(1,), settings=settings, **given
    )
    assert "the development set has labels that the training set lacks: fire" in report.warnings

"""Labels of a CSV file are their texts, and those that feature sets store as values are matched with them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from bertfeat.cli import main
from bertfeat.core.corpus import CorpusSettings, open_corpus
from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet
from bertfeat.errors import HeadError
from bertfeat.learning import (
    ClassScores,
    GridPoint,
    Head,
    HeadEvaluation,
    HeadSettings,
    evaluate_head,
    train_head_table7,
    verify_head,
)
from tests.support.heads_toy import FP32, topics, train, write_records
from tests.support.tiny_models import Tiny

LABELS = ("1.1", "1.10", "true", "True", "1e3", "1000", "007", "7")


def labeled(path: Path, labels: tuple[object, ...]) -> Path:
    records = topics(4 * len(labels), 1)
    return write_records(path, [{**record, "topic": labels[at % len(labels)]} for at, record in enumerate(records)])


def learned(tiny: Tiny, folder: Path, *corpora: Path) -> list[str]:
    given = [
        "classify",
        "train",
        "--train",
        corpora[0],
        "--dev",
        corpora[1],
        "--label",
        "topic",
        "-o",
        folder / "out.head",
    ]
    settings = ["--model", tiny.folder, "--precision", "fp32", "--device", "cpu", "--epochs", "1", "--layers", "last"]
    done = CliRunner().invoke(main, list(map(str, [*given, *settings])))
    assert done.exit_code == 0, done.output
    labels: list[str] = json.loads((folder / "out.head" / "head.json").read_text())["outputs"]["labels"]
    return labels


def test_labels_of_csv_are_their_texts(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    corpora = [labeled(tmp_path / f"{name}.csv", LABELS) for name in ("train", "dev")]
    assert learned(tiny("bert"), tmp_path, *corpora) == sorted(LABELS)


def test_labels_of_jsonl_are_its_values(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    """1 and 1.0 are one number in JSON; "1" is a string, and its text is the same."""
    corpora = [labeled(tmp_path / "train.jsonl", (1, 2, 3.5)), labeled(tmp_path / "dev.jsonl", (1.0, 2.0, 3.5))]
    assert learned(tiny("bert"), tmp_path, *corpora) == ["1", "2", "3.5"]


@pytest.mark.parametrize(
    ("cells", "type_"),
    [
        (("1.1", "1.10"), "string"),
        (("true", "True"), "string"),
        (("1e3", "1000"), "string"),
        (("1.10", "2.50"), "float64"),
        (("true", "false"), "bool"),
        (("5", "", "5", "7"), "int64"),
        (("5", "7.5"), "float64"),
        (("nan", "1.5", "nan"), "float64"),
    ],
)
def test_a_kept_column_is_of_numbers_where_no_two_texts_are_one_number(
    tmp_path: Path, cells: tuple[str, ...], type_: str
) -> None:
    corpus = write_records(tmp_path / "kept.csv", [{"text": "a", "version": cell} for cell in cells])
    (column,) = open_corpus([corpus], CorpusSettings(keep=("version",))).kept
    assert column.type == type_


# ── texts of a CSV file, and values of its feature set ───────────────────────────────────────────────────────


QUICK = HeadSettings(hidden=0, weight_decay=0.01)


def spelled(path: Path, seed: int, cells: tuple[object, ...]) -> Path:
    """Texts of two topics, whose labels are cells of their own; of a third cell there are four, of any topic."""
    records = [{**each, "topic": cells[each["topic"] == "water"]} for each in topics(60, seed)]
    for at, cell in enumerate(cells[2:] * 4):
        records[at]["topic"] = cell
    return write_records(path, records)


def stored(home: Path, corpus: Path, keep: str = "topic") -> FeatureSet:
    """The feature set of a corpus, with its labels kept."""
    place = corpus.with_suffix(".features")
    settings = CorpusSettings(keep=(keep,))
    Extractor(home / "model", layers="last", pooling="mean", **FP32).extract(corpus, place, corpus_settings=settings)
    return FeatureSet(place)


def accuracy(evaluation: HeadEvaluation) -> float:
    assert evaluation.unknown == ()
    assert isinstance(evaluation.scores, ClassScores)
    return evaluation.scores.accuracy


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("cells", "spellings"),
    [
        (("true", "false"), ["false", "true"]),
        (("True", "False"), ["false", "true"]),
        (("1.10", "2.50"), ["1.1", "2.5"]),
        (("1.0", "2.5"), ["1", "2.5"]),
        (("-1", "1"), ["-1", "1"]),
    ],
    ids=str,
)
def test_a_csv_and_its_feature_set_have_the_same_labels(
    home: Path, tmp_path: Path, cells: tuple[str, str], spellings: list[str]
) -> None:
    """Whichever of them a head learns from, and whichever of them it is scored on."""
    texts = [spelled(tmp_path / f"{seed}.csv", seed, cells) for seed in (1, 2)]
    sets = [stored(home, corpus) for corpus in texts]
    given = {"label": "topic", "layers": "last", "settings": QUICK}
    model = {"model": home / "model", **FP32}
    heads = {
        "texts": train("classify", *texts, tmp_path / "texts.head", **given, **model),
        "sets": train("classify", *sets, tmp_path / "sets.head", **given),
        "text, set": train("classify", texts[0], sets[1], tmp_path / "a.head", **given, device="cpu"),
        "set, text": train("classify", sets[0], texts[1], tmp_path / "b.head", **given, device="cpu"),
    }
    labels = {name: list(head.record.outputs.labels) for name, head in heads.items()}
    assert labels["texts"] == labels["text, set"] == sorted(cells)
    assert labels["sets"] == labels["set, text"] == spellings
    expected = heads["texts"].record.score
    assert expected > 0.8
    for name, head in heads.items():
        assert head.record.score == pytest.approx(expected), name
        assert accuracy(evaluate_head(head.folder, sets[1])) == pytest.approx(expected), name
        assert accuracy(evaluate_head(head.folder, texts[1], device="cpu")) == pytest.approx(expected), name
        assert verify_head(head.folder).labels == 2


def test_texts_stay_texts_among_themselves(home: Path, tmp_path: Path) -> None:
    texts = [spelled(tmp_path / f"{at}.csv", 1, cells) for at, cells in enumerate((("1.1", "No"), ("1.10", "No")))]
    given = {"label": "topic", "layers": "last", "settings": QUICK, "model": home / "model", **FP32}
    head = train("classify", *texts, tmp_path / "a.head", **given)
    assert head.record.outputs.labels == ("1.1", "No")
    assert head.warnings == ("the development set has labels that the training set lacks: 1.10",)
    assert evaluate_head(head.folder, texts[1], device="cpu").unknown == ("1.10",)


def test_a_value_that_two_labels_stand_for_is_refused(home: Path, tmp_path: Path) -> None:
    texts = spelled(tmp_path / "texts.csv", 1, ("1.1", "2.5", "1.10"))
    features = stored(home, spelled(tmp_path / "values.csv", 2, ("1.1", "2.5")))
    given = {"label": "topic", "layers": "last", "settings": QUICK, "model": home / "model", **FP32}
    head = train("classify", texts, texts, tmp_path / "a.head", **given)
    told = r"values\.csv\): the label 1\.1 is stored as a value, and may be '1\.1' or '1\.10'; .*'topic:string'"
    with pytest.raises(HeadError, match=told):
        evaluate_head(head.folder, features)
    assert len(Head(head.folder).predict(features, with_gold=False).rows) == 60


@pytest.mark.slow
def test_a_table_and_a_model_that_is_fine_tuned_match_them_too(home: Path, tmp_path: Path) -> None:
    cells = ("True", "False")
    texts = [spelled(tmp_path / f"{seed}.csv", seed, cells) for seed in (1, 2)]
    sets = [stored(home, corpus) for corpus in texts]
    done = train_head_table7(
        "classify",
        texts[0],
        sets[1],
        texts[1],
        tmp_path / "table",
        rows=("last",),
        seeds=(1,),
        label="topic",
        settings=QUICK,
        picture=False,
        device="cpu",
    )
    (run,) = next(row for row in done.table.rows if row.name == "last").runs
    assert run.dev == run.test
    assert run.dev > 0.8
    given = {"label": "topic", "settings": HeadSettings(), "fine_tune": GridPoint(16, 1e-3, 1), "device": "cpu"}
    scores = []
    for name, sources in (("texts", texts), ("mixed", [sets[0], texts[1]])):
        head = train("classify", *sources, tmp_path / name, model=home / "model", **given)
        scores.append(head.record.score)
        assert accuracy(evaluate_head(head.folder, sets[1])) == accuracy(evaluate_head(head.folder, texts[1]))
    assert scores[0] > 0
    assert scores[1] > 0


def test_truth_values_of_jsonl_are_spelled_as_json_has_them(home: Path, tmp_path: Path) -> None:
    features = stored(home, spelled(tmp_path / "a.jsonl", 1, (True, False)))
    given = {"label": "topic", "settings": QUICK}
    head = train("classify", features, features, tmp_path / "a.head", **given)
    assert head.record.outputs.labels == ("false", "true")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "keep", "cells", "warned"),
    [
        ("a.csv", "topic", ("1.1", "2.5"), True),
        ("a.csv", "topic:string", ("1.1", "2.5"), False),
        ("a.csv", "topic", ("1", "2"), False),
        ("a.jsonl", "topic", (1.1, 2.5), False),
    ],
)
def test_labels_of_a_csv_that_became_numbers_are_told(
    home: Path, tmp_path: Path, name: str, keep: str, cells: tuple[object, ...], warned: bool
) -> None:
    """A later row's 1.10 is not among the first ones, by which the column is one of numbers."""
    features = stored(home, spelled(tmp_path / name, 1, cells), keep)
    given = {"label": "topic", "settings": QUICK}
    head = train("classify", features, features, tmp_path / "a.head", **given)
    told = (
        f"{features.folder}: the labels are stored as numbers, so that texts such as 1.1 and 1.10 are one label; "
        "extract with keep=('topic:string',) to keep texts",
    )
    assert head.warnings == (told if warned else ())


@pytest.mark.parametrize("several", [False, True])
def test_labels_within_objects(several: bool, tmp_path: Path, tiny: Callable[[str], Tiny]) -> None:
    """The head records the path to its labels, so that nothing names it again; lists of labels are known there, too."""
    labels = [("a bank", "x"), ("the river", "y")] * 6
    rows = [{"text": text, "gold": {"label": [label] if several else label}} for text, label in labels]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(rows))
    model = ("--model", str(tiny("bert").folder), "--precision", "fp32", "--label", "gold.label")
    files = ("--train", str(path), "--dev", str(path), "-o", str(tmp_path / "h"))
    trained = CliRunner().invoke(main, ["classify", "train", *files, *model])
    assert trained.exit_code == 0, trained.output
    result = CliRunner().invoke(main, ["classify", "evaluate", str(tmp_path / "h"), str(path), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["examples"] == 12
    assert type(Head(tmp_path / "h").task).__name__ == ("MultiLabels" if several else "Labels")

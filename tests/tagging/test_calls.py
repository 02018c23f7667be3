"""Everything that ``bertfeat tag`` does, done from Python: one call a command."""

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

import bertfeat
from bertfeat import CorpusSettings, FeatureSet, TrainingSettings
from bertfeat.corpus import Failure
from bertfeat.errors import TaggerError, UsageError
from bertfeat.tagging import (
    DatasetReport,
    TableRun,
    TaggedText,
    estimate_table7,
    evaluate_predictions,
    evaluate_tagger,
    predict_tags,
    read_spans,
    tag_corpus,
    train_table7,
    train_tagger,
    verify_table7,
    verify_tagger,
)
from bertfeat.training import GridPoint
from tests.support.tagging_toy import sentences, write_conll
from tests.support.tiny_models import Tiny

QUICK = TrainingSettings(hidden=8, epochs=2, batch_size=8, learning_rate=0.01)
SIZES = {"train": 60, "dev": 20, "test": 12}


@pytest.fixture(scope="module")
def model(tiny: Callable[[str], Tiny]) -> Path:
    return tiny("bert").folder


@pytest.fixture(scope="module")
def home(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Corpora, and a tagger that was trained on them."""
    home = tmp_path_factory.mktemp("calls")
    for name, size in SIZES.items():
        write_conll(home / f"{name}.conll", sentences(size, size + len(name)))
    (home / "news.txt").write_text("the bank of the river, below\n\nthey ran to the café.\n", "utf-8")
    heard: list[DatasetReport] = []
    report = train_tagger(
        home / "train.conll",
        str(home / "dev.conll"),
        home / "ner.tagger",
        layers="mix4",
        settings=QUICK,
        on_dataset=heard.append,
        model=model,
        precision="fp32",
    )
    assert [Path(each.source).name for each in heard] == ["train.conll", "dev.conll"]
    assert [each.extraction is not None for each in heard] == [True, True]
    assert report.warnings == ()
    assert report.resumed == 0
    return home


def test_training_extracts_saves_and_draws(home: Path, model: Path) -> None:
    assert FeatureSet(home / "train.features").columns[0].name == "concat4_word"
    assert (home / "ner.tagger" / "curves.png").read_bytes().startswith(b"\x89PNG")
    report = verify_tagger(home / "ner.tagger")
    assert {str(state) for state in report.features.values()} == {"the same"}
    again = train_tagger(
        FeatureSet(home / "train.features"), home / "dev.features", home / "ner.tagger", layers="mix4", settings=QUICK
    )
    assert again.scores is None  # nothing was left to do


def test_predictions(home: Path, tmp_path: Path) -> None:
    rows = list(predict_tags(home / "ner.tagger", home / "dev.conll"))
    assert len(rows) == SIZES["dev"]
    assert all(isinstance(row, TaggedText) for row in rows)
    by_features = predict_tags(home / "ner.tagger", FeatureSet(home / "dev.features"))
    assert [row.tags for row in by_features if isinstance(row, TaggedText)] == [
        row.tags for row in rows if isinstance(row, TaggedText)
    ]
    report = tag_corpus(home / "ner.tagger", home / "dev.conll", tmp_path / "out.conll")
    assert (report.texts, report.empty, report.failures) == (SIZES["dev"], 0, ())
    written = (tmp_path / "out.conll").read_text("utf-8").strip().split("\n\n")
    assert [[line.split("\t")[1] for line in lines.splitlines()] for lines in written] == [
        list(row.tags) for row in rows if isinstance(row, TaggedText)
    ]
    lines: list[str] = []
    tag_corpus(home / "ner.tagger", home / "news.txt", lines.append, to="jsonl")
    assert [json.loads(line)["id"] for line in lines] == ["1", "3"]
    lines.clear()
    tag_corpus(home / "ner.tagger", home / "news.txt", lines.append, to="text")
    assert [line.replace("[", "").split()[0] for line in lines] == ["the", "they"]


def test_what_has_no_effect_is_refused(home: Path, tmp_path: Path) -> None:
    features = home / "dev.features"
    with pytest.raises(UsageError, match=r"^format: for corpora, and all sets are features; leave it out"):
        train_tagger(features, features, tmp_path / "t", corpus_settings=CorpusSettings(format="conll"))
    with pytest.raises(UsageError, match=r"^revision: for corpora; the feature set that is given records its own"):
        train_tagger(features, home / "dev.conll", tmp_path / "t", revision="x")
    with pytest.raises(UsageError, match=r"^model: for texts, and .*dev.features is a feature set; leave it out"):
        predict_tags(home / "ner.tagger", features, model="x")
    with pytest.raises(UsageError, match=r"to='jsonl'|not to 'nonsense'"):
        tag_corpus(home / "ner.tagger", features, print, to="nonsense")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="would be lost; name another file with out"):
        tag_corpus(home / "ner.tagger", home / "news.txt", home / "news.txt")
    with pytest.raises(TaggerError, match="a text file has no tags"):
        train_tagger(home / "news.txt", features, tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_evaluation(home: Path, tmp_path: Path) -> None:
    report = evaluate_tagger(home / "ner.tagger", home / "test.conll")
    assert (report.scores.sentences, report.failures, report.unknown) == (SIZES["test"], (), ())
    path = tmp_path / "predictions.tsv"
    with path.open("w", encoding="utf-8") as file:
        for row in predict_tags(home / "ner.tagger", home / "test.conll", with_gold=True):
            assert not isinstance(row, Failure)
            assert row.words is not None
            assert row.gold is not None
            lines = zip(row.words, row.gold, row.tags, strict=True)
            file.write("".join(f"{word} {gold} {tag}\n" for word, gold, tag in lines) + "\n")
    assert evaluate_predictions(path).scores == report.scores
    path.write_text("EU I-X B-X\nIt I-X I-X\nruns O O\n")
    assert "as conlleval has it" in evaluate_predictions(path).warnings[0]
    with pytest.raises(UsageError, match="has no tags to compare with"):
        evaluate_tagger(home / "ner.tagger", home / "news.txt")


def test_table7_from_corpora(home: Path, model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    corpora = (home / "train.conll", home / "dev.conll", home / "test.conll")
    runs: list[TableRun] = []
    heard: list[DatasetReport] = []
    with caplog.at_level(logging.WARNING, "bertfeat"):
        report = train_table7(
            *corpora,
            tmp_path / "t",
            rows=("last", "mix4"),
            seeds=(1, 2),
            settings=QUICK,
            on_run=lambda _row, run, _stored: runs.append(run),
            on_dataset=heard.append,
            model=model,
            precision="fp32",
        )
    assert [each.extraction for each in heard[:2]] == [None, None]  # those beside the corpora hold the layers
    assert [(run.row, run.seed) for run in runs] == [("last", 1), ("last", 2), ("mix4", 1), ("mix4", 2)]
    assert [result.row.name for result in report.table.rows] == ["last", "mix4"]
    assert report.warnings == ()
    for name in ("table7.json", "table7.md", "table7.png"):
        assert (tmp_path / "t" / name).stat().st_size > 0
    checked = verify_table7(tmp_path / "t")
    assert (checked.rows, checked.runs) == (2, 4)
    estimate = estimate_table7(*corpora, tmp_path / "t", rows=("last",), seeds=(1,), settings=QUICK, model=model)
    assert (estimate.rows, estimate.fine_tuning) == (1, 0.0)
    with pytest.raises(UsageError, match="grid is of fine-tuning; add fine_tune=True"):
        train_table7(*corpora, tmp_path / "t", grid=(GridPoint(8, 1e-3, 1),), model=model)


def test_pictures_of_saved_results(home: Path, tmp_path: Path) -> None:
    settings = bertfeat.Tagger(home / "ner.tagger").settings
    bertfeat.draw_curves(settings, tmp_path / "curves.svg")
    assert b"<svg" in (tmp_path / "curves.svg").read_bytes()
    probe = bertfeat.probe_layers(home / "dev.features", "tags", bertfeat.ProbeSettings(folds=2))
    assert bertfeat.draw_layers([probe], tmp_path / "layers.svg").probes == 1


def test_the_calls_are_public() -> None:
    for name in ("train_tagger", "tag_corpus", "predict_tags", "evaluate_tagger", "verify_tagger"):
        assert getattr(bertfeat, name) is getattr(bertfeat.tagging, name)
    for name in ("train_table7", "verify_table7", "draw_map", "draw_layers", "draw_curves", "draw_table7"):
        assert callable(getattr(bertfeat, name))
    assert read_spans(["B-X"])

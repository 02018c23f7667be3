"""Everything that ``bertfeat tag`` does, done from Python: one call a command."""

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

import bertfeat
from bertfeat import CorpusSettings, FeatureSet, HeadSettings
from bertfeat.errors import HeadError, UsageError
from bertfeat.learning import (
    DatasetReport,
    Epoch,
    TableRun,
    Tagger,
    estimate_head_table7,
    evaluate_head,
    evaluate_predictions,
    read_spans,
    train_head,
    train_head_table7,
    verify_head,
    verify_head_table7,
    write_predictions,
)
from bertfeat.progress import AnyProgress
from tests.support.tagging_toy import sentences, tag_scores, tagged, write_conll
from tests.support.tiny_models import Tiny

QUICK = HeadSettings(hidden=8, epochs=2, batch_size=8, learning_rate=0.01)
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
    told: list[AnyProgress] = []
    report = train_head(
        "tag",
        home / "train.conll",
        str(home / "dev.conll"),
        home / "ner.tagger",
        layers="mix4",
        settings=QUICK,
        progress=told.append,
        model=model,
        precision="fp32",
    )
    made = [each for each in told if isinstance(each, DatasetReport)]
    assert [Path(each.source).name for each in made] == ["train.conll", "dev.conll"]
    assert str(made[0]).startswith(f"{made[0].features.folder}: 60 sentences, ")
    assert [each.number for each in told if isinstance(each, Epoch)] == [1, 2]
    assert {0.0 <= each.fraction <= 1.0 for each in told} == {True}
    cut = "the training ended because of epochs=2, not because the score no longer rose; more may give a better one"
    assert report.warnings == (cut,)
    assert report.resumed == 0
    return home


def test_training_extracts_saves_and_draws(home: Path, model: Path) -> None:
    assert FeatureSet(home / "ner.tagger/features/train.features").columns[0].name == "concat4_word"
    assert (home / "ner.tagger" / "curves.png").read_bytes().startswith(b"\x89PNG")
    report = verify_head(home / "ner.tagger")
    assert {str(state) for state in report.features.values()} == {"the same"}
    again = train_head(
        "tag",
        FeatureSet(home / "ner.tagger/features/train.features"),
        home / "ner.tagger/features/dev.features",
        home / "ner.tagger",
        layers="mix4",
        settings=QUICK,
    )
    assert again.scores is None  # nothing was left to do


def test_predictions(home: Path, tmp_path: Path) -> None:
    rows = tagged(Tagger(home / "ner.tagger"), home / "dev.conll")
    assert len(rows) == SIZES["dev"]
    by_features = tagged(Tagger(home / "ner.tagger"), FeatureSet(home / "ner.tagger/features/dev.features"))
    assert [row.tags for row in by_features] == [row.tags for row in rows]
    report = write_predictions(home / "ner.tagger", home / "dev.conll", tmp_path / "out.conll")
    assert (report.rows, report.empty, report.failures) == (SIZES["dev"], 0, ())
    written = (tmp_path / "out.conll").read_text("utf-8").strip().split("\n\n")
    assert [[line.split("\t")[1] for line in lines.splitlines()] for lines in written] == [
        list(row.tags) for row in rows
    ]
    lines: list[str] = []
    write_predictions(home / "ner.tagger", home / "news.txt", lines.append, to="jsonl")
    assert [json.loads(line)["id"] for line in lines] == ["1", "3"]
    lines.clear()
    write_predictions(home / "ner.tagger", home / "news.txt", lines.append, to="text")
    assert [line.replace("[", "").split()[0] for line in lines] == ["the", "they"]


def test_what_has_no_effect_is_refused(home: Path, tmp_path: Path) -> None:
    features = home / "ner.tagger/features/dev.features"
    with pytest.raises(UsageError, match=r"^format applies to the reading of corpora; .*; leave it out"):
        train_head("tag", features, features, tmp_path / "t", corpus_settings=CorpusSettings(format="conll"))
    with pytest.raises(UsageError, match=r"^revision applies to .* records its own; leave it out"):
        train_head("tag", features, home / "dev.conll", tmp_path / "t", revision="x")
    with pytest.raises(UsageError, match=r"^model applies to .*dev.features is a feature set"):
        write_predictions(home / "ner.tagger", features, print, model="x")
    with pytest.raises(UsageError, match="to='nonsense': must be one of"):
        write_predictions(home / "ner.tagger", features, print, to="nonsense")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="would be lost; name another file with out"):
        write_predictions(home / "ner.tagger", home / "news.txt", home / "news.txt")
    with pytest.raises(HeadError, match="a text file has no tags"):
        train_head("tag", home / "news.txt", features, tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_evaluation(home: Path, tmp_path: Path) -> None:
    report = evaluate_head(home / "ner.tagger", home / "test.conll")
    assert (tag_scores(report).sentences, report.failures, report.unknown) == (SIZES["test"], (), ())
    path = tmp_path / "predictions.tsv"
    with path.open("w", encoding="utf-8") as file:
        for row in tagged(Tagger(home / "ner.tagger"), home / "test.conll", with_gold=True):
            assert row.words is not None
            assert row.gold is not None
            lines = zip(row.words, row.gold, row.tags, strict=True)
            file.write("".join(f"{word} {gold} {tag}\n" for word, gold, tag in lines) + "\n")
    assert evaluate_predictions(path).scores == report.scores
    path.write_text("EU I-X B-X\nIt I-X I-X\nruns O O\n")
    assert "as conlleval has it" in evaluate_predictions(path).warnings[0]
    with pytest.raises(HeadError, match="a text file has no tags"):
        evaluate_head(home / "ner.tagger", home / "news.txt")


@pytest.mark.slow
def test_table7_from_corpora(home: Path, model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    corpora = (home / "train.conll", home / "dev.conll", home / "test.conll")
    told: list[AnyProgress] = []
    with caplog.at_level(logging.WARNING, "bertfeat"):
        report = train_head_table7(
            "tag",
            *corpora,
            tmp_path / "t",
            rows=("last", "mix4"),
            seeds=(1, 2),
            settings=QUICK,
            progress=told.append,
            model=model,
            precision="fp32",
        )
    made = [Path(each.source).name for each in told if isinstance(each, DatasetReport)]
    assert made == ["train.conll", "dev.conll", "test.conll"]
    runs = [each for each in told if isinstance(each, TableRun)]
    found = [(each.run.row, each.run.seed, each.done, each.total) for each in runs]
    assert found == [("last", 1, 1, 4), ("last", 2, 2, 4), ("mix4", 1, 3, 4), ("mix4", 2, 4, 4)]
    assert str(runs[0]).startswith("Last Hidden, seed 1: dev ")
    assert runs[-1].fraction == 1.0
    assert [result.name for result in report.table.rows] == ["last", "mix4"]
    cut = "4 of 4 trainings ended because of epochs=2, not because the score no longer rose; more may give a better one"
    assert report.warnings == (cut,)
    for name in ("table7.json", "table7.md", "table7.png"):
        assert (tmp_path / "t" / name).stat().st_size > 0
    checked = verify_head_table7(tmp_path / "t")
    assert (checked.rows, checked.runs) == (2, 4)
    estimate = estimate_head_table7("tag", *corpora, rows=("last",), seeds=(1,), settings=QUICK, model=model)
    assert (estimate.rows, estimate.fine_tuning) == (1, 0.0)


@pytest.mark.slow
def test_pictures_of_saved_results(home: Path, tmp_path: Path) -> None:
    settings = bertfeat.Tagger(home / "ner.tagger").record
    bertfeat.draw_curves(settings, tmp_path / "curves.svg")
    assert b"<svg" in (tmp_path / "curves.svg").read_bytes()
    probe = bertfeat.probe_layers(home / "ner.tagger/features/dev.features", "tags", bertfeat.ProbeSettings(folds=2))
    bertfeat.draw_layers([probe], tmp_path / "layers.svg")
    assert b"<svg" in (tmp_path / "layers.svg").read_bytes()


def test_the_calls_are_public() -> None:
    for name in ("train_head", "write_predictions", "evaluate_head", "verify_head", "train_head_table7"):
        assert getattr(bertfeat, name) is getattr(bertfeat.learning, name)
    for name in ("verify_head_table7", "draw_map", "draw_layers", "draw_curves", "draw_table7"):
        assert callable(getattr(bertfeat, name))
    assert read_spans(["B-X"])

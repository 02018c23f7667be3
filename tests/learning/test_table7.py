"""Table 7 of heads: its runs are those of the head itself, kept by row and seed, beside baselines."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from bertfeat.core.corpus import CorpusSettings
from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet
from bertfeat.errors import HeadError, TrainingError, UsageError
from bertfeat.io import write_json
from bertfeat.learning import (
    GridPoint,
    HeadSettings,
    HeadTable,
    TableRun,
    estimate_head_table7,
    evaluate_head,
    train_head_table7,
    verify_head_table7,
)
from tests.support.heads_toy import FP32, QUICK, topics, train, write_records
from tests.support.tiny_models import Tiny


def table(kind: str, home: Path, folder: Path, **given: Any) -> HeadTable:
    ending = "json" if kind == "answer" else "csv"
    sources = [home / f"train.{ending}", home / f"dev.{ending}", home / f"dev.{ending}"]
    settings: dict[str, Any] = {"settings": QUICK, "seeds": (1, 2), "model": home / "model", **FP32, **given}
    train_set, dev, test = sources
    return train_head_table7(kind, train_set, dev, test, folder, picture=False, **settings).table


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("kind", "label"), [("classify", "topic"), ("answer", None)])
def test_a_run_is_what_the_head_itself_comes_to(home: Path, tmp_path: Path, kind: str, label: str | None) -> None:
    rows = {row.name: row for row in table(kind, home, tmp_path / "t", label=label, rows=["last"]).rows}
    ending = "json" if kind == "answer" else "csv"
    given = {"label": label, "layers": "last", "model": home / "model", **FP32}
    for run in rows["last"].runs:
        settings = replace(QUICK, seed=run.seed)
        sources = (home / f"train.{ending}", home / f"dev.{ending}")
        report = train(kind, *sources, tmp_path / f"{run.seed}", settings=settings, **given)
        assert run.dev == pytest.approx(report.record.score, abs=1e-6)
        scores: Any = evaluate_head(tmp_path / f"{run.seed}", sources[1]).scores
        # the test set is the development set here: its threshold is the best one
        assert run.test == pytest.approx(scores.f1 if kind == "answer" else scores.accuracy, abs=1e-6)
        assert run.test == pytest.approx(run.dev, abs=1e-6)


def test_the_most_frequent_label_is_a_row(home: Path, tmp_path: Path) -> None:
    made = table("classify", home, tmp_path / "t", label="topic", rows=["0"], seeds=(1,))
    likely, _ = Counter(record["topic"] for record in topics(120, 1)).most_common(1)[0]
    right = np.mean([record["topic"] == likely for record in topics(40, 2)])
    assert made.rows[0].name == "most-frequent"
    assert list(made.rows[0].test) == pytest.approx([right])


@pytest.mark.slow
def test_what_is_said_below_the_table(home: Path, tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    given: dict[str, Any] = {"label": "topic", "rows": ["last"], "seeds": (1,)}
    table("classify", home, tmp_path / "plateau", **given)
    settings = HeadSettings(epochs=3, schedule="linear")
    tuned = {"settings": settings, "fine_tune": (GridPoint(32, 1e-3, 1),)}
    made = table("classify", home, tmp_path / "linear", **given, **tuned)
    notes = [(tmp_path / name / "table7.md").read_text().splitlines()[-1] for name in ("plateau", "linear")]
    assert notes[0].endswith("without extraction. Chosen by the development set: head, epoch.")
    ratio = made.rows[-1].seconds / made.rows[-2].seconds
    precision = made.rows[-1].runs[0].precision
    assert notes[1].endswith(
        "without extraction. Chosen by the development set: head, point of the grid. The last epoch of each run. "
        f"Fine-tuned in {precision} with batches of 32, rate 0.001, 1 "
        f"epochs in {ratio:,.0f} times the seconds of the slowest head."
    )


@pytest.mark.slow
def test_the_cosine_of_pairs_is_a_row(home: Path, tmp_path: Path) -> None:
    records = [
        {"a": pair["text"], "b": other["text"], "likeness": float(at % 7)}
        for at, (pair, other) in enumerate(zip(topics(30, 3), topics(30, 4), strict=True))
    ]
    corpus = write_records(tmp_path / "pairs.csv", records)
    reading = CorpusSettings(text_columns=("a",), pair_column="b")
    given: dict[str, Any] = {"label": "likeness", "settings": replace(QUICK, task="numbers"), **FP32}
    report = train_head_table7(
        "classify",
        corpus,
        corpus,
        None,
        tmp_path / "t",
        rows=["last"],
        seeds=(1,),
        model=home / "model",
        corpus_settings=reading,
        picture=False,
        **given,
    )
    extractor = Extractor(home / "model", **FP32)
    first, second = (extractor.encode([record[name] for record in records]) for name in "ab")
    cosines = (first * second).sum(1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    expected = spearmanr(cosines, [record["likeness"] for record in records]).statistic
    (row,) = [row for row in report.table.rows if row.name == "cosine"]
    assert list(row.dev) == pytest.approx([expected], abs=1e-3)


def test_what_is_done_is_not_done_again(home: Path, tmp_path: Path) -> None:
    told: list[tuple[str, int, bool]] = []

    def hear(progress: Any) -> None:
        if isinstance(progress, TableRun):
            told.append((progress.title, progress.run.seed, progress.stored))

    given = {"label": "topic", "progress": hear}
    first = table("classify", home, tmp_path / "t", rows=["last"], seeds=(1,), **given)
    again = table("classify", home, tmp_path / "t", rows=["last", "0"], seeds=(1, 2), **given)
    title = again.rows[1].title
    assert told[1:] == [(title, 1, True), (title, 2, False), ("0", 1, False), ("0", 2, False)]
    assert again.rows[1].runs[0] == first.rows[1].runs[0]
    assert json.loads((tmp_path / "t" / "table7.json").read_text())["measure"] == "accuracy"
    assert not list((tmp_path / "t").rglob("*.head"))
    with pytest.raises(HeadError, match="holds a table with other training"):
        table("classify", home, tmp_path / "t", rows=["last"], label="topic", settings=replace(QUICK, epochs=2))


@pytest.mark.slow
def test_linear_heads_are_solved_once_a_row_and_read_no_settings_of_epochs(home: Path, tmp_path: Path) -> None:
    given: dict[str, Any] = {"label": "topic", "rows": ["last"], "settings": HeadSettings(hidden=0)}
    first, second = table("classify", home, tmp_path / "t", **given).rows[1].runs
    assert first == replace(second, seed=1)  # the seconds, too: they are those of the one time
    assert first.epochs == 0
    given["settings"] = HeadSettings(hidden=0, epochs=3)
    with pytest.raises(UsageError, match=r"epochs applies to networks .* in epochs; without a hidden layer a head is"):
        table("classify", home, tmp_path / "u", **given)
    given |= {"rows": ["mix4"], "seeds": (1,)}
    assert table("classify", home, tmp_path / "u", **given).rows[1].runs[0].epochs == 3


@pytest.mark.parametrize(
    ("hidden", "row", "steps"), [(0, "last", "solving"), (-1, "mix4", "training"), (-1, "last", "both")]
)
def test_the_estimate_counts_what_is_done(
    extracted: Callable[..., FeatureSet], hidden: int, row: str, steps: str
) -> None:
    given = extracted("train.csv", layers="all", keep=("topic",))
    settings = HeadSettings(hidden=hidden)
    made = estimate_head_table7("classify", given, given, None, rows=[row], label="topic", settings=settings)
    assert (made.training > 0, made.solving > 0) == (steps != "solving", steps != "training")
    assert made.hours == (made.extraction + made.training + made.solving + made.fine_tuning) / 3600


def test_sets_of_another_model_are_refused(
    home: Path, tiny: Callable[[str], Tiny], extracted: Callable[..., FeatureSet], tmp_path: Path
) -> None:
    other = tmp_path / "other.features"
    reading = CorpusSettings(keep=("topic",))
    Extractor(tiny("roberta").folder, layers="all", pooling="mean", **FP32).extract(
        home / "dev.csv", other, corpus_settings=reading
    )
    ours = extracted("train.csv", layers="all", keep=("topic",))
    for test in (None, other):
        dev = other if test is None else extracted("dev.csv", layers="all", keep=("topic",))
        with pytest.raises(TrainingError, match=r"was made by .*, and .* by "):
            train_head_table7("classify", ours, dev, test, tmp_path / "t", label="topic", settings=QUICK, picture=False)
        assert not (tmp_path / "t").exists()


def damaged(folder: Path, where: Path, name: str, change: Callable[[Path], object]) -> Path:
    """A copy of a table in which one file was changed."""
    shutil.copytree(folder, where)
    change(where / name)
    return where


@pytest.mark.slow
def test_a_table_is_derived_from_its_runs_again(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    made = table("classify", home, folder, label="topic", rows=["last", "1"])
    report = verify_head_table7(folder)
    assert (report.rows, report.runs, report.unfinished) == (3, 4, 0)
    assert set(report.features) == {"train", "dev", "test"}
    assert set(report.features.values()) == {"the same"}
    assert made.rows[1].runs[0].place == "last/seed-1"
    run = "runs/last/seed-1.json"
    for number, (name, change, problem) in enumerate(
        [
            (run, lambda path: path.write_text(path.read_text().replace('"epochs": ', '"epochs": 1')), "digest"),
            (run, lambda path: path.unlink(), "table7.json: the run last/seed-1 is not there"),
            (run, lambda path: shutil.copy(path.with_name("seed-2.json"), path), "another's place"),
            ("table7.md", lambda path: path.write_text("9.9"), "does not show what table7.json says"),
            ("table7.md", lambda path: path.unlink(), "table7.md: it is missing"),
            ("table7.json", lambda path: path.unlink(), "table7.json: it is missing"),
            ("table7.json", lambda path: path.write_text("{}"), "table7.json: cannot be read"),
            ("_settings.json", lambda path: path.unlink(), "there is no Table 7 in it"),
        ]
    ):
        with pytest.raises(HeadError, match=problem):
            verify_head_table7(damaged(folder, tmp_path / str(number), name, change))
    changed = damaged(folder, tmp_path / "features", "features/dev.features", shutil.rmtree)
    assert verify_head_table7(changed).features["dev"] == "not there"
    rewritten = json.loads((folder / "table7.json").read_text())
    del rewritten["digest"]
    rewritten["rows"][1]["title"] = "Another"
    write_json(folder / "table7.json", rewritten)
    with pytest.raises(HeadError, match=r"table7\.md: it does not show what"):
        verify_head_table7(folder)
    rewritten["rows"][1]["runs"][0]["dev"] /= 2
    write_json(folder / "table7.json", rewritten)
    with pytest.raises(HeadError, match=r"table7\.json: the run last/seed-1 is another one"):
        verify_head_table7(folder)

"""Table 7: its runs are of one table, and what is done is not done again."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet
from bertfeat.errors import TrainingError, UsageError
from bertfeat.io import ResultKind, result_kind
from bertfeat.learning import PAPER_GRID, HeadRun, TableRow, format_head_table, verify_head_table7
from bertfeat.learning.head_files import FORMAT_VERSION
from tests.support.killed_training import Killed, killing_after
from tests.support.tagging_golden import GOLDEN, put, rewritten
from tests.support.tagging_tables import QUICK, RUN, SEEDS, Sets, edited, made_sets, made_table
from tests.support.tagging_toy import feature_set, sentences, train, write_conll
from tests.support.tiny_models import Tiny

# ── a sound one ─────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_made_is_sound_and_not_made_again(sets: Sets, table: Path) -> None:
    assert result_kind(table) is ResultKind.TABLE7
    assert sorted(str(path.relative_to(table)) for path in table.rglob("*") if path.is_file()) == [
        *(".bertfeat/kind", "_settings.json", "runs/last/seed-1.json", "runs/last/seed-2.json"),
        *("runs/mix4/seed-1.json", "runs/mix4/seed-2.json", "table7.json", "table7.md"),
    ]
    report = verify_head_table7(table)
    assert (report.rows, report.runs, report.unfinished) == (2, 4, 0)
    assert {str(state) for state in report.features.values()} == {"the same"}
    told: list[bool] = []
    before = {path: path.read_bytes() for path in table.rglob("*") if path.is_file()}
    again = made_table(sets, table, progress=lambda run: told.append(run.stored))
    assert told == [True] * 4
    assert {path: path.read_bytes() for path in table.rglob("*") if path.is_file()} == before
    assert (table / "table7.md").read_text() == format_head_table(again)
    assert [run["dev"] for row in json.loads((table / "table7.json").read_text())["rows"] for run in row["runs"]] == [
        json.loads((table / "runs" / name / f"seed-{seed}.json").read_text())["run"]["dev"]
        for name in ("last", "mix4")
        for seed in SEEDS
    ]


def test_a_table_that_is_not_finished_is_sound_too(table: Path) -> None:
    (table / "table7.json").unlink()
    with pytest.raises(TrainingError, match=r"table7\.json: it is missing"):  # as long as what is made of it is there
        verify_head_table7(table)
    (table / "table7.md").unlink()
    (table / "runs" / "last" / "seed-3.head").mkdir()
    assert (verify_head_table7(table).rows, verify_head_table7(table).unfinished) == (0, 1)


def test_taggers_that_a_killed_run_left_go(sets: Sets, table: Path) -> None:
    """Their runs are kept; what was to be removed is removed, however much of it is still there."""
    whole = table / "runs" / "last" / "seed-1.head"
    shutil.copytree(GOLDEN / f"tagger-{FORMAT_VERSION}" / "tagger", whole)
    half = table / "runs" / "last" / "seed-2.head"
    half.mkdir()
    (half / "head.safetensors").write_bytes(b"half")
    made_table(sets, table)
    assert sorted(path.name for path in (table / "runs" / "last").iterdir()) == ["seed-1.json", "seed-2.json"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("left", ["another training", "of other features", "of another version", "damaged"])
def test_a_begun_training_that_does_not_fit_is_begun_anew(
    sets: Sets, tiny: Callable[[str], Tiny], made: Path, table: Path, tmp_path: Path, left: str
) -> None:
    """There is no option to overwrite it with, and it is of no other use."""
    scores = json.loads((made / RUN).read_text())["run"]["dev"]
    (table / RUN).unlink()
    begun = table / "runs" / "last" / "seed-1.head"
    others = made_sets(tiny("bert").folder, tmp_path, layers="last") if left == "of other features" else sets

    settings = replace(QUICK, hidden=5) if left == "another training" else QUICK
    with pytest.raises(Killed):
        train(others["train"], others["dev"], begun, layers="last", settings=settings, progress=killing_after(1))
    if left == "of another version":
        rewritten(begun, put("format_version", to=2), "checkpoint.json")
    if left == "damaged":
        (begun / "checkpoint-1.safetensors").write_bytes(b"")
    made_table(sets, table)
    assert json.loads((table / RUN).read_text())["run"]["dev"] == scores
    assert not begun.exists()


# ── what the runs have in common ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda sets, model, place: {"train": feature_set(model, place, 41, 41)}, "other data"),
        (lambda sets, model, place: {"test": sets["dev"]}, "other data"),
        (lambda sets, model, place: {"test": None}, "other data"),
    ],
    ids=["train", "test", "no test"],
)
def test_other_sentences_are_another_table(
    sets: Sets, tiny: Callable[[str], Tiny], table: Path, tmp_path: Path, change: Any, problem: str
) -> None:
    changed = {**sets, **change(sets, tiny("bert").folder, tmp_path / "other")}
    if changed["test"] is None:
        del changed["test"]
    with pytest.raises(TrainingError, match=f"holds a table with {problem}; name another folder"):
        made_table(changed, table)


def test_other_settings_and_ways_are_another_table(sets: Sets, tiny: Callable[[str], Tiny], table: Path) -> None:
    with pytest.raises(TrainingError, match="other training"):
        made_table(sets, table, settings=replace(QUICK, hidden=5))
    made_table(sets, table, settings=replace(QUICK, seed=77))  # a table's seeds are its own
    edited(table / "_settings.json", lambda raw: raw["identity"]["extraction"].update(precision="bf16"))
    with pytest.raises(TrainingError, match="other extraction"):
        made_table(sets, table)
    with pytest.raises(TrainingError, match="is of another table"):
        verify_head_table7(table)


def test_sets_of_two_models_make_no_table(sets: Sets, tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    other = feature_set(tiny("roberta").folder, tmp_path / "test", 12, 12)
    with pytest.raises(TrainingError, match="extract it again with model="):
        made_table({**sets, "test": other}, tmp_path / "table")
    assert not (tmp_path / "table").exists()
    with pytest.raises(TrainingError, match="is not the model that made the features"):
        made_table(sets, tmp_path / "table", rows=(), fine_tune=PAPER_GRID, model=tiny("roberta").folder)


def test_a_table_needs_rows_and_seeds(sets: Sets, tmp_path: Path) -> None:
    for changes in ({"rows": ()}, {"seeds": ()}):
        with pytest.raises(UsageError, match="at least one row and one seed"):
            made_table(sets, tmp_path / "table", **changes)


# ── fine-tuning ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_fine_tuning_is_kept_by_point_and_seed(sets: Sets, tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    from bertfeat.learning import GridPoint

    points = (GridPoint(8, 1e-3, 1), GridPoint(8, 2e-3, 1))
    told: list[tuple[HeadRun, bool]] = []

    def run() -> Any:
        return made_table(
            sets,
            tmp_path / "table",
            rows=(TableRow("last", "Last Hidden", 94.9),),
            fine_tune=points,
            model=tiny("bert").folder,
            progress=lambda done: told.append((done.run, done.stored)),
        )

    table = run()
    assert [there for _, there in told] == [False] * 4 + [True, False]  # the first seed chose the point
    assert verify_head_table7(tmp_path / "table").rows == 2
    told.clear()
    assert run() == table
    assert all(there for _, there in told)
    edited(
        next((tmp_path / "table" / "runs/fine-tuning").glob("*-batch-8-rate-0.001-epochs-1-seed-1.json")),
        lambda raw: raw["run"]["grid"].update(batch_size=9),
    )
    with pytest.raises(TrainingError, match=r"it says of itself that it is fine-tuning/.*batch-9"):
        run()


@pytest.mark.slow
def test_sets_without_texts_cannot_be_fine_tuned(sets: Sets, tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    corpus = write_conll(tmp_path / "train.conll", sentences(40, 40))
    extractor = Extractor(tiny("bert").folder, layers="all", pooling="word", precision="fp32", device="cpu")
    extractor.extract(corpus, tmp_path / "silent", keep_text=False)
    silent = FeatureSet(tmp_path / "silent")
    with pytest.raises(TrainingError, match="it holds no texts; give the corpus"):
        made_table({**sets, "train": silent}, tmp_path / "table", fine_tune=PAPER_GRID, model=tiny("bert").folder)

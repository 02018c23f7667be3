"""A Table 7 that was edited or damaged is told from one that follows from its runs."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bertfeat.errors import BertfeatError, TaggerError
from bertfeat.features import FeatureSet
from bertfeat.tagging import verify_table7
from tests.support.tagging_tables import QUICK, ROWS, RUN, Sets, edited, made_table
from tests.support.tiny_models import Tiny

# ── edited files ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda raw: raw.update(dev="0.9"), "cannot be read"),
        (lambda raw: raw.update(dev=1.2), "cannot be read"),
        (lambda raw: raw.update(dev=True), "cannot be read"),
        (lambda raw: raw.update(seed=1.0), "cannot be read"),
        (lambda raw: raw.update(seconds=-1), "cannot be read"),
        (lambda raw: raw.update(measure="BLEU"), "cannot be read"),
        (lambda raw: raw.update(grid=[16]), "cannot be read"),
        (lambda raw: raw.update(epochs=0), "cannot be read"),
        (lambda raw: raw.update(table=None), "does not say of which table it is"),
        (lambda raw: raw.update(table="00"), "this run is of another table"),
        (lambda raw: raw.update(seed=2), "it says of itself that it is last/seed-2"),
        (lambda raw: raw.update(row="../../../etc"), "it says of itself that it is"),
        (lambda raw: raw.update(row="fine-tuning"), "it says of itself"),
        (lambda raw: raw.update(grid={"batch_size": 1, "learning_rate": 0.1, "epochs": 1}), "it says of itself"),
        (lambda raw: raw.update(test=None), "no score on the test set"),
        (lambda raw: raw.update(epochs=99), "there are 2 at most"),
        (lambda raw: raw.update(best_epoch=2, epochs=1), "epoch 2 of 1 is the best"),
        (lambda raw: raw.update(format_version=9), "newer bertfeat"),
    ],
    ids=range(18),
)
def test_edited_runs_are_told(
    sets: Sets, table: Path, change: Callable[[dict[str, Any]], object], problem: str
) -> None:
    edited(table / RUN, change)
    with pytest.raises(TaggerError, match=problem):
        made_table(sets, table)
    with pytest.raises(TaggerError, match=problem):
        verify_table7(table)
    (table / RUN).unlink()  # the remedy
    made_table(sets, table)
    assert verify_table7(table).runs == 4


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"[" * 100_000, b'{"dev": 1e999}', b"\xff"], ids=range(6))
@pytest.mark.parametrize("name", [RUN, "_settings.json"])
def test_what_is_no_json_of_ours(sets: Sets, table: Path, name: str, text: bytes) -> None:
    (table / name).write_bytes(text)
    for use in (lambda: made_table(sets, table), lambda: verify_table7(table)):
        with pytest.raises(BertfeatError, match="cannot be read"):
            use()


@pytest.mark.parametrize("name", [RUN, "_settings.json", "table7.json", "table7.md"])
def test_a_pipe_in_its_place_is_not_waited_for(table: Path, name: str) -> None:
    (table / name).unlink()
    os.mkfifo(table / name)
    with pytest.raises(TaggerError, match="not a regular file"):
        verify_table7(table)


@pytest.mark.parametrize(
    ("name", "value"),
    [("model", 7), ("data", []), ("data", {"train": 7}), ("training", {"hidden": "4"}), ("training", {"hidden": 0})],
)
def test_edited_settings_are_told(sets: Sets, table: Path, name: str, value: Any) -> None:
    edited(table / "_settings.json", lambda raw: raw.update({name: value}))
    with pytest.raises(TaggerError, match=r"_settings\.json: cannot be read"):
        made_table(sets, table)


def test_a_number_changed_by_hand_is_told(sets: Sets, table: Path) -> None:
    raw = json.loads((table / RUN).read_text())
    (table / RUN).write_text(json.dumps(raw | {"dev": 0.75}))
    for use in (lambda: made_table(sets, table), lambda: verify_table7(table)):
        with pytest.raises(TaggerError, match="digest does not hold"):
            use()


# ── what is derived ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda raw: raw["rows"][0]["runs"][0].update(dev=0.99), "does not say what the runs say"),
        (lambda raw: raw["rows"][0]["runs"][0].update(seed=9), "the run last/seed-9 is not there"),
        (lambda raw: raw["rows"][0]["row"].update(paper=99.0), "there is no row 'Last Hidden' as it has"),
        (lambda raw: raw["rows"][0]["row"].update(title="Best"), "there is no row 'Best'"),
        (lambda raw: raw["rows"][1].update(runs=raw["rows"][0]["runs"]), "row mix4 has a run of last"),
        (lambda raw: raw.update(measure="accuracy"), "does not say what the runs say"),
        (lambda raw: raw.update(paper="mine"), "does not say what the runs say"),
        (lambda raw: raw["settings"]["training"].update(hidden=9), "does not say what the runs say"),
        (lambda raw: raw.update(rows=7), "cannot be read"),
        (lambda raw: raw["rows"].pop(), r"table7\.md: it does not show what table7\.json says"),
    ],
    ids=range(10),
)
def test_a_table_that_does_not_follow_from_its_runs_is_told(
    table: Path, change: Callable[[dict[str, Any]], object], problem: str
) -> None:
    edited(table / "table7.json", change)
    with pytest.raises(TaggerError, match=problem):
        verify_table7(table)


def test_markdown_that_was_edited_is_told(table: Path) -> None:
    (table / "table7.md").write_text((table / "table7.md").read_text().replace("Last", "Best"))
    with pytest.raises(TaggerError, match="does not show what"):
        verify_table7(table)
    (table / "table7.md").unlink()
    with pytest.raises(TaggerError, match=r"table7\.md: it is missing"):
        verify_table7(table)


def test_runs_of_another_table_are_told(sets: Sets, table: Path, tmp_path: Path) -> None:
    made_table(sets, tmp_path / "other", rows=ROWS[:1], settings=replace(QUICK, hidden=5))
    shutil.copyfile(tmp_path / "other" / RUN, table / RUN)
    for use in (lambda: made_table(sets, table), lambda: verify_table7(table)):
        with pytest.raises(TaggerError, match="this run is of another table"):
            use()


def test_features_are_looked_for_where_they_were(sets: Sets, tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    own = {name: shutil.copytree(str(each.folder), tmp_path / f"{name}.features") for name, each in sets.items()}
    own["test"] = Path(shutil.move(own["test"], tmp_path / "table" / "features" / "test.features"))
    made_table({name: FeatureSet(place) for name, place in own.items()}, tmp_path / "table")
    assert {str(state) for state in verify_table7(tmp_path / "table").features.values()} == {"the same"}
    shutil.move(tmp_path, tmp_path.with_name("moved"))  # together
    table = tmp_path.with_name("moved") / "table"
    assert {str(state) for state in verify_table7(table).features.values()} == {"the same"}
    shutil.rmtree(table.parent / "train.features")
    shutil.rmtree(table.parent / "dev.features")
    shutil.copytree(str(sets["test"].folder), table.parent / "dev.features")
    assert [str(state) for state in verify_table7(table).features.values()] == [
        "not there",
        "changed since",
        "the same",
    ]
    part = table / "features" / "test.features" / "part-00000.parquet"
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(bytes(data))
    with pytest.raises(BertfeatError, match="part-00000"):
        verify_table7(table)
    made_table(sets, table)  # elsewhere now, but the same sentences
    assert {str(state) for state in verify_table7(table).features.values()} == {"the same"}


def test_no_table_at_all(tmp_path: Path) -> None:
    with pytest.raises(TaggerError, match="there is no Table 7 in it"):
        verify_table7(tmp_path)

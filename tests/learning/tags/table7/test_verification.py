"""A Table 7 that was edited or damaged is told from one that follows from its runs."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bertfeat.core.features import FeatureSet
from bertfeat.errors import BertfeatError, HeadError
from bertfeat.learning import verify_head_table7
from tests.support.tagging_tables import QUICK, ROWS, RUN, Sets, edited, made_table
from tests.support.tiny_models import Tiny

# ── edited files ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(1, 3)
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda raw: raw["run"].update(dev="0.9"), "cannot be read"),
        (lambda raw: raw["run"].update(dev=True), "cannot be read"),
        (lambda raw: raw["run"].update(seed=1.0), "cannot be read"),
        (lambda raw: raw["run"].update(seconds=-1), "cannot be read"),
        (lambda raw: raw["run"].update(grid=[16]), "cannot be read"),
        (lambda raw: raw["run"].update(epochs="0"), "cannot be read"),
        (lambda raw: raw.update(table=None), "cannot be read"),
        (lambda raw: raw.update(table="00"), "this run is of another table"),
        (lambda raw: raw["run"].update(seed=2), "it says of itself that it is last/seed-2"),
        (lambda raw: raw["run"].update(row="../../../etc"), "it says of itself that it is"),
        (lambda raw: raw["run"].update(row="fine-tuning"), "it says of itself"),
        (lambda raw: raw["run"].update(grid={"batch_size": 1, "learning_rate": 0.1, "epochs": 1}), "it says of itself"),
        (lambda raw: raw.update(format_version=9), "newer bertfeat"),
        (lambda raw: raw.update(format_version=0), "cannot be read"),
    ],
    ids=range(14),
)
def test_edited_runs_are_told(
    sets: Sets, table: Path, change: Callable[[dict[str, Any]], object], problem: str
) -> None:
    edited(table / RUN, change)
    with pytest.raises(HeadError, match=problem):
        made_table(sets, table)
    with pytest.raises(HeadError, match=problem):
        verify_head_table7(table)
    (table / RUN).unlink()  # the remedy
    made_table(sets, table)
    assert verify_head_table7(table).runs == 4


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"[" * 100_000, b'{"dev": 1e999}', b"\xff"], ids=range(6))
@pytest.mark.parametrize("name", [RUN, "_settings.json"])
def test_what_is_no_json_of_ours(sets: Sets, table: Path, name: str, text: bytes) -> None:
    (table / name).write_bytes(text)
    for use in (lambda: made_table(sets, table), lambda: verify_head_table7(table)):
        with pytest.raises(BertfeatError, match="cannot be read"):
            use()


@pytest.mark.parametrize("name", [RUN, "_settings.json", "table7.json", "table7.md"])
def test_a_pipe_in_its_place_is_not_waited_for(table: Path, name: str) -> None:
    (table / name).unlink()
    os.mkfifo(table / name)
    with pytest.raises(HeadError, match="not a regular file"):
        verify_head_table7(table)


@pytest.mark.parametrize(
    ("name", "value"),
    [("model", 7), ("data", []), ("data", {"train": 7}), ("training", {"hidden": "4"}), ("training", {"hidden": -5})],
)
def test_edited_settings_are_told(sets: Sets, table: Path, name: str, value: Any) -> None:
    edited(table / "_settings.json", lambda raw: raw["identity"].update({name: value}))
    with pytest.raises(HeadError, match=r"_settings\.json: cannot be read"):
        made_table(sets, table)


def test_a_number_changed_by_hand_is_told(sets: Sets, table: Path) -> None:
    raw = json.loads((table / RUN).read_text())
    raw["run"]["dev"] = 0.75
    (table / RUN).write_text(json.dumps(raw))
    for use in (lambda: made_table(sets, table), lambda: verify_head_table7(table)):
        with pytest.raises(HeadError, match="digest does not hold"):
            use()


# ── what is derived ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda raw: raw["rows"][0]["runs"][0].update(dev=0.99), "the run last/seed-1 is another one"),
        (lambda raw: raw["rows"][0]["runs"][0].update(seed=9), "the run last/seed-9 is not there"),
        (lambda raw: raw["rows"][0].update(paper=99.0), "does not show what"),
        (lambda raw: raw["rows"][0].update(title="Best"), "does not show what"),
        (lambda raw: raw.update(measure="accuracy"), "does not show what"),
        (lambda raw: raw.update(schedule="linear"), "does not show what"),
        (lambda raw: raw.update(rows=7), "cannot be read"),
        (lambda raw: raw.update(rows=[]), "cannot be read"),
        (lambda raw: raw.update(format_version=0), "cannot be read"),
        (lambda raw: raw["rows"].pop(), r"table7\.md: it does not show what table7\.json says"),
    ],
    ids=range(10),
)
def test_a_table_that_does_not_follow_from_its_runs_is_told(
    table: Path, change: Callable[[dict[str, Any]], object], problem: str
) -> None:
    edited(table / "table7.json", change)
    with pytest.raises(HeadError, match=problem):
        verify_head_table7(table)


def test_markdown_that_was_edited_is_told(table: Path) -> None:
    (table / "table7.md").write_text((table / "table7.md").read_text().replace("Last", "Best"))
    with pytest.raises(HeadError, match="does not show what"):
        verify_head_table7(table)
    (table / "table7.md").unlink()
    with pytest.raises(HeadError, match=r"table7\.md: it is missing"):
        verify_head_table7(table)


def test_runs_of_another_table_are_told(sets: Sets, table: Path, tmp_path: Path) -> None:
    made_table(sets, tmp_path / "other", rows=ROWS[:1], settings=replace(QUICK, hidden=5))
    shutil.copyfile(tmp_path / "other" / RUN, table / RUN)
    for use in (lambda: made_table(sets, table), lambda: verify_head_table7(table)):
        with pytest.raises(HeadError, match="this run is of another table"):
            use()


@pytest.mark.slow
def test_features_are_looked_for_where_they_were(sets: Sets, tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    own = {name: shutil.copytree(str(each.folder), tmp_path / f"{name}.features") for name, each in sets.items()}
    own["test"] = Path(shutil.move(own["test"], tmp_path / "table" / "features" / "test.features"))
    made_table({name: FeatureSet(place) for name, place in own.items()}, tmp_path / "table")
    assert {str(state) for state in verify_head_table7(tmp_path / "table").features.values()} == {"the same"}
    shutil.move(tmp_path, tmp_path.with_name("moved"))  # together
    table = tmp_path.with_name("moved") / "table"
    assert {str(state) for state in verify_head_table7(table).features.values()} == {"the same"}
    shutil.rmtree(table.parent / "train.features")
    shutil.rmtree(table.parent / "dev.features")
    shutil.copytree(str(sets["test"].folder), table.parent / "dev.features")
    assert [str(state) for state in verify_head_table7(table).features.values()] == [
        "not there",
        "changed since",
        "the same",
    ]
    made_table(sets, table)  # elsewhere now, but the same sentences
    assert {str(state) for state in verify_head_table7(table).features.values()} == {"the same"}


def test_no_table_at_all(tmp_path: Path) -> None:
    with pytest.raises(HeadError, match="there is no Table 7 in it"):
        verify_head_table7(tmp_path)

import dataclasses
import json
import os
import shutil
from pathlib import Path

import pytest

from bertfeat.core.features import (
    FORMAT_VERSION,
    FeatureSet,
    list_parts,
    read_manifest,
    remove_leftovers,
    remove_manifest,
    write_manifest,
    write_part,
)
from bertfeat.errors import DamagedError, FeatureSetError
from bertfeat.io import write_json
from tests.support.features_toy import KEPT, toy_part, toy_parts, toy_set


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return toy_set(tmp_path / "toy.features")


# ── the manifest ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_manifest_adds_up_the_parts(folder: Path) -> None:
    manifest = read_manifest(folder)
    assert manifest is not None
    header = toy_part().header
    assert (manifest.settings, manifest.model, manifest.columns) == (header.settings, header.model, header.columns)
    assert (manifest.rows, manifest.counts.documents, manifest.failed, manifest.blank) == (18, 15, 1, 2)
    assert manifest.kept == KEPT
    assert manifest.sources == ("corpus.txt",)
    assert (manifest.times, manifest.versions) == ({"seconds": 1.5}, {"bertfeat": "0.1.0"})
    assert [(part.name, part.bytes) for part in manifest.parts] == [
        (path.name, path.stat().st_size) for path in list_parts(folder)
    ]


def test_failures_stand_in_a_file_of_their_own(folder: Path) -> None:
    lines = (folder / ".bertfeat/failures.jsonl").read_text(encoding="utf-8").splitlines()
    expected = {"row": 4, "id": "5", "reason": "the field 'text' is null", "value": "va\udc80lue"}
    assert list(map(json.loads, lines)) == [expected]


def test_without_texts_failures_show_no_values(tmp_path: Path) -> None:
    folder = toy_set(tmp_path / "f", *toy_parts(text=False))
    (line,) = (folder / ".bertfeat/failures.jsonl").read_text().splitlines()
    assert list(json.loads(line)) == ["row", "id", "reason"]
    assert not any(b"udc80" in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_without_failures_there_is_no_list_of_them(folder: Path) -> None:
    toys = [toy_part(0, 0, 3), toy_part(1, 3, 3)]
    for path in list_parts(folder):
        path.unlink()
    toy_set(folder, *toys)
    assert sorted(os.listdir(folder)) == [".bertfeat", "part-00000.parquet", "part-00001.parquet"]
    assert os.listdir(folder / ".bertfeat") == ["manifest.json"]


def test_a_manifest_that_is_removed_takes_the_failures_with_it(folder: Path) -> None:
    remove_manifest(folder)
    remove_manifest(folder)
    assert all(path.name.startswith("part-") for path in folder.rglob("*") if path.is_file())


def test_a_damaged_or_newer_manifest_is_refused(folder: Path) -> None:
    path = folder / ".bertfeat/manifest.json"
    good = path.read_text()
    path.write_text(good[:-100])
    with pytest.raises(DamagedError, match=r"manifest\.json: cannot be read"):
        FeatureSet(folder)
    path.write_text(good.replace(f'"format_version": {FORMAT_VERSION}', '"format_version": 9'))
    with pytest.raises(FeatureSetError, match="format 9 by a newer bertfeat"):
        FeatureSet(folder)


# ── accounting ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_missing_part_is_damage(folder: Path) -> None:
    (folder / "part-00001.parquet").unlink()
    with pytest.raises(DamagedError, match=r"part-00001\.parquet: missing or changed in size"):
        FeatureSet(folder)
    with pytest.raises(DamagedError, match=r"part-00001\.parquet: this part is missing"):
        write_manifest(folder)


def test_a_part_of_another_size_is_damage(folder: Path) -> None:
    toy = toy_part(1, 6, 5, blank=[6, 8], poolings=["mean"])
    write_part(folder, toy.header, toy.table)
    with pytest.raises(DamagedError, match=r"part-00001\.parquet: missing or changed in size"):
        FeatureSet(folder)


def test_a_part_that_is_not_listed_is_damage(folder: Path) -> None:
    shutil.copy(folder / "part-00000.parquet", folder / "part-00003.parquet")
    with pytest.raises(DamagedError, match=r"part-00003\.parquet: not one of the parts"):
        FeatureSet(folder)


def test_another_part_of_the_same_size_is_found_when_it_is_opened(folder: Path) -> None:
    old = (folder / "part-00000.parquet").stat().st_size
    toy = toy_part(0, 0, 6, failures=[4])
    write_part(folder, dataclasses.replace(toy.header, digest=toy.header.digest[::-1]), toy.table)
    assert (folder / "part-00000.parquet").stat().st_size == old
    with pytest.raises(DamagedError, match="not the part that the manifest lists"):
        FeatureSet(folder)


def test_parts_of_different_settings_do_not_mix(folder: Path) -> None:
    remove_manifest(folder)
    toy = toy_part(1, 6, 5, blank=[6, 8], settings={"precision": "bf16"})
    write_part(folder, toy.header, toy.table)
    for use in (write_manifest, lambda folder: FeatureSet(folder, allow_unfinished=True)):
        with pytest.raises(FeatureSetError, match=r"part-00001.*other settings than part 0 .*differ in precision"):
            use(folder)
    assert not (folder / ".bertfeat/manifest.json").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"first_row": 7}, "rows 7 to 11 are not 3 documents, 0 failed and 2 blank rows"),
        ({"first_row": 5, "documents": 4}, "begins with row 5 where row 6 is expected"),
        ({"first_row": 7, "documents": 2}, "begins with row 7 where row 6 is expected"),
        ({"number": 2}, "says of itself that it is part 2"),
        ({"failed": 1}, "are not 3 documents, 1 failed"),
    ],
)
def test_rows_that_do_not_add_up_are_damage(folder: Path, change: dict[str, int], message: str) -> None:
    path = folder / ".bertfeat/manifest.json"
    manifest = json.loads(path.read_text())
    manifest["parts"][1].update(change)
    write_json(path, {name: value for name, value in manifest.items() if name != "digest"})
    with pytest.raises(DamagedError, match=message):
        FeatureSet(folder)


# ── unfinished sets ─────────────────────────────────────────────────────────────────────────────────────────


def test_an_unfinished_set_is_refused_unless_asked_for(folder: Path) -> None:
    remove_manifest(folder)
    with pytest.raises(FeatureSetError, match=r"not finished.*bertfeat extract corpus\.txt -o .*toy\.features"):
        FeatureSet(folder)
    features = FeatureSet(folder, allow_unfinished=True)
    assert (len(features), features.counts.documents, features.manifest) == (15, 15, None)
    (folder / "part-00001.parquet").unlink()
    features = FeatureSet(folder, allow_unfinished=True)
    assert [document.row for document in features] == [0, 1, 2, 3, 5, *range(11, 18)]
    with pytest.raises(FeatureSetError, match=r"row 7 is not here: .*not extracted yet"):
        features[7]


def test_a_folder_without_parts_is_no_feature_set(tmp_path: Path) -> None:
    for allowed in (False, True):
        with pytest.raises(FeatureSetError, match="holds no feature set; bertfeat extract makes one"):
            FeatureSet(tmp_path, allow_unfinished=allowed)
        with pytest.raises(FeatureSetError, match=r"novles\.features: there is no such folder; bertfeat extract"):
            FeatureSet(tmp_path / "novles.features", allow_unfinished=allowed)
    (tmp_path / "novels.features").mkdir()
    with pytest.raises(FeatureSetError, match=r"no such folder; did you mean .*novels\.features[?]"):
        FeatureSet(tmp_path / "novles.features")
    with pytest.raises(FeatureSetError, match="holds no feature set"):
        write_manifest(tmp_path)


def test_leftovers_of_killed_runs_are_removed(folder: Path) -> None:
    kept = {*os.listdir(folder), ".mine.tmp", "part-00000.parquet.tmp"}
    for name in (".part-00002.parquet.tmp", ".bertfeat/.manifest.json.tmp", ".mine.tmp", "part-00000.parquet.tmp"):
        (folder / name).write_bytes(b"half")
    assert len(FeatureSet(folder)) == 15
    remove_leftovers(folder)
    assert set(os.listdir(folder)) == kept
    assert not (folder / ".bertfeat/.manifest.json.tmp").exists()


def test_a_file_is_no_feature_set(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_text("A text.\n")
    with pytest.raises(FeatureSetError, match=r"corpus\.txt: this is a file, and a feature set is a folder"):
        FeatureSet(path)

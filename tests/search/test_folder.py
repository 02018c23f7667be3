"""The folder of an index: whole or not at all, and clear about what is wrong with it."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertfeat.errors import DamagedError, IndexFolderError
from bertfeat.io import ResultKind, result_kind
from bertfeat.search import Index, VectorIndex, build_index, verify_index
from bertfeat.search.settings import read_index_settings, write_index_settings
from tests.support.index_toy import RECORD, clustered, files_of, vector_set, version_of
from tests.support.tagging_golden import put, rewritten

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    vector_set(tmp_path / "toy.features", clustered(200))
    build_index(tmp_path / "toy.features", tmp_path / "toy.index")
    return tmp_path / "toy.index"


def test_the_folder_says_what_it_is(folder: Path) -> None:
    settings = VectorIndex(folder).settings
    assert sorted(files_of(folder)) == [
        ".bertfeat/index.json",
        ".bertfeat/kind",
        "version-1/documents.arrow",
        "version-1/index.faiss",
        "version-1/text_digests.npy",
    ]
    assert result_kind(folder) is ResultKind.INDEX
    assert (settings.count, settings.documents, settings.width) == (200, 200, 16)
    assert (settings.column.name, settings.metric, settings.factory) == ("last_mean", "cosine", "Flat")
    assert settings.model.fingerprint == "f" * 64
    assert "few enough to compare them all" in settings.reason
    assert settings.evaluation is not None
    assert settings.evaluation.recall == {"1": 1.0, "10": 1.0, "100": 1.0}
    assert settings.evaluation.queries_per_second > 0
    assert set(settings.files) == {"documents.arrow", "index.faiss", "text_digests.npy"}
    assert verify_index(folder).settings == settings


def test_it_moves_as_one(folder: Path) -> None:
    before = VectorIndex(folder).search(clustered(5), 3)
    moved = VectorIndex(folder.rename(folder.with_name("elsewhere")))
    np.testing.assert_array_equal(moved.search(clustered(5), 3).numbers, before.numbers)
    assert moved.documents.take(np.array([3, 0]))["text"].to_pylist() == ["text of 4", "text of 1"]


@pytest.mark.parametrize("name", ["index.faiss", "documents.arrow"])
def test_a_file_cut_off(folder: Path, name: str) -> None:
    path = version_of(folder) / name
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(IndexFolderError, match=rf"{name} has [\d,]+ bytes, but [\d,]+ were written"):
        VectorIndex(folder)


def test_another_index_in_its_place(folder: Path, tmp_path: Path) -> None:
    vector_set(tmp_path / "b.features", clustered(200, 8))
    build_index(tmp_path / "b.features", tmp_path / "b.index")
    shutil.copy(version_of(tmp_path / "b.index") / "index.faiss", version_of(folder) / "index.faiss")
    other = read_index_settings(tmp_path / "b.index").files["index.faiss"]
    settings = read_index_settings(folder)
    write_index_settings(replace(settings, files={**settings.files, "index.faiss": other}), folder)
    with pytest.raises(IndexFolderError, match="holds 200 vectors of 8 values, but 200 of 16 were written"):
        VectorIndex(folder)


def test_a_missing_file(folder: Path) -> None:
    (version_of(folder) / "documents.arrow").unlink()
    with pytest.raises(IndexFolderError, match=r"documents\.arrow is missing; copy the whole folder"):
        VectorIndex(folder)


def test_no_index(tmp_path: Path) -> None:
    with pytest.raises(IndexFolderError, match="this is no index"):
        VectorIndex(tmp_path)
    with pytest.raises(IndexFolderError, match="nowhere: there is no such folder; bertfeat index makes one"):
        VectorIndex(tmp_path / "nowhere")


def test_a_newer_format_is_refused(folder: Path) -> None:
    settings = json.loads((folder / RECORD).read_text()) | {"format_version": 99}
    (folder / RECORD).write_text(json.dumps(settings))
    with pytest.raises(IndexFolderError, match="format 99 by a newer bertfeat"):
        VectorIndex(folder)


UNREADABLE = (
    "",
    "{}",
    "[1]",
    '{"format_version": 1}',
    '{"format_version": "x"}',
    '{"format_version": -1}',
    "\xff",
    "1" * 9,
)


@pytest.mark.parametrize("text", [*UNREADABLE, "[" * 100_000, '{"format_version": 1e999}', '{"format_version": NaN}'])
def test_settings_that_cannot_be_read(folder: Path, text: str) -> None:
    (folder / RECORD).write_text(text)
    with pytest.raises(IndexFolderError, match=r"index\.json: cannot be read .*build the index again"):
        VectorIndex(folder)


EDITS: dict[str, list[Any]] = {
    "count": ["x", -1, None, 10**30, 1.5, True],
    "tombstones": [5, -3, "many"],
    "metric": ["manhattan", 3, None],
    "column": [None, {}, {"recipe": {}, "pooling": "mean", "width": 16, "dtype": "float32"}],
    "version": ["", "version-0", "../version-1", "version-1/..", "docs", 1, None],
    "effort": [{"name": "nprobe", "value": 10**12, "tuned": True}, {"name": "nprobe", "value": 0, "tuned": True}, 7],
    "files": [
        {},
        {"../../x": {"bytes": 1, "xxh3": "0" * 32}},
        {"index.faiss": {"bytes": -1, "xxh3": "0" * 32}},
        {"index.faiss": "x"},
        None,
    ],
    "sources": [None, [{"path": 3, "documents": 1, "digest": ""}], "x"],
    "model": [{}, None, []],
    "evaluation": [{"recall": 3}, "good"],
    "extraction": [None, 3],
}


@pytest.mark.sampled(20)
@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in EDITS.items() for value in values])
def test_settings_of_other_types_are_an_error(key: str, value: object, folder: Path) -> None:
    rewritten(folder, put(key, to=value), RECORD)
    with pytest.raises(IndexFolderError, match=r"index\.json: cannot be read \((?!its digest)"):
        VectorIndex(folder)


def test_a_number_beyond_all_floats_is_an_error(folder: Path) -> None:
    path = folder / RECORD
    path.write_text(path.read_text().replace('"count": 200', '"count": 1e999', 1))
    with pytest.raises(IndexFolderError, match=r"index\.json: cannot be read .*1e999"):
        VectorIndex(folder)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (put("model", "hidden_size", to=2**40), "is not as wide as layers of 1099511627776 values make it"),
        (
            put("files", "tokens.npy", to={"bytes": 1, "xxh3": "0" * 32}),
            "it lists vectors of tokens, and says that there are none",
        ),
        (put("column", "recipe", "name", to="best"), "'best' is no name of"),
        (put("format_version", to="3"), "format_version is '3', not a number"),
    ],
    ids=["hidden size", "tokens", "recipe", "version"],
)
def test_settings_that_contradict_each_other_are_an_error(
    folder: Path, change: Callable[[dict[str, Any]], None], problem: str
) -> None:
    rewritten(folder, change, RECORD)
    with pytest.raises(IndexFolderError, match=rf"index\.json: cannot be read .*{problem}"):
        VectorIndex(folder)


def test_settings_that_were_edited_are_an_error(folder: Path) -> None:
    path = folder / RECORD
    path.write_text(path.read_text().replace('"cosine"', '"ip"'))
    with pytest.raises(IndexFolderError, match="its digest does not hold: the file was changed"):
        VectorIndex(folder)
    path.write_text(json.dumps({**json.loads(path.read_text()), "digest": None}))
    with pytest.raises(IndexFolderError, match="digest"):
        VectorIndex(folder)


@pytest.mark.parametrize(
    "name", [RECORD, "index.faiss", "documents.arrow", "pieces.arrow", "removed.npy", "index.lists"]
)
def test_a_pipe_in_the_place_of_a_file(name: str, tmp_path: Path) -> None:
    kind = {"pieces.arrow": "words", "removed.npy": "hnsw", "index.lists": "disk"}.get(name, "flat")
    folder = Path(shutil.copytree(GOLDEN / "index-1" / kind, tmp_path / "toy.index"))
    path = folder / name if name == RECORD else version_of(folder) / name
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(IndexFolderError, match=rf"{name}.*not a regular file"):
        VectorIndex(tmp_path / "toy.index")
    with pytest.raises(IndexFolderError, match=rf"{name}.*not a regular file"):
        verify_index(tmp_path / "toy.index")


def test_features_that_changed_since(folder: Path, tmp_path: Path) -> None:
    Index(folder).check_sources()
    shutil.rmtree(tmp_path / "toy.features")
    Index(folder).check_sources()  # not in their place: nothing to compare
    vector_set(tmp_path / "toy.features", clustered(201))
    with pytest.raises(IndexFolderError, match=r"changed since the index .*200 documents then, 201 now"):
        Index(folder).check_sources()


def test_features_that_are_damaged(tmp_path: Path) -> None:
    vector_set(tmp_path / "toy.features", clustered(200))
    part = next((tmp_path / "toy.features").glob("part-*"))
    data = bytearray(part.read_bytes())
    data[len(data) // 3] ^= 255
    part.write_bytes(data)
    with pytest.raises(DamagedError):
        build_index(tmp_path / "toy.features", tmp_path / "toy.index")
    assert not (tmp_path / "toy.index").exists()

"""``export_to_lance``; lance itself and NumPy read what was written."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from bertfeat.core.corpus import KeptColumn
from bertfeat.errors import DatabaseError, IndexFolderError, UsageError
from bertfeat.io import Address
from bertfeat.progress import StepProgress
from bertfeat.search import export_to_lance
from bertfeat.search.databases.database_rows import DatabaseRows, RowBlock
from tests.support.features_toy import KEPT, toy_parts, toy_set
from tests.support.index_toy import clustered, files_of, neighbors, vector_set

INDEXED_FROM = "bertfeat.search.databases.lance_dataset.INDEXED_FROM"


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True), np.float32)


def matrix(table: pa.Table) -> NDArray[np.float32]:
    return np.stack(table["vector"].to_pylist()).astype(np.float32)


def fail_after(blocks: int, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let reading the rows of the next exports fail after some blocks."""
    whole = DatabaseRows.blocks

    def broken(self: DatabaseRows, *, columns: bool) -> Iterator[RowBlock]:
        for number, block in enumerate(whole(self, columns=columns)):
            if columns and number == blocks:
                raise error
            yield block

    monkeypatch.setattr(DatabaseRows, "blocks", broken)


# ── what is written ─────────────────────────────────────────────────────────────────────────────────────────


def test_documents(tmp_path: Path) -> None:
    parts = toy_parts(layers="concat4")
    documents = [doc for part in parts for doc in part.documents]
    report = export_to_lance(toy_set(tmp_path / "f", *parts), tmp_path / "f.lance", "sum4_mean")
    assert (report.place, report.column) == (str(tmp_path / "f.lance"), "sum4_mean")
    assert (report.documents, report.vectors, report.zero_vectors, report.skipped) == (15, 15, 0, 0)
    dataset = lance.dataset(tmp_path / "f.lance")
    stored = dataset.schema.field("vector").type
    assert pa.types.is_fixed_size_list(stored)
    assert (stored.value_type, stored.list_size) == (pa.float32(), 8)
    assert b'"column": "sum4_mean"' in dataset.schema.metadata[b"bertfeat"]
    assert dataset.describe_indices() == []
    table = dataset.to_table()
    names = [kept.name.replace(".", "_") for kept in KEPT]
    assert table.column_names == ["id", "text", *names, "vector", "row_key"]
    assert table["id"].to_pylist() == [doc.id for doc in documents]
    assert table["text"].to_pylist() == [doc.text for doc in documents]
    kept = [tuple(line[name] for name in names) for line in table.select(names).to_pylist()]
    assert kept == [doc.kept for doc in documents]
    expected = unit(np.stack([doc.feature("sum", [1, 2, 3, 4], "mean") for doc in documents]))
    np.testing.assert_allclose(matrix(table), expected, atol=1e-6)


def test_words(tmp_path: Path) -> None:
    parts = toy_parts(layers="concat4")
    report = export_to_lance(toy_set(tmp_path / "f", *parts), tmp_path / "f.lance", "last_word")
    expected = [
        (doc.id, at, word, *span, doc.kept[0], vector)
        for part in parts
        for doc in part.documents
        for at, (word, span, vector) in enumerate(
            zip(doc.words, doc.spans(), unit(doc.feature("sum", [4], "word")), strict=True)
        )
        if word != "🙂"
    ]
    table = lance.dataset(tmp_path / "f.lance").to_table()
    fields = ["id", "position", "string", "start", "end", "year"]
    assert [tuple(line.values()) for line in table.select(fields).to_pylist()] == [line[:-1] for line in expected]
    np.testing.assert_allclose(matrix(table), [line[-1] for line in expected], atol=1e-6)
    assert "text" not in table.column_names
    assert (report.documents, report.vectors) == (15, len(expected))
    assert report.skipped == sum(len(doc.words) for part in parts for doc in part.documents) - len(expected)
    assert report.recall is not None
    assert report.recall.default == 1.0


def test_without_texts(tmp_path: Path) -> None:
    folder = toy_set(tmp_path / "f", *toy_parts(layers="last", text=False))
    export_to_lance(folder, tmp_path / "d.lance", "last_mean")
    export_to_lance(folder, tmp_path / "w.lance", "last_word")
    names = [lance.dataset(tmp_path / name).schema.names for name in ("d.lance", "w.lance")]
    assert names[0][:2] == ["id", "year"]
    assert names[1][:4] == ["id", "position", "start", "end"]


def test_an_index_and_what_its_recall_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(INDEXED_FROM, 3000)
    vectors = clustered(3000)
    steps: list[StepProgress] = []
    folder = vector_set(tmp_path / "f", vectors)
    report = export_to_lance(folder, tmp_path / "f.lance", progress=steps.append)
    dataset = lance.dataset(tmp_path / "f.lance")
    (index,) = dataset.describe_indices()
    assert (index.index_type, index.field_names) == ("IVF_PQ", ["vector"])
    assert report.index == "IVF_PQ, cosine, 1 partitions, 2 codes a vector"
    assert report.recall is not None
    assert report.recall.default < 0.9 <= report.recall.best
    needed = dict(report.recall.parameters)  # more than refine_factor=10 where Lance drew its cells badly
    assert needed["refine_factor"] >= 10
    told = ", ".join(f"{name}={value}" for name, value in needed.items())
    assert report.advice.endswith(f"and {report.recall.best:.3f} with {told}; search with these")
    assert list(dict.fromkeys(step.step for step in steps)) == ["sample", "load", "index", "evaluate"]
    # the same recall by brute force in float64, for other queries
    for parameters, expected in (({}, report.recall.default), (needed, report.recall.best)):
        shares = []
        for number in range(0, 3000, 30):
            query = {"column": "vector", "q": vectors[number], "k": 11, "metric": "cosine", **parameters}
            found = dataset.to_table(columns=["id", "_distance"], nearest=query)["id"].to_pylist()
            true = neighbors(vectors, vectors[number : number + 1], "cosine")[1][0][:11]
            shares.append(len({int(name) - 1 for name in found} & set(true.tolist()) - {number}) / 10)
        assert abs(np.mean(shares) - expected) < 0.12  # of other queries, in cells that Lance draws at random


def test_large_sets_get_an_index_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(INDEXED_FROM, 300)
    monkeypatch.setattr("bertfeat.search.databases.lance_dataset._TRAINING_BYTES", 1000)  # so that training is streamed
    folder = vector_set(tmp_path / "f", clustered(300, 10))
    assert export_to_lance(folder, tmp_path / "a.lance").index == "IVF_PQ, cosine, 1 partitions, 5 codes a vector"
    fewer = vector_set(tmp_path / "g", clustered(299, 10))
    none = export_to_lance(fewer, tmp_path / "b.lance", evaluate=False)
    assert (none.index, none.recall) == ("no index: so few are scanned, search is exact", None)
    assert lance.dataset(tmp_path / "b.lance").describe_indices() == []


# ── what is there already ───────────────────────────────────────────────────────────────────────────────────


def test_a_dataset_is_replaced_only_if_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(INDEXED_FROM, 40)
    older, newer = clustered(40), clustered(30, seed=1)
    place = tmp_path / "x.lance"
    export_to_lance(vector_set(tmp_path / "a", older), place)
    before = files_of(place)
    with pytest.raises(
        DatabaseError, match=r"x\.lance: a Lance dataset is there already; .*update=True.*overwrite=True"
    ):
        export_to_lance(vector_set(tmp_path / "b", newer), place)
    assert files_of(place) == before
    export_to_lance(tmp_path / "b", place, overwrite=True)
    dataset = lance.dataset(place)
    np.testing.assert_allclose(matrix(dataset.to_table()), unit(newer), atol=1e-6)
    assert len(dataset.versions()) == 1
    assert not set(files_of(place)) & set(before) - {"_versions/latest_version_hint.json"}


@pytest.mark.parametrize("overwrite", [False, True])
def test_nothing_else_is_ever_replaced(tmp_path: Path, overwrite: bool) -> None:
    folder = vector_set(tmp_path / "f", clustered(5))
    (tmp_path / "file").write_text("mine")
    for place, problem in ((folder, "'.bertfeat' is in it"), (tmp_path / "file", "it is no folder")):
        before = files_of(tmp_path)
        with pytest.raises(DatabaseError, match=problem):
            export_to_lance(folder, place, overwrite=overwrite)
        assert files_of(tmp_path) == before


@pytest.mark.parametrize("error", [DatabaseError("the set is gone"), KeyError("a bug")], ids=["error", "bug"])
def test_an_error_on_the_way_leaves_what_was_there(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "x.lance"
    folder = vector_set(tmp_path / "f", clustered(400), parts=4)
    fail_after(2, error, monkeypatch)
    with pytest.raises(type(error)) as caught:
        export_to_lance(folder, place)
    assert caught.value is error
    with pytest.raises(ValueError, match="not found"):
        lance.dataset(place)
    monkeypatch.undo()
    export_to_lance(folder, place)
    fail_after(2, error, monkeypatch)
    with pytest.raises(type(error)):
        export_to_lance(folder, place, overwrite=True)
    assert lance.dataset(place).count_rows() == 400


def test_a_set_that_changes_meanwhile_is_not_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertfeat.search.building.feature_source.FeatureSource.count", 7)
    with pytest.raises(DatabaseError, match="7 vectors were announced, but 5 came: the features are being changed"):
        export_to_lance(vector_set(tmp_path / "f", clustered(5)), tmp_path / "x.lance", evaluate=False)
    with pytest.raises(ValueError, match="not found"):
        lance.dataset(tmp_path / "x.lance")


_KILLED = """
import os, signal, sys
from bertfeat.search import export_to_lance
from bertfeat.search.databases.database_rows import DatabaseRows
whole = DatabaseRows.blocks
def killed(self, *, columns):
    for number, block in enumerate(whole(self, columns=columns)):
        if number == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        yield block
DatabaseRows.blocks = killed
export_to_lance(sys.argv[1], sys.argv[2], evaluate=False)
"""


@pytest.mark.slow
def test_a_killed_export_leaves_nothing_that_counts(tmp_path: Path) -> None:
    folder = vector_set(tmp_path / "f", clustered(30_000, 64), parts=5)
    place = tmp_path / "x.lance"
    done = subprocess.run([sys.executable, "-c", _KILLED, folder, place], check=False)
    assert done.returncode == -signal.SIGKILL
    left = set(files_of(place))
    assert left
    with pytest.raises(ValueError, match="not found"):
        lance.dataset(place)
    assert export_to_lance(folder, place, evaluate=False).vectors == 30_000
    assert not left & set(files_of(place))  # they are removed
    assert lance.dataset(place).count_rows() == 30_000


def test_an_index_that_cannot_be_built_leaves_the_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise OSError("LanceError(IO): no room, /x/rust/lance/src/a.rs:1:2")

    monkeypatch.setattr(INDEXED_FROM, 50)
    monkeypatch.setattr(lance.LanceDataset, "create_index", broken)
    problem = r"x\.lance: all 50 vectors are in it and found exactly, but its index cannot be built: .*no room; build"
    with pytest.raises(DatabaseError, match=problem):
        export_to_lance(vector_set(tmp_path / "f", clustered(50)), tmp_path / "x.lance")
    assert lance.dataset(tmp_path / "x.lance").count_rows() == 50


# ── what does not fit ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["vector", "row_key", "query_index", "_rowid"])
def test_kept_columns_with_names_that_are_taken(tmp_path: Path, name: str) -> None:
    folder = vector_set(tmp_path / "f", clustered(3), parts=1, kept={KeptColumn(name, "int64"): [1, 2, 3]})
    with pytest.raises(UsageError, match=f"the kept column '{name}' has the name of a column that is written"):
        export_to_lance(folder, tmp_path / "x.lance")
    assert not (tmp_path / "x.lance").exists()


def test_kept_columns_that_only_a_dot_tells_apart(tmp_path: Path) -> None:
    kept = {KeptColumn(name, "int64"): [1, 2, 3] for name in ("a.b", "a_b")}
    with pytest.raises(UsageError, match=r"the kept column 'a\.b' has the name"):
        export_to_lance(vector_set(tmp_path / "f", clustered(3), parts=1, kept=kept), tmp_path / "x.lance")


def test_a_vector_that_is_not_finite(tmp_path: Path) -> None:
    vectors = clustered(9)
    vectors[6, 2] = np.nan
    with pytest.raises(IndexFolderError, match=r"f: vector 6 is not finite"):
        export_to_lance(vector_set(tmp_path / "f", vectors), tmp_path / "x.lance", evaluate=False)
    assert not (tmp_path / "x.lance" / "_versions").exists()


def test_zero_vectors_are_stored_and_counted(tmp_path: Path) -> None:
    vectors = clustered(20)
    vectors[3] = 0
    assert export_to_lance(vector_set(tmp_path / "f", vectors), tmp_path / "x.lance").zero_vectors == 1
    assert not matrix(lance.dataset(tmp_path / "x.lance").to_table())[3].any()


def test_a_name_that_is_no_utf8(tmp_path: Path) -> None:
    folder = vector_set(tmp_path / "f", clustered(3))
    with pytest.raises(UsageError, match="this name is no UTF-8"):
        export_to_lance(folder, os.fsdecode(os.fsencode(tmp_path) + b"/\xff.lance"))


# ── at an address ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_at_an_address(bucket: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(INDEXED_FROM, 300)
    place = bucket / "sets" / "x.lance"
    vectors = clustered(300)
    folder = vector_set(tmp_path / "f", vectors)
    assert export_to_lance(folder, place).place == str(place)
    with pytest.raises(DatabaseError, match="a Lance dataset is there already"):
        export_to_lance(folder, str(place))
    export_to_lance(folder, place, overwrite=True)
    dataset = lance.dataset(str(place), storage_options={"allow_http": "true"})
    np.testing.assert_allclose(matrix(dataset.to_table()), unit(vectors), atol=1e-6)
    fewer = vector_set(tmp_path / "g", vectors[:290])
    report = export_to_lance(fewer, place, update=True)
    assert (report.added, report.removed, report.index) == (0, 10, "IVF_PQ")
    assert lance.dataset(str(place), storage_options={"allow_http": "true"}).count_rows() == 290


@pytest.mark.slow
def test_storage_that_refuses(bucket: Address, tmp_path: Path) -> None:
    missing = Address(bucket.scheme, f"{bucket.bucket}-none")
    with pytest.raises(DatabaseError, match=r"-none/x\.lance: cannot be (read|written): [^\n]+$"):
        export_to_lance(vector_set(tmp_path / "f", clustered(3)), missing / "x.lance")

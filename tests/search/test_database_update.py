"""``export_to_lance`` and ``export_to_qdrant`` with ``update``: what is there becomes what the column is now.

The oracle is enumeration: the rows of a fresh export, and the difference of two lists of documents.
"""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models

from bertfeat.core.corpus import KeptColumn
from bertfeat.errors import DatabaseError, UsageError
from bertfeat.search import DatabaseReport, export_to_lance, export_to_qdrant
from tests.support.features_toy import toy_part, toy_set
from tests.support.index_toy import clustered, vector_set

Export = Callable[..., DatabaseReport]
YEAR = KeptColumn("year", "int64")


def to_lance(features: Path, place: Path, column: str | None = None, **options: Any) -> DatabaseReport:
    return export_to_lance(features, place, column, **options)


def to_qdrant(features: Path, place: Path, column: str | None = None, **options: Any) -> DatabaseReport:
    return export_to_qdrant(features, column, folder=place, collection="x", **options)


@pytest.fixture(params=[to_lance, to_qdrant])
def export(request: pytest.FixtureRequest) -> Export:
    chosen: Export = request.param
    return chosen


def rows_of(place: Path) -> dict[str, tuple[dict[str, Any], list[float]]]:
    """The columns and the vector of each row of either database, by its key."""
    if (place / "_versions").is_dir():
        lines = lance.dataset(place).to_table().to_pylist()
        return {line.pop("row_key"): (line, line.pop("vector")) for line in lines}
    client = QdrantClient(path=str(place))
    found, _ = client.scroll("x", limit=100_000, with_vectors=True)
    client.close()
    return {str(point.id): (point.payload or {}, point.vector) for point in found}


def make(folder: Path, documents: list[tuple[str, int, NDArray[np.float32]]]) -> Path:
    """A feature set of documents with an id, a year and a vector each."""
    ids, years, vectors = zip(*documents, strict=True)
    return vector_set(folder, np.stack(vectors), ids=ids, kept={YEAR: years}, text=[str(each[0]) for each in vectors])


def test_random_changes(export: Export, tmp_path: Path) -> None:
    """Documents edited, taken out, put in, moved and repeated: a fresh export has the same rows."""
    drawn = np.random.default_rng(5)
    documents = [(f"d{number % 50}", 1850, vector) for number, vector in enumerate(clustered(60))]  # ten ids twice
    export(make(tmp_path / "0.features", documents), tmp_path / "x", update=True, evaluate=False)
    for turn in range(1, 6):
        before = Counter((name, year, vector.tobytes()) for name, year, vector in documents)
        documents = [documents[at] for at in np.flatnonzero(drawn.random(len(documents)) < 0.9)]
        for at in drawn.choice(len(documents), 5, replace=False):
            name, year, vector = documents[at]
            changed = [("e" + name, year, vector), (name, year + 1, vector), (name, year, vector[::-1].copy())]
            documents[at] = changed[drawn.integers(3)]
        documents += [(f"n{turn}-{at}", 1900, vector) for at, vector in enumerate(clustered(7, seed=turn))]
        documents += [documents[0], documents[-1]]
        documents = [documents[at] for at in drawn.permutation(len(documents))]
        features = make(tmp_path / f"{turn}.features", documents)
        report = export(features, tmp_path / "x", update=True)
        export(features, tmp_path / str(turn))
        assert rows_of(tmp_path / "x") == rows_of(tmp_path / str(turn))
        assert report.vectors == len(documents) == len(rows_of(tmp_path / "x"))
        assert report.recall is not None
        assert report.recall.default == 1.0
        now = Counter((name, year, vector.tobytes()) for name, year, vector in documents)
        # of an id that is there more than once, each document counts by its place, and so may be written again
        names = Counter(name for name, *_ in documents) + Counter(name for name, *_ in before.elements())
        unsure = sum(count for name, count in names.items() if count > 2)
        assert (now - before).total() <= report.added <= (now - before).total() + unsure
        assert (before - now).total() <= report.removed <= (before - now).total() + unsure
        assert export(features, tmp_path / "x", update=True).added == 0


def test_only_what_changed_is_written(export: Export, tmp_path: Path) -> None:
    documents = [(f"d{number}", 1850, vector) for number, vector in enumerate(clustered(100))]
    export(make(tmp_path / "a.features", documents), tmp_path / "x")
    before = rows_of(tmp_path / "x")
    name, _, vector = documents[50]
    new = ("new", 1851, clustered(1, seed=1)[0])
    changed = [new, *documents[:20], *documents[23:50], (name, 1851, vector), *documents[51:]]
    report = export(make(tmp_path / "b.features", changed), tmp_path / "x", update=True)
    assert (report.added, report.removed, report.vectors) == (2, 4, 98)
    after = rows_of(tmp_path / "x")
    assert len(before.keys() & after.keys()) == 96
    assert sorted(after[key][0]["id"] for key in after.keys() - before.keys()) == ["d50", "new"]


def test_words(export: Export, tmp_path: Path) -> None:
    before, after = toy_part(rows=12), toy_part(rows=9)
    export(toy_set(tmp_path / "a", before), tmp_path / "x", "concat4_word", evaluate=False)
    report = export(toy_set(tmp_path / "b", after), tmp_path / "x", "concat4_word", update=True, evaluate=False)
    export(tmp_path / "b", tmp_path / "y", "concat4_word", evaluate=False)
    assert rows_of(tmp_path / "x") == rows_of(tmp_path / "y")
    assert report.vectors == len(rows_of(tmp_path / "y"))


def test_where_nothing_is_yet(export: Export, tmp_path: Path) -> None:
    report = export(vector_set(tmp_path / "f", clustered(30)), tmp_path / "x", update=True)
    assert (report.added, report.removed, report.vectors) == (30, 0, 30)


def test_nothing_has_changed(tmp_path: Path) -> None:
    folder = vector_set(tmp_path / "f", clustered(30))
    to_lance(folder, tmp_path / "x")
    report = to_lance(folder, tmp_path / "x", update=True)
    assert (report.added, report.removed) == (0, 0)
    assert lance.dataset(tmp_path / "x").version == 1


def test_lance_readers_see_one_new_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index takes new rows in, gone ones are not found, and the record tells of the set that it is of now."""
    monkeypatch.setattr("bertfeat.search.databases.lance_dataset.INDEXED_FROM", 300)
    vectors = clustered(400)
    to_lance(vector_set(tmp_path / "a", vectors[:310]), tmp_path / "x")
    old = lance.dataset(tmp_path / "x")
    report = to_lance(vector_set(tmp_path / "b", vectors[10:390]), tmp_path / "x", update=True)
    # without ids of their own documents are known by their numbers, so that each of them is another one now
    assert (report.added, report.removed, report.index) == (380, 310, "IVF_PQ")
    new = lance.dataset(tmp_path / "x")
    assert old.count_rows() == 310
    assert new.stats.index_stats("vector_idx")["num_unindexed_rows"] == 0
    assert lance.dataset(tmp_path / "x", version=old.version + 1).count_rows() == 380
    assert b'"vectors": 380' in new.schema.metadata[b"bertfeat"]


# ── what is not updated ─────────────────────────────────────────────────────────────────────────────────────


def test_update_or_overwrite(export: Export, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"update=True and overwrite=True: choose one of the two"):
        export(vector_set(tmp_path / "f", clustered(3)), tmp_path / "x", update=True, overwrite=True)


def test_vectors_of_another_model_or_column(export: Export, tmp_path: Path) -> None:
    export(vector_set(tmp_path / "a", clustered(20)), tmp_path / "x")
    before = rows_of(tmp_path / "x")
    other = vector_set(tmp_path / "b", clustered(20), fingerprint="e" * 64)
    with pytest.raises(DatabaseError, match=r"it has vectors of last_mean by .*, and these are of last_mean by .*over"):
        export(other, tmp_path / "x", update=True)
    tokens = toy_set(tmp_path / "c", toy_part())
    with pytest.raises(DatabaseError, match=r"it has vectors of last_mean by|it is for other vectors"):
        export(tokens, tmp_path / "x", "concat4_word", update=True)
    assert rows_of(tmp_path / "x") == before


def test_columns_that_lance_does_not_have(tmp_path: Path) -> None:
    to_lance(vector_set(tmp_path / "a", clustered(3)), tmp_path / "x")
    with_years = vector_set(tmp_path / "b", clustered(3), kept={YEAR: [1, 2, 3]})
    with pytest.raises(
        DatabaseError, match=r"its columns are others than those of the features, such as 'year' \(int64"
    ):
        to_lance(with_years, tmp_path / "x", update=True)
    assert to_qdrant(vector_set(tmp_path / "c", clustered(3)), tmp_path / "q").added == 3
    assert to_qdrant(with_years, tmp_path / "q", update=True).added == 3  # whose payloads have no columns


def test_rows_of_others_are_not_removed(tmp_path: Path) -> None:
    folder = vector_set(tmp_path / "f", clustered(20))
    to_lance(folder, tmp_path / "x")
    dataset = lance.dataset(tmp_path / "x")
    row = dataset.to_table(limit=1)
    own = row.set_column(row.schema.get_field_index("row_key"), "row_key", pa.array(["mine"]))
    dataset.insert(own)
    with pytest.raises(DatabaseError, match=r"it has 1 row that no export wrote \(such as 'mine'\).*take them out"):
        to_lance(folder, tmp_path / "x", update=True)
    to_qdrant(folder, tmp_path / "q")
    client = QdrantClient(path=str(tmp_path / "q"))
    client.upsert("x", [models.PointStruct(id=7, vector=[1.0] * 16)])
    client.close()
    with pytest.raises(DatabaseError, match=r"it has 1 row that no export wrote \(such as '7'\)"):
        to_qdrant(folder, tmp_path / "q", update=True)
    assert len(rows_of(tmp_path / "q")) == 21


def test_a_dataset_of_others(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"id": ["a"]}), tmp_path / "x")
    with pytest.raises(DatabaseError, match=r"it has vectors of no export, and these are of last_mean"):
        to_lance(vector_set(tmp_path / "f", clustered(3)), tmp_path / "x", update=True)


# ── stopped on the way ──────────────────────────────────────────────────────────────────────────────────────


def stops(after: int, of: type, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a method fail when it has been called so many times."""
    whole, calls = getattr(of, name), iter(range(1000))

    def stopped(*arguments: Any, **options: Any) -> Any:
        if next(calls) == after:
            raise KeyboardInterrupt
        return whole(*arguments, **options)

    monkeypatch.setattr(of, name, stopped)


STEPS = [
    (to_lance, lance.LanceDataset, "merge_insert", 0),
    (to_lance, sys.modules["lance.dataset"].DatasetOptimizer, "optimize_indices", 0),
    (to_lance, lance.LanceDataset, "update_schema_metadata", 0),
    (to_qdrant, QdrantClient, "upsert", 0),
    (to_qdrant, QdrantClient, "upsert", 1),
    (to_qdrant, QdrantClient, "delete", 0),
    (to_qdrant, QdrantClient, "update_collection", 0),
    (to_qdrant, QdrantClient, "update_collection", 1),
]


@pytest.mark.parametrize(("export", "owner", "name", "after"), STEPS)
def test_an_interrupted_update_goes_on(
    export: Export, owner: type, name: str, after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertfeat.search.databases.lance_dataset.INDEXED_FROM", 300)
    monkeypatch.setattr("bertfeat.search.databases.qdrant_collection._BATCH_POINTS", 16)
    documents = [(f"d{number}", 1850, vector) for number, vector in enumerate(clustered(340))]
    export(make(tmp_path / "a", documents[:300]), tmp_path / "x", evaluate=False)
    features = make(tmp_path / "b", documents[20:])
    with monkeypatch.context() as patched:
        stops(after, owner, name, patched)
        with pytest.raises(KeyboardInterrupt):
            export(features, tmp_path / "x", update=True, evaluate=False)
    found = {line["id"] for line, _ in rows_of(tmp_path / "x").values()}
    assert found >= {name for name, *_ in documents[20:300]}  # what stays is always there
    export(features, tmp_path / "x", update=True, evaluate=False)
    export(features, tmp_path / "y", evaluate=False)
    assert rows_of(tmp_path / "x") == rows_of(tmp_path / "y")


def test_an_interrupted_update_is_resumed_without_asking_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to_qdrant(vector_set(tmp_path / "a", clustered(30)), tmp_path / "q")
    features = vector_set(tmp_path / "b", clustered(30, seed=1))
    with monkeypatch.context() as patched:
        stops(0, QdrantClient, "delete", patched)
        with pytest.raises(KeyboardInterrupt):
            to_qdrant(features, tmp_path / "q", update=True)
    report = to_qdrant(features, tmp_path / "q")
    assert (report.added, report.removed) == (0, 30)

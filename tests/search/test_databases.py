"""What both databases have in common: the rows that go into them, and how their recall is judged."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bertfeat.core.features import FeatureSet
from bertfeat.errors import BertfeatError, NotDerivableError, UsageError
from bertfeat.search import export_to_lance, export_to_qdrant
from bertfeat.search.databases.database_rows import DatabaseRows, number_keys
from bertfeat.search.databases.export import ExactRows, judge_database, sample_queries
from bertfeat.search.vectors.faiss_search import EMPTY
from tests.support.features_toy import toy_part, toy_set
from tests.support.index_toy import clustered, neighbors, vector_set


def rows_of(folder: Path, column: str | None = None) -> DatabaseRows:
    return DatabaseRows(FeatureSet(folder), column)


# ── rows ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_block_is_a_batch_of_the_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = clustered(1000)
    monkeypatch.setattr("bertfeat.search.building.feature_source._READ_ROWS", 100)
    rows = rows_of(vector_set(tmp_path / "f", vectors, parts=2))
    blocks = [(block.start, len(block.vectors), block.columns) for block in rows.blocks(columns=True)]
    assert [(start, size) for start, size, _ in blocks] == [(start, 100) for start in range(0, 1000, 100)]
    assert [row for *_, table in blocks for row in table["id"].to_pylist()] == [str(row + 1) for row in range(1000)]


def test_words_without_characters_or_vectors_are_skipped(tmp_path: Path) -> None:
    toy = toy_part(rows=12)
    rows = rows_of(toy_set(tmp_path / "f", toy), "concat4_word")
    (block,) = rows.blocks(columns=True)
    expected = [word for doc in toy.documents for word in doc.words if word != "🙂"]  # which the toy does not align
    assert block.columns["string"].to_pylist() == expected
    assert rows.count == len(block.vectors) == len(expected)
    assert rows.skipped == sum(len(doc.words) for doc in toy.documents) - len(expected) > 0


def test_words_of_pairs_are_of_their_own_text(tmp_path: Path) -> None:
    toy = toy_part(pairs=True)
    assert toy.content.words is not None
    assert toy.content.words.segment is not None
    toy.content.words.segment[:] = np.arange(len(toy.content.words.segment)) % 2
    (block,) = rows_of(toy_set(tmp_path / "f", toy), "concat4_word").blocks(columns=True)
    texts = {doc.id: (doc.text, doc.text[::-1]) for doc in toy.documents}
    for line in block.columns.to_pylist():
        assert line["string"] == texts[line["id"]][line["segment"]][line["start"] : line["end"]]
    assert set(block.columns["segment"].to_pylist()) == {0, 1}


def test_a_set_without_such_vectors(tmp_path: Path) -> None:
    folder = toy_set(tmp_path / "f", toy_part(poolings=["word"]))
    with pytest.raises(NotDerivableError, match="no column with mean pooling is stored"):
        rows_of(folder, "last_mean")
    empty = toy_set(tmp_path / "g", toy_part(rows=2, failures=[0, 1], poolings=["mean"]))
    with pytest.raises(UsageError, match="there are no vectors of last_mean in it"):
        rows_of(empty)


# ── recall ──────────────────────────────────────────────────────────────────────────────────────────────────


def exact_of(rows: DatabaseRows) -> ExactRows:
    exact = sample_queries(rows, lambda _: None)
    assert exact is not None
    for block in rows.blocks(columns=True):
        exact.add(block)
    return exact


def numbers_of(rows: DatabaseRows) -> list[int]:
    """The number of each row's key, in order."""
    return [number for block in rows.blocks(columns=True) for number in number_keys(block.keys.to_pylist()).tolist()]


def test_exact_search_is_brute_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertfeat.search.databases.export._SCORED_ROWS", 70)
    monkeypatch.setattr("bertfeat.search.building.feature_source._READ_ROWS", 150)
    vectors = clustered(500)
    rows = rows_of(vector_set(tmp_path / "f", vectors))
    truth, number_of = exact_of(rows).truth(), {key: number for number, key in enumerate(numbers_of(rows))}
    assert len(truth.asked.own) == 100
    for query, own_key, keys, scores in zip(
        truth.asked.vectors, truth.asked.own, truth.numbers, truth.scores, strict=True
    ):
        own, numbers = number_of[own_key], [number_of[key] for key in keys]
        expected, order = neighbors(vectors, query[None], "cosine")
        others = order[0][order[0] != own][:100]
        assert np.array_equal(numbers, others)
        np.testing.assert_allclose(scores, expected[0][order[0] != own][:100], atol=1e-6)


def test_recall_counts_what_is_found(tmp_path: Path) -> None:
    vectors = clustered(300)
    rows = rows_of(vector_set(tmp_path / "f", vectors))
    truth, keys = exact_of(rows).truth(), np.array(numbers_of(rows))
    asked: list[Mapping[str, int]] = []

    def search(queries: NDArray[np.float32], k: int, parameters: Mapping[str, int]) -> NDArray[np.int64]:
        """Find the vector that a query was made of, and the true nearest, but for as many places as are left empty."""
        asked.append(parameters)
        own = truth.asked.own
        nearest = keys[neighbors(vectors, queries, "cosine")[1]]
        others = [row[row != number][: k - 1] for row, number in zip(nearest, own, strict=True)]
        found = np.column_stack([own, np.array(others)]).astype(np.int64)
        found[:, k - parameters.get("missing", 4) :] = EMPTY
        return found

    report = judge_database(truth, search, [{"missing": 3}, {"missing": 1}, {"missing": 0}])
    assert (report.nearest, report.queries, report.default, report.best) == (10, 100, 0.6, 0.9)
    assert report.parameters == {"missing": 1}
    assert asked == [{}, {"missing": 3}, {"missing": 1}]  # 0.9 is enough


def test_any_of_equal_vectors_will_do(tmp_path: Path) -> None:
    vectors = np.repeat(clustered(20), 15, axis=0)

    def search(queries: NDArray[np.float32], k: int, parameters: Mapping[str, int]) -> NDArray[np.int64]:
        scores = queries @ (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).T
        return keys[np.argsort(-scores.round(4) - np.arange(300) * 1e-9, axis=1)[:, :k]]  # the last first

    rows = rows_of(vector_set(tmp_path / "f", vectors))
    exact, keys = exact_of(rows), np.array(numbers_of(rows))
    assert judge_database(exact.truth(), search, []).default == 1.0


def test_zero_vectors_are_no_queries(tmp_path: Path) -> None:
    vectors = clustered(50)
    vectors[::2] = 0
    rows = rows_of(vector_set(tmp_path / "f", vectors))
    assert exact_of(rows).truth().asked.own.tolist() == numbers_of(rows)[1::2]
    assert rows.zero_vectors == 25
    none = rows_of(vector_set(tmp_path / "g", np.zeros((3, 8), np.float32)))
    assert sample_queries(none, lambda _: None) is None
    assert sample_queries(rows_of(vector_set(tmp_path / "h", clustered(1), parts=1)), lambda _: None) is None


# ── libraries ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("library", "extra", "export"),
    [
        ("lance", "lance", lambda folder: export_to_lance(folder, folder.with_name("x.lance"))),
        ("qdrant_client", "qdrant", lambda folder: export_to_qdrant(folder, folder=folder.with_name("q"))),
    ],
)
def test_a_missing_library_names_its_extra(
    library: str, extra: str, export: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    for module in ("lance_dataset", "qdrant_collection"):
        monkeypatch.delitem(sys.modules, f"bertfeat.search.databases.{module}", raising=False)
    folder = vector_set(tmp_path / "f", clustered(5))
    with pytest.raises(BertfeatError, match=rf"which is not installed; pip install 'bertfeat\[{extra}\]'"):
        export(folder)


def test_no_faiss_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "faiss"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "faiss", None)
    monkeypatch.setattr("bertfeat.search.vectors.faiss_import.faiss.__dict__", {}, raising=False)
    folder = vector_set(tmp_path / "f", clustered(30))
    assert export_to_lance(folder, tmp_path / "x.lance").recall is not None
    assert export_to_qdrant(folder, folder=tmp_path / "q").recall is not None

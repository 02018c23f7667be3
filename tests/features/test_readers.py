"""The readers that people have must read ``*.parquet`` of a feature set, and the folder with all that is in it."""

from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.support.features_toy import H, Toy, ToyDocument, toy_part, toy_parts, toy_set


@pytest.fixture(scope="module")
def parts() -> tuple[Toy, ...]:
    # among them a part without documents, of which readers see the schema only
    first, second, third = toy_parts(layers="concat4,last", tags=True)
    empty = toy_part(3, 18, 2, blank=[18, 19], layers="concat4,last", tags=True)
    return first, second, third, empty


@pytest.fixture(scope="module")
def folder(parts: tuple[Toy, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_set(tmp_path_factory.mktemp("readers") / "toy.features", *parts)


@pytest.fixture(scope="module")
def documents(parts: tuple[Toy, ...]) -> list[ToyDocument]:
    return [doc for part in parts for doc in part.documents]


def test_duckdb(folder: Path, documents: list[ToyDocument]) -> None:
    found = duckdb.execute(
        f'SELECT row, id, text, year, title, score, "good.or.bad", last_mean, last_word, words, word_start, aligned '
        f"FROM '{folder}/*.parquet' ORDER BY row"
    ).fetchall()
    for record, doc in zip(found, documents, strict=True):
        assert record[:7] == (doc.row, doc.id, doc.text, *doc.kept)
        assert list(record[7]) == doc.feature("sum", [4], "mean").tolist()
        matrix = np.frombuffer(record[8], np.float16).reshape(-1, H)
        np.testing.assert_array_equal(matrix, doc.feature("sum", [4], "word"))
        assert record[9:] == (doc.words, [start for start, _ in doc.spans()], [word != "🙂" for word in doc.words])


def test_duckdb_searches_by_vector(folder: Path, documents: list[ToyDocument]) -> None:
    query = documents[5].feature("sum", [4], "mean").tolist()
    nearest = duckdb.execute(
        f"SELECT id FROM '{folder}/*.parquet' ORDER BY list_cosine_similarity(last_mean, ?::FLOAT[]) DESC LIMIT 1",
        [query],
    ).fetchone()
    assert nearest == (documents[5].id,)


def test_polars(folder: Path, documents: list[ToyDocument]) -> None:
    for frame in (pl.read_parquet(folder / "*.parquet"), pl.scan_parquet(folder / "*.parquet").collect()):
        assert frame.schema["last_mean"] == pl.Array(pl.Float32, H)
        assert frame["id"].to_list() == [doc.id for doc in documents]
        vectors = np.stack([doc.feature("sum", [4], "mean") for doc in documents])
        np.testing.assert_array_equal(frame["last_mean"].to_numpy(), vectors)
        for cell, tokens, doc in zip(frame["last_token"], frame["tokens"], documents, strict=True):
            matrix = np.frombuffer(cell, np.float16).reshape(-1, H)
            np.testing.assert_array_equal(matrix, doc.feature("sum", [4], "token"))
            assert tokens.to_list() == doc.tokens


def test_pandas(folder: Path, documents: list[ToyDocument]) -> None:
    frame = pd.read_parquet(folder / "part-00000.parquet")
    np.testing.assert_array_equal(np.stack(frame["last_mean"]), np.stack([_vector(doc) for doc in documents[:5]]))
    frame = pd.concat([pd.read_parquet(path) for path in sorted(folder.glob("*.parquet"))])
    assert list(frame["text"]) == [doc.text for doc in documents]
    for cell, doc in zip(frame["last_token"], documents, strict=True):
        np.testing.assert_array_equal(np.frombuffer(cell, np.float16).reshape(-1, H), doc.feature("sum", [4], "token"))


@pytest.mark.filterwarnings("default")
def test_hugging_face_datasets(folder: Path, documents: list[ToyDocument], tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    loaded = datasets.load_dataset("parquet", data_files=f"{folder}/*.parquet", split="train", cache_dir=str(tmp_path))
    assert loaded["text"][:] == [doc.text for doc in documents]
    vectors = np.stack([_vector(doc) for doc in documents])
    np.testing.assert_array_equal(loaded.with_format("numpy")["last_mean"][:], vectors)
    for cell, doc in zip(loaded["last_word"], documents, strict=True):
        np.testing.assert_array_equal(np.frombuffer(cell, np.float16).reshape(-1, H), doc.feature("sum", [4], "word"))


def test_pyarrow(folder: Path, documents: list[ToyDocument]) -> None:
    for table in (pq.read_table(folder), ds.dataset(sorted(map(str, folder.glob("*.parquet")))).to_table()):
        assert table.column("row").to_pylist() == [doc.row for doc in documents]
        vectors = np.stack([_vector(doc) for doc in documents])
        np.testing.assert_array_equal(
            table.column("last_mean").combine_chunks().flatten().to_numpy().reshape(-1, H), vectors
        )
        cell = table.column("last_token")[1].as_py()
        matrix = np.frombuffer(cell, np.float16).reshape(-1, H)  # one line gives a token matrix
        np.testing.assert_array_equal(matrix, documents[1].feature("sum", [4], "token"))


# ── the folder, which holds .bertfeat beside the parts ──────────────────────────────────────────────────────


@pytest.mark.parametrize("pattern", ["{}/*", "{}"])
def test_duckdb_takes_the_folder(folder: Path, documents: list[ToyDocument], pattern: str) -> None:
    assert (folder / ".bertfeat").is_dir()
    found = duckdb.execute("SELECT id, last_mean FROM read_parquet(?) ORDER BY row", [pattern.format(folder)])
    ids, vectors = zip(*found.fetchall(), strict=True)
    assert list(ids) == [doc.id for doc in documents]
    np.testing.assert_array_equal(vectors, [_vector(doc) for doc in documents])


def test_polars_takes_all_files_of_the_folder(folder: Path, documents: list[ToyDocument]) -> None:
    for frame in (pl.read_parquet(folder / "*"), pl.scan_parquet(folder / "*").collect()):
        assert frame["id"].to_list() == [doc.id for doc in documents]
        np.testing.assert_array_equal(frame["last_mean"].to_numpy(), [_vector(doc) for doc in documents])


def test_pandas_takes_the_folder(folder: Path, documents: list[ToyDocument]) -> None:
    frame = pd.read_parquet(folder)
    assert list(frame["id"]) == [doc.id for doc in documents]
    np.testing.assert_array_equal(np.stack(frame["last_mean"]), [_vector(doc) for doc in documents])


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("asked", [{"data_files": "{}/*"}, {"data_dir": "{}"}], ids=["files", "folder"])
def test_hugging_face_datasets_take_the_folder(
    folder: Path, documents: list[ToyDocument], tmp_path: Path, asked: dict[str, str]
) -> None:
    datasets = pytest.importorskip("datasets")
    place = {name: value.format(folder) for name, value in asked.items()}
    loaded = datasets.load_dataset("parquet", **place, split="train", cache_dir=str(tmp_path))
    assert loaded["id"][:] == [doc.id for doc in documents]
    np.testing.assert_array_equal(loaded.with_format("numpy")["last_mean"][:], [_vector(doc) for doc in documents])


def test_pyarrow_takes_the_folder(folder: Path, documents: list[ToyDocument]) -> None:
    for table in (pq.read_table(folder), ds.dataset(folder).to_table()):
        assert table.column("id").to_pylist() == [doc.id for doc in documents]
        np.testing.assert_array_equal(table.column("last_mean").to_pylist(), [_vector(doc) for doc in documents])


def _vector(doc: ToyDocument) -> np.ndarray:
    return doc.feature("sum", [4], "mean")

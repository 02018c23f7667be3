"""Feature sets as tables of Arrow, pandas, polars and DuckDB, next to the hidden layers that they were made of."""

import sys
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertfeat import CorpusSettings, Extractor, memory_corpus
from bertfeat.core.features import FeatureSet, NpyWriter, part as part_module
from bertfeat.errors import DamagedError, FeatureSetError, MissingLibraryError, NotDerivableError, UsageError
from tests.support.features_toy import H, Toy, ToyDocument, toy_part, toy_parts, toy_set
from tests.support.tiny_models import Tiny

MIXED = ["title", "last_mean", "words", "sum4_word", "id", "concat4_token"]


@pytest.fixture(scope="module")
def parts() -> tuple[Toy, ...]:
    # among them a part without documents
    return (
        *toy_parts(layers="concat4,last", tags=True),
        toy_part(3, 18, 2, blank=[18, 19], layers="concat4,last", tags=True),
    )


@pytest.fixture(scope="module")
def features(parts: tuple[Toy, ...], tmp_path_factory: pytest.TempPathFactory) -> FeatureSet:
    """A set of several parts, of several row groups each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(part_module, "ROW_GROUP_BYTES", 2500)
        return FeatureSet(toy_set(tmp_path_factory.mktemp("tables") / "toy.features", *parts))


@pytest.fixture(scope="module")
def documents(parts: tuple[Toy, ...]) -> list[ToyDocument]:
    return [doc for part in parts for doc in part.documents]


def expected(doc: ToyDocument) -> list[object]:
    """What a document's row holds in the columns of ``MIXED``."""
    vectors = [("sum", [4], "mean"), ("sum", [1, 2, 3, 4], "word"), ("concat", [1, 2, 3, 4], "token")]
    last, words, tokens = (doc.feature(*vector) for vector in vectors)
    return [doc.kept[1], last, doc.words, words, doc.id, tokens]


def assert_equal(found: object, doc: ToyDocument) -> None:
    assert isinstance(found, list | tuple)
    for cell, wanted in zip(found, expected(doc), strict=True):
        if isinstance(wanted, np.ndarray):
            np.testing.assert_allclose(np.array(cell, np.float32).reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-5)
        else:
            assert (None if cell is None else cell if isinstance(cell, str) else list(cell)) == wanted


def test_arrow(features: FeatureSet, documents: list[ToyDocument]) -> None:
    table = features.to_arrow(MIXED)
    assert table.column_names == MIXED
    assert table.schema.field("last_mean").type == pa.list_(pa.float32(), H)
    assert table.schema.field("sum4_word").type == pa.large_list(pa.list_(pa.float32(), H))
    table.validate(full=True)
    for row, doc in zip(table.to_pylist(), documents, strict=True):
        assert_equal(list(row.values()), doc)


def test_every_stored_column_is_there_without_names(features: FeatureSet) -> None:
    stored = pq.read_table(features.folder)
    table = features.to_arrow()
    assert table.column_names == stored.column_names
    vectors = {column.name for column in features.columns}
    for name in set(table.column_names) - vectors:
        assert table.column(name).combine_chunks() == stored.column(name).combine_chunks(), name


@pytest.mark.parametrize("to", ["to_pandas", "to_polars"])
def test_frames(features: FeatureSet, documents: list[ToyDocument], to: str) -> None:
    frame = getattr(features, to)(MIXED)
    assert list(frame.columns) == MIXED
    columns = [list(frame[name]) for name in MIXED]
    for row, doc in zip(zip(*columns, strict=True), documents, strict=True):
        cells = [None if cell is None or cell is pd.NA or cell != cell else cell for cell in row[:1]]
        assert_equal([*cells, *row[1:]], doc)


def test_vectors_are_arrays_in_pandas(features: FeatureSet, documents: list[ToyDocument]) -> None:
    frame = features.to_pandas(["last_mean", "last_word"])
    assert [cell.shape for cell in frame["last_mean"]] == [(H,)] * len(documents)
    assert [cell.shape for cell in frame["last_word"]] == [(len(doc.words), H) for doc in documents]


def test_missing_values_change_no_other(bert: Tiny, tmp_path: Path) -> None:
    values: dict[str, list[object]] = {
        "whole": [9007199254740993, None, -(2**63), 2**63 - 1],
        "is_so": [True, None, False, None],
        "real": [0.1, None, -0.0, 1e300],
        "name": ["a", None, "", "b"],
        "full": [1, 2, 3, 9007199254740993],
    }
    rows = [{"text": f"Text {at}.", **{name: each[at] for name, each in values.items()}} for at in range(4)]
    corpus = memory_corpus(rows, CorpusSettings(keep=tuple(values)))
    Extractor(bert.folder, pooling="mean").extract(corpus, tmp_path / "c.features")
    frame = FeatureSet(tmp_path / "c.features").to_pandas([*values])
    for name, expected in values.items():
        assert [None if pd.isna(value) else value for value in frame[name].tolist()] == expected, name
    kinds = [str(frame[name].dtype) for name in ("whole", "is_so", "real", "full")]
    assert kinds == ["Int64", "boolean", "float64", "int64"]


def test_vectors_are_arrays_in_polars(features: FeatureSet) -> None:
    frame = features.to_polars(["last_mean", "last_word"])
    assert frame.schema == {"last_mean": pl.Array(pl.Float32, H), "last_word": pl.List(pl.Array(pl.Float32, H))}


def test_libraries_take_the_set_as_it_is(features: FeatureSet, documents: list[ToyDocument]) -> None:
    assert pl.DataFrame(features)["id"].to_list() == [doc.id for doc in documents]
    assert pa.table(features).column("id").to_pylist() == [doc.id for doc in documents]
    found = duckdb.execute("SELECT id, last_mean, len(last_word) FROM features ORDER BY row").fetchall()
    for (name, vector, words), doc in zip(found, documents, strict=True):
        np.testing.assert_array_equal(np.array(vector, np.float32), doc.feature("sum", [4], "mean"))
        assert (name, words) == (doc.id, len(doc.words))


def test_a_stream_reads_as_it_is_asked(tmp_path: Path) -> None:
    folder = toy_set(tmp_path / "toy.features")
    stream = pa.RecordBatchReader.from_stream(FeatureSet(folder))
    first = stream.read_next_batch()
    (folder / "part-00002.parquet").unlink()
    assert first.column("id").to_pylist()[0] == "1"
    with pytest.raises(Exception, match=r"part-00002"):
        stream.read_all()


@pytest.mark.parametrize("column", ["last_mean", "concat4_mean", "last_word", "sum4_word", "last_token"])
def test_a_column_by_its_name_is_its_matrix(features: FeatureSet, documents: list[ToyDocument], column: str) -> None:
    recipe, pooling = column.split("_")
    operation, layers = {"last": ("sum", [4]), "sum4": ("sum", [1, 2, 3, 4]), "concat4": ("concat", [1, 2, 3, 4])}[
        recipe
    ]
    wanted = [doc.feature(operation, layers, pooling) for doc in documents]
    stacked = np.stack(wanted) if pooling == "mean" else np.concatenate(wanted)
    found = features[column]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, stacked, rtol=1e-5, atol=1e-5)
    batch = features.slice(0, None, column)
    np.testing.assert_array_equal(batch.matrix, found)


@pytest.mark.parametrize("column", ["text", "id", "words"])
def test_a_column_without_vectors_is_told(features: FeatureSet, column: str) -> None:
    with pytest.raises(
        FeatureSetError, match=rf"the column '{column}' holds no vectors; to_arrow\(\['{column}'\]\) reads"
    ):
        features[column]
    assert features.to_arrow([column]).num_rows == len(features)


def test_a_column_larger_than_the_memory_is_refused(features: FeatureSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertfeat.core.features.reader.physical_memory", lambda: 100)
    with pytest.raises(FeatureSetError, match=r"last_word take .* more than this machine's memory; .*batches"):
        features["last_word"]


@pytest.mark.parametrize(
    ("columns", "error", "told"),
    [
        (["txt"], FeatureSetError, "no column 'txt'; did you mean text\\?.*row, id, text"),
        (["nothing_alike"], NotDerivableError, "no column 'nothing_alike'; stored are: concat4_mean"),
        (["0_mean"], NotDerivableError, "needs layer 0"),
        ("id", UsageError, "columns='id': must be a list"),
        ([3], UsageError, "columns"),
    ],
)
@pytest.mark.parametrize("to", ["to_arrow", "to_pandas", "to_polars"])
def test_what_is_not_there(
    features: FeatureSet, to: str, columns: list[str], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        getattr(features, to)(columns)


def test_a_derived_name_that_is_misspelt(features: FeatureSet) -> None:
    with pytest.raises(NotDerivableError, match="no column 'second_to_lst_mean'; did you mean second_to_last_mean"):
        features["second_to_lst_mean"]
    with pytest.raises(UsageError, match=r"key=1\.5: must be"):
        features[1.5]  # type: ignore[call-overload]


def test_a_damaged_part_is_named(tmp_path: Path) -> None:
    folder = toy_set(tmp_path / "toy.features")
    features = FeatureSet(folder)
    path = folder / "part-00001.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 255
    path.write_bytes(content)
    with pytest.raises(DamagedError, match=r"part-00001"):
        features.to_arrow()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_library_that_is_not_there(features: FeatureSet, monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingLibraryError, match=f"frames of {library} need {library}.*pip install {library}"):
        getattr(features, f"to_{library}")(["id"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "full.npy").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device"), NpyWriter(tmp_path / "full.npy", 4) as file:
        file.write(np.zeros((100_000, 4), np.float32))


@pytest.mark.parametrize("width", [None, 3])
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "int64"])
def test_arrays_are_read_by_numpy(width: int | None, dtype: str, tmp_path: Path) -> None:
    whole = np.arange(30).reshape((-1, width) if width else -1)[::-1].astype(dtype)
    with NpyWriter(tmp_path / "a.npy", width, dtype) as file:
        for block in (whole[:0], whole[:7], whole[7:]):
            file.write(block)
    read = np.load(tmp_path / "a.npy")
    assert (read.dtype, read.tolist()) == (dtype, whole.tolist())

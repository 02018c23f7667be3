"""The columns of an index's documents: of the types that are kept, and those that its feature sets have."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bertfeat.core.corpus import KeptColumn, Value
from bertfeat.errors import IndexFolderError
from bertfeat.search import VectorIndex, build_index, update_index, verify_index
from tests.search.test_verify import rewritten
from tests.support.features_toy import toy_part, toy_set
from tests.support.index_toy import clustered, vector_set, version_of

YEAR, AUTHOR = KeptColumn("year", "int64"), KeptColumn("author", "string")


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """An index of a feature set that is in its place, with years and authors."""
    values: dict[KeptColumn, Sequence[Value]] = {YEAR: list(range(20)), AUTHOR: ["Ada"] * 20}
    vector_set(tmp_path / "toy.features", clustered(20), kept=values)
    build_index(tmp_path / "toy.features", tmp_path / "toy.index")
    return tmp_path / "toy.index"


def change_documents(folder: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    path = version_of(folder) / "documents.arrow"
    table = change(pa.ipc.open_file(path.read_bytes()).read_all())
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)
    rewritten(folder)


def set_column(table: pa.Table, name: str, values: list[Any], kind: pa.DataType | None = None) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, pa.array(values, kind))


NEVER: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "twice": (lambda t: t.append_column("id", t["id"]), "it has the column 'id' 2 times"),
    "kept twice": (lambda t: t.append_column("year", t["year"]), "it has the column 'year' 2 times"),
    "structs": (lambda t: set_column(t, "year", [{"a": 1}] * 20), "its column 'year' is struct.* which is never kept"),
}


@pytest.mark.parametrize("case", NEVER)
def test_columns_that_no_index_has(case: str, kept: Path) -> None:
    change, message = NEVER[case]
    change_documents(kept, change)
    for opening in (VectorIndex, verify_index):
        with pytest.raises(IndexFolderError, match=rf"documents\.arrow: cannot be read \({message}"):
            opening(kept)


def test_documents_without_texts_may_be_appended(tmp_path: Path) -> None:
    toy_set(tmp_path / "a.features", toy_part(poolings=("mean", "word")))
    toy_set(tmp_path / "b.features", toy_part(rows=3, poolings=("mean", "word"), text=False, ids="b"))
    for column in ("concat4_mean", "concat4_word"):
        build_index(tmp_path / "a.features", tmp_path / "toy.index", column, overwrite=True)
        update_index(tmp_path / "toy.index", [tmp_path / "b.features"])
        assert verify_index(tmp_path / "toy.index").settings.has_text
        build_index([tmp_path / "a.features", tmp_path / "b.features"], tmp_path / "toy.index", column)
        assert verify_index(tmp_path / "toy.index").settings.has_text


def test_a_column_of_another_type_cannot_be_appended(kept: Path, tmp_path: Path) -> None:
    vector_set(tmp_path / "more.features", clustered(3), ids="abc", kept={YEAR: [1, 2, 3], AUTHOR: ["x"] * 3})
    change_documents(kept, lambda table: set_column(table, "year", ["x"] * 20))
    with pytest.raises(IndexFolderError, match=r"'year' is large_string in .*toy\.index and int64 in .*more\.features"):
        update_index(kept, [tmp_path / "more.features"])

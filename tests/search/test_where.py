"""A search among the documents that meet a condition, against Python's own reading of the same condition.

The language itself is tested in ``test_where.py`` and ``test_where_language.py``.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertfeat.core.corpus import KeptColumn, Value
from bertfeat.errors import UsageError
from bertfeat.search import BuildOptions, VectorIndex, build_index, remove_documents, update_index
from tests.support.index_toy import clustered, vector_set

COUNT = 800
KEPT: dict[KeptColumn, list[Value]] = {
    KeptColumn("year", "int64"): [None if row % 10 == 0 else 1800 + row % 200 for row in range(COUNT)],
    KeptColumn("lang", "string"): [("de", "en", "it's", None)[row % 4] for row in range(COUNT)],
    KeptColumn("good or bad", "bool"): [row % 3 == 0 for row in range(COUNT)],
    KeptColumn("score", "float64"): [row / 7 - 20 for row in range(COUNT)],
}
KINDS = ("flat", "ivf", "hnsw", "sq8", "PQ4x4fs", "IVF16,SQ8,RFlat")


@pytest.fixture(scope="module", params=KINDS)
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> VectorIndex:
    folder = tmp_path_factory.mktemp("filtered")
    vector_set(folder / "toy.features", clustered(COUNT), kept=KEPT)
    options = BuildOptions(type=request.param, evaluate=False)
    build_index(folder / "toy.features", folder / "toy.index", options=options)
    return VectorIndex(folder / "toy.index")


def rows() -> list[dict[str, Any]]:
    columns = {column.name: values for column, values in KEPT.items()}
    return [
        {name: values[row] for name, values in columns.items()} | {"id": str(row + 1), "row": row}
        for row in range(COUNT)
    ]


CONDITIONS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "year > 1900": lambda r: r["year"] is not None and r["year"] > 1900,
    "year >= 1990 and lang == 'de'": lambda r: r["year"] is not None and r["year"] >= 1990 and r["lang"] == "de",
    'lang = "it\'s" OR year < 1803': lambda r: r["lang"] == "it's" or (r["year"] is not None and r["year"] < 1803),
    "not (score > -10)": lambda r: not r["score"] > -10,
    "1850 < year <= 1851": lambda r: r["year"] is not None and 1850 < r["year"] <= 1851,
    "lang in ('de', 'en')": lambda r: r["lang"] in ("de", "en"),
    "lang not in ['de']": lambda r: r["lang"] not in ("de", None),
    "lang in (null, 'de')": lambda r: r["lang"] == "de",
    "year not in (null, 1850)": lambda r: False,
    "not (year between 1850 and 1960) and lang like '_e'": lambda r: (
        r["year"] is not None and not 1850 <= r["year"] <= 1960 and r["lang"] == "de"
    ),
    "text contains 'f 10' or lang starts with 'it'": lambda r: "f 10" in f"text of {r['id']}" or r["lang"] == "it's",
    "lang IS NULL": lambda r: r["lang"] is None,
    "year is not null and id in ('2', '3')": lambda r: r["id"] in ("2", "3"),
    "col('good or bad')": lambda r: bool(r["good or bad"]),
    "col('good or bad') == false and score <> 0.0": lambda r: not r["good or bad"] and r["score"] != 0,
    "row < 5": lambda r: r["row"] < 5,
    "score = -20": lambda r: r["score"] == -20,
    "year == 3000": lambda r: False,
}


@pytest.mark.sampled(15)
@pytest.mark.parametrize("where", CONDITIONS)
def test_exactly_the_selected_rows_are_found(index: VectorIndex, where: str) -> None:
    expected = [row["row"] for row in rows() if CONDITIONS[where](row)]
    found = index.search(clustered(4, seed=2), COUNT, where=where)
    assert found.numbers.shape == (4, len(expected))
    assert (np.sort(found.numbers, axis=1) == expected).all()


def test_a_rare_row_is_found_though_its_list_is_not_read(index: VectorIndex) -> None:
    found = index.search(clustered(50, seed=2), 3, where="id in ('17', '400', '401', '402')", search_parameter=1)
    assert found.numbers.shape == (50, 3)
    assert set(found.numbers.ravel().tolist()) <= {16, 399, 400, 401}


def test_filters_know_nothing_of_removed_documents(tmp_path: Path) -> None:
    vector_set(tmp_path / "toy.features", clustered(COUNT), kept=KEPT)
    build_index(tmp_path / "toy.features", tmp_path / "toy.index", options=BuildOptions(type="hnsw", evaluate=False))
    remove_documents(tmp_path / "toy.index", ["1", "2"])
    found = VectorIndex(tmp_path / "toy.index").search(clustered(1), 5, where="row < 5")
    assert sorted(found.numbers[0].tolist()) == [2, 3, 4]


def test_columns_that_one_of_two_sets_lacks_are_null(tmp_path: Path) -> None:
    vector_set(tmp_path / "a.features", clustered(10), kept={KeptColumn("year", "int64"): [1] * 10})
    vector_set(tmp_path / "b.features", clustered(10, seed=1), ids=[f"b{row}" for row in range(10)])
    build_index(tmp_path / "a.features", tmp_path / "toy.index")
    update_index(tmp_path / "toy.index", [tmp_path / "b.features"])
    index = VectorIndex(tmp_path / "toy.index")
    assert sorted(index.search(clustered(1), 20, where="year is null").numbers[0].tolist()) == list(range(10, 20))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("yaer > 3", "no column 'yaer'; there are: row, id, text, year"),
        ("_source = 0", "no column '_source'"),
        ("year >", "it ends too early"),
        ("year > 'x'", "year holds whole numbers, and this is a text"),
        (" and ".join(["year > 1"] * 7_000), "more than 1,000 comparisons"),  # C1: a segmentation fault
    ],
)
def test_what_is_no_condition_is_refused(index: VectorIndex, where: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        index.search(clustered(1), 3, where=where)

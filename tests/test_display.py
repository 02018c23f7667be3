"""Results as the interpreter and notebooks show them: one line, and well-formed tables of what is in them."""

import dataclasses
import inspect
import typing
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import bertfeat
from bertfeat.core.features import FeatureSet
from bertfeat.display import ToTheRight, brief, displayed, html_table
from bertfeat.search import Index, build_index
from bertfeat.study import ChangeSettings, measure_change
from bertfeat.usages import find_senses, find_usages
from tests.support.features_toy import toy_part, toy_set

HOSTILE = "</td><script>alert('hit')</script>\n& \"quoted\" \x1b[31m שלום"


class Color(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Spot:
    x: float
    kept: dict[str, int]


@dataclass(frozen=True)
class Mean:
    value: float

    def __str__(self) -> str:
        return f"about {self.value}"


@displayed
@dataclass(frozen=True, slots=True)
class Report:
    name: str
    folder: Path
    matrix: np.ndarray
    color: Color = Color.RED
    mean: Mean = Mean(0.5)
    nothing: None = None
    empty: tuple[str, ...] = ()
    scores: dict[str, float] = field(default_factory=lambda: {"a": 0.123456, "b": 2.0})
    spots: tuple[Spot, ...] = ()


def tables_of(html: str) -> list[list[list[str]]]:
    """The cells of each table, as a parser of XML reads them."""
    tree = ElementTree.fromstring(html)
    return [
        [["".join(cell.itertext()) for cell in row if cell.tag in ("td", "th")] for row in table.iter("tr")]
        for table in tree.iter("table")
    ]


def test_a_line_says_what_is_in_a_report() -> None:
    report = Report("é" * 100, Path("there"), np.zeros((3, 4)), spots=(Spot(1, {}), Spot(2, {})))
    assert repr(report) == (
        f"Report(name='{'é' * 59}…', folder='there', matrix=[3, 4], color='red', mean=about 0.5, "
        "scores={a: 0.1235, b: 2}, spots=<2 Spot>)"
    )
    assert "\n" not in repr(Report(HOSTILE, Path(HOSTILE), np.zeros(2)))
    assert len(repr(Report("a" * 500, Path("b" * 500), np.zeros(2), empty=("c" * 90,) * 3))) <= 240


def test_a_report_without_rows_is_a_table_of_its_fields() -> None:
    (table,) = tables_of(Report(HOSTILE, Path("there"), np.zeros((3, 4)))._repr_html_())  # type: ignore[attr-defined]
    shown_as = dict(table)
    assert shown_as["folder"] == "there"
    assert shown_as["matrix"] == "[3, 4]"
    assert shown_as["scores"] == "{a: 0.1235, b: 2}"
    assert "<script>" in shown_as["name"]  # as a text
    assert {"nothing", "empty", "spots"}.isdisjoint(shown_as)


def test_rows_of_a_report_are_a_table() -> None:
    spots = tuple(Spot(number / 3, {"year": 1900 + number}) for number in range(120))
    (table,) = tables_of(Report("n", Path("there"), np.zeros(2), spots=spots)._repr_html_())  # type: ignore[attr-defined]
    assert table[0] == ["x", "year"]
    assert table[2] == ["0.3333", "1901"]
    assert table[-1] == ["… and 70 more"]
    assert len(table) == 52


def test_cells() -> None:
    html = html_table(
        [{"left": ToTheRight("of the "), "n": 3, "ok": True, "none": None}, {"left": ToTheRight(HOSTILE)}]
    )
    ((head, first, second),) = tables_of(html)
    assert head == ["left", "n", "ok"]
    assert first == ["of the ", "3", "True"]
    assert second[1:] == ["", ""]
    assert html.count("text-align: right") == 3 * 2
    assert brief([1, 2, 3, 4]) == "<4 int>"
    assert brief({}) == "{}"
    assert brief(object).startswith("<class")


def results(kind: object) -> Iterator[type]:
    for inner in typing.get_args(kind):
        yield from results(inner)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind.__module__.startswith("bertfeat"):
        yield kind


def test_what_public_calls_return_is_shown() -> None:
    """Every dataclass that a public function, or a method of a public class, returns has a line and a table."""
    missing = set()
    for name in dir(bertfeat):
        public = getattr(bertfeat, name)
        methods = (
            [method for _, method in inspect.getmembers(public, inspect.isfunction)] if isinstance(public, type) else []
        )
        for function in [public, *methods]:
            if inspect.isfunction(function) and not function.__name__.startswith("_"):
                returned = inspect.unwrap(function).__annotations__.get("return")
                missing |= {kind for kind in results(returned) if not hasattr(kind, "_repr_html_")}
    internal = {
        "BlankLine",
        "FeatureColumn",
        "PartContent",
        "PartHeader",
        "ReadableColumn",
        "SearchScope",
        "TokenizedRows",
    }
    assert {kind.__name__ for kind in missing} <= internal


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> FeatureSet:
    return FeatureSet(toy_set(tmp_path_factory.mktemp("display") / "toy.features"))


def test_a_feature_set_shows_its_columns_and_first_documents(features: FeatureSet) -> None:
    columns, documents = tables_of(features._repr_html_())
    assert columns == [["vectors", "width"], ["concat4_mean", "32"], ["concat4_token", "32"], ["concat4_word", "32"]]
    assert documents[0][:3] == ["row", "id", "text"]
    assert [row[2] for row in documents[1:]] == [document.text for document in list(features)[:5]]
    assert "documents 15" in features._repr_html_()


def test_a_document_shows_its_text_and_the_shapes_of_its_vectors(features: FeatureSet) -> None:
    document: Any = features[0]
    assert repr(document).startswith("DocumentFeatures(row=0, id='1', text='The bank, by the river.', year=1900")
    assert repr(document).endswith("concat4_mean=[32], concat4_token=[7, 32], concat4_word=[5, 32])")
    assert ["concat4_word", "[5, 32]"] in tables_of(document._repr_html_())[0]
    assert repr(document.words) == "DocumentPieces(strings=<5 str>, start=[5], end=[5], aligned=[5])"


def test_an_index_and_its_answers(features: FeatureSet, tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    settings: Any = build_index(features, tmp_path / "toy.index", "last_mean")
    assert repr(settings).startswith(
        "IndexSettings(column='last_mean', model='toy/model', type='Flat', metric='cosine'"
    )
    index = Index(tmp_path / "toy.index")
    assert repr(index) == f"Index({str(tmp_path / 'toy.index')!r}: 15 vectors of last_mean)"
    assert ["vectors", "15"] in tables_of(index._repr_html_())[0]
    (answer,) = index.search_vectors(features["last_mean"][:1], k=2)
    hits: Any = answer
    assert repr(hits) == "Answer(hits=<2 Hit>)"
    (table,) = tables_of(hits._repr_html_())
    assert table[0][:4] == ["rank", "score", "text", "id"]
    assert table[1][:4] == ["1", "1", "The bank, by the river.", "1"]
    assert "values.score" in table[0]  # a kept column with the name of another


def test_usages_are_a_concordance(features: FeatureSet) -> None:
    usages: Any = find_usages(features, "by")
    ((head, first, *_),) = tables_of(usages._repr_html_())
    assert head[:3] == ["left", "word", "right"]
    assert first[:3] == ["The bank, ", "by", " the river."]
    assert "text-align: right" in usages._repr_html_()
    assert repr(usages).startswith("Usages(word='by', column=")


def test_senses_and_change(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    features = FeatureSet(toy_set(tmp_path / "long.features", toy_part(0, 0, 24)))
    senses: Any = find_senses(features, "by", 2)
    ((head, first, _),) = tables_of(senses._repr_html_())
    assert head[0] == "count"
    assert int(first[0]) >= 1
    report: Any = measure_change(features, ["by"], "year", ChangeSettings(slices="1900-1911,1912-1923", least=2))
    table = tables_of(report._repr_html_())[-1]
    assert table[0][:4] == ["word", "prt", "apd", "jsd"]
    assert table[1][0] == "by"

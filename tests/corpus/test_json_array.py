"""JSON arrays: every object is a record, read in order and from any place, and what is wrong is told of it alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from bertfeat.core.corpus import (
    CorpusSettings,
    Document,
    Failure,
    check_readable,
    json_array,
    memory_corpus,
    open_corpus,
)
from bertfeat.errors import CorpusError, WrongColumnsError
from tests.support.corpus_writers import COMPRESS, documents_of, rows_of, texts_of

STS: list[dict[str, Any]] = [
    {
        "guid": f"klue-sts-v1_train_0000{number}",
        "source": "airbnb-rtt",
        "sentence1": f"숙소 위치는 찾기 쉽고 {number}",
        "sentence2": f"숙박시설의 위치는 쉽게 찾을 수 있고 {number}",
        "labels": {"label": 3.5 + number / 10, "real-label": 3.7142857, "binary-label": 1},
        "annotations": {"agreement": "0:0:0:2:5:0", "annotators": ["07", "13"]},
    }
    for number in range(5)
]
TOPICS = [
    {
        "guid": f"ynat-v1_train_0000{number}",
        "title": f"유튜브 내달 {number}일까지 크리에이터 지원 공간 운영",
        "predefined_news_category": "IT과학",
        "label": "생활문화",
        "annotations": {"annotators": ["18"], "annotations": {"first-scope": ["생활문화"]}},
        "date": "2016.06.30. 오전 10:36",
    }
    for number in range(3)
]


def write(folder: Path, value: object, name: str = "a.json", **options: Any) -> Path:
    (folder / name).write_bytes(json.dumps(value, **options).encode())
    return folder / name


@pytest.mark.parametrize("ending", COMPRESS)
@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_is_known_by_its_beginning(tmp_path: Path, ending: str, indent: int | None) -> None:
    content = json.dumps([{"text": letter} for letter in "abc"], indent=indent).encode()
    path = tmp_path / f"a.json{ending}"
    path.write_bytes(COMPRESS[ending](content))
    assert texts_of(path) == ["a", "b", "c"] == texts_of(path, CorpusSettings(format="json"))


def test_topics_as_klue_has_them(tmp_path: Path) -> None:
    path = write(tmp_path, TOPICS, ensure_ascii=False)
    settings = CorpusSettings(text_columns=("title",), id_column="guid", keep=("label", "date"))
    found = documents_of(path, settings)
    assert [(row.id, row.text, row.kept) for row in found] == [
        (topic["guid"], topic["title"], (topic["label"], topic["date"])) for topic in TOPICS
    ]


def test_pairs_with_labels_within_objects(tmp_path: Path) -> None:
    path = write(tmp_path, STS)
    settings = CorpusSettings(
        text_columns=("sentence1",), pair_column="sentence2", id_column="guid",
        keep=("labels.label", "labels.binary-label", "annotations.agreement"),
    )  # fmt: skip
    corpus = open_corpus([path], settings)
    assert [(kept.name, kept.type) for kept in corpus.kept] == [
        ("labels.label", "float64"), ("labels.binary-label", "int64"), ("annotations.agreement", "string"),
    ]  # fmt: skip
    assert [(row.text, row.pair, row.kept[0]) for row in documents_of(path, settings)] == [
        (one["sentence1"], one["sentence2"], one["labels"]["label"]) for one in STS
    ]
    lines = tmp_path / "a.jsonl"
    lines.write_text("\n".join(map(json.dumps, STS)))
    assert documents_of(lines, settings) == documents_of(path, settings)


def test_a_field_with_that_very_name_comes_first(tmp_path: Path) -> None:
    path = write(tmp_path, [{"a.b": "own", "a": {"b": "inner"}}, {"a": {"b": "inner"}}, {"a": {"c": 1}}, {"a": 3}])
    rows = rows_of(path, CorpusSettings(text_columns=("a.b",)))
    assert [row.text for row in rows if isinstance(row, Document)] == ["own", "inner"]
    assert ["no field 'a.b'" in row.reason for row in rows if isinstance(row, Failure)] == [True, True]


def test_an_empty_array_has_no_rows(tmp_path: Path) -> None:
    assert documents_of(write(tmp_path, [])) == []


def test_what_is_no_object_fails_alone(tmp_path: Path) -> None:
    path = write(tmp_path, [{"text": "a"}, 3, ["x"], {"text": "\ud83d", "id": "q"}, {"text": None}, {"text": "b"}])
    rows = rows_of(path)
    assert [row.text for row in rows if isinstance(row, Document)] == ["a", "b"]
    reasons = [row.reason for row in rows if isinstance(row, Failure)]
    assert [reason.partition(": ")[0].rpartition(", ")[2] for reason in reasons] == [
        "record 2", "record 3", "record 'q'", "record 5",
    ]  # fmt: skip
    assert "a number, not an object such as {" in reasons[0]
    assert "half of a surrogate pair" in reasons[2]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('[{"text": "a"}', "cannot be read on after record 1: ',' or ']' expected, line 1, column 15"),
        ('[{"text": "a"},\n {"text": }]', "cannot be read on after record 1: Expecting value, line 2, column 11"),
        ('[{"text": "a"}] [', "cannot be read on after record 1: something follows the list, line 1, column 17"),
    ],
)
def test_damage_is_told_after_what_is_before_it(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    rows = iter(open_corpus([path]).rows())
    first = next(rows)
    assert isinstance(first, Document)
    assert first.text == "a"
    with pytest.raises(CorpusError, match=problem.replace("]", r"\]")):
        list(rows)


@pytest.mark.parametrize("content", ["[", "[}", '{"text": "a"}', "", "3"])
def test_what_is_no_array(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(CorpusError, match=r"an array of objects; correct it, or name its format"):
        open_corpus([path], CorpusSettings(format="json"))


def test_an_array_read_as_lines_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, TOPICS)
    with pytest.raises(CorpusError, match="one JSON array, not an object a line; give format='json'"):
        open_corpus([path], CorpusSettings(format="jsonl"))


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    corpus = open_corpus([write(tmp_path, TOPICS * 40)])
    with pytest.raises(WrongColumnsError, match="no field 'text'; there are 'guid', 'title'"):
        list(check_readable(corpus.rows(), corpus))


def test_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_array, "MAX_FILE", 2**10)
    with pytest.raises(CorpusError, match=r"larger than 0 MiB.*make JSONL of it"):
        open_corpus([write(tmp_path, TOPICS * 40)])


NESTED = [
    {"meta": {"id": "a1", "who": {"name": "Ada"}}, "body": {"text": "one"}, "n": {"x": None}},
    {"meta": {"id": "b2", "who": {"name": None}}, "body": {"text": None}, "n": {"x": 2}},
    {"meta": {"id": "c3"}, "body": {"text": "three"}, "n": {"x": 3, "x.y": 1}},
    {"meta": {"id": "d4"}, "body": "no object", "n": 4},
    {"meta": {"id": "e5"}, "body": {"text": "\ud83d"}, "n": {"x": 5}},
]


def test_arrays_lines_and_lists_agree(tmp_path: Path) -> None:
    """In texts, ids and kept columns within objects, also where these are null, missing, or no objects."""
    settings = CorpusSettings(text_columns=("body.text",), id_column="meta.id", keep=("meta.who.name", "n.x:int64"))
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, NESTED)))
    sources = [rows_of(write(tmp_path, NESTED), settings), rows_of(tmp_path / "a.jsonl", settings)]
    sources.append(list(memory_corpus(NESTED, settings).rows()))
    for rows in sources:
        read = [(row.id, row.text, row.kept) for row in rows if isinstance(row, Document)]
        assert read == [("a1", "one", ("Ada", None)), ("c3", "three", (None, 3))]
        failed = [row.reason for row in rows if isinstance(row, Failure)]
        assert len(failed) == 3
        assert "field 'body.text' is null" in failed[0]
        assert "no field 'body.text'" in failed[1]
        assert "half of a surrogate pair" in failed[2]


def test_spans_within_objects(tmp_path: Path) -> None:
    items = [{"text": "one two", "at": {"spans": [[0, 3], [4, 7]]}}]
    settings = CorpusSettings(split="column:at.spans")
    assert texts_of(write(tmp_path, items), settings) == ["one", "two"]


def test_a_column_of_csv_with_a_dot_is_one_column(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,a.b,a\nx,1,2\n")
    (row,) = documents_of(tmp_path / "a.csv", CorpusSettings(keep=("a.b", "a")))
    assert row.kept == (1, 2)


def test_a_huge_number_is_a_text(tmp_path: Path) -> None:
    digits = "7" * 5000
    path = tmp_path / "a.json"
    path.write_text(f'[{{"text": "a", "n": {digits}}}, {{"text": "b", "n": 1}}]')
    rows = rows_of(path, CorpusSettings(keep=("n:string",)))
    assert [row.kept for row in rows if isinstance(row, Document)] == [(digits,), ("1",)]


def test_what_is_nested_too_deeply_ends_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('[{"text": "a"}, {"text": ' + "[" * 100_000 + "]" * 100_000 + "}]")
    rows = open_corpus([path]).rows()
    assert isinstance(next(rows), Document)
    with pytest.raises(CorpusError, match="cannot be read on after record 1: nested too deeply"):
        next(rows)


def test_the_last_of_two_fields_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes('\ufeff[{"text": "first", "text": "last"}]'.encode())
    assert texts_of(path) == ["last"]

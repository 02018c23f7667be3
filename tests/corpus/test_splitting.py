"""Texts split into documents: their ids, places and kept values, and reading from any span on."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pandas
import pytest

from bertfeat.core.corpus import (
    BlankLine,
    CorpusItem,
    CorpusSettings,
    Document,
    Failure,
    KeptColumn,
    Row,
    memory_corpus,
    open_corpus,
)
from bertfeat.errors import UsageError
from tests.support.corpus_writers import write_squad
from tests.support.runs import jsonl_file, text_file

SENTENCES = CorpusSettings(split="sentences")
OWN = (
    KeptColumn("text_id", "string"),
    KeptColumn("position", "int64"),
    KeptColumn("start", "int64"),
    KeptColumn("end", "int64"),
)
TEXTS = ["It froze. The river stood still!  Nobody came.", "", "One only", "What? Who? "]


def rows_of(path: Path, settings: CorpusSettings) -> list[Row]:
    return list(open_corpus(path, settings).rows())


def test_the_sentences_of_texts_are_documents(tmp_path: Path) -> None:
    records = [
        {"id": name, "text": text, "year": 1900 + at} for at, (name, text) in enumerate(zip("abcd", TEXTS, strict=True))
    ]
    path = jsonl_file(tmp_path / "c.jsonl", records)
    settings = replace(SENTENCES, keep=("year",))
    corpus = open_corpus(path, settings)
    assert corpus.kept == (KeptColumn("year", "int64"), *OWN)
    assert corpus.split == "sentences"
    expected = [
        Document(0, "a#0", "It froze.", kept=(1900, "a", 0, 0, 9)),
        Document(1, "a#1", "The river stood still!", kept=(1900, "a", 1, 10, 32)),
        Document(2, "a#2", "Nobody came.", kept=(1900, "a", 2, 34, 46)),
        BlankLine(3),  # of a text without any
        Document(4, "c#0", "One only", kept=(1902, "c", 0, 0, 8)),
        Document(5, "d#0", "What?", kept=(1903, "d", 0, 0, 5)),
        Document(6, "d#1", "Who?", kept=(1903, "d", 1, 6, 10)),
    ]
    assert list(corpus.rows()) == expected
    memory = memory_corpus(records, settings)
    assert (memory.kept, memory.split) == (corpus.kept, "sentences")
    assert list(memory.rows()) == expected


def test_texts_in_memory_are_numbered_as_the_lines_of_a_file(tmp_path: Path) -> None:
    texts = ["A b. C d.", "E f."]
    expected = [("1#0", "A b."), ("1#1", "C d."), ("2#0", "E f.")]
    for corpus in (memory_corpus(texts, SENTENCES), open_corpus(text_file(tmp_path / "c.txt", texts), SENTENCES)):
        assert [(row.id, row.text) for row in corpus.rows() if isinstance(row, Document)] == expected


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        ("paragraphs", ["It froze. Then", "nobody came at all"]),
        ("words:3", ["It froze. Then", "nobody came at", "all"]),
        ("words:3:1", ["It froze. Then", "Then\n\nnobody came", "came at all"]),
        ("sentences", ["It froze.", "Then", "nobody came at all"]),
    ],
)
def test_rules(split: str, expected: list[str]) -> None:
    text = "It froze. Then\n\nnobody came at all\n"
    documents = [row for row in memory_corpus([text], CorpusSettings(split=split)).rows() if isinstance(row, Document)]
    assert [document.text for document in documents] == expected
    places = [(document.kept[2], document.kept[3]) for document in documents]
    assert [text[start:end] for start, end in cast("list[tuple[int, int]]", places)] == expected


@pytest.mark.parametrize("keep", [(), ("spans",), ("spans", "n")])
def test_a_column_lists_the_spans(tmp_path: Path, keep: tuple[str, ...]) -> None:
    records: list[dict[str, Any]] = [
        {"text": "Ann met Bo.", "spans": [[8, 10], [0, 3, "PER"]], "n": 1},
        {"text": "nobody", "spans": [], "n": 2},
        {"text": "left out", "n": 3},
        {"text": "wrong", "spans": [[0, 99]], "n": 4},
        {"text": "wrong", "spans": "x", "n": 5},
        {"text": "Ulm", "spans": [{"start": 0, "end": 3}], "n": 6},
    ]
    path = jsonl_file(tmp_path / "c.jsonl", records)
    settings = CorpusSettings(split="column:spans", keep=keep)
    for place, corpus in (
        (f"{path}, record", open_corpus(path, settings)),
        ("item", memory_corpus(records, settings)),
    ):
        assert [column.name for column in corpus.kept] == [*keep, "text_id", "position", "start", "end"]
        rows = list(corpus.rows())
        assert [row.row for row in rows] == list(range(7))
        assert [getattr(row, "text", type(row)) for row in rows] == [
            "Ann",
            "Bo",
            BlankLine,
            BlankLine,
            Failure,
            Failure,
            "Ulm",
        ]
        found = [row for row in rows if isinstance(row, Document)]
        assert [document.kept[len(keep) :] for document in found] == [("1", 0, 0, 3), ("1", 1, 8, 10), ("6", 0, 0, 3)]
        assert [document.kept[: len(keep)] for document in found] == [
            tuple(json.dumps(value) if isinstance(value, list) else value for value in map(records[at].get, keep))
            for at in (0, 0, 5)
        ]
        one, other = (row for row in rows if isinstance(row, Failure))
        assert one.reason.startswith(f"{place} 4: field 'spans': the span [0, 99) is outside the text of 5 characters")
        assert (one.id, one.value) == ("4", "[[0, 99]]")
        assert other.reason.startswith(f"{place} 5: field 'spans': it is no list of spans, such as")


def test_documents_have_their_spans_kept() -> None:
    document = Document(0, "x", "a b", kept=("[[2, 3]]",))
    found = list(memory_corpus([document], CorpusSettings(split="column:at", keep=("at",))).rows())
    assert found == [Document(0, "x#0", "b", kept=("[[2, 3]]", "x", 0, 2, 3))]
    mixed: list[CorpusItem] = [{"text": "a", "at": []}, Document(0, "x", "a b")]
    with pytest.raises(
        UsageError, match=r"item 2 is a Document, whose spans are a kept value: keep=\('at',\) is missing"
    ):
        memory_corpus(mixed, CorpusSettings(split="column:at"))


def test_failures_and_blank_lines_stay(tmp_path: Path) -> None:
    path = jsonl_file(tmp_path / "c.jsonl", [{"text": "a b. c d."}, "{", "", {"text": 7}, {"text": "e"}])
    rows = rows_of(path, SENTENCES)
    assert [type(row) for row in rows] == [Document, Failure, BlankLine, Failure, Document]
    assert [row.row for row in rows] == list(range(5))
    assert [row.id for row in rows if isinstance(row, Failure)] == ["2", "4"]


# ── every place to begin at ─────────────────────────────────────────────────────────────────────────────────

_LONG = ["A b. C d.\tE f. G!", "", "H", " ", "I j? K l… M n. O.", "P"]


def _files(folder: Path) -> dict[str, tuple[Path, CorpusSettings]]:
    records = [{"text": text, "n": at} for at, text in enumerate(_LONG)]
    jsonl = [{**records[0], "spans": [[0, 4], [5, 9]]}, "{", records[1], {"text": 3}, *records[2:]]
    table = pandas.DataFrame(records)
    table.to_parquet(folder / "c.parquet", row_group_size=2)
    table.to_csv(folder / "c.csv", index=False)
    (folder / "c.json").write_bytes(write_squad(_LONG[:1] + _LONG[4:]))
    (folder / "c.paragraphs").write_text("\n\n".join(_LONG) + "\n\n\n" + "Q.\nR. S")
    sentences, kept = SENTENCES, replace(SENTENCES, keep=("n",))
    return {
        "text": (text_file(folder / "c.txt", _LONG), sentences),
        "jsonl": (jsonl_file(folder / "c.jsonl", jsonl), kept),
        "column": (folder / "c.jsonl", CorpusSettings(split="column:spans", keep=("n",))),
        "csv": (folder / "c.csv", kept),
        "parquet": (folder / "c.parquet", kept),
        "squad": (folder / "c.json", replace(SENTENCES, text_columns=("context",))),
        "paragraphs": (folder / "c.paragraphs", replace(SENTENCES, format="paragraphs")),
    }


@pytest.mark.parametrize("name", ["text", "jsonl", "column", "csv", "parquet", "squad", "paragraphs"])
def test_reading_begins_at_any_span(tmp_path: Path, name: str) -> None:
    path, settings = _files(tmp_path)[name]
    (file,) = open_corpus(path, settings).files
    whole = list(file.read(100))
    assert [row.row for row in whole] == list(range(100, 100 + len(whole)))
    assert len(whole) > len(_LONG) or name in ("column", "squad")
    reading = file.read(100)
    for number, row in enumerate(reading):
        assert row == whole[number]
        assert list(file.read(100 + number, start=reading.row_position)) == whole[number:]
        again = file.read(100 + number + 1, start=reading.position, rows=2)
        assert list(again) == whole[number + 1 : number + 3]
        if number + 1 < len(whole):
            second = file.read(7, start=again.position)
            assert [replace(row, row=0) for row in second] == [replace(row, row=0) for row in whole[number + 3 :]]


def test_rows_of_several_files_are_numbered_through(tmp_path: Path) -> None:
    one, two = text_file(tmp_path / "a.txt", ["A b. C d."]), text_file(tmp_path / "b.txt", ["E f. G h.", "I"])
    rows = list(open_corpus([one, two], replace(SENTENCES, keep=("file",))).rows())
    assert [row.row for row in rows] == list(range(5))
    assert [(row.id, row.kept[0], row.kept[-1]) for row in rows if isinstance(row, Document)] == [
        (f"{one}:1#0", f"{one}:1", str(one)),
        (f"{one}:1#1", f"{one}:1", str(one)),
        (f"{two}:1#0", f"{two}:1", str(two)),
        (f"{two}:1#1", f"{two}:1", str(two)),
        (f"{two}:2#0", f"{two}:2", str(two)),
    ]


# ── what cannot be split ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"split": "verses"}, r"split='verses': these spans are unknown; there are: sentences"),
        ({"split": "words:2:2"}, r"split='words:2:2': a span needs a word at least"),
        ({"pairs": True}, r"split='sentences': it splits running text, and pairs are two texts; leave one"),
        ({"pair_column": "b"}, r"split='sentences': it splits running text, and pairs are two texts"),
        ({"pretokenized": True}, r"split='sentences': it splits running text, and pretokenized brings words"),
    ],
)
def test_settings_that_cannot_be(more: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        CorpusSettings(**{"split": "sentences", **more})


def test_files_that_cannot_be_split(tmp_path: Path) -> None:
    conll, squad = tmp_path / "c.conll", tmp_path / "c.json"
    conll.write_text("a O\n\n")
    squad.write_bytes(write_squad(["a?"]))
    table = tmp_path / "c.csv"
    table.write_text("text,start,n\na b,1,2\n")
    text = text_file(tmp_path / "c.txt", ["a"])
    lines = jsonl_file(tmp_path / "c.jsonl", [{"text": "a", "spans": [[0, 1]]}])
    for path, settings, error, message in (
        (conll, SENTENCES, UsageError, "split cannot be used with conll files"),
        (squad, SENTENCES, UsageError, "it splits running text, and pairs are two texts; .* with text_columns"),
        (text, CorpusSettings(split="column:a"), UsageError, "split='column:a': text files have no columns; split by"),
        (table, CorpusSettings(split="column:m"), UsageError, "split='column:m': no such column in .*c.csv; there are"),
        (
            lines,
            CorpusSettings(split="column:span"),
            UsageError,
            r"no such field .* there are 'text', 'spans'; did you mean",
        ),
        (
            table,
            replace(SENTENCES, keep=("n", "start")),
            UsageError,
            r"keep=\('start',\): what is split has its own col",
        ),
        (table, replace(SENTENCES, keep=("all",)), UsageError, r"keep=\('start',\): what is split has its own columns"),
    ):
        with pytest.raises(error, match=message):
            open_corpus(path, settings)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([("a", "b")], "it splits running text, and pairs are two texts; leave it out"),
        ([Document(0, "x", "a b", words=("a", "b"))], "it splits running text, and these items bring their words"),
    ],
)
def test_items_that_cannot_be_split(items: list[Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"split='sentences': {message}"):
        memory_corpus(items, SENTENCES)


def test_a_list_of_spans_that_comes_later(tmp_path: Path) -> None:
    path = jsonl_file(tmp_path / "c.jsonl", [{"text": "a"}, {"text": "b c", "at": [[2, 3]]}])
    settings = CorpusSettings(split="column:at", keep=("at:string",))
    assert [getattr(row, "text", "") for row in rows_of(path, settings)] == ["", "c"]

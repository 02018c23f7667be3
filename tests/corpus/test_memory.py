"""Corpora of Python objects, and the check that a corpus is readable at all."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest

from bertfeat.core.corpus import (
    BlankLine,
    Corpus,
    CorpusItem,
    CorpusSettings,
    Document,
    Failure,
    KeptColumn,
    Row,
    check_readable,
    memory_corpus,
    open_corpus,
)
from bertfeat.errors import UsageError, WrongColumnsError

WORDS = CorpusSettings(pretokenized=True)


def test_strings_are_texts_never_blank_lines() -> None:
    corpus = memory_corpus(["a", "", " \n", "b\nc"])
    assert list(corpus.rows()) == [
        Document(0, "1", "a"),
        Document(1, "2", ""),
        Document(2, "3", " \n"),
        Document(3, "4", "b\nc"),
    ]
    assert (corpus.has_pairs, corpus.has_words, corpus.has_tags, corpus.kept) == (False, False, False, ())
    assert corpus.fraction == 1.0
    assert list(corpus.rows()) == list(corpus.rows())


def test_an_iterator_can_be_read_again() -> None:
    corpus = memory_corpus(str(n) for n in range(3))
    assert list(corpus.rows()) == list(corpus.rows())
    assert list(memory_corpus(np.array(["a", "b"])).rows()) == list(memory_corpus(["a", "b"]).rows())
    assert list(memory_corpus([]).rows()) == []


def test_pairs_words_mappings_and_documents() -> None:
    pairs = memory_corpus([("a", "b"), ("c", "")])
    assert [(d.text, d.pair) for d in _documents(pairs)] == [("a", "b"), ("c", "")]
    assert pairs.has_pairs
    words = memory_corpus([["New York", "!"], ("a", "b"), []], WORDS)
    assert [d.words for d in _documents(words)] == [("New York", "!"), ("a", "b"), ()]
    assert words.has_words
    mappings = memory_corpus(
        [{"text": "a", "id": 3, "year": np.int64(7)}, {"text": "b", "year": None}], CorpusSettings(keep=("all",))
    )
    assert mappings.kept == (KeptColumn("year", "int64"),)
    assert list(mappings.rows()) == [Document(0, "3", "a", kept=(7,)), Document(1, "2", "b", kept=(None,))]
    tagged = Document(5, "x", "a b", words=("a", "b"), tags=("X", "O"), before="c")
    documents = memory_corpus([tagged])
    assert list(documents.rows()) == [Document(0, "x", "a b", words=("a", "b"), tags=("X", "O"), before="c")]
    assert (documents.has_words, documents.has_tags) == (True, True)
    kept = memory_corpus([Document(0, "1", "a", kept=(1.5, "x"))], CorpusSettings(keep=("score", "label:string")))
    assert kept.kept == (KeptColumn("score", "float64"), KeptColumn("label", "string"))


def _documents(corpus: Corpus) -> list[Document]:
    return [row for row in corpus.rows() if isinstance(row, Document)]


@pytest.mark.parametrize(
    ("items", "settings", "says"),
    [
        (["a", 3], CorpusSettings(), "item 2 is of type int"),
        (["a", None], CorpusSettings(), "item 2 is of type NoneType"),
        ([b"a"], CorpusSettings(), "item 1 is of type bytes"),
        (["a", ["b"]], CorpusSettings(), "item 2 is of type list"),
        ([("a", "b", "c")], CorpusSettings(), "item 1 is of type tuple, not two strings"),
        (["a", ("b", "c")], CorpusSettings(), "item 1 is a single text among pairs"),
        (["a"], WORDS, "item 1 is a string, where a list of words is needed"),
        ([["a"], ["b", ""]], WORDS, "item 2 is list, not a list of words"),
        ([{"text": "a"}, ("b", "c")], CorpusSettings(), "item 1 is a mapping that gives no pair"),
        (
            [Document(0, "1", "a", pair="b"), Document(1, "2", "c")],
            CorpusSettings(),
            "item 2 is a Document without pair",
        ),
        ([Document(0, "1", "a", words=("a",), tags=())], CorpusSettings(), "1 words with 0 tags"),
        ([Document(0, "1", "a", kept=(1,))], CorpusSettings(), "1 kept values"),
        ("a text", CorpusSettings(), "not one str"),
        ({"text": "a"}, CorpusSettings(), "not one dict"),
        (3, CorpusSettings(), "not one int"),
    ],
)
def test_items_that_are_refused(items: Any, settings: CorpusSettings, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        memory_corpus(items, settings)


def test_strings_that_cannot_be_stored_fail() -> None:
    items: list[CorpusItem] = ["a\ud83d", {"text": "b", "id": "\ud83d"}, {"text": 3}, "c"]
    *failures, last = memory_corpus(items).rows()
    assert last == Document(3, "4", "c")
    assert all(isinstance(row, Failure) for row in failures)
    repr([(row.id, row.reason, row.value) for row in failures if isinstance(row, Failure)]).encode()
    assert [row.row for row in failures] == [0, 1, 2]


# ── check_readable ────────────────────────────────────────────────────────────────────────────────────────────────


def test_hundred_failures_with_no_document_before_them_stop() -> None:
    corpus = memory_corpus([{"body": "a"}] * 200)
    says = r"the first 100 rows .* no field 'text'.*the columns that there are: 'body'"
    with pytest.raises(WrongColumnsError, match=says):
        next(check_readable(corpus.rows(), corpus))
    assert corpus.fraction == 0.5


def test_a_small_corpus_of_failures_only_stops() -> None:
    corpus = memory_corpus([{"body": "a"}])
    with pytest.raises(WrongColumnsError, match=r"all rows \(1\)"):
        list(check_readable(corpus.rows(), corpus))


@pytest.mark.parametrize("failures", [0, 1, 99, 100, 150])
def test_one_document_among_the_first_rows_is_hope(failures: int) -> None:
    rows: list[Row] = [BlankLine(0), *(Failure(n, str(n), "bad") for n in range(1, 100)), Document(100, "101", "a")]
    rows += [Failure(n, str(n), "bad") for n in range(101, 101 + failures)]
    read = 0

    def counted() -> Iterator[Row]:
        nonlocal read
        for row in rows:
            read += 1
            yield row

    passed = check_readable(counted(), memory_corpus([]))
    assert next(passed) == BlankLine(0)
    assert read == 101  # no more than needed
    assert [rows[0], *passed] == rows


def test_blank_lines_only_and_nothing_are_no_failure(tmp_path: Any) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\n" * 20_000)
    corpus = open_corpus([path])
    assert len(list(check_readable(corpus.rows(), corpus))) == 20_000
    assert list(check_readable([], corpus)) == []


def test_a_table_is_no_list_of_its_column_names() -> None:
    frame = pandas.DataFrame({"text": ["a", "b"], "year": [1, 2]})
    for table in (frame, pa.table({"text": ["a", "b"]}), np.array([["a", "b"]])):
        with pytest.raises(UsageError, match=r"not a table \(.*\); give one of its columns"):
            memory_corpus(table)
    assert [row.text for row in memory_corpus(frame["text"]).rows() if isinstance(row, Document)] == ["a", "b"]
    rows = memory_corpus(frame.to_dict("records"), CorpusSettings(keep=("year",))).rows()
    assert [row.kept for row in rows if isinstance(row, Document)] == [(1,), (2,)]

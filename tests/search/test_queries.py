"""Queries from files, in whatever encoding; BEIR folders, and what is wrong with them."""

import codecs
import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from bertfeat.errors import CorpusError, UsageError
from bertfeat.search import read_beir, read_queries, read_vectors, unmark_words

QUERIES = ["who is it?", "Wie heißt er?", "은행은 어디에", "🙂 a\u2028b"]


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_queries_in_any_encoding(codec: str, end: str, last: bool) -> None:
    marks = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}
    marks |= {"utf-32-le": codecs.BOM_UTF32_LE, "utf-32-be": codecs.BOM_UTF32_BE}
    text = end.join(["", *QUERIES, "  ", ""] if last else QUERIES)
    data = marks.get(codec, b"") + text.encode(codec)
    assert list(read_queries(io.BytesIO(data), "q.txt")) == QUERIES


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\n"))))
def test_every_query_comes_back(queries: list[str]) -> None:
    data = "\n".join(queries).encode("utf-8-sig")
    assert list(read_queries(io.BytesIO(data), "q.txt")) == [query.strip() for query in queries if query.strip()]


@pytest.mark.parametrize("data", [b"", codecs.BOM_UTF8, b"\n \n\r\n", b"\xff\xfe"])
def test_no_queries(data: bytes) -> None:
    assert list(read_queries(io.BytesIO(data), "q.txt")) == []


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (
            "gut\n\nMünchen\n".encode("cp1252"),
            r"q\.txt, line 3: 'M\\xfcnchen' is no utf-8 text; save the file as UTF-8",
        ),
        ("ab\ncd\n".encode("utf-16-le"), r"line 1: 'a\\x00b\\x00' is no utf-8 text"),
        (codecs.BOM_UTF16_LE + b"a\0\n\0\x00\xd8\n\0", "line 2: .* is no utf-16-le text"),
        (b"PK\3\4\0\0", "line 1"),
    ],
)
def test_queries_that_cannot_be_decoded(data: bytes, problem: str) -> None:
    with pytest.raises(CorpusError, match=problem):
        list(read_queries(io.BytesIO(data), "q.txt"))


# ── vectors ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_vectors_of_a_file(tmp_path: Path) -> None:
    matrix = np.arange(12, dtype=">f4").reshape(3, 4)
    np.save(tmp_path / "v.npy", matrix)
    found = read_vectors(tmp_path / "v.npy")
    np.testing.assert_array_equal(found, matrix)
    assert isinstance(found, np.memmap)


def test_files_that_are_no_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", np.ones(3))
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    np.save(tmp_path / "whole.npy", np.ones((50, 4)))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "whole.npy").read_bytes()[:300])
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "text.npy").write_text("1 2 3\n")
    np.ones(3).dump(tmp_path / "pickle.npy")
    expected = {
        "v.npz": r"an archive \(\.npz\); save the array alone with numpy\.save",
        "objects.npy": "it holds no whole array of numbers",
        "cut.npy": "it holds no whole array of numbers",
        "empty.npy": "it is no array; numpy.save writes one",
        "text.npy": "it is no array",
        "pickle.npy": "it is no array",
        "nowhere.npy": "nowhere.npy cannot be read: No such file",
    }
    for name, problem in expected.items():
        with pytest.raises(UsageError, match=problem):
            read_vectors(tmp_path / name)


# ── BEIR ────────────────────────────────────────────────────────────────────────────────────────────────────

JUDGED = {"q1": {"d1": 1, "d 2": 2}, "2": {"d1": -1}}


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    (tmp_path / "qrels").mkdir()
    records = [{"_id": "q1", "text": "one", "metadata": {"url": None}}, {"_id": 2, "text": "zwei ß"}, {"_id": "x", "text": ""}]  # noqa: E501  # fmt: skip
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td 2\t2\n2\td1\t-1\n")
    return tmp_path


def test_only_judged_queries_are_read(beir: Path) -> None:
    data = read_beir(beir)
    assert data.queries == {"q1": "one", "2": "zwei ß"}
    assert data.judgments == JUDGED


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16"])
def test_marks_and_returns_and_blank_lines(codec: str, beir: Path) -> None:
    for path in (beir / "queries.jsonl", beir / "qrels" / "test.tsv"):
        path.write_bytes(("\r\n" + path.read_text().replace("\n", "\r\n \r\n").strip()).encode(codec))
    assert read_beir(beir).queries == {"q1": "one", "2": "zwei ß"}
    assert read_beir(beir).judgments == JUDGED


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("qrels/test.tsv", "", r"test\.tsv: there are no judgments in it"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\n", "there are no judgments in it"),
        ("qrels/test.tsv", "q1\t2\n", r"test\.tsv, line 1: expected query-id, corpus-id and score .* it is 'q1"),
        ("qrels/test.tsv", "q1\td\tx\n", "expected query-id"),
        ("qrels/test.tsv", "q1\td\t1.5\n", "a whole number"),
        ("qrels/test.tsv", "q1 0 d 1\n", "with tabs between them"),
        ("qrels/test.tsv", "q1\td\t2147483648\n", "expected query-id"),  # H3
        ("qrels/test.tsv", "q1\td\t1001\n", "scores are from -1,000 to 1,000"),
        ("qrels/test.tsv", "q1\td\t1\nq1\td\t2\n", "line 2: another line gives this query and document the score 1"),
        ("qrels/test.tsv", "nobody\td\t1\n", "'nobody', which qrels/test.tsv judges, is not in it"),
        ("queries.jsonl", "{}\n", "line 1: expected an object with _id and text"),
        ("queries.jsonl", "x\n", "line 1: expected an object"),
        ("queries.jsonl", "[1]\n", "line 1: expected an object"),
        ("queries.jsonl", '{"_id": null, "text": "a"}\n', "line 1: expected an object"),
        ("queries.jsonl", '{"_id": "q1", "text": ["a"]}\n', "line 1: expected an object"),
        ("queries.jsonl", '{"_id": "q1", "text": "\\ud800"}\n', "line 1: expected an object"),
        ("queries.jsonl", '{"_id": "q1", "text": ' + "[" * 100_000 + "}\n", "line 1: expected an object"),  # T6
        (
            "queries.jsonl",
            '{"_id": "q1", "text": "a"}\n{"_id": "q1", "text": "b"}\n',
            "line 2: another line gives the query",
        ),
    ],
)
def test_what_is_not_in_beirs_form(beir: Path, file: str, text: str, problem: str) -> None:
    (beir / file).write_text(text)
    with pytest.raises(CorpusError, match=problem):
        read_beir(beir)


def test_files_that_cannot_be_read(beir: Path) -> None:
    with pytest.raises(CorpusError, match=r"train\.tsv cannot be read: No such file .*a BEIR folder has"):
        read_beir(beir, "train")
    (beir / "qrels" / "test.tsv").write_bytes("q1\tM\xfcnchen\t1\n".encode("latin-1"))
    with pytest.raises(CorpusError, match=r"test\.tsv, line 1: .* is no utf-8 text"):
        read_beir(beir)
    (beir / "queries.jsonl").unlink()
    (beir / "queries.jsonl").mkdir()
    (beir / "qrels" / "test.tsv").write_text("q1\td\t1\n")
    with pytest.raises(CorpusError, match=r"queries\.jsonl cannot be read: not a regular file"):
        read_beir(beir)


@pytest.mark.parametrize(
    ("text", "plain", "marked"),
    [
        ("no mark", "no mark", []),
        ("He sat on the *bank*.", "He sat on the bank.", ["bank"]),
        ("*a* *b c* d", "a b c d", ["a", "b c"]),
        ("3 * 4 * 5", "3 * 4 * 5", []),
    ],
)
def test_marked_words(text: str, plain: str, marked: list[str]) -> None:
    unmarked, spans = unmark_words(text)
    assert unmarked == plain
    assert [unmarked[start:end] for start, end in spans] == marked


def test_a_line_that_may_never_end_is_refused() -> None:
    long = b"first\n" + b"x" * (1 << 24)
    assert [len(query) for query in read_queries(io.BytesIO(long + b"\n"), "q.txt")] == [5, 1 << 24]
    with pytest.raises(CorpusError, match=r"^q\.txt, line 2: it has more than 16,777,216 bytes$"):
        list(read_queries(io.BytesIO(long + b"x" * (1 << 17)), "q.txt"))

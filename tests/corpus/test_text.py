"""Text files: lines, pairs, given words."""

from pathlib import Path

import pytest

from bertfeat.core.corpus import MAX_TEXT, BlankLine, CorpusSettings, Document, Failure, memory_corpus, open_corpus
from bertfeat.core.corpus.lines import BadLine, TextEncoding, read_lines
from bertfeat.errors import UsageError
from tests.support.corpus_writers import COMPRESS, documents_of, failures_of, rows_of


def text_file(folder: Path, content: bytes, name: str = "a.txt") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_rows_ids_and_blank_lines(tmp_path: Path) -> None:
    assert rows_of(text_file(tmp_path, b"one\n\n \t\ntwo")) == [
        Document(0, "1", "one"),
        BlankLine(1),
        BlankLine(2),
        Document(3, "4", "two"),
    ]


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    corpus = open_corpus([text_file(tmp_path, b"")])
    assert list(corpus.rows()) == []
    assert corpus.fraction == 1.0


def test_only_line_feeds_end_lines(tmp_path: Path) -> None:
    path = text_file(tmp_path, "a\u2028b\x85c\x0bd\x0ce\rf\r\n\ufeffg\r\r\nh\x00i\n".encode())
    assert [d.text for d in documents_of(path)] == ["a\u2028b\x85c\x0bd\x0ce\rf", "\ufeffg\r", "h\x00i"]


def test_an_undecodable_line_fails_alone(tmp_path: Path) -> None:
    path = text_file(tmp_path, b"good\n\xc3\xa9t\xc3\xa9\r\nSECRET \xff\n\xed\xa0\x80\nlast\r\nmore\n")
    rows = rows_of(path)
    assert [row.row for row in rows] == list(range(6))
    assert [row.text for row in rows if isinstance(row, Document)] == ["good", "été", "last", "more"]
    failure = rows[2]
    assert isinstance(failure, Failure)
    assert failure.id == "3"
    remedy = "correct the line, or give the file's --encoding"
    assert failure.reason == f"{path}, line 3: not utf-8 at byte 8; {remedy}"
    assert failure.value == "SECRET \\xff"


def test_an_undecodable_line_of_utf_16_fails_alone(tmp_path: Path) -> None:
    lines = [text.encode("utf-16-le") for text in ("good\n", "漢字\n", "x", "\n", "last\r\n", "more\n")]
    lines.insert(3, b"\x00\xd8")  # half of a surrogate pair
    path = text_file(tmp_path, b"\xff\xfe" + b"".join(lines))
    rows = rows_of(path)
    assert [row.text for row in rows if isinstance(row, Document)] == ["good", "漢字", "last", "more"]
    assert isinstance(rows[2], Failure)
    odd = text_file(tmp_path, b"\xff\xfe" + b"".join(lines[:2]) + b"\x41", "odd.txt")
    assert [type(row) for row in rows_of(odd)] == [Document, Document, Failure]


def test_other_encodings(tmp_path: Path) -> None:
    for codec, text in (
        ("cp949", "은행에서 돈을 찾았다"),
        ("shift_jis", "ソ表"),
        ("cp037", "Ebcdic"),
        ("latin-1", "é"),
    ):
        path = text_file(tmp_path, f"{text}\r\n\n{text}\n".encode(codec))
        rows = rows_of(path, CorpusSettings(encoding=codec))
        assert rows == [Document(0, "1", text), BlankLine(1), Document(2, "3", text)]


def test_pairs_part_at_the_last_bars(tmp_path: Path) -> None:
    path = text_file(tmp_path, b"a ||| b\nc ||| d ||| e\n ||| \nno pair\n")
    corpus = open_corpus([path], CorpusSettings(pairs=True))
    *pairs, single = corpus.rows()
    assert corpus.has_pairs
    assert [(d.text, d.pair) for d in pairs if isinstance(d, Document)] == [("a", "b"), ("c ||| d", "e"), ("", "")]
    assert isinstance(single, Failure)
    assert single.value == "no pair"
    assert "no pair" not in single.reason


def test_given_words(tmp_path: Path) -> None:
    corpus = open_corpus([text_file(tmp_path, b" New  York\t!\n")], CorpusSettings(pretokenized=True))
    assert list(corpus.rows()) == [Document(0, "1", "New York !", words=("New", "York", "!"))]
    assert corpus.has_words


@pytest.mark.parametrize("codec", ["utf-8", "utf-16-le"])
def test_a_line_that_is_too_long_fails_without_being_held(codec: str) -> None:
    lines = ["short", "x" * 5000, "y" * 100, "z" * 101, "end"]
    width = len("x".encode(codec))
    data = "\n".join(lines).encode(codec)
    pieces = [data[start : start + 50] for start in range(0, len(data), 50)]
    read = [line for some in read_lines(iter(pieces), TextEncoding(codec), limit=100 * width) for line in some]
    assert [line if isinstance(line, str) else type(line) for line in read] == [
        *("short", BadLine, "y" * 100, BadLine, "end")
    ]
    bad = read[1]
    assert isinstance(bad, BadLine)
    assert bad.reason == f"too large: the line is longer than {100 * width} bytes; split it into several"
    assert len(bad.text) <= 1024
    whole = [line for some in read_lines(iter([data]), TextEncoding(codec), limit=100 * width) for line in some]
    assert [type(line) for line in whole] == [type(line) for line in read]


def test_a_line_of_more_than_64_mib_fails(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(b"".join(COMPRESS[".gz"](part) for part in (b"a\n", *[b"x" * 2**24] * 5, b"\nb\n")))
    (failure,) = failures_of(path)
    assert "too large: the line is longer than 64 MiB" in failure.reason
    assert failure.value == "x" * 79 + "…"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.csv", "pair.jsonl"])
def test_a_text_that_no_part_holds_fails(tmp_path: Path, name: str) -> None:
    text = "은" * (MAX_TEXT + 1)
    content = {
        "a.txt": f"a\n{text}\nb\n",
        "a.jsonl": f'{{"text": "a"}}\n{{"text": "{text}"}}\n{{"text": "b"}}\n',
        "a.csv": f"text\na\n{text}\nb\n",
        "pair.jsonl": f'{{"text": "a", "b": ""}}\n{{"text": "c", "b": "{text}"}}\n{{"text": "b", "b": ""}}\n',
    }[name]
    (tmp_path / name).write_text(content, "utf-8")
    settings = CorpusSettings(pair_column="b") if name.startswith("pair") else CorpusSettings()
    rows = list(open_corpus([tmp_path / name], settings).rows())
    (failure,) = (row for row in rows if isinstance(row, Failure))
    assert "too large: the text has more than 16,777,216 characters; split it" in failure.reason
    assert failure.value == "은" * 79 + "…"
    assert [row.text for row in rows if isinstance(row, Document)] == ["a", "b"]


def test_a_text_in_memory_that_no_part_holds_fails() -> None:
    rows = list(memory_corpus(["a", "x" * (MAX_TEXT + 1)]).rows())
    assert isinstance(rows[1], Failure)
    assert "item 2: too large: the text has more than 16,777,216 characters" in rows[1].reason


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"format": "docx"}, "there are text, paragraphs, jsonl"),
        ({"encoding": "utf-9"}, "not an encoding"),
        ({"encoding": "base64"}, "not an encoding"),
        ({"encoding": "unicode_escape"}, "not an encoding"),
        ({"pairs": True, "pretokenized": True}, "cannot be used with"),
        ({"pairs": True, "pair_column": "b"}, "give one"),
        ({"keep": ("all", "year")}, "leave out"),
    ],
)
def test_settings_that_cannot_be_right(settings: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        CorpusSettings(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings",
    [
        CorpusSettings(text_columns=("body",)),
        CorpusSettings(pair_column="b"),
        CorpusSettings(id_column="id"),
        CorpusSettings(tag_column="ner"),
        CorpusSettings(document_context=True),
    ],
)
def test_settings_that_mean_nothing_for_text(tmp_path: Path, settings: CorpusSettings) -> None:
    with pytest.raises(UsageError, match=r"a\.txt: [a-z_]+ cannot be used with text files"):
        open_corpus([text_file(tmp_path, b"a\n")], settings)


def test_the_fraction_grows_to_one(tmp_path: Path) -> None:
    path = text_file(tmp_path, b"some words in a line\n" * 100_000)
    corpus = open_corpus([path, text_file(tmp_path, b"b\n", "b.txt")])
    assert corpus.fraction == 0.0
    fractions = [corpus.fraction for _ in corpus.rows()]
    assert fractions == sorted(fractions)
    assert 0 < fractions[0] < 0.5
    assert fractions[-1] == 1.0
    next(iter(corpus.rows()))
    assert corpus.fraction < 0.5  # of the newest reading

"""Paragraphs of running text, against a regular expression over the whole of it."""

import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from bertfeat.core.corpus import CorpusSettings, Document, Failure, document, open_corpus

PARAGRAPHS = CorpusSettings(format="paragraphs")
PIECES = st.lists(st.sampled_from(["bank", " ", "\t", "\n", "\r\n", "\n\n", "\n \n", "Zürich", "\u2028", "은행"]))


def read(path: Path, settings: CorpusSettings = PARAGRAPHS) -> list[Document]:
    rows = list(open_corpus([path], settings).rows())
    return [row for row in rows if isinstance(row, Document)]


@given(PIECES)
def test_paragraphs_end_at_blank_lines(tmp_path_factory: pytest.TempPathFactory, pieces: list[str]) -> None:
    text = "".join(pieces)
    path = tmp_path_factory.mktemp("corpus") / "a.txt"
    path.write_text(text, encoding="utf-8", newline="")
    expected = [" ".join(part.split()) for part in re.split(r"\n[^\S\n]*(?=\n)", f"\n{text}\n") if part.strip()]
    assert [row.text for row in read(path)] == expected


def test_ids_are_numbers_of_paragraphs_and_words_can_be_given(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The bank\nof the river.\n\n\nIt was steep.\n")
    assert [(row.row, row.id, row.text) for row in read(tmp_path / "a.txt")] == [
        (0, "1", "The bank of the river."),
        (1, "2", "It was steep."),
    ]
    words = read(tmp_path / "a.txt", CorpusSettings(format="paragraphs", pretokenized=True))
    assert [row.words for row in words] == [("The", "bank", "of", "the", "river."), ("It", "was", "steep.")]


def test_no_line_of_a_paragraph_is_lost_at_the_limit(tmp_path: Path) -> None:
    """Of one that has just as many characters as a text may have, and of one with a word more."""
    whole = "a" * (document.MAX_TEXT // 2 - 1) + "\n" + "b" * (document.MAX_TEXT // 2)
    (tmp_path / "a.txt").write_text(f"{whole}\n\n{whole}\nc\nd\n\ne\n")
    rows = list(open_corpus([tmp_path / "a.txt"], PARAGRAPHS).rows())
    assert [len(row.text) if isinstance(row, Document) else row for row in rows[::2]] == [document.MAX_TEXT, 1]
    assert isinstance(rows[1], Failure)


def test_a_paragraph_that_is_too_long_or_not_readable_fails_alone(tmp_path: Path) -> None:
    sentence = b"The bank of the river. " * 4000
    lines = [b"one\n\n", (sentence + b"\n") * (document.MAX_TEXT // len(sentence) + 2), b"\ntwo\n\n\xff\nthree\n\nfour"]
    (tmp_path / "a.txt").write_bytes(b"".join(lines))
    rows = list(open_corpus([tmp_path / "a.txt"], PARAGRAPHS).rows())
    assert [row.text for row in rows if isinstance(row, Document)] == ["one", "two", "four"]
    failures = [row for row in rows if isinstance(row, Failure)]
    assert [row.id for row in failures] == ["2", "4"]
    assert "line 3: too large" in failures[0].reason
    assert "not utf-8" in failures[1].reason

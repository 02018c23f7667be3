"""Lines of hits and usages: as wide as they may be, aligned, cut between signs, without what moves a cursor."""

import unicodedata
from typing import Any

import click
import pytest
from hypothesis import given, settings, strategies as st

from bertfeat.cli.result_lines import hit_lines, hit_text, kwic_lines
from bertfeat.cli.terminal import cell_width, cut_end, cut_start, single_line
from bertfeat.core.corpus import Value
from bertfeat.search.index import Hit, HitPiece
from bertfeat.usages import Usage


def hit(text: str = "a text", *, piece: HitPiece | None = None, pair: str | None = None, **more: Any) -> Hit:
    values = {"rank": 1, "score": 0.5, "id": "1", "row": 0, "values": {}, "source": "", "number": 0, **more}
    return Hit(text=text, pair=pair, piece=piece, **values)


def made(
    left: str, word: str, right: str, score: float | None = None, id_: str = "1", values: dict[str, Value] | None = None
) -> Usage:
    return Usage(0, id_, left, word, right, len(left), len(left + word), False, score, values or {})


# ── hits ─────────────────────────────────────────────────────────────────────────────────────────────────────────

SIGNS = st.text(
    st.characters(codec="utf-8") | st.sampled_from("e\u0301각가\u200d👩🇰🇷\u202e\x1b\x00\u00ad אب "), max_size=60
)


@given(SIGNS, SIGNS, st.integers(1, 90), st.data())
@settings(deadline=None, max_examples=300)
def test_no_line_is_wider_than_asked_for(text: str, value: str, width: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    piece = data.draw(st.sampled_from([None, HitPiece(0, start, end, False, text[start:end])]))
    lines = hit_lines([hit(text, piece=piece, id=value, values={"a": value, "b": 1.5}), hit()], width, ("a", "b"))
    assert max(map(cell_width, lines)) <= width
    for line in (*lines, hit_text(hit(text, piece=piece))):
        assert not any(unicodedata.category(sign) in ("Cc", "Zl", "Zp", "Cs") for sign in line)
        assert not any(unicodedata.category(sign) == "Cf" and sign not in "\u200c\u200d" for sign in line)


@pytest.mark.parametrize("width", [40, 60, 100, 200])
def test_what_fits_is_shown_and_columns_are_aligned(width: int) -> None:
    hits = [
        hit("a long text " * 30, id="이것은 매우 긴 문서의 이름입니다 1", values={"who": "Doyle", "year": 1850}),
        hit("cafe\u0301 " * 60, id="2", values={"who": None, "year": None}),
        hit("short", id="3", values={"who": "Sir Arthur Conan Doyle of Edinburgh", "year": 5}, score=-123.5),
    ]
    lines = hit_lines(hits, width, ("who", "year"))
    assert max(map(cell_width, lines)) <= width
    if width >= 100:
        places = {
            cell_width(line[: line.index(text)]) for line, text in zip(lines, ("a long", "cafe", "short"), strict=True)
        }
        assert len(places) == 1
        assert " 1850  " in lines[0]
        assert "    5  short" in lines[2]
    assert lines[0].endswith("…")
    assert "…이름입니다 1" in lines[0].replace(" …", "…") or "름입니다 1" in lines[0]


def test_of_a_word_that_is_far_along_the_context_is_shown() -> None:
    text = "x " * 500 + "the bank of the river" + " y" * 500
    found = hit(text, piece=HitPiece(7, text.index("bank"), text.index("bank") + 4, False, "bank"))
    (line,) = hit_lines([found], 60)
    assert "the *bank* of the river" in line
    assert line.count("…") == 2
    assert cell_width(line) == 60
    (whole,) = hit_lines([found], None)
    assert whole.split("  1  ")[1] == "… " + "x " * 37 + "the *bank* of the river" + " y" * 33 + "…"
    (near,) = hit_lines([hit("the bank " + "y " * 500, piece=HitPiece(1, 4, 8, False, "bank"))], 60)
    assert "1  the *bank* y y" in near


def test_pairs_and_places_in_them() -> None:
    assert hit_text(hit("one", pair="two")) == "one ||| two"
    assert hit_text(hit("one", pair="a two", piece=HitPiece(0, 2, 5, True, "two"))) == "one ||| a *two*"
    assert hit_text(hit("a one", pair="two", piece=HitPiece(0, 2, 5, False, "one")), 10) == "a *one* |…"


def test_text_is_cleaned_and_cut_between_signs() -> None:
    assert single_line("a\x1b[2J\nb\tc\r\u2028d\u202eי\u2066 co\u00adop\ufeff\ue000") == "a [2J b c dי coop "
    assert single_line("👩\u200d👩 नम\u200cस्ते") == "👩\u200d👩 नम\u200cस्ते"
    assert (cut_end("한국어", 5), cut_start("한국어", 5)) == ("한국…", "…국어")
    assert cut_end("e\u0301" * 9, 4) == "e\u0301" * 3 + "…"


# ── usages ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("left", "word", "right"),
    [
        pytest.param("나는 노란 ", "은행잎", "을 주웠다 " * 9, id="wide"),
        pytest.param(unicodedata.normalize("NFD", "나는 각 " * 9), "은행", "", id="decomposed Hangul"),
        pytest.param("cafe\u0301 " * 20, "e\u0301", "e\u0301" * 90, id="combining marks"),
        pytest.param("👩‍👩‍👧 ❤️ 🇰🇷 " * 9, "👍🏽", "🙂" * 60, id="emoji"),
        pytest.param("", "word", "", id="nothing around"),
        pytest.param("a" * 200, "b" * 200, "c" * 200, id="long"),
        pytest.param("a\r\nb\x1b[2J\u202e", "w", "\x07\x00 z", id="control characters"),
    ],
)
@pytest.mark.parametrize("width", [1, 24, 41, 50, 80])
@pytest.mark.parametrize("id_", ["이", "of twenty characters"])
def test_every_line_fits_and_its_word_is_in_the_middle(left: str, word: str, right: str, id_: str, width: int) -> None:
    given = [made("left ", "w", " right", 0.5), made(left, word, right, 0.25, id_)]
    lines = list(kwic_lines(given, width, color=False))
    assert max(map(cell_width, lines)) <= max(width, 24 + len(" 0.500    ") + cell_width(id_))
    assert all(sign.isprintable() or sign == "\u200d" for line in lines for sign in line)
    assert lines[1].startswith(f" 0.250  {id_}  ")
    colored = list(kwic_lines(given, width, color=True))
    assert list(map(click.unstyle, colored)) == lines
    places = {cell_width(click.unstyle(line.partition("\x1b[31m")[0])) for line in colored}
    assert len(places) == 1


def test_signs_are_not_cut_apart() -> None:
    (line,) = kwic_lines([made("x" * 50 + "e\u0301" * 30, "w", "👩‍👩‍👧" * 30)], 40, color=False)
    assert line.count("\u0301") == line.count("e")
    assert line.count("👩‍👩‍👧") * 3 == line.count("👩") + line.count("👧")


def test_long_ids_keep_their_ends() -> None:
    (line,) = kwic_lines([made("a ", "w", " b", None, "news/2024/january/part-17.jsonl:123")], 80, color=False)
    assert line.startswith("…")
    assert "l:123  " in line


@pytest.mark.parametrize("width", [24, 60, 100, 200])
def test_kept_columns_leave_room_for_the_context(width: int) -> None:
    values: dict[str, Value] = {"author": "Sir Arthur Conan Doyle " * 3, "year": 1892, "title": "가나다라" * 9}
    given = [made("left " * 99, "word", " right" * 99, 0.5, "1", values), made("", "은행", "", 0.25, "22", {})]
    lines = list(kwic_lines(given, width, show=("author", "year", "title"), color=False))
    if width >= 60:
        assert max(map(cell_width, lines)) <= width
        assert cell_width(lines[0][lines[0].index("left") :]) >= width // 3
    places = [cell_width(line[: line.index(word)]) for line, word in zip(lines, ("word", "은행"), strict=True)]
    assert places[0] == places[1]

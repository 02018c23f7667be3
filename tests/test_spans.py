"""The rules that cut texts into sentences, paragraphs and runs of words."""

from typing import Any

import pytest
import regex
from hypothesis import given, strategies as st

from bertfeat.core.spans import SpanRule
from bertfeat.errors import UsageError
from tests.support.slow_features import slow_words


def cut(rule: str, text: str) -> list[str]:
    spans = SpanRule.parse(rule).split(text)
    return [text[start:end] for start, end in zip(spans.start.tolist(), spans.end.tolist(), strict=True)]


@pytest.mark.parametrize(
    "sentences",
    [
        ["He went to the bank.", "It was closed!", "Was it Sunday?", "Perhaps…", "Nobody knew."],
        ["Mr. Smith met Dr. Jones at St. Mary's, cf. No. 5 and pp. 7 to 9.", "They talked."],
        ["J. R. R. Tolkien was born on Jan. 3.", "He wrote."],
        ["The U.S. economy grew by 3.5 percent, i.e. more than before.", "Prices rose."],
        ['"Are you there?" she said.', '"I am!" he cried, and left.', "(He did.)", "Then nothing."],
        ["He said no.", "She said nothing, etc.", "The end."],
        ["1. Boil the water.", "2. Add the tea."],
        ["Wait... what?!", "Yes."],
        ["No mark at the end"],
        ["은행에 갔다.", "문이 닫혀 있었다!", "왜 그랬을까?", "아무도 몰랐다."],
        ["彼は銀行に行った。", "閉まっていた！", "「なぜ？」", "誰も知らない。"],
        [
            "「行け！」と彼は言った。",
            "「早く。急げ！」、そう叫んだ。",
            "《雪。國！》を読む。",
            "（誰も。）",
            "未完「行け。",
            "はい。",
        ],
        ["我看了《摔跤吧！爸爸》。", "他说：“走吧！快！”", "我们走了？！", "好。"],
        ["क्या वह आया?", "वह नदी के किनारे था।", "राम ने कहा॥", "फिर गया।"],
        ["کیا وہ آیا؟", "وہ بینک گیا۔", "پھر لوٹا!"],
        ["هل جاء؟!", "ذهب إلى البنك.", "ثم عاد."],
        ["Նա գնաց բանկ։", "Փակ էր։"],
        ["သူ ဘဏ်သို့ သွားသည်။", "ပိတ်ထားသည်။"],
        ["ወደ ባንክ ሄደ።", "ተዘግቶ ነበር፧", "ማን ያውቃል።"],
        ["គាត់បានទៅធនាគារ។", "វាបិទ៕"],
        ["“Harry . . . what an honor,” he said.", "Nobody knew . . .", "The end."],
        ["Er wohnt in der Nr. 7, vgl. S. 12, usw. und so fort.", "Sie auch."],
    ],
)
def test_sentences(sentences: list[str]) -> None:
    space = "" if {*"。！"} & {*sentences[0]} else " "
    assert cut("sentences", space.join(sentences)) == sentences
    assert cut("sentences", "\n \n".join(sentences)) == sentences
    assert cut("sentences", f"  {space.join(sentences)}\n") == sentences


def test_a_paragraph_without_capitals_has_sentences_too() -> None:
    second = "the pressure, e.g. in fig. 3, fell ... and smith et al. saw it at 3 p.m. in the u.s. air."
    lower = f"the flow was steady . {second}"
    assert cut("sentences", f"{lower}\n\nThe rest. of it\n\n") == [
        "the flow was steady .",
        second,
        "The rest. of it",
    ]


def test_every_terminal_of_unicode_ends_a_sentence() -> None:
    """Of the scripts in use: those beyond the basic plane are of the past."""
    terminals = [sign for sign in map(chr, range(0x10000)) if regex.match(r"\p{Sentence_Break=STerm}", sign)]
    assert len(terminals) > 80
    for sign in terminals:
        assert cut("sentences", f"Aa bb{sign} Cc{sign}") == [f"Aa bb{sign}", f"Cc{sign}"], hex(ord(sign))
    for sign in {*terminals} - {*"!?"}:
        assert cut("sentences", f"aa bb{sign}cc{sign}") == [f"aa bb{sign}", f"cc{sign}"], hex(ord(sign))


def test_brackets_cost_no_more_than_their_text() -> None:
    text = "「あ。" * 20_000 + "」" + "（い。" * 20_000
    assert len(cut("sentences", text)) > 10_000


def test_a_line_break_is_no_end_and_a_blank_line_is() -> None:
    text = "The first sentence\ngoes on here. And the second\n\nhas no mark.\r\n\r\nThird\n \t\nFourth"
    first, *others = cut("sentences", text)
    assert first == "The first sentence\ngoes on here."
    assert others == ["And the second", "has no mark.", "Third", "Fourth"]
    paragraphs = ["The first sentence\ngoes on here. And the second", "has no mark.", "Third", "Fourth"]
    assert cut("paragraphs", text) == paragraphs


@pytest.mark.parametrize(
    ("rule", "runs"),
    [
        ("words:4", ['"One, two (three) four', "five six seven eight", "nine!"]),
        ("words:4:1", ['"One, two (three) four', "four five six seven", "seven eight nine!"]),
        ("words:9", ['"One, two (three) four five six seven eight nine!']),
        ("words:8:7", ['"One, two (three) four five six seven eight', "two (three) four five six seven eight nine!"]),
    ],
)
def test_runs_of_words(rule: str, runs: list[str]) -> None:
    assert cut(rule, '"One, two (three) four five six seven eight nine!') == runs
    assert str(SpanRule.parse(rule)) == rule


@given(st.text(alphabet="ab Z.!?…。\"')(\n\r1é나", max_size=60), st.integers(1, 6), st.integers(0, 5))
def test_what_every_rule_keeps(text: str, size: int, overlap: int) -> None:
    for rule in ("sentences", "paragraphs", f"words:{size}"):
        spans = SpanRule.parse(rule).split(text)
        pieces = [text[start:end] for start, end in zip(spans.start.tolist(), spans.end.tolist(), strict=True)]
        assert "".join("".join(pieces).split()) == "".join(text.split())  # every character, once and in order
        assert all(piece and piece == piece.strip() for piece in pieces)
        assert (spans.start[1:] >= spans.end[:-1]).all()
    if overlap < size:
        words = [span for span in slow_words(text) if any(map(str.isalnum, text[slice(*span)]))]
        spans = SpanRule("words", size, overlap).split(text)
        held = [
            [span for span in words if start <= span[0] < end]
            for start, end in zip(spans.start.tolist(), spans.end.tolist(), strict=True)
        ]
        step = size - overlap
        runs = [words[at : at + size] for at in range(0, max(1, len(words) - overlap), step)]
        assert held == (runs if text.strip() else [])


TEXT = "Ann met Bo in Ulm, naïve as ever."
LISTED = [(0, 3), (8, 10), (8, 17), (14, 17)]


@pytest.mark.parametrize(
    "listed",
    [
        "[[14, 17], [0, 3], [8, 17], [8, 10]]",
        '[[0, 3, "PER"], [14, 17, "LOC", 0.9], [8, 10, "PER"], [8, 17, null]]',
        '[{"start": 14, "end": 17, "label": "LOC"}, {"start": 0, "end": 3}, [8, 10], {"end": 17, "start": 8}]',
        '[{"start_offset": 14, "end_offset": 17}, {"start_offset": 0, "end_offset": 3}, [8, 10], [8, 17]]',
    ],
)
def test_listed_spans_are_taken_in_order(listed: str) -> None:
    rule = SpanRule.parse("column:entities")
    spans = rule.split(TEXT, listed=listed)
    assert list(zip(spans.start.tolist(), spans.end.tolist(), strict=True)) == LISTED
    assert (str(rule), rule.column) == ("column:entities", "entities")


@pytest.mark.parametrize("listed", [None, "", "  ", "[]"])
def test_nothing_listed_is_no_span(listed: str | None) -> None:
    assert len(SpanRule.parse("column:entities").split(TEXT, listed=listed)) == 0


@pytest.mark.parametrize(
    ("listed", "problem"),
    [
        ("[[0, 34]]", r"the span \[0, 34\) is outside the text of 33 characters; characters are counted, not bytes or"),
        ("[[7, 3]]", r"the span \[7, 3\) ends before it begins$"),
        ("[[-1, 3]]", r"the span \[-1, 3\) is outside the text of 33 characters$"),
        ("[[0, 35]]", r"the span \[0, 35\) is outside the text of 33 characters$"),
        ("[[3, 3]]", r"the span \[3, 3\) is empty"),
        *((bad, "it is no list of spans, such as") for bad in (
            "PER", "3", "{}", '{"start": 0, "end": 3}', "[0, 3]", "[[0]]", "[[]]", "[null]", '["a"]', "[[0, 3.0]]",
            "[[true, 3]]", '[["0", "3"]]', '[{"start": 0}]', '[{"begin": 0, "end": 3}]', "[[0, 3]", "[[0, 1e400]]",
        )),
    ],
)  # fmt: skip
def test_what_is_no_list_of_spans(listed: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        SpanRule.parse("column:entities").split(TEXT, listed=listed)


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("sentence", "spans='sentence': these spans are unknown; there are: sentences, paragraphs, words:N"),
        ("words", "these spans are unknown"),
        ("words:", "these spans are unknown"),
        ("words:-3", "these spans are unknown"),
        ("words:٣", "these spans are unknown"),
        ("words:0", "a span needs a word at least, and more than it shares with the next"),
        ("sentences:3", "these spans are unknown"),
        ("column:", "these spans are unknown"),
        ("column", "these spans are unknown"),
        ("words:5:5", "a span needs a word at least, and more than it shares with the next"),
    ],
)
def test_wrong_rules(rule: str, problem: str) -> None:
    with pytest.raises(UsageError) as raised:
        SpanRule.parse(rule)
    assert problem in str(raised.value)


@pytest.mark.parametrize("wrong", [("sentences", 0, 3), ("paragraphs", 3), ("column", 0, 0, ""), ("words", 3, 0, "x")])
def test_rules_that_cannot_be_written_cannot_be(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(UsageError, match="these spans are unknown"):
        SpanRule(*wrong)

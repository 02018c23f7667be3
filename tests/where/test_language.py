"""The language of conditions: what can be said, what is refused, and what the refusals say and point at."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from bertfeat.core.corpus import Value
from bertfeat.errors import UsageError
from bertfeat.where import Condition
from bertfeat.where.lexer import HELP

TYPES = {"int64": pa.int64(), "float64": pa.float64(), "string": pa.string(), "bool": pa.bool_()}
TABLE = {
    "year": "int64",
    "lang": "string",
    "flag": "bool",
    "score": "float64",
    "a.b": "string",
    "in": "int64",
    "वर्ष": "int64",
}
LINES: list[tuple[Value, ...]] = [
    (1850, "de", True, 0.5, "it's", 1, 1),
    (None, None, None, float("nan"), None, None, None),
    (1900, "It\nis", False, None, "100% \\", 2, 2),
]


def met(condition: str, rows: Sequence[Sequence[Value]], kinds: Mapping[str, str] = TABLE) -> list[int]:
    columns = [pa.array([row[at] for row in rows], TYPES[kind]) for at, kind in enumerate(kinds.values())]
    batch = pa.record_batch(columns, names=list(kinds))
    return np.flatnonzero(Condition(condition, kinds).mask(batch)).tolist()


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("lang not in ('de')", [2]),  # W3: null rows are not taken
        ("year in (null, 1850)", [0]),  # W3: null is not found
        ("year not in (null, 1850)", []),
        ("year = null", []),
        ("not (score > 1)", [0]),  # NaN counts as null
        ("score is null", [1, 2]),
        ("YEAR is NULL".replace("YEAR", "year"), [1]),
        ("year IS NOT None", [0, 2]),
        ("NOT flag", [2]),
        ("not not flag", [0]),
        ("flag = True OR (year) >= 1900.0", [0, 2]),
        ("((flag))", [0]),
        ("flag or year > 0 and false = flag", [0, 2]),  # and binds closer
        ("1800 < year <= 1_850.5", [0]),
        ("1900 == year != 1850", [2]),
        ("year between 1850 and 1899 and flag", [0]),
        ("year not between 1850 and 1899", [2]),
        ("year in [1850, 1900,]", [0, 2]),
        ("year in {+1850}", [0]),
        ("score>-.5and flag", None),
        ("score > -.5 and score < 5.e-1 + 0", None),
        ("score = 5e-1", [0]),
        ("a.b = 'it''s'", [0]),
        ("a.b = 'it\\'s'", [0]),
        ('a.b = "it\'s"', [0]),
        ("`a.b` ends with '\\\\'", [2]),
        ("a.b like '100\\% %'", [2]),
        ("lang like '__\\n__'", [2]),
        ("lang like 'It_is' and lang like 'I%s'", [2]),
        ("a.b like '% \\\\\\\\'", [2]),
        ("a.b like '% \\\\\\\\\\\\\\\\'", []),
        ("lang ilike 'it%'", [2]),
        ("lang like 'it%'", []),
        ("lang not ilike 'IT%'", [0]),
        ("lang contains 'e' and lang starts with 'd' and lang ends with 'e'", [0]),
        ("lang not contains 'e'", [2]),
        ("lang like null", []),
        ("col('in') = 2 or `in` = 1", [0, 2]),
        ("वर्ष = 2", [2]),
        ("year < 9223372036854775808.0", [0, 2]),
        ("year\x1c=\u3000\x85+1850", [0]),  # whatever Unicode and str.isspace take for a space
    ],
)
def test_what_can_be_said(condition: str, rows: list[int] | None) -> None:
    if rows is None:
        with pytest.raises(UsageError):
            met(condition, LINES)
    else:
        assert met(condition, LINES) == rows


def test_a_column_may_have_the_name_of_a_test() -> None:
    kinds = {"like": "string", "between": "int64", "starts": "string"}
    assert met("like like 'a%' and between between 1 and 2 and starts starts with 's'", [("ab", 1, "so")], kinds) == [0]


@pytest.mark.parametrize(
    ("condition", "problem", "place"),
    [
        (
            "yaer > 3",
            "there is no column 'yaer'; there are: year, lang, flag, score, a.b, col('in'), वर्ष; did you mean year?",
            "yaer",
        ),
        ("lang = Latin", "वर्ष; a text stands between quotes", "Latin"),
        ("", "the condition is empty", None),
        (" \n", "the condition is empty", None),
        ("year >", "it ends too early", ""),
        ("year > and flag", "a column or a value is missing", "and"),
        ("year > 'x'", "year holds whole numbers, and this is a text; write a number", "'x'"),
        ("year > 'lang'", "the column of that name is written lang", "'lang'"),
        ("lang = 5", "lang holds texts, and this is a number; write it between quotes: '5'", "5"),
        ("lang = true", "lang holds texts, and this is true or false", "true"),
        ("flag = 1", "flag holds true or false, and this is a number; write flag or not flag", "1"),
        ("flag > false", "have no order", "flag"),
        ("year = lang", "year holds whole numbers and lang texts, which cannot be compared", "year = lang"),
        ("year in (1, 'a')", "year holds whole numbers, and this is a text", "'a'"),
        ("lang in ('a', 1)", "write it between quotes: '1'", "1"),
        ("year = 9223372036854775808", "passes 64 bits; write it as 9.22337e+18", "9223372036854775808"),
        ("score < 99999999999999999999", "passes 64 bits; write it as 1e+20", "99999999999999999999"),
        ("year in (1, 99999999999999999999)", "passes 64 bits", "99999999999999999999"),
        (f"year = {'9' * 5000}", "too many digits", "9" * 80),
        ("year = 1e999", "too large", "1e999"),
        ("lang = '\ud800'", "no character", " "),
        ("lang = 'a\udcff'", "no character", " "),
        ("3 > 2", "this compares two values; one side must be a column", "3 > 2"),
        ("'lang' = 'de'", "the column of that name is written lang", "'lang' = 'de'"),
        ("3", "a value alone is no condition", "3"),
        ("null", "a value alone is no condition", "null"),
        ("year", "year holds whole numbers; compare it: year > 1900", "year"),
        ("not lang", "compare it: lang = 'de'", "lang"),
        ("year like '19%'", "year holds whole numbers, but like looks at texts", "year"),
        ("lang like year", "like takes a text between quotes", "year"),
        ("lang like 5", "like takes a text between quotes", "5"),
        ("'a' in ('a')", "a column must stand here", "'a'"),
        ("lang is 'de'", "is and is not take null", "'de'"),
        ("lang in 'de'", "in takes values in parentheses", "'de'"),
        ("lang in ()", "this list is empty", "("),
        ("lang in ('de'", "this list is not closed", "("),
        ("lang in ('de' 'en')", "separated by commas", "'en'"),
        ("lang in (year, 'de')", "a list takes values", "year"),
        ("(year > 3", "this parenthesis is not closed", "("),
        ("year > 3)", "this cannot follow here", ")"),
        ("year > 3 lang = 'de'", "this cannot follow here", "lang"),
        ("lang = 'de", "this quote is not closed", "'"),
        ("year not 3", "not is followed by in", "3"),
        ("year between 3", "between takes two values", ""),
        ("lang starts 'd'", "write starts with 'text'", "'d'"),
        ("(year > 3) = true", "what stands beside it is a condition", "="),
        ("(year > 3) is null", "null takes columns and values; what stands beside it is a condition", "null"),
        ("(year > 3) not in (1)", "in takes columns and values; what stands beside it is a condition", "in"),
        ("(year > 3) between 1 and 2", "between takes columns and values", "between"),
        ("lang like (flag or flag)", "like takes columns and values", "like"),
        ("col(year) > 3", "col takes one name between quotes", "("),
        ("__import__('os')", "there are no functions", "__import__"),
        ("__import__('os').system('true')", "this sign is unknown", "."),
        ("(lambda: 1)() == 1", "this sign is unknown", ":"),
        ("[y for y in year] == 1", "this cannot stand here", "["),
        ("year + 1 > 3", "this cannot follow here", "+"),
        ("year * 2 > 3", "there is no arithmetic", "*"),
        ("- year > 3", "a sign stands only before a number", "-"),
        ("year = -true", "a sign stands only before a number", "-"),
        ("year not is null", "not is followed by in", "is"),
        ("col(null) > 3", "col takes one name between quotes", "("),
        ("col('in' > 3", "col takes one name between quotes", "("),
        ("`year`('in') > 3", "this cannot follow here", "("),
        ("'year'('in') > 3", "this cannot follow here", "("),
        ("f'{year}' == 'x'", "this cannot follow here", "'{year}'"),
        ("year.real > 3", "there is no column 'year.real'", "year.real"),
        ("year > 1900; import os", "this sign is unknown", ";"),
        ("year > 3 & flag", "& is unknown; write and", "&"),
        ("lang = “de”", '“ is unknown; write "', "“"),
        ("1st > 3", "written col('1st')", "1st"),
        ("year > 0x10", "this is no number", "0x10"),
        ("a" * 3000 + " = 1", "there is no column 'aaaa", "a" * 80),
        ("(" * 51 + "flag" + ")" * 51, "more than 50 parentheses", "("),
        ("(" * 10_000 + "flag" + ")" * 10_000, "more than 50 parentheses", "("),
        ("lang in " + "(" * 10_000 + "'de'" + ")" * 10_000, "more than 50 parentheses", "("),
        (" or ".join(["flag"] * 1001), "more than 1,000 comparisons", ""),
        (" and ".join(["flag"] * 10_000), "more than 1,000 comparisons", "and"),
        (f"lang = '{'a' * 100_000}'", "100,009 characters is too long; 100,000 are allowed", None),
        (f"lang like '{'a' * 1_001}'", "like takes at most 1,000 characters", "'" + "a" * 79),
    ],
)
def test_what_is_refused_is_pointed_at(condition: str, problem: str, place: str | None) -> None:
    with pytest.raises(UsageError) as error:
        Condition(condition, TABLE)
    message = str(error.value)
    assert message.startswith("where: ")
    assert problem in message
    assert not any(word in message for word in ("pyarrow", "Error", "invalid syntax", "ast.", "<unknown>"))
    if place is not None:
        _, shown, mark, *_ = message.split("\n")
        at = mark.index("^")
        assert len(mark) - at == max(1, len(place))
        assert shown[at : at + len(place)] == place


def test_the_mark_stands_under_wide_signs() -> None:
    with pytest.raises(UsageError) as error:
        Condition("제목 = '각' and 없다 = 1", {"제목": "string"})
    _, _, mark = str(error.value).split("\n")
    assert (
        mark == "    " + " " * len("제목 = '각' and ") + " " * 3 + "^^^^"
    )  # three of those signs are two columns wide


def test_names_of_columns_do_not_move_the_cursor() -> None:
    with pytest.raises(UsageError) as error:
        Condition("a\x1b[2J = 1", {"b\x1b[2J\r": "int64"})
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", str(error.value))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "condition",
    [
        pytest.param(" or ".join(["flag"] * 1000), id="comparisons"),
        pytest.param("(flag or " * 50 + "flag" + ")" * 50, id="parentheses"),
        pytest.param("not " * 20_000 + "flag", id="negations"),
        pytest.param("(not (flag and not " * 25 + "flag" + "))" * 25, id="all kinds of nesting"),
        pytest.param(f"flag or lang in ({', '.join(repr(str(number)) for number in range(9000))})", id="a long list"),
        pytest.param(f"flag or lang like '{'é%' * 500}'", id="a long pattern"),
    ],
)
def test_what_is_within_the_bounds_works(condition: str) -> None:
    assert 0 in met(condition, LINES) or condition.startswith("(not")


WORDS = r"""
    year lang flag score a.b col col( ( ) [ ] { } , + - = == != <> < <= > >= and or not in is null none true between
    like ilike contains starts ends with 1 2.5 1e5 .5 'x' "y" `year` 'lang' '%' \ ' " ` ; & é 한 99999999999999999999
"""
VOCABULARY = st.sampled_from([*WORDS.split(), "\u0300", "\0"])


@given(st.lists(VOCABULARY, max_size=12).map(" ".join) | st.text(max_size=30))
@settings(deadline=None, max_examples=1500)
def test_whatever_is_written_is_a_condition_or_refused(text: str) -> None:
    try:
        condition = Condition(text, TABLE)
    except UsageError:
        return
    assert set(condition.names) <= set(TABLE)
    assert set(met(text, LINES)) <= {0, 1, 2}


def test_other_things_than_texts_are_refused() -> None:
    with pytest.raises(UsageError, match="a condition is a text, and this is int"):
        Condition(5, TABLE)  # type: ignore[arg-type]


def test_every_example_of_the_help_is_right() -> None:
    kinds = {"year": "int64", "lang": "string", "rating": "float64", "author": "string", "title": "string"}
    examples = HELP.removeprefix("Write conditions such as ").partition(";")[0].replace("'de', ", "'de',").split(", ")
    found = [Condition(example, kinds).names for example in examples]
    assert found == [("year", "lang"), ("rating",), ("author",), ("year",), ("title",)]
    assert Condition("col('publication year') > 1", {"publication year": "int64"}).names == ("publication year",)


def test_every_condition_of_the_documentation_is_right() -> None:
    page = (Path(__file__).parents[2] / "docs" / "search.md").read_text("utf-8")
    table = page.partition("## Conditions")[2].partition("\n- **")[0]
    cells = [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| `")]
    examples = [span for cell in cells[:-1] for span in re.findall("`([^`]+)`", cell) if re.match(r"[\w(]", span)]
    kinds = {
        "year": "int64", "lang": "string", "title": "string", "text": "string", "author": "string", "good": "bool",
    }  # fmt: skip
    assert len(examples) == 15
    for example in examples:
        assert Condition(example, kinds).names

"""The numbers of the tables of measurements are those of benchmarks/results/, to the digits that are quoted."""

import re
from pathlib import Path

import pytest

from benchmarks.chart import CHARTS
from benchmarks.provenance import BEGIN, MARK, machines, pages
from benchmarks.quoted import ROWS, SOURCES, TABLES, UNRECORDED, result

ROOT = Path(__file__).resolve().parent.parent
COMMIT = re.compile(r"`([0-9a-f]{7}\+?)`")  # with a plus where files had changed since
NUMBER = re.compile(r"(?<![\w.,])-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")


def table_rows(page: str, section: str) -> list[tuple[str, str]]:
    """The rows of the tables in a section of a page, or in all of it: the first cell, and the other ones."""
    text = (ROOT / page).read_text("utf-8").partition(BEGIN)[0]  # the table of results quotes none
    if section:
        text = re.split(r"^## ", text.partition(f"## {section}\n")[2], flags=re.MULTILINE)[0]
    tables = re.findall(r"^\|.*\n\|[-| :]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    rows = [line.strip("|").split("|", 1) for table in tables for line in table.splitlines()]
    return [(label.strip().removesuffix(MARK), cells) for label, cells in rows]


def says(quoted: str, value: float) -> bool:
    """Whether a number is the value, rounded to the digits it has."""
    digits, _, exponent = quoted.replace(",", "").partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
    return abs(float(quoted.replace(",", "")) - value) <= 0.501 * unit


@pytest.mark.parametrize(
    ("label", "cells"),
    [pytest.param(*row, id=f"{table[0]}: {row[0][:40]}") for table in TABLES for row in table_rows(*table)],
)
def test_numbers_are_those_of_the_results(label: str, cells: str) -> None:
    if label in UNRECORDED:
        pytest.skip(UNRECORDED[label])
    told = COMMIT.findall(cells)
    assert {*told} <= {each["commit"] for name in SOURCES[label] for each in machines(result(name))}
    quoted = NUMBER.findall(COMMIT.sub("", cells))
    assert len(quoted) == len(ROWS[label]), (quoted, ROWS[label])
    assert [(number, value) for number, value in zip(quoted, ROWS[label], strict=True) if not says(number, value)] == []


def test_every_row_is_quoted() -> None:
    assert {*ROWS, *UNRECORDED} == {label for table in TABLES for label, _ in table_rows(*table)}


def test_numbers_of_older_code_are_marked() -> None:
    wrong = [path.name for path, text in pages().items() if path.read_text("utf-8") != text]
    assert wrong == [], "python benchmarks/provenance.py writes the marks"


def test_charts_are_those_of_the_results() -> None:
    for path, draw in CHARTS.items():
        assert path.read_text("utf-8") == draw(), path.name


@pytest.mark.parametrize(("quoted", "value"), [("1.5", 1.55), ("9.6e-6", 9.596e-6), ("61,087", 61087), ("35", 34.5)])
def test_rounding(quoted: str, value: float) -> None:
    assert says(quoted, value)
    assert not says(quoted, value * 1.1)

"""The tables of measurements are written from benchmarks/results/, and say where and with what they were measured."""

import re
from pathlib import Path

import pytest

from benchmarks.chart import CHARTS
from benchmarks.quoted import ROWS, TABLES, UNRECORDED
from benchmarks.tables import TABLE, label_of, pages, written_like

ROOT = Path(__file__).resolve().parent.parent


def test_tables_are_those_of_the_results() -> None:
    wrong = [path.name for path, text in pages().items() if path.read_text("utf-8") != text]
    assert wrong == [], "python benchmarks/tables.py writes them"


def labels(page: str, section: str) -> set[str]:
    """The first cells of the tables in a section of a page, or in all of it."""
    text = (ROOT / page).read_text("utf-8")
    if section:
        text = re.split(r"^## ", text.partition(f"## {section}\n")[2], flags=re.MULTILINE)[0]
    return {label_of(line) for table in TABLE.finditer(text) for line in table["rows"].splitlines()}


def test_every_row_is_quoted() -> None:
    assert {*ROWS, *UNRECORDED} == {label for table in TABLES for label in labels(*table)}


def test_every_table_says_where_it_was_measured() -> None:
    for text in pages().values():
        quoting = [table[0] for table in TABLE.finditer(text) if {*map(label_of, table["rows"].splitlines())} & {*ROWS}]
        assert quoting != []
        assert all(
            re.match(r"\*(Measured with|측정:) `[0-9a-f]{7}\+?`.*(NVIDIA|Intel|AMD)", table) for table in quoting
        )


def test_charts_are_those_of_the_results() -> None:
    for path, draw in CHARTS.items():
        assert path.read_text("utf-8") == draw(), path.name


@pytest.mark.parametrize(
    ("quoted", "value", "written"),
    [
        ("1.5", 1.55, "1.6"),
        ("9.6e-6", 9.43e-6, "9.4e-6"),
        ("61,087", 1061086.5, "1,061,087"),
        ("35", 34.5, "35"),
        ("-0.00", 0.004, "0.00"),
        ("7", 1234, "1,234"),
    ],
)
def test_numbers_keep_their_digits(quoted: str, value: float, written: str) -> None:
    assert written_like(quoted, value) == written

"""Conditions, against two databases that read the same ones as SQL; and what is refused, with what words."""

import itertools
import operator
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from bertfeat.core.corpus import Value
from bertfeat.errors import UsageError
from bertfeat.where import Condition, column_kinds, find_matching_rows

KINDS = {
    "year": "int64",
    "other": "int64",
    "score": "float64",
    "lang": "string",
    "제목 (title)": "string",
    "flag": "bool",
}
TYPES = {"int64": pa.int64(), "float64": pa.float64(), "string": pa.large_string(), "bool": pa.bool_()}
IN_SQL = {"int64": "bigint", "float64": "double", "string": "varchar", "bool": "boolean"}
EDGES = (2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63))


@dataclass(frozen=True)
class Both:
    """A condition as it is written here, and in SQL with its values as parameters."""

    ours: str
    sql: str
    values: tuple[Value, ...] = ()

    def joined(self, word: str, other: "Both") -> "Both":
        ours, sql = (f"({a}) {word} ({b})" for a, b in ((self.ours, other.ours), (self.sql, other.sql)))
        return Both(ours, sql, self.values + other.values)


def literal(value: Value, quote: str = "'") -> str:
    if isinstance(value, str):
        text = value.replace("\\", "\\\\").replace(quote, 2 * quote)
        return f"{quote}{text}{quote}"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return repr(value)


def name(column: str) -> str:
    return column if column.isidentifier() else f"col({literal(column)})"


TEXTS = st.text("ab'\"\\%_é가B \n", max_size=4)
WHOLE = st.integers(-3, 3) | st.sampled_from(EDGES)
REAL = st.sampled_from([0.0, -0.0, 0.5, -2.0, 3.0, 1e300, -1e300, 2.0**53, 2.0**63, -(2.0**63)])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int64": WHOLE,
    "float64": REAL,
    "string": TEXTS,
    "bool": st.booleans(),
}
IN_TABLE = VALUES | {"float64": REAL | st.sampled_from([float("nan"), float("inf"), -float("inf")])}
PIECES = st.lists(st.sampled_from(["%", "_", "\\%", "\\_", "\\\\", "a", "b", "é", "가", "'", "\n", "."]), max_size=4)
ROWS = st.lists(st.tuples(*(st.none() | IN_TABLE[kind] for kind in KINDS.values())), max_size=6)
SIGNS = ("=", "!=", "<", "<=", ">", ">=")
SPELLED = {"=": ("=", "=="), "!=": ("!=", "<>")}


@st.composite
def comparisons(draw: st.DrawFn) -> Both:
    column = draw(st.sampled_from(list(KINDS)))
    kind = KINDS[column]
    sign = draw(st.sampled_from(SIGNS[:2] if kind == "bool" else SIGNS))
    ours = draw(st.sampled_from(SPELLED.get(sign, (sign,))))
    if draw(st.booleans()):
        like_kinds = [other for other in KINDS if KINDS[other] == kind or {KINDS[other], kind} == {"int64", "float64"}]
        other = draw(st.sampled_from(like_kinds))
        return Both(f"{name(column)} {ours} {name(other)}", f'"{column}" {sign} "{other}"')
    value = draw(st.none() | (WHOLE | REAL if kind in ("int64", "float64") else VALUES[kind]))
    quote = draw(st.sampled_from("'\""))
    if draw(st.booleans()):
        return Both(f"{literal(value, quote)} {ours} {name(column)}", f'? {sign} "{column}"', (value,))
    return Both(f"{name(column)} {ours} {literal(value, quote)}", f'"{column}" {sign} ?', (value,))


@st.composite
def predicates(draw: st.DrawFn) -> Both:
    """in, between, is null, a chain, or a column of truth values; negated or not."""
    column = draw(st.sampled_from(list(KINDS)))
    kind, ours, sql = KINDS[column], name(column), f'"{column}"'
    no = draw(st.sampled_from(("", "not ")))
    fits = st.none() | (WHOLE | REAL if kind in ("int64", "float64") else VALUES[kind])
    ways = ["in", "null", "truth"] if kind == "bool" else ["in", "null", "between", "chain"]
    way = draw(st.sampled_from(ways))
    if way == "null":
        return Both(f"{ours} is {no}null", f"{sql} is {no}null")
    if way == "truth":
        return Both(f"{no}{ours}", f"{no}{sql}")
    if way == "in":
        values = draw(st.lists(fits, min_size=1, max_size=4))
        return Both(f"{ours} {no}in ({', '.join(map(literal, values))})", f"{sql} {no}in ({', '.join('?' * len(values))})", tuple(values))  # noqa: E501  # fmt: skip
    low, high = draw(fits), draw(fits)
    if way == "chain":
        both = Both(f"{literal(low)} < {ours} <= {literal(high)}", f"(? < {sql} and {sql} <= ?)", (low, high))
        return both if not no else Both(f"not {both.ours}", f"not {both.sql}", both.values)
    return Both(f"{ours} {no}between {literal(low)} and {literal(high)}", f"{sql} {no}between ? and ?", (low, high))


@st.composite
def text_tests(draw: st.DrawFn) -> Both:
    column = draw(st.sampled_from([column for column, kind in KINDS.items() if kind == "string"]))
    no = draw(st.sampled_from(("", "not ")))
    if draw(st.booleans()):
        pattern = "".join(draw(PIECES))
        return Both(f"{name(column)} {no}like {literal(pattern)}", f"\"{column}\" {no}like ? escape '\\'", (pattern,))
    way, sql = draw(
        st.sampled_from(
            [
                ("contains", 'instr("{0}", ?) > 0'),
                ("starts with", 'substr("{0}", 1, length(?)) = ?'),
                ("ends with", '(length("{0}") >= length(?) and substr("{0}", length("{0}") - length(?) + 1) = ?)'),
            ]
        )
    )
    text = draw(TEXTS)
    values = (text,) * sql.count("?")
    return Both(f"{name(column)} {no}{way} {literal(text)}", f"{no}({sql.format(column)})", values)


CONDITIONS = st.recursive(
    comparisons() | predicates() | text_tests(),
    lambda inner: (
        st.builds(Both.joined, inner, st.sampled_from(("and", "or")), inner)
        | inner.map(lambda both: Both(f"not ({both.ours})", f"not ({both.sql})", both.values))
    ),
    max_leaves=6,
)


def met(condition: str, rows: Sequence[Sequence[Value]], kinds: Mapping[str, str] = KINDS) -> list[int]:
    columns = [pa.array([row[at] for row in rows], TYPES[kind]) for at, kind in enumerate(kinds.values())]
    batch = pa.record_batch(columns, names=list(kinds))
    return np.flatnonzero(Condition(condition, kinds).mask(batch)).tolist()


def without_nan(rows: Sequence[Sequence[Value]]) -> list[list[Any]]:
    return [[None if value != value else value for value in row] for row in rows]


@pytest.mark.slow
@given(CONDITIONS, ROWS)
@settings(deadline=None, max_examples=600)
def test_the_rows_are_those_that_sqlite_selects(both: Both, rows: list[tuple[Value, ...]]) -> None:
    with sqlite3.connect(":memory:") as database:
        database.execute("pragma case_sensitive_like = on")
        kinds = {"string": "text", "int64": "integer", "float64": "real", "bool": "integer"}
        columns = ", ".join(f'"{column}" {kinds[kind]}' for column, kind in KINDS.items())
        database.execute(f"create table t (n integer, {columns})")
        places = ", ".join("?" * (len(KINDS) + 1))
        database.executemany(f"insert into t values ({places})", [[at, *row] for at, row in enumerate(without_nan(rows))])  # noqa: E501  # fmt: skip
        found = database.execute(f"select n from t where {both.sql} order by n", both.values).fetchall()
    assert met(both.ours, rows) == [row for (row,) in found]


@pytest.fixture(scope="module")
def duck() -> Iterator[Any]:
    columns = ", ".join(f'"{column}" {IN_SQL[kind]}' for column, kind in KINDS.items())
    with duckdb.connect() as connection:
        connection.execute(f"create table t (n integer, {columns})")
        yield connection


def small(row: Sequence[Value]) -> bool:
    """No number that DuckDB would round when it compares whole and real ones."""
    return all(isinstance(value, bool) or not isinstance(value, int | float) or abs(value) <= 2**53 for value in row)


@pytest.mark.slow
@given(CONDITIONS.filter(lambda both: small(both.values)), ROWS.map(lambda rows: [row for row in rows if small(row)]))
@settings(deadline=None, max_examples=300)
def test_the_rows_are_those_that_duckdb_selects(duck: Any, both: Both, rows: list[tuple[Value, ...]]) -> None:
    duck.execute("delete from t")
    for at, row in enumerate(without_nan(rows)):
        duck.execute(f"insert into t values ({', '.join('?' * (len(KINDS) + 1))})", [at, *row])
    found = duck.execute(f"select n from t where {both.sql} order by n", list(both.values)).fetchall()
    assert met(both.ours, rows) == [row for (row,) in found]


def test_minus_zero_is_zero() -> None:
    rows: list[tuple[Value, ...]] = [(None, None, value, None, None, None) for value in (0.0, -0.0)]
    for condition in ("score in (-0.0)", "score in (0)", "score = -0.0", "score in (0.0, 1)"):
        assert met(condition, rows) == [0, 1], condition


NEAR = [real for edge in EDGES for real in (float(edge), float(np.nextafter(float(edge), 0)))]
REALS = [*NEAR, -0.5, 0.0, 0.5, 1e300, -1e300, float("inf")]


@pytest.mark.parametrize("sign", SIGNS)
def test_whole_and_real_numbers_are_compared_exactly(sign: str) -> None:
    # as Python compares them; a cast would round whole ones past 2⁵³
    compare = getattr(operator, {"=": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}[sign])
    kinds = {"whole": "int64", "real": "float64"}
    pairs = list(itertools.product((*EDGES, 0, -1), REALS))
    assert met(f"whole {sign} real", pairs, kinds) == [at for at, pair in enumerate(pairs) if compare(*pair)]
    assert met(f"real {sign} whole", pairs, kinds) == [at for at, pair in enumerate(pairs) if compare(*pair[::-1])]
    for whole, real in pairs[::7]:
        if abs(real) != float("inf"):
            expected = [at for at, pair in enumerate(pairs) if compare(pair[0], real)]
            assert met(f"whole {sign} {real!r}", pairs, kinds) == expected
        assert met(f"real {sign} {whole}", pairs, kinds) == [
            at for at, pair in enumerate(pairs) if compare(pair[1], whole)
        ]


def test_lists_of_whole_and_real_numbers_are_exact() -> None:
    kinds = {"whole": "int64", "real": "float64"}
    rows: list[tuple[Value, ...]] = [(2**53, 2.0**53), (2**53 + 1, -0.0), (0, 0.5)]
    assert met("real in (9007199254740993, 0, 0.5)", rows, kinds) == [1, 2]
    assert met("real in (9007199254740992)", rows, kinds) == [0]
    assert met("whole in (9007199254740992.0, 0.5, 1e300, -0.0)", rows, kinds) == [0, 2]


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────────────


class Table:
    """Rows in batches, which tells what columns were read."""

    def __init__(self, table: pa.Table, rows: int) -> None:
        self.schema, self._table, self._rows = table.schema, table, rows
        self.read: set[str] = set()

    def batches(self, names: Sequence[str]) -> list[pa.RecordBatch]:
        self.read |= set(names)
        found: list[pa.RecordBatch] = self._table.select(list(names)).to_batches(self._rows)
        return found


def test_only_the_columns_of_the_condition_are_read() -> None:
    table = Table(
        pa.table({"a": pa.array([1, 2, 3, 4], pa.int16()), "b": ["x"] * 4, "c": [1.0, 2, 3, 4], "_d": [1] * 4}), 3
    )
    assert find_matching_rows(table, "a > 1 and c < 4").tolist() == [False, True, True, False]
    assert table.read == {"a", "c"}
    with pytest.raises(UsageError, match=r"no column '_d'; there are: a, b, c"):
        find_matching_rows(table, "_d = 1", but=("_d",))
    assert find_matching_rows(Table(table.schema.empty_table(), 3), "a > 1").tolist() == []


def test_columns_of_other_types_cannot_be_named() -> None:
    schema = pa.schema({"a": pa.int32(), "b": pa.list_(pa.string()), "c": pa.float32(), "d": pa.binary()})
    assert column_kinds(schema) == {"a": "int64", "c": "float64"}

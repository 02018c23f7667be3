"""``bertfeat search``: what the command adds: queries from files, lines that fit, kept columns, wrong uses."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from bertfeat.cli.terminal import cell_width
from bertfeat.core.corpus import KeptColumn, Value
from bertfeat.search import Index
from tests.search.test_index import Stand
from tests.support.index_toy import clustered, vector_set
from tests.support.terminal import on_a_terminal

COUNT = 100
KEPT: dict[KeptColumn, list[Value]] = {
    KeptColumn("year", "int64"): [None if row == 1 else 1850 + row for row in range(COUNT)],
    KeptColumn("author", "string"): ["Doyle", None, "가나다라마바사아자차카타파하", "a\x1b[2J\nb"] * (COUNT // 4),
    KeptColumn("score", "float64"): [float("nan") if row == 2 else row / 4 for row in range(COUNT)],
    KeptColumn("good", "bool"): [row % 2 == 0 for row in range(COUNT)],
}  # fmt: skip


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    vector_set(Path("toy.features"), clustered(COUNT), kept=KEPT)
    assert run("index", "toy.features").exit_code == 0
    monkeypatch.setattr("bertfeat.search.queries.RecordedVectors.open_encoder", lambda *_: Stand(clustered(COUNT)))
    np.save("queries.npy", clustered(COUNT)[:3])
    return Path("toy.index")


def run(*arguments: str | Path, stdin: bytes | str | None = None, **settings: Any) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin, **settings)


# ── queries ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_query_is_answered_in_lines(index: Path) -> None:
    result = run("search", index, "7", "-k", "2")
    answer = Index(index, encoder=Stand(clustered(COUNT))).search("7", 2)
    assert result.stdout.splitlines() == [f"{each.score:7.4f}  {each.id:<2}  {each.text}" for each in answer.hits]


def test_hits_below_a_threshold_are_left_out(index: Path) -> None:
    hits = Index(index, encoder=Stand(clustered(COUNT))).search("7", 5).hits
    by_text = run("search", index, "7", "-k", "5", "--score-threshold", str(hits[2].score))
    assert len(by_text.stdout.splitlines()) == 3
    np.save("own.npy", clustered(COUNT)[[7]])
    by_vector = run("search", index, "--vectors", "own.npy", "-k", "5", "--score-threshold", str(hits[2].score))
    assert by_vector.stdout.splitlines()[1:] == by_text.stdout.splitlines()
    assert run("search", index, "7", "--score-threshold", "99").stdout == "nothing found\n"
    refused = run("search", index, "7", "--score-threshold", "nan")
    assert (refused.exit_code, refused.stderr.splitlines()[0]) == (
        *(2, "error: --score-threshold nan: must be a finite number"),
    )


def test_a_language_that_the_model_does_not_know_is_told_once(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Judge(Stand):
        def language_warning(self, text: str, /) -> str | None:
            return None if text == "2" else "the model does not know it"

    monkeypatch.setattr("bertfeat.search.queries.RecordedVectors.open_encoder", lambda *_: Judge(clustered(COUNT)))
    Path("q.txt").write_text("2\n3\n4\n")
    result = run("search", index, "--queries", "q.txt", "--json")
    assert result.stderr == "warning: the model does not know it\n"
    told = [json.loads(line) for line in result.stdout.splitlines()]
    assert [answer.get("warnings") for answer in told] == [None, *[["the model does not know it"]] * 2]


def test_queries_of_a_file_whatever_its_encoding(index: Path) -> None:
    for codec in ("utf-8", "utf-8-sig", "utf-16"):
        Path("q.txt").write_bytes("3\r\n\r\n5".encode(codec))
        told = [json.loads(line) for line in run("search", index, "--queries", "q.txt", "--json").stdout.splitlines()]
        assert [answer["query"] for answer in told] == ["3", "5"]  # S4: no byte order mark
        assert [answer["hits"][0]["id"] for answer in told] == ["4", "6"]
        piped = run("search", index, "--queries", "-", "--json", stdin=Path("q.txt").read_bytes())
        assert [json.loads(line) for line in piped.stdout.splitlines()] == told
    lines = run("search", index, "--queries", "q.txt", "-k", "1").stdout.splitlines()
    assert [lines[0], lines[2], lines[3]] == ["3", "", "5"]


def test_more_queries_than_are_embedded_at_once(index: Path) -> None:
    Path("q.txt").write_text("".join(f"{number % COUNT}\n" for number in range(600)))
    told = [json.loads(line) for line in run("search", index, "--queries", "q.txt", "--json").stdout.splitlines()]
    assert [answer["hits"][0]["id"] for answer in told] == [str(number % COUNT + 1) for number in range(600)]


def test_queries_that_are_no_text(index: Path) -> None:
    Path("q.txt").write_bytes(b"3\nM\xfcnchen\n")
    result = run("search", index, "--queries", "q.txt")  # T1
    assert result.exit_code == 1
    assert r"error: q.txt, line 2: 'M\xfcnchen' is no utf-8 text; save the file as UTF-8" in result.stderr
    assert run("search", index, "--queries", "-", stdin=b"\xff").stderr.startswith("error: <stdin>, line 1: ")


def test_no_queries_are_said(index: Path) -> None:
    result = run("search", index, "--queries", "-", stdin="\n \n")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "there are no queries" in result.stderr


# ── vectors ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_search_by_vectors(index: Path) -> None:
    result = run("search", index, "--vectors", "queries.npy", "-k", "2", "--where", "row < 50")
    heading, first, *_ = result.stdout.splitlines()
    assert heading == "vector 0"
    assert first.split(maxsplit=2) == ["1.0000", "1", "text of 1"]
    told = [json.loads(line) for line in run("search", index, "--vectors", "queries.npy", "--json").stdout.splitlines()]
    assert [answer["hits"][0]["id"] for answer in told] == ["1", "2", "3"]
    assert told[0]["query"] is None
    assert set(told[0]["hits"][0]) == {"rank", "id", "score", "text", "row", "values"}


def test_vectors_of_any_number_and_what_are_none(index: Path) -> None:
    every = clustered(COUNT)
    for dtype in ("<f2", ">f8", ">i2"):
        np.save("own.npy", np.round(every[:2]).astype(dtype))
        assert run("search", index, "--vectors", "own.npy").exit_code == 0
    np.savez("own.npz", every)
    np.save("none.npy", np.float32(1))
    np.save("one.npy", every[0])
    np.save("complex.npy", every * 1j)
    np.save("truth.npy", every > 0)
    np.save("narrow.npy", every[:, :8])
    every[90, 3] = np.nan
    np.save("nan.npy", np.concatenate([every[:90]] * 4 + [every]))
    expected = {
        "own.npz": "an archive (.npz)",  # T5
        "none.npy": "must be [n, 16], as in this index, not []",
        "one.npy": "a single vector is given as vector[None]",
        "complex.npy": "not complex64",
        "truth.npy": "not bool",
        "narrow.npy": "must be [n, 16], as in this index, not [100, 8]",
        "nan.npy": "query vector 450 has a value that is not finite",
        "toy.features/.bertfeat/manifest.json": "it is no array",
    }
    for name, problem in expected.items():
        result = run("search", index, "--vectors", name, "-k", "1", "--quiet")
        assert result.exit_code == 2, (name, result.stderr)
        assert problem in result.stderr


# ── kept columns ────────────────────────────────────────────────────────────────────────────────────────────


def test_kept_columns_stand_beside_each_hit(index: Path) -> None:
    command = ("search", index, "--where", "row <= 2", "0")
    assert sorted(run(*command, "--show", "year,good").stdout.splitlines(), key=lambda line: line.split()[1]) == [
        line.rstrip() for line in sorted(
            (f"{each.score:7.4f}  {each.id}  {year:>4}  {good:<5}  {each.text}"
             for each in Index(index, encoder=Stand(clustered(COUNT))).search("0", where="row <= 2").hits
             for year, good in [{"1": ("1850", "true"), "2": ("", "false"), "3": ("1852", "true")}[each.id]]),
            key=lambda line: line.split()[1],
        )
    ]  # fmt: skip
    shown = run(*command, "--show", "all").stdout
    assert "가나다라마바사아자차카타파하" in shown
    assert "nan" in shown
    assert "\x1b" not in run("search", index, "--where", "row = 3", "3", "--show", "author").stdout


def test_json_has_all_kept_columns_unless_some_are_named(index: Path) -> None:
    command = ("search", index, "2", "-k", "1", "--json")
    assert json.loads(run(*command).stdout)["hits"][0]["values"] == {
        "year": 1852, "author": "가나다라마바사아자차카타파하", "score": None, "good": True,
    }  # fmt: skip
    assert json.loads(run(*command, "--show", "year").stdout)["hits"][0]["values"] == {"year": 1852}


def test_conditions(index: Path) -> None:
    found = run("search", index, "0", "--where", "author like 'D%' and year between 1850 and 1858", "--json")
    assert sorted(each["row"] for each in json.loads(found.stdout)["hits"]) == [0, 4, 8]
    nothing = run("search", index, "0", "--where", "year > 5000")
    assert nothing.stdout == "nothing found\n"
    assert f"no document meets the condition; year goes from 1850 to {1849 + COUNT}" in nothing.stderr


# ── lines ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_lines_are_cut_only_on_a_terminal_or_if_a_width_is_given(index: Path) -> None:
    where = ("--where", "row = 2", "--show", "author")
    whole = run("search", index, "2", *where, env={"COLUMNS": "30"}).stdout
    assert whole == " 1.0000  3  가나다라마바사아자차카타파하  text of 3\n"
    assert cell_width(run("search", index, "2", *where, "--width", "30").stdout.rstrip("\n")) <= 30
    program = [sys.executable, "-c", "from bertfeat.cli import run; run()", "search", str(index)]
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    vectors = ["--vectors", "queries.npy", "-k", "2", "--show", "all"]
    on_terminal = on_a_terminal([*program, *vectors], environment, columns=44)
    assert on_terminal.exit_code == 0, on_terminal.piped
    assert max(map(cell_width, on_terminal.terminal.decode().splitlines())) == 44


def test_a_query_of_the_heading_is_cleaned(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.search.test_index.Stand.encode", lambda self, texts: self.vectors[: len(texts)])
    shown = run("search", index, "--queries", "-", "-k", "1", stdin="a\x1b[2J b\n").stdout
    assert shown.startswith("a [2J b\n 1.0000")


# ── wrong uses ──────────────────────────────────────────────────────────────────────────────────────────────


def test_features_that_changed_are_an_error_unless_stale_is_said(index: Path) -> None:
    shutil.rmtree("toy.features")
    vector_set(Path("toy.features"), clustered(50))
    result = run("search", index, "--vectors", "queries.npy")
    assert result.exit_code == 1
    assert "changed since the index" in result.stderr
    assert run("search", index, "--vectors", "queries.npy", "--stale").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "give one of QUERY"),
        (["0", "--vectors", "queries.npy"], "give one of QUERY"),
        (["0", "--queries", "-"], "give one of QUERY"),
        ([""], "the query is empty"),
        (["a \udcff"], "the query holds bytes that are no UTF-8"),
        (["0", "-k", "0"], "x>=1"),
        (["0", "--where", "yaer > 3"], "no column 'yaer'; there are: row, id, text, year, author, score, good; did"),
        (["0", "--where", "_source = 0"], "no column '_source'"),
        (["0", "--where", " and ".join(["year > 1"] * 7_000)], "more than 1,000 comparisons"),
        (["0", "--where", "(" * 9_000], "more than 50 parentheses"),
        (["0", "--show", "yaer"], "--show yaer: there is no such kept column; did you mean year? there are: year, author, score, good"),  # noqa: E501
        (["0", "--show", "text"], "--show text: there is no such kept column"),
        (["0", "--show", "year,"], "has an empty item"),
        (["0", "--width", "60", "--json"], "--width is for lines"),
        (["--vectors", "queries.npy", "--model", "x"], "--model is for embedding queries"),
        (["--vectors", "queries.npy", "--device", "cpu"], "--device is for embedding queries"),
        (["--vectors", "nowhere.npy"], "does not exist"),
        (["--queries", "nowhere.txt"], "No such file"),
    ],
)  # fmt: skip
def test_wrong_uses(index: Path, arguments: list[str], problem: str) -> None:
    result = run("search", index, *arguments)
    assert result.exit_code == 2
    assert problem in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
    assert result.stdout == ""


def test_where_nothing_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    vector_set(Path("toy.features"), clustered(9))
    run("index", "toy.features")
    np.save("queries.npy", clustered(1))
    assert run("search", "toy.index", "--vectors", "queries.npy", "--show", "all").exit_code == 0
    shown = run("search", "toy.index", "--vectors", "queries.npy", "--show", "year")
    assert "none was kept (bertfeat extract --keep keeps them)" in " ".join(shown.stderr.split())

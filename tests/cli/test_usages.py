"""``bertfeat usages``: aligned lines, the other forms of the result, and how wrong uses end."""

import codecs
import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from bertfeat.cli.terminal import cell_width
from bertfeat.core.corpus import CorpusSettings
from bertfeat.core.extraction import Extractor
from bertfeat.search import build_index
from bertfeat.usages import PATTERN_HELP, Usage, find_senses, find_usages, find_usages_by
from tests.support.terminal import on_a_terminal
from tests.support.tiny_models import Tiny

TEXTS = (
    "The bank of the river was steep.",
    "He went to the bank\tto ask\nfor money.",
    "은행에서 돈을 찾았다.",
    "강가의 은행 앞.",
    "The bank, again \x1b[31mred.",
)


@pytest.fixture(scope="module")
def folder(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set with a vector a word, and beside it one without; a folder for all tests of this module."""
    home = tmp_path_factory.mktemp("usages")
    records = [
        {"text": text, "year": year, "left": left}
        for text, year, left in zip(
            TEXTS, (1850, None, 1900, 1910, 1920), ("a", "한국", None, "a\x1b[2J", "b"), strict=True
        )
    ]
    for pooling in ("word", "mean"):
        extractor = Extractor(tiny("bert").folder, layers="concat4", pooling=pooling, precision="fp32", device="cpu")
        texts = home / "texts.jsonl"
        texts.write_text("".join(json.dumps(record) + "\n" for record in records))
        extractor.extract(texts, home / f"{pooling}.features", corpus_settings=CorpusSettings(keep=("year", "left")))
    build_index(home / "word.features", home / "word.index")
    return home


@pytest.fixture(autouse=True)
def in_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def usages(*arguments: str, **settings: Any) -> Result:
    return CliRunner().invoke(main, ["usages", *arguments], **settings)


# ── lines ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_lines_are_aligned_and_say_what_they_are() -> None:
    result = usages("word.features", "bank", "--width", "60")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2", "5"]
    assert len({line.index("bank") for line in lines}) == 1
    assert lines[1].endswith("He went to the bank to ask for money.")
    assert "\x1b" not in result.stdout
    assert (
        "bank: 3 of 3 usages (115,385 per million words) in 5 documents, in the order of the corpus (last_word)"
        in result.stderr
    )


def test_nearest_first() -> None:
    result = usages("word.features", "bank", "--like", TEXTS[1], "-k", "1")
    assert result.stdout.startswith(" 1.000  2  ")
    assert "1 of 3 usages (115,385 per million words) in 5 documents, nearest to 'He went" in result.stderr
    quiet = usages("word.features", "bank", "--like", TEXTS[1], "-k", "1", "--quiet")
    assert (quiet.stdout, quiet.stderr) == (result.stdout, "")


@pytest.mark.parametrize("options", [(), ("--by", "year", "--slices", "1850,1900")])
def test_a_long_sentence_does_not_fill_the_terminal(options: tuple[str, ...]) -> None:
    """Its beginning and the end of the line are shown."""
    result = usages("word.features", "bank", "--like", f"the bank {'of the river ' * 1200}", "-k", "1", *options)
    assert result.exit_code == 0, result.stderr
    (line,) = (line for line in result.stderr.splitlines() if "nearest to" in line)
    assert line.startswith("bank: ")
    assert "nearest to 'the bank of the river of the river" in line
    assert line.endswith("of the river ' (last_word)")
    assert len(line) <= 1100


@pytest.mark.slow
def test_colors_are_for_terminals_that_want_them() -> None:
    code = "from bertfeat.cli import run; run()"
    shown = {}
    for name, changes in {"plain": {}, "no color": {"NO_COLOR": "1"}, "dumb": {"TERM": "dumb"}}.items():
        environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")}
        command = [sys.executable, "-c", code, "usages", "word.features", "bank", "-k", "1", "--quiet"]
        run = on_a_terminal(command, {**environment, "TERM": "xterm", **changes})
        assert run.exit_code == 0, run.piped
        shown[name] = run.terminal.decode()
    assert "\x1b[31m\x1b[1mbank\x1b[0m of the river" in shown["plain"]
    assert "\x1b" not in shown["no color"] + shown["dumb"]


def test_terminal_width_is_that_of_the_environment() -> None:
    result = usages("word.features", "river", env={"COLUMNS": "36"})
    assert max(map(cell_width, result.stdout.splitlines())) <= 36
    assert "…" in result.stdout


# ── other forms ─────────────────────────────────────────────────────────────────────────────────────────────


def test_json() -> None:
    result = usages("word.features", "은행*", "--like", "은행 앞", "--column", "sum4", "--json")
    told = json.loads(result.stdout)
    found = find_usages("word.features", "은행*", like="은행 앞", column="sum4")
    assert (told["word"], told["like"], told["column"]) == ("은행*", "은행 앞", "sum4_word")
    assert told["warnings"] == list(found.warnings) == []
    assert (told["documents"], told["found"], told["skipped"]) == (5, 2, 0)
    assert [Usage(**usage) for usage in told["usages"]] == list(found.usages)


def test_a_sentence_in_a_language_that_the_model_does_not_know() -> None:
    result = usages("word.features", "bank", "--like", "bank: река течёт в синее море", "--json")
    (warning,) = json.loads(result.stdout)["warnings"]
    assert warning.startswith("the model does not know the language of this text")
    assert f"warning: {warning}" in result.stderr.splitlines()


def test_csv() -> None:
    result = usages("word.features", "bank", "--csv", "--context", "9")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [row["left"] + row["word"] + row["right"] for row in rows] == [
        "The bank of the r", "t to the bank\tto ask\nf", "The bank, again \x1b",
    ]  # fmt: skip
    assert rows[1] == {
        "sense": "", "slice": "", "score": "", "id": "2", "row": "1", "start": "15", "end": "19",
        "left": "t to the ", "word": "bank", "right": "\tto ask\nf", "year": "", "kept_left": "한국",
    }  # fmt: skip


def test_a_file_of_csv_begins_with_a_byte_order_mark(tmp_path: Path) -> None:
    """By which Excel knows UTF-8; a pipe has none, and what is appended neither."""
    code = "from bertfeat.cli import main; main()"
    command = [sys.executable, "-c", code, "usages", "word.features", "bank", "--csv"]
    piped = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    for _ in range(2):
        with (tmp_path / "table.csv").open("ab") as file:
            subprocess.run(command, check=True, stdout=file)
    assert (tmp_path / "table.csv").read_bytes() == codecs.BOM_UTF8 + piped + piped
    assert not piped.startswith(codecs.BOM_UTF8)


def test_pages_samples_and_orders() -> None:
    first = usages("word.features", "bank", "-k", "2")
    second = usages("word.features", "bank", "-k", "2", "--page", "2")
    assert [line.split()[0] for line in (first.stdout + second.stdout).splitlines()] == ["1", "2", "5"]
    assert "bank: 3 to 3 of 3 usages" in second.stderr
    none = usages("word.features", "bank", "--page", "2")
    assert (none.exit_code, none.stdout) == (0, "")
    assert "bank: page 2 has none of 3 usages" in none.stderr
    by_year = usages("word.features", "bank", "--sort", "year")
    assert [line.split()[0] for line in by_year.stdout.splitlines()] == ["1", "5", "2"]
    assert "sorted by year" in by_year.stderr
    right = usages("word.features", "bank", "--sort", "right", "--by", "year", "--slices", "1850,1920")
    assert "bank: 2 usages in 5 documents by year, sorted by the words on the right" in right.stderr
    drawn = usages("word.features", "bank", "--sample", "2")
    assert "bank: 2 of a sample of 2 of 3 usages" in drawn.stderr
    told = json.loads(usages("word.features", "bank", "--sample", "2", "--json").stdout)
    assert (told["found"], len(told["usages"]), told["words"], told["per_million"]) == (3, 2, 26, 115384.62)
    asked = ("*", "--like", "the *river*", "-k", "2")
    assert usages("word.index", *asked, "--page", "2").stdout == usages("word.features", *asked, "--page", "2").stdout


def test_senses() -> None:
    result = usages("word.features", "bank", "--senses", "2", "-k", "1")
    found = find_senses("word.features", "bank", 2, k=1)
    assert result.stdout.startswith("sense 1: 2 of 3\n 0.")
    assert "\n\nsense 2: 1 of 3\n 1.000  " in result.stdout
    told = json.loads(usages("word.features", "bank", "--senses", "2", "-k", "1", "--json").stdout)
    assert [sense["count"] for sense in told["senses"]] == [2, 1]
    rows = list(csv.DictReader(io.StringIO(usages("word.features", "bank", "--senses", "2", "--csv").stdout)))
    assert [row["sense"] for row in rows] == ["1", "1", "2"]
    assert rows[0]["id"] == found.senses[0].usages[0].id


def test_slices() -> None:
    options = ("bank", "--by", "year", "--slices", "1850,1920")
    result = usages("word.features", *options, "--width", "60")
    assert [line for line in result.stdout.splitlines() if ":" in line] == [
        "1850: 1 usage (142,857 per million words) in 1 document",
        "1920: 1 usage (250,000 per million words) in 1 document",
    ]  # fmt: skip
    assert "bank: 2 usages in 5 documents by year, in the order of the corpus (last_word)" in result.stderr
    assert "1 usage in documents outside of the slices of year left out" in result.stderr
    told = json.loads(usages("word.features", *options, "--like", "a bank", "--json").stdout)
    found = find_usages_by("word.features", "bank", "year", "1850,1920", like="a bank")
    assert (told["by"], told["outside"], [one["name"] for one in told["slices"]]) == ("year", 1, ["1850", "1920"])
    for one, expected in zip(told["slices"], found.slices, strict=True):
        assert (one["first"], one["found"], one["score"]) == (expected.slice.first, expected.found, expected.score)
        assert [Usage(**usage) for usage in one["usages"]] == list(expected.usages)
    rows = list(csv.DictReader(io.StringIO(usages("word.features", *options, "--csv").stdout)))
    assert [(row["slice"], row["id"]) for row in rows] == [("1850", "1"), ("1920", "5")]
    assert usages("word.features", "riv", "--by", "year").stdout.startswith("1850-1900: 0 usages in 2 documents\n")


def test_frequencies_alone() -> None:
    options = ("word.features", "bank", "--by", "year", "--slices", "every:10", "-k", "0")
    sliced = find_usages_by("word.features", "bank", "year", "every:10", k=0).slices
    told = usages(*options)
    assert [line.split() for line in told.stdout.splitlines()] == [
        ["year", "documents", "words", "usages", "per", "million"],
        *([f"{start}-{start + 9}", "1", f"{one.words}", f"{one.found}", f"{one.per_million:,.3f}"]
          for start, one in zip((1850, 1900, 1910, 1920), sliced, strict=True)),
    ]  # fmt: skip
    assert (
        told.stderr
        == "bank: 2 usages in 5 documents by year\n1 usage in documents outside of the slices of year left out\n"
    )
    rows = list(csv.DictReader(io.StringIO(usages(*options, "--csv").stdout)))
    assert [(row["slice"], int(row["usages"]), float(row["per_million"])) for row in rows] == [
        (one.slice.name, one.found, one.per_million) for one in sliced
    ]
    near = usages(*options, "--like", "He sat on the bank.").stdout.splitlines()
    scored = find_usages_by("word.features", "bank", "year", "every:10", k=0, like="He sat on the bank.").slices
    assert near[0].endswith("mean score")
    assert near[1].endswith(f" {scored[0].score:.3f}")
    assert (
        usages("word.features", "bank", "-k", "0").stderr
        == "bank: 3 usages (115,385 per million words) in 5 documents\n"
    )


def test_senses_over_slices(tmp_path: Path) -> None:
    picture = tmp_path / "bank.svg"
    options = ("bank", "--senses", "2", "--by", "year", "--slices", "1850,1920")
    result = usages("word.features", *options, "-k", "1", "--plot", str(picture))
    assert result.stdout.splitlines()[0].split() == ["year", "1850", "1920"]
    assert result.stdout.splitlines()[1].split() == ["sense", "1", "1", "(100%)", "0", "(", "0%)"]
    rows = list(csv.DictReader(io.StringIO(usages("word.features", *options, "--csv").stdout)))
    assert [(row["sense"], row["slice"], row["id"]) for row in rows] == [("1", "1850", "1"), ("2", "1920", "5")]
    assert "sense 2: " in picture.read_text()
    told = json.loads(usages("word.features", *options, "--json").stdout)
    assert sorted(sense["counts"] for sense in told["senses"]) == [[0, 1], [1, 0]]
    assert [one["documents"] for one in told["slices"]] == [1, 1]
    assert usages("word.features", "riv", *options[1:], "--plot", str(tmp_path / "none.svg")).exit_code == 0


def test_a_picture_of_frequencies(tmp_path: Path) -> None:
    picture = tmp_path / "bank.svg"
    result = usages("word.features", "bank", "--by", "year", "--slices", "every:10", "-k", "0", "--plot", str(picture))
    assert result.exit_code == 0, result.stderr
    assert "The frequency of bank" in picture.read_text()


def test_usages_near_a_word() -> None:
    every = json.loads(usages("word.features", "bank", "--json", "--context", "1000").stdout)["usages"]
    with_river = [usage["id"] for usage in every if "river" in f"{usage['left']} {usage['right']}".lower()]
    result = usages("word.features", "bank", "--near", "riv*", "--left", "99", "--right", "99", "--json")
    assert [usage["id"] for usage in json.loads(result.stdout)["usages"]] == with_river != []
    assert len(with_river) < len(every)
    assert "near riv* (" in result.stderr
    none = usages("word.features", "bank", "--near", "nowhere")
    assert (none.exit_code, none.stdout) == (0, "nothing found\n")
    assert none.stderr == "'bank' does not stand near 'nowhere' in the 5 documents\n"


def test_usages_in_their_spans() -> None:
    result = usages("word.features", "bank", "--spans", "words:3", "--width", "60")
    lines = [line.split(maxsplit=1)[1] for line in result.stdout.splitlines()]
    assert lines == ["The bank of", "the bank to", "The bank, again ["]
    assert "bank: 3 of 3 usages within words:3 (" in result.stderr
    shown = json.loads(usages("word.features", "bank", "--near", "went", "--spans", "sentences", "--json").stdout)
    (usage,) = shown["usages"]
    assert (usage["left"], usage["right"]) == ("He went to the ", "\tto ask\nfor money.")
    assert (shown["near"], shown["spans"]) == ("went", "sentences")
    none = usages("word.features", "bank", "--near", "went", "--spans", "words:3")
    assert none.stderr == "'bank' does not stand near 'went' within words:3 in the 5 documents\n"


def test_any_word_by_scan_and_by_index() -> None:
    asked = ("*", "--like", "the *river*", "-k", "2")
    by_scan, by_index = usages("word.features", *asked), usages("word.index", *asked)
    assert by_scan.stdout == by_index.stdout
    assert "2 of 26 usages" in by_scan.stderr


def test_kept_columns_stand_beside_each_usage() -> None:
    plain = usages("word.features", "bank", "--width", "70").stdout.splitlines()
    lines = usages("word.features", "bank", "--width", "70", "--show", "left,year").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2", "5"]
    assert [line[3:].split("  ")[0].strip() for line in lines] == ["a", "한국", "b"]
    assert len({cell_width(line[: line.index("bank")]) for line in lines}) == 1
    assert len(plain) == len(lines)
    assert max(map(cell_width, lines)) <= 70
    assert "\x1b" not in usages("word.features", "은행", "--show", "all").stdout


def test_json_and_csv_have_all_kept_columns_unless_some_are_named() -> None:
    told = json.loads(usages("word.features", "bank", "--json").stdout)
    assert [usage["values"] for usage in told["usages"]] == [
        {"year": 1850, "left": "a"}, {"year": None, "left": "한국"}, {"year": 1920, "left": "b"},
    ]  # fmt: skip
    told = json.loads(usages("word.features", "bank", "--json", "--show", "year", "--senses", "2").stdout)
    assert {name for sense in told["senses"] for usage in sense["usages"] for name in usage["values"]} == {"year"}
    header = usages("word.features", "bank", "--csv", "--show", "year").stdout.splitlines()[0]
    assert header == "sense,slice,score,id,row,start,end,left,word,right,year"


def test_conditions() -> None:
    for options in ((), ("--like", "a bank")):
        result = usages("word.features", "bank", "--where", "year > 1850 or year is null", "--json", *options)
        told = json.loads(result.stdout)
        assert (told["documents"], sorted(usage["row"] for usage in told["usages"])) == (4, [1, 4])
    asked = ("*", "--like", "the *river*", "-k", "3", "--where", "left = 'a'", "--show", "year")
    by_scan, by_index = usages("word.features", *asked), usages("word.index", *asked)
    assert by_scan.stdout == by_index.stdout
    assert "3 of 7 usages (1,000,000 per million words) in 1 document" in by_scan.stderr
    assert "3 of 8 usages in 1 document" in by_index.stderr  # an index holds punctuation too
    nothing = usages("word.features", "bank", "--where", "year = 3")
    assert (nothing.exit_code, nothing.stdout) == (0, "nothing found\n")
    assert "no document meets the condition; year goes from 1850 to" in nothing.stderr


def test_what_the_environment_sets_is_for_every_use() -> None:
    settings = {"BERTFEAT_USAGES_WIDTH": "60", "BERTFEAT_USAGES_DEVICE": "cpu", "BERTFEAT_USAGES_SHOW": "year"}
    lines = usages("word.features", "bank", env=settings)
    assert lines.stdout.startswith("1  1850  ")
    told = json.loads(usages("word.features", "bank", "--json", env=settings).stdout)
    assert told["usages"][0]["values"] == {"year": 1850}


def test_nothing_found() -> None:
    for options in ((), ("--senses", "2")):
        result = usages("word.features", "riv", *options)
        assert (result.exit_code, result.stdout) == (0, "nothing found\n")
        assert "'riv' does not stand in the 5 documents; riv* also finds words that begin so" in result.stderr
    assert json.loads(usages("word.features", "riv", "--json").stdout)["usages"] == []


@pytest.mark.parametrize("word", ["zz of *", "train,trains", "b?", "_VERB"])
def test_a_pattern_that_finds_nothing(word: str) -> None:
    """What can be asked is told, because the count of a query that means something else is no count."""
    result = usages("word.features", word)
    assert (result.exit_code, result.stdout) == (0, "nothing found\n")
    assert PATTERN_HELP in result.stderr
    assert "begin so" not in result.stderr


@pytest.mark.parametrize("word", ["[lemma='go']", "/tr.*/", "{go}", "(good|bad)", '[tag="NOUN"]'])
def test_patterns_of_other_tools_are_refused(word: str) -> None:
    result = usages("word.features", word)
    assert (result.exit_code, result.stdout) == (2, "")


# ── wrong uses ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "exit_code", "problem"),
    [
        (["word.features"], 2, "Missing argument 'WORD'"),
        (["nowhere.features", "bank"], 1, "nowhere.features"),
        (["mean.features", "bank"], 1, "--pooling word into mean.words.features"),
        (["word.features", ""], 2, "the word to look for is empty"),
        (["word.features", "bank", "--like", "the river"], 2, "'bank' is not in --like 'the river'"),
        (["word.features", "bank", "--like", "a bank", "--senses", "2"], 2, "give one of the two"),
        (["word.features", "bank", "--slices", "2"], 2, "name it with --by"),
        (["word.features", "bank", "--by", "yaer"], 2, "no kept column 'yaer'; there are: year, left"),
        (["word.features", "bank", "--by", "year", "--slices", "9-1"], 2, "ends before it begins"),
        (["word.features", "bank", "--plot", "x.png"], 2, "--plot draws the frequency, or --senses, over the slices"),
        (["word.features", "bank", "--senses", "2", "--plot", "x.png"], 2, "name a kept column"),
        (["word.features", "bank", "--by", "year", "--plot", "x.gif"], 2, "the ending of its name"),
        (["word.features", "bank", "--spans", "lines"], 2, "--spans lines: these spans are unknown; there are"),
        (["word.features", "bank", "--spans", "column:lef"], 2, "did you mean left?"),
        (["word.features", "bank", "--left", "2"], 2, "--left says how near the word of --near must stand"),
        (["word.features", "bank", "--near", "the", "--left", "0", "--right", "0"], 2, "leave no word near"),
        (["word.features", "bank", "--senses", "2", "--by", "year", "--plot", "x.gif"], 2, "the ending of its name"),
        (["word.index", "*", "--like", "a *bank*", "--by", "year"], 2, "is an index"),
        (["word.features", "bank", "--csv", "--json"], 2, "give one of the two"),
        (["word.features", "*", "--like", "a bank"], 2, "mark the word that is meant"),
        (["word.features", "bank", "--senses", "9"], 2, "'bank' has 3 usages to group"),
        (["word.features", "bank", "--senses", "1"], 2, "x>=2"),
        (["word.features", "bank", "-k", "-1"], 2, "0<=x<=10000"),
        (["word.features", "bank", "--column", "0"], 2, "needs layer 0"),
        (["word.features", "bank", "--column", "last_token"], 2, "no column with token pooling is stored"),
        (["word.features", "bank", "--layers", "0"], 2, "No such option"),
        (["word.features", "bank", "--senses", "2", "--model", "x"], 2, "--model is for the sentence of --like"),  # W8
        (["word.features", "bank", "--senses", "2", "--device", "cpu"], 2, "--device is for the sentence of --like"),
        (["word.features", "bank", "--model", "x"], 2, "--model is for the sentence of --like"),
        (["word.features", "bank", "--width", "60", "--json"], 2, "--width is for lines"),
        (["word.features", "bank", "--width", "60", "--csv"], 2, "--width is for lines"),
        (
            ["word.features", "bank", "--show", "yaer"],
            2,
            "there is no such kept column; did you mean year? there are: year, left",
        ),
        (["word.features", "bank", "--show", "text"], 2, "there is no such kept column"),
        (["word.features", "bank", "--where", "yaer > 3"], 2, "no column 'yaer'"),
        (["word.features", "bank", "--where", "year > 'x'"], 2, "year holds whole numbers"),
        (["word.features", "b\udcff"], 2, "the word to look for holds bytes that are no UTF-8"),
        (["word.features", "bank", "--like", "a bank \udcff"], 2, "--like holds bytes"),
        (["word.index", "*", "--like", "a *bank*", "--column", "sum4"], 2, "is an index"),
        (["word.index", "*", "--like", "a *bank*", "--show", "yaer"], 2, "no such kept column"),
        (["word.index", "*", "--like", "a *bank*", "--where", "yaer = 3"], 2, "no column 'yaer'"),
        (["word.features", "bank", "--like", "a bank", "--model", "nowhere"], 1, "nowhere"),
        (["word.index", "bank"], 2, "is an index"),
        (["word.index", "*", "--like", "a *bank*", "--sample", "3"], 2, "is an index"),
        (["word.index", "bank", "--sort", "left"], 2, "is an index"),
        (["word.features", "bank", "--senses", "2", "--sort", "left"], 2, "leave out --sort"),
        (["word.features", "bank", "--senses", "2", "--page", "2"], 2, "leave out --page"),
        (["word.features", "bank", "--senses", "2", "--sample", "3"], 2, "leave out --sample"),
        (["word.features", "bank", "--sort", "lefft"], 2, "did you mean left? there are: left, right, year"),
        (["word.features", "bank", "--sort", "left", "--like", "a bank"], 2, "leave out --sort"),
        (["word.features", "bank", "--page", "0"], 2, "x>=1"),
        (["word.features", "bank", "--sample", "0"], 2, "x>=1"),
        (["word.index", "*", "--senses", "2"], 2, "is an index"),
    ],
)
def test_wrong_uses(arguments: list[str], exit_code: int, problem: str) -> None:
    result = usages(*arguments)
    assert result.exit_code == exit_code, result.output
    assert problem in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


LONG = "He sat by the river. " * 700


@pytest.mark.parametrize(
    "arguments",
    [
        ["bank", "--like", LONG],
        ["bank", "--like", f"{LONG} *the* *bank*"],
        [LONG, "--like", "a bank"],
        ["bank", "--where", f"left = '{LONG}' and"],
        ["bank", "--column", LONG],
        ["bank", "--by", "year", "--slices", LONG],
        ["bank", "--show", LONG],
    ],
    ids=["like", "marks", "word", "where", "column", "slices", "show"],
)
def test_a_long_argument_is_not_repeated_whole(arguments: list[str]) -> None:
    """One that is wrong is named in a message that fits on a screen, with its remedy."""
    result = usages("word.features", *arguments)
    assert result.exit_code in (0, 1, 2, 3)
    assert not isinstance(result.exception, AssertionError)
    assert len(result.stderr) < 2500
    assert result.stderr.count("He sat by the river") < 60

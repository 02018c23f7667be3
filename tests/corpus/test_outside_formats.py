"""Formats of another package: registered as an entry point, and read as those of this one."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from bertfeat.cli import main
from bertfeat.core.corpus import CorpusSettings, Failure, all_formats, format_of, open_corpus
from bertfeat.errors import BertfeatError, UsageError
from bertfeat.scale import Processes
from tests.support.corpus_writers import rows_of
from tests.support.packages import Packages
from tests.support.runs import contents, extractor
from tests.support.tiny_models import Tiny
from tests.support.ways import local_workers

PAGE = (Path(__file__).parents[2] / "docs" / "engineers.md").read_text()
(BARS,) = re.findall(r"```python\n(from bertfeat\.core import .*?)```", PAGE, re.DOTALL)
BARS = BARS.replace("my_package", "toy_package")


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Packages]:
    packages = Packages(tmp_path / "site-packages", "bertfeat.formats", "bars", "FORMAT", all_formats.cache_clear)
    monkeypatch.syspath_prepend(packages.folder)
    yield packages
    packages.forget()


@pytest.fixture
def chronicle(tmp_path: Path) -> Path:
    lines = [f"{1800 + number}|The year {number}." for number in range(40)]
    lines[3], lines[7], lines[9] = "", "no year", "year|A year."
    (tmp_path / "corpus").mkdir()
    path = tmp_path / "corpus" / "chronicle.bars"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_the_page_s_format_is_read_as_any_other(packages: Packages, chronicle: Path) -> None:
    packages.install(BARS)
    settings = CorpusSettings(keep=("year",))
    rows = rows_of(chronicle, settings)
    assert [row.text for row in rows if hasattr(row, "text")] == [
        f"The year {number}." for number in range(40) if number not in (3, 7, 9)
    ]
    assert [(row.id, row.reason) for row in rows if isinstance(row, Failure)] == [
        ("8", f"{chronicle}, line 8: no | in it; put one after the year"),
        ("10", f"{chronicle}, line 10: invalid literal for int() with base 10: 'year'"),
    ]
    corpus = open_corpus([chronicle], settings)
    assert [(kept.name, kept.type) for kept in corpus.kept] == [("year", "int64")]
    (file,) = corpus.files
    reading = file.read(0, rows=20)
    assert [*reading, *file.read(20, start=reading.position)] == rows
    chronicle.rename(chronicle.with_name("chronicle.dat"))
    assert rows_of(chronicle.with_name("chronicle.dat"), CorpusSettings(format="bars", keep=("year",)))[5] == rows[5]


def test_workers_read_it(
    packages: Packages, chronicle: Path, tmp_path: Path, bert: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages.install(BARS)
    local_workers(monkeypatch)
    for name, engine in (("one", None), ("two", Processes(2))):
        extractor(bert).extract(chronicle, tmp_path / name, part_rows=7, engine=engine)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_without_the_package_it_is_unknown(packages: Packages, chronicle: Path) -> None:
    packages.install(BARS)
    assert format_of("a.bars.gz").name == "bars"
    packages.uninstall()
    assert format_of("a.bars").name == "text"
    with pytest.raises(UsageError, match=r"format='bars': not a format; there are text, .*squad; name one of these"):
        CorpusSettings(format="bars")
    with pytest.raises(BertfeatError, match=r"no file with a known ending \(\.txt"):
        open_corpus([chronicle.parent])


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("FORMAT = dict", "toy_package:FORMAT: this entry point of bertfeat.formats is no Format"),
        (
            "",
            "entry point bars of bertfeat.formats cannot be loaded (AttributeError: module 'toy_package' has no",
        ),
        (
            "import nothing_of_this_name",
            "cannot be loaded (ModuleNotFoundError: No module named 'nothing_of_this_name')",
        ),
        ("class", "cannot be loaded (SyntaxError: invalid syntax"),
        ("open('/nowhere/at/all')", "formats cannot be loaded (FileNotFoundError: [Errno 2]"),
        ("1 / 0", "formats cannot be loaded (ZeroDivisionError: division by zero); uninstall the package"),
        (BARS.replace('"bars"', '"csv"'), "two formats have the name or ending csv"),
        (BARS.replace('".bars"', '".txt"'), "two formats have the name or ending .txt"),
    ],
)
def test_what_is_no_format_is_told(packages: Packages, code: str, told: str) -> None:
    packages.install(code)
    with pytest.raises(UsageError, match=re.escape(told)):
        format_of("a.bars")


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (BARS.replace("toy_package:", "toy_packages:"), "(ModuleNotFoundError: No module named 'toy_packages')"),
        (BARS.replace("class VerticalBar", "class OtherBar"), "has no attribute 'VerticalBarReader')"),
        ("from bertfeat.core.corpus import Format\nFORMAT = Format('bars', ('.bars',), 'toy_package:dict')", "'dict')"),
        (
            "from bertfeat.core.corpus import Format\nclass R: 0\nFORMAT = Format('bars', ('.bars',), 'toy_package:R')",
            "toy_package:R: the reader of the format bars cannot be loaded (AttributeError: type object 'R' has no",
        ),
    ],
    ids=["no such module", "no such class", "of no module", "no reader"],
)
def test_a_reader_that_cannot_be_loaded_is_told(packages: Packages, chronicle: Path, code: str, told: str) -> None:
    packages.install(code)
    with pytest.raises(UsageError, match=re.escape(told)) as raised:
        rows_of(chronicle)
    assert "uninstall the package that registers it, or correct it" in str(raised.value)


def test_a_reader_that_fails_is_told_with_its_package(packages: Packages, chronicle: Path) -> None:
    packages.install(re.sub(r"(    def record\(.*\n)", r"\1        raise ZeroDivisionError('of bars')\n", BARS))
    done = CliRunner().invoke(main, ["extract", str(chronicle), "--dry-run"])
    assert done.exit_code == 1
    assert "error: this is a bug in the package toy_package, which extends bertfeat; please report" in done.stderr


def test_a_package_that_cannot_be_loaded_stops_only_what_needs_it(packages: Packages, tmp_path: Path) -> None:
    packages.install("1 / 0")
    (tmp_path / "a.csv").write_text("text\na\n")
    assert [row.text for row in rows_of(tmp_path / "a.csv") if hasattr(row, "text")] == ["a"]
    assert CorpusSettings(format="csv").format == "csv"

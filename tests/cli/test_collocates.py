"""``bertfeat collocates``: the table, the other forms of the result, and how wrong uses end."""

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from bertfeat.core.corpus import CorpusSettings
from bertfeat.core.extraction import Extractor
from bertfeat.usages import find_collocates
from tests.support.tiny_models import Tiny

TEXTS = [
    "The old bank of the river.",
    "River bank, old mill.",
    "The mill and the money.",
    "은행 the 은행",
    "old river bank",
] * 3


@pytest.fixture(scope="module", autouse=True)
def folder(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("collocates")
    records = [{"text": text, "year": 1900 + number} for number, text in enumerate(TEXTS)]
    (home / "texts.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    extractor = Extractor(tiny("bert").folder, layers="last", pooling="mean", precision="fp32", device="cpu")
    extractor.extract(home / "texts.jsonl", home / "c.features", corpus_settings=CorpusSettings(keep=("year",)))
    return home


@pytest.fixture(autouse=True)
def in_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def collocates(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["collocates", *arguments])


def test_a_table() -> None:
    result = collocates("c.features", "bank", "--left", "2", "--right", "1")
    assert result.exit_code == 0, result.stderr
    heading, *lines = result.stdout.splitlines()
    names = ["word", "near", "by chance", "left", "right", "in corpus", "documents", "DP", "log-likelihood", "log-dice"]
    assert re.split(r"  +", heading) == names
    found = find_collocates("c.features", "bank", left=2, right=1)
    assert [line.split()[0] for line in lines] == [one.word for one in found.collocates]
    assert [int(line.split()[1]) for line in lines] == [one.near for one in found.collocates]
    assert len({len(line) for line in [heading, *lines]}) == 1
    assert (
        f"bank: {len(lines)} collocates by log-likelihood, up to 2 words before and 1 after 9 usages" in result.stderr
    )


def test_json_and_csv() -> None:
    options = ("c.features", "b*", "--measure", "log-dice", "--least", "2", "-k", "2", "--where", "year > 1901")
    told = json.loads(collocates(*options, "--json").stdout)
    found = find_collocates("c.features", "b*", measure="log-dice", least=2, k=2, where="year > 1901")
    assert (told["found"], told["words"], told["near"]) == (found.found, found.words, found.near)
    assert [one["log_dice"] for one in told["collocates"]] == [one.log_dice for one in found.collocates]
    rows = list(csv.DictReader(io.StringIO(collocates(*options, "--csv").stdout)))
    assert [(row["word"], int(row["near"]), float(row["expected"])) for row in rows] == [
        (one.word, one.near, one.expected) for one in found.collocates
    ]


def test_nothing_found() -> None:
    result = collocates("c.features", "zebra")
    assert (result.exit_code, result.stdout) == (0, "nothing found\n")
    assert "'zebra' does not stand in 15 documents; zebra* also finds words that begin so" in result.stderr
    rare = collocates("c.features", "bank", "--least", "99")
    assert (rare.exit_code, rare.stdout) == (0, "nothing found\n")
    assert "bank: 0 collocates" in rare.stderr


@pytest.mark.parametrize(
    ("arguments", "exit_code", "problem"),
    [
        (["c.features"], 2, "Missing argument 'WORD'"),
        (["nowhere.features", "bank"], 1, "nowhere.features"),
        (["c.features", " "], 2, "the word to look for is empty"),
        (["c.features", "bank", "--spans", "lines"], 2, "--spans lines: these spans are unknown; there are: sentences"),
        (["c.features", "bank", "--left", "0", "--right", "0"], 2, "--left 0 and --right 0 leave no word near"),
        (["c.features", "bank", "--measure", "mi"], 2, "'mi' is not one of"),
        (["c.features", "bank", "--csv", "--json"], 2, "give one of the two"),
        (["c.features", "bank", "--where", "yaer > 3"], 2, "no column 'yaer'"),
        (["c.features", "bank", "-k", "0"], 2, "1<=x<=100000"),
    ],
)
def test_wrong_uses(arguments: list[str], exit_code: int, problem: str) -> None:
    result = collocates(*arguments)
    assert result.exit_code == exit_code, result.output
    assert problem in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert result.stdout == ""

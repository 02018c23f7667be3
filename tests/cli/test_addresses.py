"""Commands take addresses where they read feature sets and indexes, and paths where they write."""

import json
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from click.shell_completion import CompletionItem
from click.testing import CliRunner, Result

from bertfeat.cli import main
from bertfeat.cli.option_types import LOCATION
from bertfeat.cli.options import default_output
from bertfeat.core.features import FeatureSet
from bertfeat.io import Address, ResultKind, claim_folder, list_files, put_file, read_file
from tests.cli.test_search import KEPT
from tests.search.test_index import Stand
from tests.support.features_toy import toy_set
from tests.support.index_toy import clustered, vector_set

COUNT = 100
_NUMBERS = count()


@pytest.fixture
def features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Address:
    """Give a feature set in memory, and a working folder of one's own."""
    monkeypatch.chdir(tmp_path)
    folder = Address.parse(f"memory://cli-{next(_NUMBERS)}/corpus.features")
    claim_folder(folder, ResultKind.FEATURES)
    return vector_set(folder, clustered(COUNT), kept=KEPT)


def run(*arguments: str | Path | Address) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def value_of(*arguments: str | Path | Address) -> dict[str, object]:
    """The one line of JSON that a command prints."""
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    value: dict[str, object] = json.loads(result.stdout)
    return value


def test_what_it_is_and_whether_it_is_sound(features: Address) -> None:
    value = value_of("info", features)
    assert (value["kind"], value["finished"], value["documents"], value["parts"]) == ("features", True, COUNT, 2)
    assert f"feature set  {features}" in run("info", features).stdout
    toys = toy_set(features.with_name("toy.features"))
    assert value_of("verify", toys, "--sample", "0")["holds"] is True
    part = toys / "part-00001.parquet"
    put_file(part, read_file(part)[:-1] + b"?")
    result = run("verify", toys, "--sample", "0")
    assert result.exit_code == 1
    assert f"error: {part}: " in result.stderr


def test_it_is_exported_indexed_and_searched(features: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run("export", features, "--to", "npy")
    assert result.exit_code == 0, result.stderr
    assert np.array_equal(np.load("corpus.npy"), clustered(COUNT))
    assert run("index", features, "--no-evaluate").exit_code == 0
    assert value_of("info", "corpus.index")["documents"] == COUNT
    there = features.with_name("corpus.index")
    for file in list_files(Path("corpus.index")):
        put_file(there / file.name, read_file(Path("corpus.index") / file.name))
    monkeypatch.setattr("bertfeat.search.queries.RecordedVectors.open_encoder", lambda *_: Stand(clustered(COUNT)))
    for index in ("corpus.index", there):
        answer = json.loads(run("search", index, "7", "-k", "2", "--json").stdout)
        assert answer["hits"][0]["id"] == "8"
    assert value_of("info", there)["sources"][0]["path"] == str(features)  # type: ignore[index]
    assert value_of("verify", there)["holds"] is True


def test_an_index_is_built_and_changed_at_an_address(features: Address) -> None:
    there = features.with_name("corpus.index")
    result = run("index", features, "-o", there, "--no-evaluate")
    assert (result.exit_code, str(there) in result.stdout) == (0, True), result.stderr
    assert value_of("index", features, "-o", there, "--update")["kept"] == COUNT
    Path("ids.txt").write_text("1\n2\n")
    assert value_of("index", "-o", there, "--remove", "ids.txt")["removed"] == 2
    assert value_of("info", there)["documents"] == COUNT - 2
    assert value_of("verify", there)["holds"] is True


def test_usages_probes_and_pictures(features: Address) -> None:
    words = toy_set(features.with_name("words.features"))
    result = run("usages", words, "bank,", "--csv")
    assert (result.exit_code, "bank," in result.stdout) == (0, True), result.stderr
    value = value_of("probe", features, "--label", "good", "--folds", "2")
    assert value["features"] == str(features)
    value = value_of("compare", features, features, "-k", "2")
    assert value["documents"] == COUNT
    result = run("plot", "map", features, "--points", "20")
    assert (result.exit_code, Path("corpus.map.png").is_file()) == (0, True), result.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("export {} --to csv -o s3://bucket/out.csv", "s3://bucket/out.csv: exports are written to local files"),
        ("plot map {} -o s3://bucket/out.png", "s3://bucket/out.png is an address, and this is written to a file"),
    ],
)
def test_files_are_written_on_this_machine(features: Address, arguments: str, problem: str) -> None:
    result = run(*arguments.format(features).split())
    assert result.exit_code == 2
    assert problem in result.stderr
    assert list(Path().iterdir()) == []


def test_what_is_at_no_address(features: Address) -> None:
    for command in ("info", "verify", "export"):
        more = ("--to", "csv") if command == "export" else ()
        result = run(command, "ftp://somewhere/corpus.features", *more)
        assert result.exit_code == 2
        assert "ftp://somewhere/corpus.features: not storage that bertfeat knows" in result.stderr
    result = run("verify", features.with_name("nothing"))
    assert result.exit_code == 1
    assert "this folder holds no feature set" in result.stderr
    put_file(features.with_name("ner.tagger") / ".bertfeat/kind", b"head\n")
    for command in ("info", "verify"):
        result = run(command, features.with_name("ner.tagger"))
        assert result.exit_code == 2
        assert "this is a head, which is read on this machine only; copy it here" in result.stderr


def test_a_location_is_a_path_or_an_address(tmp_path: Path) -> None:
    def convert(text: str) -> object:
        return LOCATION.convert(text, None, None)

    assert convert("a/b.features") == Path("a/b.features")
    assert convert("s3://bucket/a.features/") == Address("s3", "bucket", "a.features")
    assert convert(f"file://{tmp_path}/a%20b") == tmp_path / "a b"
    (found,) = LOCATION.shell_complete(None, None, "to")
    assert isinstance(found, CompletionItem)
    assert found.type == "file"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("s3://bucket/deep/corpus.features", "corpus.index"),
        ("s3://bucket/corpus.jsonl.gz", "corpus.index"),
        ("gs://corpus", "corpus.index"),
        ("news/corpus.txt", "corpus.index"),
    ],
)
def test_outputs_are_named_after_what_is_at_an_address(source: str, name: str) -> None:
    for given in (source, LOCATION.convert(source, None, None)):
        assert default_output([given], ".index") == Path(name)


def test_a_set_on_this_machine_may_be_named_by_its_address(tmp_path: Path) -> None:
    folder = toy_set(tmp_path / "toy.features")
    assert len(FeatureSet(f"file://{folder}")) == 15
    assert value_of("info", f"file://{folder}")["documents"] == 15

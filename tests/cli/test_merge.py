"""``bertfeat merge``, and what other commands say of a shard; the merge itself is tested in tests/scale."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from bertfeat.core.features import list_parts
from bertfeat.scale import Shard
from tests.support.runs import contents, extractor, jsonl_file, lines, text_file
from tests.support.tiny_models import Tiny

RECORDS: list[Any] = [{"text": text} for text in lines(20)]
RECORDS[3], RECORDS[9] = "no JSON", ""


@pytest.fixture(scope="module")
def made(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("made")
    corpora = {"c": jsonl_file(place / "c.jsonl", RECORDS), "sound": text_file(place / "sound.txt", lines(9, 400))}
    for name, corpus in corpora.items():
        for index in range(2):
            folder = place / f"{name}-{index}"
            extractor(tiny("bert")).extract(corpus, folder, part_rows=4, sharing=Shard(index, 2))
    extractor(tiny("bert")).extract(corpora["c"], place / "whole.features", part_rows=4)
    extractor(tiny("bert")).extract(corpora["c"], place / "tenth", part_rows=4, sharing=Shard(9, 10))
    return place


@pytest.fixture(autouse=True)
def place(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(made, tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    return tmp_path / "place"


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def test_a_merge() -> None:
    result = call("merge", "c-1", "c-0", "-o", "c.features")
    assert result.exit_code == 0
    size = sum(path.stat().st_size for path in list_parts(Path("whole.features")))
    assert result.stdout == f"c.features: 18 documents of 2 shards, {size / 1000:.3g} kB in 5 parts\n"
    assert result.stderr == "warning: 1 row failed; c.features/.bertfeat/failures.jsonl lists them\n"
    assert contents(Path("c.features")) == contents(Path("whole.features"))
    again = call("merge", "c-1", "c-0", "-o", "c.features")
    assert (again.exit_code, again.stderr) == (0, result.stderr)
    assert again.stdout == result.stdout.replace("\n", "; nothing to do, all of it was there\n")
    list_parts(Path("c.features"))[2].unlink()
    assert "in 5 parts (4 of them were there)\n" in call("merge", "c-1", "c-0", "-o", "c.features").stdout


def test_as_json() -> None:
    result = call("merge", "sound-0", "sound-1", "-o", "sound.features", "--json", "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
    told = json.loads(result.stdout)
    assert told.pop("bytes") == sum(path.stat().st_size for path in list_parts(Path("sound.features")))
    assert told == {
        "folder": "sound.features",
        "shards": 2,
        "documents": 9,
        "failed": 0,
        "blank": 0,
        "parts": 3,
        "kept_parts": 0,
        "warnings": [],
    }


def test_another_set_is_replaced_on_demand() -> None:
    shutil.copytree("whole.features", "it")
    refused = call("merge", "sound-0", "sound-1", "-o", "it")
    assert refused.exit_code == 1
    assert "it was made from another corpus" in refused.stderr
    assert "or --overwrite to start anew" in refused.stderr
    assert contents(Path("it")) == contents(Path("whole.features"))
    assert call("merge", "sound-0", "sound-1", "-o", "it", "--overwrite").exit_code == 0
    assert len(list_parts(Path("it"))) == 3


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ([], 2, "Missing argument 'DIR...'"),
        (["c-0", "c-1"], 2, "Missing option '-o'"),
        (
            ["c-0", "-o", "it"],
            1,
            "error: there are 1 of 2 shards; 1/2 is missing; name its folder too; bertfeat extract ",
        ),
        (["c-0", "nowhere", "-o", "it"], 1, "error: nowhere: this folder holds no shard; run its command"),
        (["c-0", "whole.features", "-o", "it"], 1, "bertfeat index A B -o DIR"),
        (["c-0", "sound-1", "-o", "it"], 1, "error: sound-1: shard 1/2 was made from another corpus than c-0"),
        (["c-0", "c-1", "-o", "c-1"], 2, "error: c-1: it holds shard 1/2; name another -o\n"),
        (["c-0", "c-1", "c-0", "-o", "it"], 2, "error: c-0: the same folder as c-0; name each once\n"),
        (["c-0", "c-1", "-o", "c.jsonl"], 1, "error: "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_uses(arguments: list[str], code: int, told: str) -> None:
    before = sorted(os.listdir())
    result = call("merge", *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert told in result.stderr
    assert "Traceback" not in result.stderr
    assert sorted(os.listdir()) == before


def test_what_info_says_of_a_shard(made: Path) -> None:
    result = call("info", "c-1")
    assert result.exit_code == 0
    assert (
        "shard        1 of 2, counted from 0, of 20 rows in 5 parts; bertfeat merge puts them together\n"
        in result.stdout
    )
    assert "not finished" not in result.stdout
    value = json.loads(call("info", "c-1", "--json").stdout)
    assert (value["finished"], value["parts"]) == (False, 2)
    assert value["shard"] == {"index": 1, "count": 2, "parts": 5, "rows": 20}
    assert json.loads(call("info", "whole.features", "--json").stdout)["shard"] is None


def test_what_info_says_of_a_shard_without_parts() -> None:
    assert "shard        9 of 10, counted from 0, of 20 rows in 5 parts;" in call("info", "tenth").stdout
    value = json.loads(call("info", "tenth", "--json").stdout)
    assert (value["kind"], value["documents"], value["parts"]) == ("features", 0, 0)


@pytest.mark.parametrize("arguments", [["verify", "c-1"], ["export", "c-1", "--to", "npy"], ["index", "c-1"]])
def test_other_commands_name_the_merge(arguments: list[str]) -> None:
    result = call(*arguments)
    assert result.exit_code == 1
    assert "c-1: this is shard 1/2 of a feature set, not the whole of it; put all shards together: bertfeat merge" in (
        result.stderr
    )


def extract(bert: Tiny, *arguments: str) -> Result:
    options = "--layers last,-2 --pooling mean --part-rows 4 --precision fp32 --device cpu --model"
    return call("extract", "c.jsonl", *options.split(), bert.folder, *arguments)


def test_extract_makes_shards(bert: Tiny) -> None:
    result = extract(bert, "-o", "first", "--shard", "0/2")
    assert result.exit_code == 3
    # the list of all failures comes with the whole set
    assert "warning: 1 row failed; the first are:\n  c.jsonl, line 4: not JSON" in result.stderr
    assert extract(bert, "-o", "second", "--shard", "1/2").exit_code == 0
    assert call("merge", "first", "second", "-o", "it").exit_code == 0
    assert extract(bert, "-o", "alone").exit_code == 3
    assert contents(Path("it")) == contents(Path("alone"))


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (
            ["-o", "it", "--shard", "2/2"],
            2,
            "error: --shard 2/2: of 2 shards there is no number 2; count from 0 to 1\n",
        ),
        (["-o", "it", "--shard", "two"], 2, "error: --shard two: a shard is written index/count; 0/3 is the first"),
        (["-o", "c-1", "--shard", "0/2"], 1, "error: c-1: it holds shard 1/2, and this run makes shard 0/2; give each"),
        (["-o", "whole.features", "--shard", "0/2"], 1, "error: whole.features: it holds a whole feature set"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_shards_that_are_refused(bert: Tiny, place: Path, arguments: list[str], code: int, told: str) -> None:
    before = contents(place)
    result = extract(bert, *arguments)
    assert (result.exit_code, told in result.stderr) == (code, True), result.stderr
    assert contents(place) == before

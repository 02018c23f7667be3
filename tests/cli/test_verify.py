"""``bertfeat verify``: sound sets, and sets that are not what they say."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from bertfeat import FeatureSet
from bertfeat.cli import main
from bertfeat.core.encoder.packed import PackedEncoder
from tests.support.tagging_tables import ROWS, RUN, edited, made_sets, made_table
from tests.support.tiny_models import Tiny

TAGGER = Path(__file__).parents[1] / "golden" / "tagger-1"
TEXTS = ["The bank raised its rate.", "", "A river bank.", "은행에서 돈을 찾았다"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two feature sets of one corpus: with and without its texts."""
    folder = tmp_path_factory.mktemp("verify")
    (folder / "c.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    for name, options in (("whole", ["--precision", "bf16"]), ("textless", ["--no-text", "--pooling", "token"])):
        extracted = run("extract", folder / "c.jsonl", "-o", folder / name, "--quiet", *options)
        assert extracted.exit_code == 0, extracted.stderr
    return folder


@pytest.fixture
def sets(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


@pytest.mark.usefixtures("sets")
def test_a_sound_set() -> None:
    result = run("verify", "whole")
    assert result.exit_code == 0, result.stderr
    assert "1 part and 4 documents: checksums and account hold" in result.stdout
    report = json.loads(run("verify", "whole", "--json", "--sample", "3").stdout)
    assert (report["holds"], report["documents"], report["sampled"]) == (True, 4, 3)
    (deviation,) = report["deviations"]
    assert deviation["column"] == "last_mean"
    # stored in bf16 and recomputed in fp32: near, and not the same
    assert 0.9995 < deviation["min_cosine"] < 1.0


@pytest.mark.usefixtures("sets")
def test_tokens_are_compared_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """One token that points elsewhere is lost in its document's cosine, and told by itself."""
    compute = PackedEncoder.hidden_states

    def turned(*given: Any, **more: Any) -> Iterator[Any]:
        for state in compute(*given, **more):
            state.values[3] *= -1
            yield state

    stored = FeatureSet("textless")
    squares = [np.square(stored[row].stored["last_token"].astype(float)).sum(1) for row in range(len(TEXTS))]
    given = ("verify", "textless", "--corpus", "c.jsonl")
    (sound,) = json.loads(run(*given, "--json").stdout)["deviations"]
    assert (sound["vectors"], sound["below"]) == (sum(map(len, squares)), 0)
    assert 0.999 < sound["least_of_one"] <= 1.000001
    monkeypatch.setattr(PackedEncoder, "hidden_states", turned)
    (found,) = json.loads(run(*given, "--json").stdout)["deviations"]
    assert (found["vectors"], found["below"]) == (sound["vectors"], 1)
    assert found["least_of_one"] == pytest.approx(-1, abs=1e-3)
    wholes = [1 - 2 * each / document.sum() for document in squares for each in document]
    assert min(abs(found["min_cosine"] - whole) for whole in wholes) < 1e-3
    assert f"{found['vectors']:7,}  {found['least_of_one']:12.5f}" in run(*given).stdout


@pytest.mark.usefixtures("sets")
def test_a_bound_that_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertfeat.core.extraction.verify._least_cosine", lambda _settings: 1.0)
    result = run("verify", "whole")
    assert result.exit_code == 1
    assert "DOES NOT HOLD" in result.stdout


@pytest.mark.usefixtures("sets")
def test_a_sample_of_which_every_row_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it can be compared, so it holds no less than it fails: an error, which names a row."""
    compute = PackedEncoder.hidden_states

    def broken(*given: Any, **more: Any) -> Iterator[Any]:
        return (replace(state, values=state.values * float("nan")) for state in compute(*given, **more))

    monkeypatch.setattr(PackedEncoder, "hidden_states", broken)
    result = run("verify", "whole", "--json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "4 of 4 rows cannot be computed in fp32 with this model; row 0: " in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.usefixtures("sets")
def test_a_flipped_byte() -> None:
    part = Path("whole/part-00000.parquet")
    raw = bytearray(part.read_bytes())
    raw[len(raw) // 2] ^= 1
    part.write_bytes(raw)
    result = run("verify", "whole")
    assert result.exit_code == 1
    assert "part-00000.parquet" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.usefixtures("sets")
def test_a_set_without_its_texts_wants_the_corpus() -> None:
    alone = run("verify", "textless")
    assert alone.exit_code == 0
    assert "--corpus" in alone.stderr
    report = json.loads(run("verify", "textless", "--corpus", "c.jsonl", "--json").stdout)
    assert (report["holds"], report["sampled"]) == (True, 4)


@pytest.mark.usefixtures("sets")
@pytest.mark.parametrize(
    ("arguments", "exit_code", "word"),
    [
        (["nowhere"], 1, "nowhere"),
        ([], 2, "FEATURES"),
        (["whole", "--sample", "-2"], 2, "--sample"),
        (["whole", "--model", "./nowhere"], 1, "nowhere"),
        (["textless", "--corpus", "short.jsonl"], 1, "short.jsonl"),
    ],
)
def test_wrong_uses(arguments: list[str], exit_code: int, word: str) -> None:
    Path("short.jsonl").write_text('{"text": "only one"}\n')
    result = run("verify", *arguments)
    assert result.exit_code == exit_code
    assert word in result.stderr
    assert "Traceback" not in result.stderr


# ── other results ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def index(made: Path) -> Path:
    built = run("index", made / "whole", "-o", made / "whole.index", "--quiet")
    assert built.exit_code == 0, built.stderr
    return made / "whole.index"


def test_a_sound_index(index: Path) -> None:
    result = run("verify", index)
    assert result.exit_code == 0, result.stderr
    assert "4 documents and 4 vectors: digests and numbers hold" in result.stdout
    told = json.loads(run("verify", index, "--json").stdout)
    assert (told["kind"], told["holds"], told["documents"], told["vectors"]) == ("index", True, 4, 4)


def test_every_file_of_an_index_is_read(index: Path, tmp_path: Path) -> None:
    for path in sorted(index.rglob("*")):
        if path.is_file() and path.name != "kind":
            shutil.rmtree(tmp_path / "bad.index", ignore_errors=True)
            shutil.copytree(index, tmp_path / "bad.index")
            raw = bytearray(path.read_bytes())
            raw[len(raw) // 3] ^= 4
            (tmp_path / "bad.index" / path.relative_to(index)).write_bytes(raw)
            result = run("verify", tmp_path / "bad.index")
            assert result.exit_code == 1, path.name
            assert path.name in result.stderr
            assert "Traceback" not in result.stderr


def flipped(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[-3] ^= 4
    path.write_bytes(raw)


def told_in_a_sentence(result: Result, name: str) -> None:
    assert (result.exit_code, result.stdout) == (1, "")
    assert name in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


def test_a_tagger(tmp_path: Path) -> None:
    tagger = shutil.copytree(TAGGER, tmp_path / "golden") / "tagger"
    result = run("verify", tagger)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "digests hold" in result.stdout
    told = json.loads(run("verify", tagger, "--json").stdout)
    assert (told["kind"], told["holds"], told["labels"]) == ("head", True, 5)
    flipped(tagger / "head.safetensors")
    told_in_a_sentence(run("verify", tagger), "head.safetensors")


def test_a_table_7(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    table = tmp_path / "table"
    made_table(made_sets(tiny("bert").folder, tmp_path), table, rows=ROWS[:1], seeds=(1,))
    result = run("verify", table)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "made of 1 run" in result.stdout
    told = json.loads(run("verify", table, "--json").stdout)
    assert (told["kind"], told["holds"], told["rows"], told["runs"]) == ("table7", True, 1, 1)
    whole = (table / RUN).read_bytes()
    flipped(table / RUN)
    told_in_a_sentence(run("verify", table), "seed-1.json")
    (table / RUN).write_bytes(whole)
    edited(table / RUN, lambda raw: raw["run"].update(dev=0.123))
    told_in_a_sentence(run("verify", table), "table7.json")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "told"),
    [
        (["whole.index", "--sample", "3"], 2, "is for feature sets"),
        (["whole", "--sample", "0", "--device", "cpu"], 2, "--device is for the sample, and --sample 0 computes none"),
        (["whole", "--corpus", "corpus.txt", "--keep", "year"], 2, "No such option"),
        (["whole", "--text-column", "body"], 2, "goes with --corpus"),
        (["nowhere"], 1, "no such folder"),
        (["c.jsonl"], 1, "no such folder, or a file"),
        (["."], 1, "holds no feature set"),
    ],
)
def test_what_cannot_be_verified(
    index: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], exit_code: int, told: str
) -> None:
    monkeypatch.chdir(index.parent)
    result = run("verify", *arguments)
    assert (result.exit_code, told in result.stderr) == (exit_code, True), result.stderr

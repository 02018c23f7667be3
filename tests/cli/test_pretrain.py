"""``bertfeat pretrain`` as the shell runs it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from tests.support.pretraining_toy import write_corpus
from tests.support.tiny_models import Tiny

QUICK = ("--max-length", "32", "--batch-size", "4", "--held-out", "0.1", "--device", "cpu")
SCRATCH = ("--shape", "L=1,H=16,A=2", "--vocabulary", "120", *QUICK)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a corpus."""
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path / "toy.txt")
    return tmp_path


def pretrain(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["pretrain", *arguments])


def test_a_model_from_scratch_and_what_info_says(folder: Path) -> None:
    result = pretrain("toy.txt", *SCRATCH, "--steps", "3")
    assert result.exit_code == 0, result.output
    assert "a new L=1,H=16,A=2, mlm+nsp, 3 steps of 4 sequences" in result.stdout
    assert "by frequencies alone" in result.stdout
    assert ", with unchanged pieces copied" in result.stdout
    assert "next sentence" in result.stdout
    again = pretrain("toy.txt", *SCRATCH, "--steps", "3", "--json")
    assert "trained already, nothing to do" in again.stderr
    told = json.loads(again.stdout)
    assert (told["trained"], told["steps"], told["figures"]["documents"]) == (False, 3, 12)
    info = CliRunner().invoke(main, ["info", "toy.model", "--json"])
    found = json.loads(info.stdout)
    assert (found["kind"], found["finished"], found["num_layers"]) == ("model", True, 1)
    assert found["pretraining"]["identity"]["settings"]["vocabulary"] == 120
    assert "mlm+nsp, 3 steps" in CliRunner().invoke(main, ["info", "toy.model"]).stdout
    verified = CliRunner().invoke(main, ["verify", "toy.model"])
    assert verified.exit_code == 0, verified.output
    assert "trained for 3 steps: the digests of all files hold" in verified.stdout
    whole = (folder / "toy.model" / "model.safetensors").read_bytes()
    (folder / "toy.model" / "model.safetensors").write_bytes(whole[:-1])
    for command in (["verify", "toy.model"], ["pretrain", "toy.txt", *SCRATCH, "--steps", "3"]):
        told = CliRunner().invoke(main, command)
        assert (told.exit_code, "model.safetensors has " in told.stderr) == (1, True), told.output
        assert "--overwrite" in told.stderr
    told = CliRunner().invoke(main, ["info", "toy.model"])
    assert "model.safetensors not as written: bertfeat verify toy.model" in told.stdout
    (folder / "toy.model" / "model.safetensors").write_bytes(whole)
    extracted = CliRunner().invoke(main, ["extract", "toy.txt", "--model", "toy.model", "--device", "cpu"])
    assert extracted.exit_code == 0, extracted.output


def test_a_model_of_others_has_nothing_to_verify(bert: Tiny) -> None:
    told = CliRunner().invoke(main, ["verify", str(bert.folder)])
    assert (told.exit_code, "a model that bertfeat did not train" in told.stderr) == (2, True)


def test_a_model_goes_on(bert: Tiny) -> None:
    result = pretrain("toy.txt", "--model", str(bert.folder), *QUICK, "--steps", "2", "-o", "out")
    assert result.exit_code == 0, result.output
    assert "it gets a new one, tied to its embeddings" in result.stderr
    assert f"going on from {bert.folder}, mlm, 2 steps" in result.stdout


def test_a_dry_run(folder: Path) -> None:
    result = pretrain("toy.txt", *SCRATCH, "--epochs", "3", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "tokens/s" in result.stdout
    assert {path.name for path in folder.iterdir()} == {"toy.txt"}


def test_an_unfinished_model(folder: Path) -> None:
    (folder / "one.txt").write_text("one river of one document\n" * 50)
    assert pretrain("one.txt", *QUICK).exit_code == 1
    assert {path.name for path in folder.iterdir()} == {"toy.txt", "one.txt"}


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (("--shape", "huge"), 2, "--shape huge: this is no shape of a model; give tiny, mini,"),
        (("--shape", "L=2,H=100,A=3"), 2, "H=100 is not divisible by the attention heads A=3"),
        (("--shape", "L=0,H=100,A=4"), 2, "layers 0; give layers from 1"),
        (("--steps", "2", "--epochs", "1"), 2, "--steps and --epochs each say how long it trains"),
        (("--minutes", "-1"), 2, "--minutes -1.0"),
        (("--minutes", "nan"), 2, "--minutes nan"),
        (("--learning-rate", "inf"), 2, "--learning-rate inf"),
        (("--held-out", "0.9"), 2, "--held-out 0.9"),
        (("--anchor", "10"), 2, "--anchor holds a model to its old vectors, and a new one has none"),
        (("--max-length", "64", "--positions", "32"), 2, "sequences of 64 tokens do not fit 32 positions"),
        (("--revision", "main"), 2, "--revision is of a model, and none is given"),
        (("--document-column", "title"), 2, "toy.txt has no columns; blank lines separate its documents"),
        (("--device", "tpu"), 2, "tpu"),
        (("--checkpoint-minutes", "nan"), 2, "--checkpoint-minutes nan"),
        (("--model", "no/model/here"), 1, "no/model/here"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_uses(folder: Path, arguments: tuple[str, ...], exit_code: int, message: str) -> None:
    result = pretrain("toy.txt", *arguments)
    assert result.exit_code == exit_code, result.output
    assert message in result.stderr
    assert "Traceback" not in result.stderr

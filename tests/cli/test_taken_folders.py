"""Features in the place of others are refused with a remedy that the command has: no option of extract alone."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from bertfeat.cli import main
from bertfeat.core.corpus import CorpusSettings
from bertfeat.core.extraction import Extractor
from bertfeat.io import ResultKind, claim_folder
from tests.support.commands import find_command
from tests.support.heads_toy import FP32, topics, write_records
from tests.support.tagging_toy import sentences, write_conll
from tests.support.tiny_models import Tiny

ANOTHER = "name another folder with -o, or "
# a command → the corpus's ending, where its features lie, and the remedy
COMMANDS = {
    "classify train": ("csv", "out/features/train.features", f"{ANOTHER}start anew with --overwrite"),
    "classify table7": ("csv", "out/features/train.features", f"{ANOTHER}remove that one"),
    "tag train": ("conll", "out/features/train.features", f"{ANOTHER}start anew with --overwrite"),
    "tag table7": ("conll", "out/features/train.features", f"{ANOTHER}remove that one"),
}
FOUND = {
    "other": "was made with other settings",
    "strange": "was made from another corpus",
    "longer": "this run would remove 1 .*does not have in that place",
}


@pytest.fixture(autouse=True)
def home(tiny: Callable[[str], Tiny], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").symlink_to(tiny("bert").folder)
    (tmp_path / "other").symlink_to(tiny("roberta").folder)
    for name, number, seed in (("train", 8, 1), ("dev", 8, 1), ("longer", 16, 1), ("strange", 8, 2)):
        write_records(Path(f"{name}.csv"), topics(number, seed))
        write_conll(Path(f"{name}.conll"), sentences(number, seed))
    return tmp_path


@pytest.mark.sampled(6)
@pytest.mark.parametrize("found", FOUND)
@pytest.mark.parametrize("command", COMMANDS)
def test_the_remedy_is_one_that_the_command_has(command: str, found: str) -> None:
    """``found``: what made the features that are there, another model, another corpus, or one with more rows."""
    ending, place, remedy = COMMANDS[command]
    kind, step = command.split()
    result = ResultKind.TABLE7 if step == "table7" else ResultKind.HEAD
    claim_folder(Path("out"), result)
    layers = "concat4" if step == "train" else "all"
    model, corpus = ("other", "train") if found == "other" else ("model", found)
    extractor = Extractor(model, layers=layers, pooling="mean" if kind == "classify" else "word", **FP32)
    keep = CorpusSettings(keep=("topic:string",) if kind == "classify" else ())
    extractor.extract(f"{corpus}.{ending}", place, corpus_settings=keep)
    given = ["--train", f"train.{ending}", "--dev", f"dev.{ending}", "-o", "out", "--model", "model"]
    given += ["--precision", "fp32", "--device", "cpu", *(["--label", "topic"] if kind == "classify" else [])]
    refused = CliRunner().invoke(main, [kind, step, *given])
    assert refused.exit_code == 1, refused.output
    told = " ".join(refused.stderr.split())
    assert re.search(rf"train\.features.*{FOUND[found]}", told), told
    assert told.endswith(f" {remedy}"), told
    options = {name for option in find_command((kind, step)).params for name in option.opts}
    assert set(re.findall(r" (-o|--[a-z-]+)", remedy)) <= options

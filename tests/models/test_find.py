"""Where a model's files are found, under which names not, and how often they are read to be known again."""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bertfeat.cli import main
from bertfeat.core import models
from bertfeat.core.models import DEFAULT_MODEL, Model, find, find_model, fingerprint
from bertfeat.core.recipe import Pooling
from bertfeat.errors import ModelError
from tests.support.tiny_models import rewrite


def test_the_packaged_default_is_found_without_its_code() -> None:
    found = find_model()
    assert found.name == DEFAULT_MODEL
    assert (found.num_layers, found.hidden_size, found.max_tokens) == (6, 384, 512)
    assert found.pooling is Pooling.MEAN
    assert found.sentence_described == "384 values: the last layer by mean, Normalize"
    assert found.stored_limits == {"tokenizer.json": 128, "sentence_bert_config.json": 256}
    assert models.DEFAULT_PACKAGE not in sys.modules


def test_weights_that_are_not_the_published_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged = find_model().folder
    folder = tmp_path / "model"
    shutil.copytree(packaged, folder)
    with (folder / "model.safetensors").open("r+b") as stream:
        stream.seek(1_000_000)
        stream.write(b"\x00\x01")
    monkeypatch.setattr(find, "_packaged_default", lambda: folder)
    with pytest.raises(ModelError, match=r"its sha256 is [0-9a-f]{64}, not 53aa51172d14.*--force-reinstall"):
        find_model()


def test_no_network_fails_quickly_with_a_remedy() -> None:
    script = (
        "from bertfeat.core.models import find_model\nfrom bertfeat.errors import ModelError\n"
        "try: find_model('nobody/nothing-of-that-name')\nexcept ModelError as error: print(error)"
    )
    begin = time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    assert "there is no folder 'nobody/nothing-of-that-name', and no such model in the cache" in ran.stdout
    assert "HF_HUB_OFFLINE" in ran.stdout
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("all-MiniLM-L6-v3", DEFAULT_MODEL),
        ("sentence-transformer/all-minilm-l6-v2", DEFAULT_MODEL),
        ("bert-base-casd", "google-bert/bert-base-cased"),
        ("my-modle", "my-model"),
        ("nothing", None),
        ("klue/bert-base", None),
    ],
)
def test_a_mistyped_model_is_answered_in_one_line(
    name: str, meant: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my-model").mkdir()
    (tmp_path / "my-model" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for arguments in (["info", name], ["extract", __file__, "-o", "x", "--format", "text", "--model", name]):
        told = CliRunner().invoke(main, arguments)
        assert told.exit_code == 1
        assert len(told.stderr.splitlines()) == 1
        assert len(told.stderr) < 250
        assert ("did you mean" in told.stderr) == (meant is not None)
        assert meant is None or f"did you mean {meant}?" in told.stderr


@pytest.mark.parametrize("name", ["./nowhere", "/nowhere/at/all", "a/b/c", " ", "~/nowhere"])
def test_what_can_be_no_hub_id(name: str) -> None:
    with pytest.raises(ModelError, match="is no folder"):
        find_model(name)


@pytest.mark.parametrize("name", ["what is this?", "a--b..c", "-x/y"])
def test_what_the_hub_takes_for_no_name(name: str) -> None:
    with pytest.raises(ModelError, match="neither a folder nor a model name"):
        find_model(name)


def test_a_folder_has_no_revisions(bert_folder: Path) -> None:
    with pytest.raises(ModelError, match="has no revisions"):
        find_model(bert_folder, revision="main")


LONG = "x" * 5000


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (LONG, r"'x{80}'… \(5,000 characters\) is neither a folder nor a model name"),
        (f"a/{LONG}", r"'a/x{78}'… \(5,002 characters\) is neither a folder"),
        ("a\0b", r"'a\\x00b' is no folder"),
        ("a\nb", r"'a\\nb' is no folder"),
        ("\ud800", r"'\\ud800' is no folder"),
        ("\x1b[31mred", r"'\\x1b\[31mred' is no folder"),
        ("", r"'' is no folder"),
        ("~nobody-of-that-name/x", "is no folder"),
        (f"/{LONG}", "is no folder"),
    ],
    ids=["long", "long hub", "nul", "newline", "surrogate", "escape", "empty", "nobody's home", "long path"],
)
def test_names_that_no_model_has(name: str, words: str) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        find_model(name)
    assert len(str(caught.value)) < 500
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("revision", ["a\0b", "a\nb", " ", "\ud800"])
def test_revisions_that_no_model_has(revision: str) -> None:
    with pytest.raises(ModelError, match="is no revision; give a branch, a tag or a commit of 'a/b'"):
        find_model("a/b", revision=revision)


def test_a_folder_may_be_called_anything(bert_folder: Path, tmp_path: Path) -> None:
    odd = tmp_path / "my\nmodel 模型"
    shutil.move(bert_folder, odd)
    assert find_model(odd).num_layers == 5


# ── digests ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give the names of the files that are read to the end to be hashed from now on."""
    names: list[str] = []
    whole = hashlib.file_digest

    def spy(stream: Any, kind: str) -> Any:
        names.append(Path(os.readlink(f"/proc/self/fd/{stream.fileno()}")).name)
        return whole(stream, kind)

    monkeypatch.setattr(hashlib, "file_digest", spy)
    monkeypatch.setattr(fingerprint, "_known_digests", {})
    return names


def test_weights_are_hashed_once_a_process(bert_folder: Path, hashed: list[str]) -> None:
    prints = {find_model(bert_folder).fingerprint for _ in range(5)}
    assert len(prints) == 1
    assert sorted(hashed) == ["model.safetensors", "tokenizer.json"]


def test_the_default_model_is_hashed_once_a_process(hashed: list[str]) -> None:
    for _ in range(3):
        assert find_model().fingerprint
    assert sorted(hashed) == ["model.safetensors", "tokenizer.json"]


def test_files_that_change_are_hashed_again(bert_folder: Path, hashed: list[str]) -> None:
    before = Model("x", bert_folder).fingerprint
    weights = bert_folder / "model.safetensors"
    kept = os.stat(weights)
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    os.utime(weights, ns=(kept.st_atime_ns, kept.st_mtime_ns))  # of the same size and time, as a forger would
    assert Model("x", bert_folder).fingerprint != before
    assert hashed.count("model.safetensors") == 2


def test_fingerprints_tell_weights_and_tokenizers_apart(bert_folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(bert_folder, tmp_path / "copy"))
    assert Model("x", copy).fingerprint == Model("y", bert_folder).fingerprint
    rewrite(copy, lambda tensors: {name: tensor + 1e-3 for name, tensor in tensors.items()})
    assert Model("x", copy).fingerprint != Model("x", bert_folder).fingerprint
    other = Path(shutil.copytree(bert_folder, tmp_path / "other"))
    (other / "tokenizer.json").write_text((other / "tokenizer.json").read_text() + " ")
    assert Model("x", other).fingerprint != Model("x", bert_folder).fingerprint

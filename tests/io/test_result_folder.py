"""Folders that bertfeat wrote are told from others, and nothing is written or read through what stands in the way."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bertfeat.errors import StorageError
from bertfeat.io import (
    ResultKind,
    atomic,
    claim_folder,
    folder_lock,
    open_regular,
    read_regular,
    result_kind,
)
from bertfeat.io.result_folder import release_folder
from tests.support.features_toy import toy_parts, toy_set


@pytest.mark.parametrize("kind", ResultKind)
def test_a_claimed_folder_says_what_it_is(tmp_path: Path, kind: ResultKind) -> None:
    claim_folder(tmp_path / "made", kind)
    claim_folder(tmp_path / "made", kind)
    assert result_kind(tmp_path / "made") is kind
    other = next(each for each in ResultKind if each is not kind)
    with pytest.raises(StorageError, match=f"holds {kind.noun}"):
        claim_folder(tmp_path / "made", other)
    release_folder(tmp_path / "made")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({".bertfeat/index.json": "{}", "version-1/index.faiss": ""}, ResultKind.INDEX),
        ({"head.json": "{}", "head.safetensors": ""}, ResultKind.HEAD),
        ({"_settings.json": '{"format_version": 1, "identity": {}}', "runs/x": ""}, ResultKind.TABLE7),
        ({"_settings.json": '{"color": "red"}', "runs/x": ""}, None),
        ({"_settings.json": "[" * 100_000, "runs/x": ""}, None),
        ({"index.json": '{"pages": []}'}, None),
        ({"part-00000.parquet": "no Parquet"}, None),
        ({".bertfeat/kind": "nonsense\n", "a.txt": "b"}, None),
        ({".bertfeat/kind": "head\n"}, ResultKind.HEAD),
        ({"pretraining.json": "{}", "config.json": "{}"}, ResultKind.MODEL),
        ({"config.json": "{}", "model.safetensors": ""}, None),
        ({}, None),
    ],
    ids=range(12),
)
def test_a_folder_without_a_marker_is_known_by_its_content(
    tmp_path: Path, files: dict[str, str], kind: ResultKind | None
) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    assert result_kind(tmp_path) is kind
    assert result_kind(tmp_path / "nowhere") is None


def test_a_feature_set_is_known_by_its_parts(tmp_path: Path) -> None:
    folder = toy_set(tmp_path / "f", *toy_parts())
    assert not (folder / ".bertfeat" / "kind").exists()
    assert result_kind(folder) is ResultKind.FEATURES


def test_a_folder_with_something_in_it_stays(tmp_path: Path) -> None:
    claim_folder(tmp_path / "f", ResultKind.INDEX)
    (tmp_path / "f" / "mine.txt").write_text("mine")
    release_folder(tmp_path / "f")
    assert (tmp_path / "f" / "mine.txt").read_text() == "mine"


# ── links and pipes ─────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_written_through_links(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "set" / ".bertfeat").mkdir(parents=True)
    (tmp_path / "set" / ".bertfeat" / "lock").symlink_to(tmp_path / "precious")
    with pytest.raises(StorageError, match="symbolic link"), folder_lock(tmp_path / "set"):
        pass
    (tmp_path / "set" / ".x.json.tmp").symlink_to(tmp_path / "precious")
    with atomic(tmp_path / "set" / "x.json") as temporary:
        temporary.write_text("ours")
    assert (tmp_path / "precious").read_text() == "mine"
    (tmp_path / "other").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "other" / ".bertfeat").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError), folder_lock(tmp_path / "other"):
        pass
    assert os.listdir(tmp_path / "elsewhere") == []


@pytest.mark.parametrize("name", [".", "folder", "/"])
def test_a_folder_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    with pytest.raises(StorageError, match="is a folder"), atomic(Path(name)):
        pass


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    code = "import pathlib, sys; from bertfeat.io import read_regular; read_regular(pathlib.Path(sys.argv[1]))"
    told = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "pipe"], capture_output=True, text=True, timeout=30, check=False
    )
    assert "not a regular file" in told.stderr
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(Path("/dev/null"))
    (tmp_path / "file").write_bytes(b"read")
    assert read_regular(tmp_path / "file") == b"read"

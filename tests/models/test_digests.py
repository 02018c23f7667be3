"""Digests are kept on disk, and believed only of a file that is as it was."""

import hashlib
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from bertfeat.core.models import fingerprint
from bertfeat.core.models.fingerprint import file_digest

OLD = time.time_ns() - 3_600_000_000_000


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the folder of a cache of one's own, in which small files count too."""
    monkeypatch.setenv("BERTFEAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fingerprint, "_LEAST_BYTES", 0)
    monkeypatch.setattr(fingerprint, "_SETTLED", -1)  # what was just written can be kept
    return tmp_path / "cache"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "weights"
    path.write_bytes(b"weights" * 100)
    return path


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the files that are hashed from now on."""
    count: list[int] = []
    whole = hashlib.file_digest

    def spy(stream: Any, kind: str) -> Any:
        count.append(1)
        return whole(stream, kind)

    monkeypatch.setattr(hashlib, "file_digest", spy)
    return count


def in_a_new_process(file: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(fingerprint, "_known_digests", {})
    return file_digest(file)


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_a_file_is_hashed_once_for_all_processes(
    file: Path, cache: Path, hashed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {in_a_new_process(file, monkeypatch) for _ in range(3)} == {sha256(file)}
    assert len(hashed) == 1
    assert [path.name for path in cache.iterdir()] == ["digests.json"]


def test_a_link_is_the_file_that_it_names(
    file: Path, tmp_path: Path, hashed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(file)
    assert in_a_new_process(file, monkeypatch) == in_a_new_process(tmp_path / "link", monkeypatch)
    assert len(hashed) == 1


def longer(file: Path) -> None:
    status = file.stat()
    file.write_bytes(file.read_bytes() + b"x")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def other_bytes(file: Path) -> None:
    file.write_bytes(b"x" + file.read_bytes()[1:])


def other_bytes_at_the_same_time(file: Path) -> None:
    status = file.stat()
    other_bytes(file)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def another_file_in_its_place(file: Path) -> None:
    status = file.stat()
    copy = file.with_name("copy")
    copy.write_bytes(b"x" + file.read_bytes()[1:])
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
    copy.rename(file)


def touched(file: Path) -> None:
    os.utime(file, ns=(OLD, OLD))


@pytest.mark.parametrize(
    "change", [longer, other_bytes, other_bytes_at_the_same_time, another_file_in_its_place, touched]
)
def test_a_file_that_changed_is_hashed_again(
    change: Any, file: Path, hashed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_new_process(file, monkeypatch)
    change(file)
    assert in_a_new_process(file, monkeypatch) == sha256(file)
    assert len(hashed) == 2
    assert in_a_new_process(file, monkeypatch) == sha256(file)
    assert len(hashed) == 2


@pytest.mark.parametrize("field", ["path", "device", "inode", "size", "modified", "changed"])
def test_every_field_of_an_entry_counts(
    field: str, file: Path, cache: Path, hashed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_new_process(file, monkeypatch)
    entries = json.loads((cache / "digests.json").read_text())
    state = entries["entries"][0]["state"]
    state[field] = f"{state[field]}x" if field == "path" else state[field] + 1
    entries["entries"][0]["sha256"] = "0" * 64
    (cache / "digests.json").write_text(json.dumps(entries))
    assert in_a_new_process(file, monkeypatch) == sha256(file)
    assert len(hashed) == 2


def test_a_file_that_was_written_just_now_is_not_kept(
    file: Path, cache: Path, hashed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprint, "_SETTLED", 2_000_000_000)
    for _ in range(2):
        assert in_a_new_process(file, monkeypatch) == sha256(file)
    assert len(hashed) == 2
    assert not cache.exists()


def test_small_files_are_not_kept(file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "_LEAST_BYTES", 1 << 20)
    in_a_new_process(file, monkeypatch)
    assert not cache.exists()


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"\xff", b'{"entries": [{"sha256": "abc"}]}', b'{"entries": 5}', b"[" * 10_000]
)
def test_a_damaged_cache_is_empty(
    text: bytes, file: Path, cache: Path, hashed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.mkdir()
    (cache / "digests.json").write_bytes(text)
    for _ in range(2):
        assert in_a_new_process(file, monkeypatch) == sha256(file)
    assert len(hashed) == 1


def in_the_way(cache: Path) -> None:
    cache.write_text("a file")


def a_folder(cache: Path) -> None:
    (cache / "digests.json").mkdir(parents=True)


def a_pipe(cache: Path) -> None:
    cache.mkdir()
    os.mkfifo(cache / "digests.json")


@pytest.mark.parametrize("hinder", [in_the_way, a_folder])
def test_a_cache_that_cannot_be_written_is_no_error(
    hinder: Any, file: Path, cache: Path, hashed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    hinder(cache)
    for _ in range(2):
        assert in_a_new_process(file, monkeypatch) == sha256(file)
    assert len(hashed) == 2


def test_a_pipe_in_place_of_the_cache_is_replaced(file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_pipe(cache)
    assert in_a_new_process(file, monkeypatch) == sha256(file)


@pytest.mark.parametrize("name", ["a\0b", "\udcff" * 3])
def test_a_folder_of_no_possible_name(name: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"BERTFEAT_CACHE": f"/proc/nowhere/{name}"})
    assert in_a_new_process(file, monkeypatch) == sha256(file)


def test_where_the_cache_lies(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTFEAT_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    in_a_new_process(file, monkeypatch)
    assert not (tmp_path / "xdg").exists()
    monkeypatch.delenv("BERTFEAT_CACHE")
    in_a_new_process(file, monkeypatch)
    assert (tmp_path / "xdg" / "bertfeat" / "digests.json").is_file()
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    in_a_new_process(file, monkeypatch)
    assert (tmp_path / "home" / ".cache" / "bertfeat" / "digests.json").is_file()


def test_a_cache_keeps_the_latest_files(
    file: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprint, "_MOST_ENTRIES", 3)
    for number in range(5):
        in_a_new_process(Path(shutil.copy(file, tmp_path / str(number))), monkeypatch)
    paths = [entry["state"]["path"] for entry in json.loads((cache / "digests.json").read_text())["entries"]]
    assert [Path(path).name for path in paths] == ["2", "3", "4"]

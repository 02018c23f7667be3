"""Killed, interrupted, out of space: what is finished stays, and going on gives the bytes of an undisturbed run."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bertfeat.core.features import check_part, list_parts
from bertfeat.errors import StorageError
from tests.support.runs import contents, extractor, lines, text_file
from tests.support.tiny_models import Tiny

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-c", "from bertfeat.cli import run; run()", "extract"]


@pytest.mark.slow
def test_killed_at_random_moments(bert: Tiny, tmp_path: Path) -> None:
    """The short form of the benchmark, which kills 50 times."""
    script = [sys.executable, str(ROOT / "benchmarks" / "kill_and_resume.py"), "--kills", "3", "--rows", "1200"]
    more = [
        "--part-rows",
        "60",
        "--model",
        str(bert.folder),
        "--work",
        str(tmp_path),
        "--out",
        str(tmp_path / "r.json"),
    ]
    ended = subprocess.run([*script, *more], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-2000:]
    told = json.loads((tmp_path / "r.json").read_text())
    assert (told["kills"], told["different"]) == (3, [])


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"])
def test_interrupted(bert: Tiny, tmp_path: Path, sent: signal.Signals, code: int) -> None:
    corpus, folder = text_file(tmp_path / "c.txt", lines(100_000)), tmp_path / "out"
    command = [*PROGRAM, str(corpus), "-o", str(folder), "--model", str(bert.folder), "--precision", "fp32"]
    process = subprocess.Popen([*command, "--part-rows", "300"], stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not (folder / "part-00001.parquet").exists():
        time.sleep(0.01)
    process.send_signal(sent)
    begin = time.monotonic()
    _, told = process.communicate(timeout=60)
    assert time.monotonic() - begin < 5
    assert process.returncode == code, told
    assert "the finished parts stay in" in told
    assert "Traceback" not in told
    names = [path.name for path in list_parts(folder)]
    assert 2 <= len(names) < 300
    found = sorted(path.name for path in folder.rglob("*") if path.is_file())
    assert found == ["kind", *names]  # no lock, no half-written file, no manifest
    # the parts are those of an undisturbed run
    alone = text_file(tmp_path / "less.txt", corpus.read_text().splitlines()[: 300 * len(names)])
    for path in list_parts(folder):
        check_part(path)
    report = extractor(bert, layers="last", pooling=None).extract(alone, folder, part_rows=300)
    assert report.kept_parts == len(names)


# ── disks ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 300 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a small disk needs root")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def run(bert: Tiny, folder: Path, **options: Any) -> Any:
    return extractor(bert, layers="concat-all", pooling="mean,token").extract(
        text_file(folder.parent.parent / "c.txt", lines(120)), folder, **{"part_rows": 20} | options
    )


def test_a_full_disk(bert: Tiny, tmp_path: Path, small_disk: Path) -> None:
    with pytest.raises(StorageError, match="No space left on device; free some space"):
        run(bert, small_disk / "out")
    kept = list_parts(small_disk / "out")
    assert 0 < len(kept) < 6
    assert {path.name for path in (small_disk / "out").glob("*.*")} == {".bertfeat", *(path.name for path in kept)}
    for path in kept:
        check_part(path)
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    assert run(bert, small_disk / "out").kept_parts == len(kept)
    run(bert, tmp_path / "else" / "fresh")
    assert contents(small_disk / "out") == contents(tmp_path / "else" / "fresh")


def test_a_disk_that_standard_input_does_not_fit(bert: Tiny, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a text\n" * 100_000)))
    with pytest.raises(StorageError, match="No space left on device"):
        extractor(bert).extract("-", small_disk / "out")
    assert not (small_disk / "out").exists()


def test_a_folder_that_cannot_be_written(bert: Tiny, tmp_path: Path, small_disk: Path) -> None:
    extractor(bert).extract(text_file(tmp_path / "few.txt", lines(9)), small_disk / "few")
    before = contents(small_disk / "few")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for name in ("out", "few"):
        with pytest.raises(StorageError, match="Read-only file system; choose another folder"):
            run(bert, small_disk / name, overwrite=True)
    assert contents(small_disk / "few") == before


def test_a_folder_where_a_file_is(bert: Tiny, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "out"):
        with pytest.raises(StorageError, match="choose another folder"):
            extractor(bert).extract(text_file(tmp_path / "c.txt", lines(3)), folder)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(bert: Tiny, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o555)
    with pytest.raises(StorageError, match="Permission denied; change its permissions"):
        extractor(bert).extract(text_file(tmp_path / "c.txt", lines(3)), tmp_path / "locked")

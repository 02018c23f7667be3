"""Outputs that a user names: regular files whole or not at all, links followed, anything else written through."""

import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertfeat.core.features import FeatureSet, export_features
from bertfeat.errors import BertfeatError, StorageError, UsageError
from bertfeat.io import output_file, output_folder
from tests.support.features_toy import toy_part, toy_set


def write(path: Path | str, content: str = "new") -> None:
    with output_file(path) as place:
        place.write_text(content)


def fail_half_way(path: Path) -> None:
    with output_file(path) as place:
        place.write_text("half")
        raise ZeroDivisionError


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


def read_pipe(path: Path, do: Callable[[], Any]) -> str:
    """What comes out of a FIFO while something is written to it."""
    os.mkfifo(path)
    read: list[bytes] = []
    thread = threading.Thread(target=lambda: read.append(path.read_bytes()), daemon=True)
    thread.start()
    do()
    thread.join(20)
    assert stat.S_ISFIFO(os.lstat(path).st_mode)
    return read[0].decode()


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Path]:
    """A null device of our own."""
    path = tmp_path / "null"
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        path.write_bytes(b"may be opened")
    except OSError:
        pytest.skip("devices cannot be made here")
    yield path
    assert stat.S_ISCHR(os.lstat(path).st_mode)
    assert os.lstat(path).st_rdev == os.makedev(1, 3)


def test_a_regular_file_is_replaced_whole_and_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "out"
    write(path, "old")
    path.chmod(0o600)
    with pytest.raises(ZeroDivisionError):
        fail_half_way(path)
    assert (path.read_text(), names(tmp_path)) == ("old", {"out"})
    write(path)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode), names(tmp_path)) == ("new", 0o600, {"out"})


def test_a_link_keeps_leading_to_its_file(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target = tmp_path / "there/real"
    (tmp_path / "link").symlink_to("again")
    (tmp_path / "again").symlink_to(Path("there/real"))
    for content in ("made", "replaced"):
        write(tmp_path / "link", content)
        assert (target.read_text(), target.is_symlink()) == (content, False)
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "there") == {"real"}
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(StorageError, match="circle"):
        write(tmp_path / "loop")
    for folder in (".", "..", "/", tmp_path):
        with pytest.raises(StorageError, match="is a folder"):
            write(folder)


def test_pipes_and_devices_are_written_through(tmp_path: Path, device: Path) -> None:
    assert read_pipe(tmp_path / "pipe", lambda: write(tmp_path / "pipe")) == "new"
    (tmp_path / "link").symlink_to("null")
    write(device)
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    with pytest.raises(ZeroDivisionError):
        fail_half_way(device)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"])
def test_an_open_file_of_the_process_is_written_on(tmp_path: Path, name: str) -> None:
    (tmp_path / "link").symlink_to("/dev/stdout")
    code = (
        "import sys; from bertfeat.io import output_file; print('before')\n"
        f"with output_file({name!r}) as place: place.write_text('written\\n')\nprint('after')"
    )
    before = os.readlink("/dev/stdout")
    with (tmp_path / "file").open("w") as file:
        file.write("first\n")
        file.flush()
        inode = os.fstat(file.fileno()).st_ino
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, stdout=file, check=True)
    assert (tmp_path / "file").read_text() == "first\nbefore\nwritten\nafter\n"
    assert (tmp_path / "file").stat().st_ino == inode
    assert os.readlink("/dev/stdout") == before
    assert names(tmp_path) == {"file", "link"}


def test_a_handle_that_is_not_open_and_a_full_device(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="Bad file descriptor"):
        write("/dev/fd/991")
    with pytest.raises(StorageError, match="No space left"):
        write("/dev/full")


def test_two_writers_at_once_and_one_who_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with output_file(path) as one:
        one.write_text("one")
        with output_file(path) as two:
            assert one != two
            two.write_text("two")
        assert path.read_text() == "two"
        assert one.exists()
    assert path.read_text() == "one"
    (tmp_path / ".out.0123abcd.tmp").write_text("half")
    (tmp_path / ".out.mine.tmp").write_text("of somebody else")
    write(path)
    assert names(tmp_path) == {"out", ".out.mine.tmp"}


# ── folders ─────────────────────────────────────────────────────────────────────────────────────────────────


def anything() -> None:
    """Refuse nothing."""


def fill(path: Path, name: str, check: Callable[[], None] = anything) -> None:
    with output_folder(path, check) as new:
        (new / name).write_text("new")


def divide_by_zero() -> None:
    raise ZeroDivisionError


def in_turn(*checks: Callable[[], Any]) -> Callable[[], None]:
    """A check that does one thing after the other."""
    turns = iter(checks)
    return lambda: next(turns)()


def test_a_folder_takes_a_place_whole(tmp_path: Path) -> None:
    fill(tmp_path / "out", "one")
    fill(tmp_path / "out", "two")
    assert names(tmp_path / "out") == {"two"}
    with pytest.raises(ZeroDivisionError):
        fill(tmp_path / "out", "half", in_turn(anything, divide_by_zero))
    assert names(tmp_path / "out") == {"two"}
    (tmp_path / "link").symlink_to("out")
    fill(tmp_path / "link", "three")
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "out") == {"three"}
    assert names(tmp_path) == {"out", "link"}
    with pytest.raises(StorageError, match="No such file or directory"):
        fill(tmp_path / "no" / "out", "one")


def test_a_folder_is_checked_before_and_after(tmp_path: Path) -> None:
    """What came meanwhile stays."""

    def refuse() -> None:
        if (tmp_path / "out").exists():
            raise StorageError("it is there")

    def after_another() -> None:
        fill(tmp_path / "out", "fast", refuse)
        refuse()

    with pytest.raises(StorageError, match="it is there"):
        fill(tmp_path / "out", "slow", in_turn(refuse, after_another))
    assert names(tmp_path / "out") == {"fast"}
    with pytest.raises(StorageError, match="it is there"):
        fill(tmp_path / "out", "again", refuse)
    assert names(tmp_path) == {"out"}


@pytest.mark.parametrize("finished", [False, True])
def test_a_writer_of_a_folder_that_was_killed(tmp_path: Path, *, finished: bool) -> None:
    """What it had moved away goes back, where nothing has come in its place."""
    left = tmp_path / ".out.0123abcd.tmp"
    (left / "former").mkdir(parents=True)
    (left / "former" / "mine").write_text("old")
    if finished:
        fill_by_hand = tmp_path / "out"
        fill_by_hand.mkdir()
        (fill_by_hand / "newer").write_text("new")
    seen: list[set[str]] = []
    fill(tmp_path / "out", "again", lambda: seen.append(names(tmp_path / "out")))
    assert seen == [{"newer"} if finished else {"mine"}] * 2
    assert names(tmp_path / "out") == {"again"}
    assert names(tmp_path) == {"out"}


def test_an_interrupt_between_the_two_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "out", "old")
    rename = Path.rename

    def interrupted(path: Path, target: Path) -> Path:
        if path.name == "new":
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path / "out", "new")
    assert names(tmp_path / "out") == {"old"}
    assert names(tmp_path) == {"out"}


# ── exports ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_exports_go_where_they_are_sent(tmp_path: Path, device: Path) -> None:
    features = toy_set(tmp_path / "x", toy_part(layers="last", poolings=("mean",)))
    export_features(features, "csv", tmp_path / "plain.csv")
    plain = (tmp_path / "plain.csv").read_text()
    for overwrite in (False, True):
        name = tmp_path / f"pipe-{overwrite}"
        assert read_pipe(name, lambda: export_features(features, "csv", name, overwrite=overwrite)) == plain  # noqa: B023
        export_features(features, "jsonl", device, overwrite=overwrite)
    (tmp_path / "link.csv").symlink_to("plain.csv")
    with pytest.raises(StorageError, match="there already"):
        export_features(features, "csv", tmp_path / "link.csv")
    (tmp_path / "plain.csv").write_text("old")
    export_features(features, "csv", tmp_path / "link.csv", overwrite=True)
    assert (tmp_path / "plain.csv").read_text() == plain
    assert (tmp_path / "link.csv").is_symlink()


def test_npy_needs_a_name_for_two_files(tmp_path: Path, device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    features = toy_set(tmp_path / "x", toy_part(layers="last", poolings=("mean",)))
    monkeypatch.chdir(tmp_path)
    before = names(tmp_path)
    for out in (".", "..", "/", ""):
        with pytest.raises(BertfeatError, match=r"is a folder|it is empty"):
            export_features(features, "npy", out)
    for out in ("null", "/dev/stdout"):
        with pytest.raises(UsageError, match="two files"):
            export_features(features, "npy", out)
    assert names(tmp_path) == before
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link.npy").symlink_to("elsewhere/real.npy")
    export_features(features, "npy", "link.npy", overwrite=True)
    assert len(np.load(tmp_path / "elsewhere/real.npy")) == 6
    FeatureSet(features).to_numpy(device)
    shutil.rmtree(tmp_path / "elsewhere")

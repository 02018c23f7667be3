import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bertfeat.errors import FolderLockedError, StorageError
from bertfeat.io import folder_lock
from bertfeat.io.lock_owner import LockOwner

ROOT = Path(__file__).parents[2]
_HOLD = """
import sys, time
from pathlib import Path
from bertfeat.io import folder_lock
with folder_lock(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", _HOLD, tmp_path], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    process.stdout.close()
    return process


def test_a_second_run_is_told_who_holds_the_folder(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    try:
        with (
            pytest.raises(FolderLockedError, match=f"another run.*process {holder.pid} on .* since 20"),
            folder_lock(tmp_path),
        ):
            pass
    finally:
        holder.kill()
        holder.wait()
    assert (tmp_path / ".bertfeat" / "lock").exists()
    with folder_lock(tmp_path):  # left by the dead
        pass
    assert not (tmp_path / ".bertfeat" / "lock").exists()


def test_a_lock_is_released_after_errors(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), folder_lock(tmp_path / "made" / "too"):
        raise ZeroDivisionError
    assert not os.listdir(tmp_path / "made" / "too")
    with (
        folder_lock(tmp_path / "made" / "too"),
        pytest.raises(FolderLockedError),
        folder_lock(tmp_path / "made" / "too"),
    ):
        pass


def _leave(folder: Path, **changes: object) -> None:
    (folder / ".bertfeat").mkdir(exist_ok=True)
    owner = dataclasses.replace(LockOwner.current(), **changes)  # type: ignore[arg-type]
    (folder / ".bertfeat" / "lock").write_text(json.dumps(dataclasses.asdict(owner)))


def test_a_lock_that_only_its_content_holds(tmp_path: Path) -> None:
    """As on a file system that knows no flock."""
    _leave(tmp_path)
    with pytest.raises(FolderLockedError, match=f"process {os.getpid()} on"), folder_lock(tmp_path):
        pass
    _leave(tmp_path, ticks=1)  # the number is another process's by now
    with folder_lock(tmp_path):
        pass
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    _leave(tmp_path, pid=dead.pid)
    with folder_lock(tmp_path):
        pass


def test_a_lock_of_another_machine_is_not_judged(tmp_path: Path) -> None:
    _leave(tmp_path, host="node7", boot="another", pid=1)
    with (
        pytest.raises(FolderLockedError, match=r"process 1 on node7 .*cannot be seen.*delete .*/lock"),
        folder_lock(tmp_path),
    ):
        pass
    assert (tmp_path / ".bertfeat" / "lock").exists()
    _leave(tmp_path, host="container", pid=2**22 + 1)  # another name, but this machine
    with folder_lock(tmp_path):
        pass


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 1}', "null"])
def test_a_half_written_lock_is_nobodys(tmp_path: Path, content: str) -> None:
    (tmp_path / ".bertfeat").mkdir()
    (tmp_path / ".bertfeat" / "lock").write_text(content)
    with folder_lock(tmp_path):
        pass


@pytest.mark.parametrize("pid", [0, -1, 2**31, 10**30, "x", 1.5, None, True, [1]], ids=str)
def test_a_number_that_no_process_has_is_nobodys(tmp_path: Path, pid: object) -> None:
    _leave(tmp_path, pid=pid)
    with folder_lock(tmp_path):
        pass
    assert not (tmp_path / ".bertfeat" / "lock").exists()


def test_of_many_who_find_a_stale_lock_one_gets_it(tmp_path: Path) -> None:
    for _ in range(20):
        _leave(tmp_path, ticks=1)
        barrier, release = threading.Barrier(8), threading.Barrier(8)
        got: list[int] = []

        def take(barrier: threading.Barrier, release: threading.Barrier, got: list[int]) -> None:
            barrier.wait()
            try:
                with folder_lock(tmp_path):
                    got.append(1)
                    release.wait()
            except FolderLockedError:
                release.wait()

        threads = [threading.Thread(target=take, args=(barrier, release, got)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert got == [1]


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"cannot write to .*choose another folder"), folder_lock(tmp_path / "file"):
        pass


def test_an_interrupted_holder_leaves_nothing(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGINT)
    holder.wait()
    assert not (tmp_path / ".bertfeat" / "lock").exists()

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xxhash

from bertfeat.core.features.sealed_file import DirectFile

MIB = 1 << 20
SIZES = [0, 1, 5000, 4 * MIB, 3 * MIB + 7, 9 * MIB + 1, 12]  # of single writes; a block is 4 MiB


def written(path: Path) -> bytes:
    """Write pieces of random bytes, and give them; the file's own digest must be theirs."""
    random = np.random.default_rng(0)
    pieces = [random.bytes(size) for size in SIZES]
    with DirectFile(path) as file:
        for at, piece in enumerate(pieces):
            assert file.write(memoryview(piece) if at % 2 else piece) == len(piece)
            assert file.tell() == sum(SIZES[: at + 1])
        digest = file.digest
    data = b"".join(pieces)
    assert digest == (len(data), xxhash.xxh3_128_hexdigest(data).encode())
    return data


@pytest.mark.parametrize("before", [None, 1, 30 * MIB], ids=["new", "over a shorter one", "over a longer one"])
def test_what_was_written_is_there(tmp_path: Path, before: int | None) -> None:
    path = tmp_path / "file"
    if before:
        path.write_bytes(bytes(before))
    assert written(path) == path.read_bytes()


def test_the_users_mask_holds(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        written(tmp_path / "file")
    finally:
        os.umask(old)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


@pytest.fixture
def direct(tmp_path: Path) -> int:
    """The flag of direct writing, where the file system knows it."""
    flag: int = getattr(os, "O_DIRECT", 0)
    try:
        os.close(os.open(tmp_path / "tried", os.O_WRONLY | os.O_CREAT | flag))
    except OSError:
        flag = 0
    return flag or pytest.skip("this file system knows no direct writing")


def test_whole_blocks_go_past_the_page_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, direct: int) -> None:
    wrote, past, through = os.write, 0, 0

    def write(handle: int, data: memoryview) -> int:
        nonlocal past, through
        count = wrote(handle, data)
        if fcntl.fcntl(handle, fcntl.F_GETFL) & direct:
            past += count
        else:
            through += count
        return count

    monkeypatch.setattr(os, "write", write)
    written(tmp_path / "file")
    assert (past, through) == (16 * MIB, sum(SIZES) - 16 * MIB)


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EOPNOTSUPP])
@pytest.mark.parametrize("moment", ["at opening", "at write 1", "at write 2"])
def test_a_file_system_without_direct_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, direct: int, moment: str, code: int
) -> None:
    opened, wrote, writes, refusals = os.open, os.write, 0, 0

    def refuse() -> None:
        nonlocal refusals
        refusals += 1
        raise OSError(code, "no direct writing here")

    def open_(path: Path, flags: int, mode: int = 0o777) -> int:
        if moment == "at opening" and flags & direct:
            refuse()
        return opened(path, flags, mode)

    def write(handle: int, data: memoryview) -> int:
        nonlocal writes
        writes += 1
        if moment == f"at write {writes}" and fcntl.fcntl(handle, fcntl.F_GETFL) & direct:
            refuse()
        return wrote(handle, data)

    monkeypatch.setattr(os, "open", open_)
    monkeypatch.setattr(os, "write", write)
    assert written(tmp_path / "file") == (tmp_path / "file").read_bytes()
    assert refusals == 1


def test_a_system_that_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", lambda *_: 0)
    with pytest.raises(OSError, match="Input/output error"), DirectFile(tmp_path / "file") as file:
        file.write(bytes(10))


def test_a_closed_file_takes_nothing(tmp_path: Path) -> None:
    with DirectFile(tmp_path / "file") as file:
        pass
    with pytest.raises(ValueError, match="closed"):
        file.write(b"late")


@pytest.mark.parametrize("most", [4096, MIB + 3])
def test_a_system_that_writes_a_piece_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    wrote: Callable[[int, memoryview], int] = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: wrote(handle, data[:most]))
    assert written(tmp_path / "file") == (tmp_path / "file").read_bytes()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("size", [10, 9 * MIB])
def test_a_full_disk_is_told(size: int) -> None:
    with pytest.raises(OSError, match="No space left"), DirectFile(Path("/dev/full")) as file:
        file.write(bytes(size))
    assert file.closed


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        DirectFile(tmp_path / "nowhere" / "file")

"""What every kind of storage must do, on this machine, in memory and on an S3 server."""

import hashlib
import os
import stat
import threading
from io import SEEK_END
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from bertfeat.errors import StorageError
from bertfeat.io import (
    Address,
    Location,
    Stamp,
    create_file,
    file_stamp,
    list_files,
    open_file,
    put_file,
    read_file,
    remove_stored,
    replace_file,
)
from bertfeat.io.storage import local as local_store

NUMBERS = count()
NAMES = ["a", "with space", "über/日本語/😀.txt", "50%", "a%20b", "x#y?z&k=v+1", "[*]{'\"}", ".hidden", "a~b;c,d@e:f"]


def places(request: pytest.FixtureRequest, kind: str) -> Location:
    if kind == "local":
        folder: Path = request.getfixturevalue("tmp_path")
        return folder / "folder"
    if kind == "memory":
        return Address.parse(f"memory://test-{next(NUMBERS)}/folder")
    bucket: Address = request.getfixturevalue("bucket")
    return bucket / "folder"


@pytest.fixture(params=["local", "memory", "s3"])
def folder(request: pytest.FixtureRequest) -> Location:
    return places(request, request.param)


@pytest.fixture(params=["memory", "s3"])
def remote(request: pytest.FixtureRequest) -> Address:
    place = places(request, request.param)
    assert isinstance(place, Address)
    return place


def names(folder: Location, prefix: str = "") -> list[str]:
    return [file.name for file in list_files(folder, prefix)]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", NAMES)
def test_a_file_comes_back_as_it_was_written(folder: Location, name: str) -> None:
    stamp = put_file(folder / name, name.encode())
    assert read_file(folder / name) == name.encode()
    assert stamp == file_stamp(folder / name) == list_files(folder)[0].stamp
    assert names(folder) == [name]
    with open_file(folder / name) as file:
        assert file.read() == name.encode()
    remove_stored(folder / name)
    assert names(folder) == []
    assert file_stamp(folder / name) is None


def test_a_missing_file_is_not_found(folder: Location) -> None:
    put_file(folder / "there", b"x")
    for place in (folder / "missing", folder / "missing" / "deep"):
        with pytest.raises(FileNotFoundError):
            open_file(place)
        with pytest.raises(FileNotFoundError):
            read_file(place)
        assert file_stamp(place) is None
        assert replace_file(place, b"y", Stamp(1, "x")) is None
        remove_stored(place)
    assert names(folder) == ["there"]


def test_an_empty_file_is_a_file(folder: Location) -> None:
    put_file(folder / "empty", b"")
    with open_file(folder / "empty") as file:
        assert file.read() == b""
        assert file.seek(0, SEEK_END) == 0
    assert read_file(folder / "empty") == b""
    assert [file.stamp.size for file in list_files(folder)] == [0]


def test_a_stamp_changes_with_the_file_and_only_then(folder: Location) -> None:
    place = folder / "file"
    first = put_file(place, b"one")
    assert file_stamp(place) == first
    second = put_file(place, b"two")
    assert file_stamp(place) == second != first


def test_a_folder_is_no_file(folder: Location) -> None:
    put_file(folder / "below" / "file", b"x")
    assert file_stamp(folder / "below") is None
    with pytest.raises(OSError, match=r"regular file|no such object"):
        open_file(folder / "below")


def test_a_listing_has_all_files_below_and_knows_prefixes(folder: Location) -> None:
    for name in ("part-00001", "part-00002", "parts", ".x/claims/part-00001", "sub/part-1", "sub/other", "sub-1"):
        put_file(folder / name, name.encode())
    put_file(folder.parent / "folder-too", b"")
    everything = ["sub-1", "sub/other", "sub/part-1"]
    assert names(folder) == [".x/claims/part-00001", "part-00001", "part-00002", "parts", *everything]
    assert names(folder, "part-") == ["part-00001", "part-00002"]
    assert names(folder, "sub") == everything
    assert names(folder, "sub/") == ["sub/other", "sub/part-1"]
    assert names(folder, "sub/p") == ["sub/part-1"]
    assert names(folder / "sub") == ["other", "part-1"]
    assert names(folder / ".x" / "claims") == ["part-00001"]
    assert names(folder, "nothing") == names(folder / "nothing") == names(folder, "nothing/at/all") == []
    assert {file.stamp.size for file in list_files(folder, "sub/p")} == {len("sub/part-1")}


def test_a_file_that_is_there_stays(folder: Location) -> None:
    first = put_file(folder / "claim", b"mine", if_absent=True)
    assert first
    assert put_file(folder / "claim", b"ours", if_absent=True) is None  # of the same size
    assert put_file(folder / "claim", b"longer", if_absent=True) is None
    assert read_file(folder / "claim") == b"mine"
    assert put_file(folder / "claim", b"mine", if_absent=True) == first  # equal content does no harm
    assert names(folder) == ["claim"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [10, 3_000_000])
def test_of_writers_at_the_same_time_one_wins(folder: Location, size: int) -> None:
    for attempt in range(4):
        barrier, wins = threading.Barrier(4), list[int]()

        def write(number: int, place: Location, barrier: threading.Barrier, wins: list[int]) -> None:
            barrier.wait()
            with create_file(place, if_absent=True) as new:
                new.path.write_bytes(bytes([number]) * size)
            if new.stamp:
                wins.append(number)

        put_file(folder / "made", b"")
        place = folder / f"part-{attempt}"
        threads = [threading.Thread(target=write, args=(number, place, barrier, wins)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(wins) == 1
        assert read_file(place) == bytes(wins) * size
    assert names(folder, "part-") == [f"part-{attempt}" for attempt in range(4)]
    assert names(folder, ".") == []


def test_a_file_is_replaced_only_if_it_is_the_one_that_was_seen(folder: Location) -> None:
    place = folder / "claim"
    first = put_file(place, b"first")
    assert first
    second = replace_file(place, b"second", first)
    assert second
    assert file_stamp(place) == second
    assert replace_file(place, b"third", first) is None
    assert read_file(place) == b"second"
    assert replace_file(place, b"third", list_files(folder)[0].stamp)
    remove_stored(place)
    assert replace_file(place, b"fourth", second) is None
    assert names(folder) == []


@pytest.mark.sampled(1)
def test_of_those_who_replace_at_the_same_time_one_wins(folder: Location) -> None:
    for attempt in range(5):
        stamp = put_file(folder / "claim", f"{attempt}".encode())
        assert stamp
        barrier, wins = threading.Barrier(4), list[int]()

        def replace(number: int, stamp: Stamp, barrier: threading.Barrier, wins: list[int]) -> None:
            barrier.wait()
            if replace_file(folder / "claim", bytes([number]), stamp):
                wins.append(number)

        threads = [threading.Thread(target=replace, args=(number, stamp, barrier, wins)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(wins) == 1
        assert read_file(folder / "claim") == bytes(wins)


@pytest.mark.sampled(1)
def test_a_big_file_is_read_by_ranges(folder: Location) -> None:
    content = hashlib.shake_128(b"big").digest(20_000_000)
    put_file(folder / "made", b"")
    with create_file(folder / "big") as new:
        new.path.write_bytes(content)
    assert new.stamp == file_stamp(folder / "big")
    with open_file(folder / "big") as file:
        assert file.seek(-10, SEEK_END) == len(content) - 10
        assert file.read() == content[-10:]
        for start, length in ((0, 5), (19_900_000, 100_000), (7, 3_000_000), (12_345_678, 1), (19_999_990, 100)):
            file.seek(start)
            assert file.read(length) == content[start : start + length]
        file.seek(0)
        assert b"".join(iter(lambda: file.read(333_333), b"")) == content
        assert file.seek(len(content) + 5) == len(content) + 5
        assert file.read() == b""


@given(
    steps=st.lists(st.tuples(st.integers(0, 300_000), st.integers(0, 200_000)), max_size=12),
    size=st.integers(0, 250_000),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_ranges_of_an_object_are_those_of_a_file(steps: list[tuple[int, int]], size: int) -> None:
    content = hashlib.shake_128(b"ranges").digest(size)
    place = Address.parse(f"memory://test-{next(NUMBERS)}/file")
    put_file(place, content)
    with open_file(place) as file:
        for start, length in steps:
            assert file.seek(start) == start
            assert file.read(length) == content[start : start + length]
            assert file.tell() == start + min(length, max(0, size - start))


def test_nothing_is_written_when_the_block_fails(folder: Location) -> None:
    put_file(folder / "file", b"before")
    for if_absent in (False, True):
        for name in ("file", "other"):
            with pytest.raises(ZeroDivisionError), create_file(folder / name, if_absent=if_absent) as new:
                new.path.write_bytes(bytes(1 // 0))
            assert not new.path.exists()
    assert read_file(folder / "file") == b"before"
    assert names(folder) == ["file"]


def test_content_of_a_local_file_is_written(folder: Location, tmp_path: Path) -> None:
    with create_file(folder.parent / "x", if_absent=True) as new:
        new.path.write_bytes(b"content")
    assert new.stamp == file_stamp(folder.parent / "x")
    with create_file(folder.parent / "x", if_absent=True) as other:
        other.path.write_bytes(b"another")
    assert other.stamp is None


# ── object storage alone ────────────────────────────────────────────────────────────────────────────────────


def test_an_object_that_is_replaced_while_it_is_read_is_told(remote: Address) -> None:
    put_file(remote / "part", bytes(3_000_000))
    with open_file(remote / "part") as file:
        put_file(remote / "part", bytes(2_999_999) + b"x")
        with pytest.raises(StorageError, match="was replaced while it was read"):
            file.read(10)


def test_empty_objects_that_stand_for_folders_are_no_files(remote: Address) -> None:
    put_file(remote, b"")  # a console makes "folder/", which is listed as "folder"
    put_file(remote / "sub", b"")
    put_file(remote / "sub/file", b"x")
    put_file(remote / "empty", b"")
    assert names(remote) == ["empty", "sub/file"]


def test_temporary_files_that_killed_runs_left_are_removed(
    remote: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    abandoned = tmp_path / "bertfeat-upload-left"
    abandoned.write_bytes(b"x")
    with create_file(remote / "one") as one, create_file(remote / "two") as two:
        assert set(tmp_path.iterdir()) == {one.path, two.path}
        one.path.write_bytes(b"1")
        two.path.write_bytes(b"2")
    assert names(remote) == ["one", "two"]
    assert list(tmp_path.iterdir()) == []


# ── folders of this machine alone ───────────────────────────────────────────────────────────────────────────


def test_only_regular_files_are_listed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "broken").symlink_to(tmp_path / "nothing")
    (tmp_path / "circle").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert names(tmp_path) == ["file", "link"]
    assert file_stamp(tmp_path / "pipe") is None


def test_a_folder_that_cannot_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("bertfeat.io.storage.local.os.scandir", refuse)
    with pytest.raises(PermissionError):
        list_files(tmp_path)


def test_a_file_system_without_links_knows_one_winner_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(one: Path, other: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("bertfeat.io.output.os.link", refuse)
    assert put_file(tmp_path / "claim", b"mine", if_absent=True)
    assert put_file(tmp_path / "claim", b"ours", if_absent=True) is None
    assert names(tmp_path) == ["claim"]
    test_of_writers_at_the_same_time_one_wins(tmp_path, 10)


def test_a_file_system_without_locks_replaces_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int, how: int) -> None:
        raise OSError(9, "Bad file descriptor")  # as NFS says it

    monkeypatch.setattr("bertfeat.io.output.fcntl.flock", refuse)
    stamp = put_file(tmp_path / "claim", b"one")
    assert stamp
    assert replace_file(tmp_path / "claim", b"two", stamp)
    assert replace_file(tmp_path / "claim", b"three", stamp) is None


@pytest.mark.parametrize("if_absent", [False, True])
def test_a_new_local_file_is_that_of_atomic(tmp_path: Path, if_absent: bool) -> None:
    with create_file(tmp_path / "name.json", if_absent=if_absent) as new:
        assert new.path.parent == tmp_path
        assert (new.path.name == ".name.json.tmp") is not if_absent
        new.path.write_bytes(b"x")
    assert names(tmp_path) == ["name.json"]
    assert stat.S_ISREG(os.lstat(tmp_path / "name.json").st_mode)
    with pytest.raises(StorageError, match="create it or choose"), create_file(tmp_path / "no" / "x") as new:
        new.path.write_bytes(b"x")
    with pytest.raises(StorageError, match="is a folder"), create_file(tmp_path, if_absent=if_absent):
        pass


def test_a_local_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"keep")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    (tmp_path / ".file.tmp").symlink_to(tmp_path / "precious")
    put_file(tmp_path / "link", b"new")
    with create_file(tmp_path / "file") as new:
        new.path.write_bytes(b"new")
    assert (tmp_path / "precious").read_bytes() == b"keep"
    (tmp_path / "other").symlink_to(tmp_path / "precious")
    assert replace_file(tmp_path / "link", b"newer", local_store.LocalStore().stamp(str(tmp_path / "link")))
    with pytest.raises(StorageError, match="symbolic link"):
        replace_file(tmp_path / "other", b"new", Stamp(4, ""))

"""JSON decoded by type: wrong types, wrong numbers and changed files are refused, and nothing else is raised."""

import json
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import xxhash
from hypothesis import given, strategies as st

from bertfeat.errors import DamagedError, FeatureSetError
from bertfeat.io import FileDigest, JsonError, JsonFormat, decode_json, digest_file, to_plain, write_json


@dataclass(frozen=True, slots=True)
class Inner:
    names: tuple[str, ...]
    share: float


@dataclass(frozen=True, slots=True)
class Outer:
    format_version: int
    inner: Inner
    others: Mapping[str, Any]
    note: str | None = None


FORMAT = JsonFormat(Outer, 2, error=DamagedError, refusal=FeatureSetError, remedy="do it again")
GOOD = Outer(2, Inner(("a", "은행", "\n"), 0.1), {"any": [1, None, True]})


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", GOOD)
    assert FORMAT.read(tmp_path / "x.json") == GOOD
    assert json.loads((tmp_path / "x.json").read_text("utf-8"))["inner"]["names"] == ["a", "은행", "\n"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no JSON"),
        ("{", "no JSON"),
        ("null", "Expected 'object', got 'null'"),
        ("[]", "Expected 'object', got 'array'"),
        ('{"format_version": "2"}', r"Expected 'int', got 'str' - at '\$.format_version'"),
        ('{"format_version": 2.5}', "Expected 'int', got 'float'"),
        ('{"format_version": 2}', "missing required field 'inner'"),
        ('{"format_version": 1e999}', "beyond what a number holds"),
        ('{"format_version": NaN}', "NaN is no number"),
        ('{"format_version": ' + "9" * 5000 + "}", "no JSON"),
        ('{"format_version": 2, "inner": {"names": [1], "share": 1}, "others": {}}', r"got 'int' - at '\$.inner.names"),
        ('{"format_version": 2, "inner": {"names": [], "share": "x"}, "others": {}}', "Expected 'float', got 'str'"),
        ("[" * 100_000, "nested too deeply"),
        (b"\xff\xfe\xfa", "no JSON"),
    ],
    ids=range(14),
)
def test_what_is_no_such_thing_is_refused(text: str | bytes, told: str) -> None:
    with pytest.raises(JsonError, match=told):
        decode_json(text, Outer)


def test_fields_of_later_versions_are_left_out() -> None:
    assert decode_json('{"names": [], "share": 1, "more": 2}', Inner) == Inner((), 1.0)


@given(st.binary(max_size=60))
def test_nothing_else_is_raised(text: bytes) -> None:
    with pytest.raises(JsonError):
        decode_json(text, Outer)


def test_every_changed_byte_is_told(tmp_path: Path) -> None:
    path, draw = tmp_path / "x.json", random.Random(0)
    write_json(path, GOOD)
    good = path.read_bytes()
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 1 << draw.randrange(8)
        path.write_bytes(bad)
        try:
            found = FORMAT.read(path)
        except DamagedError:
            continue
        assert found == GOOD  # white space alone was changed


def test_a_file_without_its_digest_is_refused(tmp_path: Path) -> None:
    plain = {"format_version": 2, "inner": {"names": [], "share": 1.0}, "others": {}}
    (tmp_path / "x.json").write_text(json.dumps(plain))
    with pytest.raises(DamagedError, match="digest is missing"):
        FORMAT.read(tmp_path / "x.json")


@pytest.mark.parametrize("version", [0, -1, "2", True, 1.5])
def test_what_is_no_version_is_refused(tmp_path: Path, version: object) -> None:
    write_json(tmp_path / "x.json", {**to_plain(GOOD), "format_version": version})
    with pytest.raises(DamagedError, match=r"x\.json: cannot be read .format_version is .*; do it again"):
        FORMAT.read(tmp_path / "x.json")


def test_newer_versions_are_refused_before_anything_else(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"format_version": 3, "digest": "unknown"}')
    with pytest.raises(FeatureSetError, match=r"x\.json: written in format 3 by a newer .* up to 2; upgrade bertfeat"):
        FORMAT.read(tmp_path / "x.json")


def test_a_format_raises_its_owners_errors(tmp_path: Path) -> None:
    assert FORMAT.read(tmp_path / "x.json") is FORMAT.read(tmp_path / "nowhere" / "x.json") is None
    (tmp_path / "x.json").write_text("{")
    assert FORMAT.read(tmp_path / "x.json" / "below a file") is None
    with pytest.raises(DamagedError, match=r"x\.json: cannot be read \(no JSON .*; do it again"):
        FORMAT.read(tmp_path / "x.json")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FeatureSetError, match=r"folder: cannot be read"):
        FORMAT.read(tmp_path / "folder")
    with pytest.raises(DamagedError, match=r"here: the header cannot be read .*; do it now"):
        JsonFormat(Outer, 2, error=DamagedError, remedy=lambda: "do it now", subject="the header").decode("[]", "here")


# ── files that a record lists ───────────────────────────────────────────────────────────────────────────────


def test_files_are_told_from_those_that_a_record_lists(tmp_path: Path) -> None:
    content = bytes(range(256)) * 10
    (tmp_path / "a.bin").write_bytes(content)
    right = {"a.bin": FileDigest(len(content), xxhash.xxh3_128_hexdigest(content))}
    assert digest_file(tmp_path / "a.bin") == right["a.bin"]
    FORMAT.check_files(tmp_path, right, "not so")

    def told(problem: str) -> None:
        with pytest.raises(DamagedError, match=rf"{tmp_path.name}: not so: a\.bin {problem}; do it again"):
            FORMAT.check_files(tmp_path, right, "not so")

    (tmp_path / "a.bin").write_bytes(content[:-1] + b"x")
    told("was changed after it was written")
    FORMAT.check_files(tmp_path, right, "not so", unread=["a.bin"])  # its size alone
    with (tmp_path / "a.bin").open("ab") as file:
        file.truncate(1 << 40)  # a giant is not read
    told("has 1,099,511,627,776 bytes, but 2,560 were written: it was cut off or replaced")
    (tmp_path / "a.bin").unlink()
    told("is missing")
    os.mkfifo(tmp_path / "a.bin")
    told("is not a regular file")
    (tmp_path / "a.bin").unlink()
    (tmp_path / "a.bin").mkdir()
    told("is not a regular file")
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(DamagedError, match=r"not so: a/\.\./a\.bin cannot be read \(Not a directory\)"):
        FORMAT.check_files(tmp_path, {"a/../a.bin": right["a.bin"]}, "not so")

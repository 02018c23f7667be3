"""Addresses: how they are written, and that they behave as paths do."""

from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given, strategies as st

from bertfeat.errors import UsageError
from bertfeat.io import Address, as_location, is_address

STEP = st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="/"), min_size=1).filter(
    lambda step: step not in (".", "..")
)
NAME = STEP.filter(lambda step: not step.startswith(".") and not step.endswith(".") and step.strip())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://bucket", Address("s3", "bucket")),
        ("s3://bucket/", Address("s3", "bucket")),
        ("S3://bucket/a/b.txt", Address("s3", "bucket", "a/b.txt")),
        ("s3a://bucket/a/", Address("s3", "bucket", "a")),
        ("gs://my-bucket.org/a b/ü%20#?", Address("gs", "my-bucket.org", "a b/ü%20#?")),
        ("az://container/x", Address("az", "container", "x")),
        ("abfss://c@account.dfs.core.windows.net/x", Address("az", "c@account.dfs.core.windows.net", "x")),
        ("memory://m/x", Address("memory", "m", "x")),
        ("file:///tmp/a%20b", Path("/tmp/a b")),
        ("file://localhost/tmp", Path("/tmp")),
        ("corpus.txt", Path("corpus.txt")),
        ("a:b//c", Path("a:b/c")),
        ("./s3:/x", Path("s3:/x")),
    ],
)
def test_texts_and_their_locations(text: str, expected: Path | Address) -> None:
    assert as_location(text) == expected
    assert as_location(expected) == expected
    assert is_address(text) == ("://" in text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("http://host/x", r"known are s3://, .* and file://"),
        ("ftp://host", "known are"),
        ("s3://", "no bucket's name"),
        ("s3:///key", "no bucket's name"),
        ("s3://my bucket/x", "no bucket's name"),
        ("s3://b@account/x", "no bucket's name"),
        ("s3://bücket/x", "no bucket's name"),
        ("s3://bucket/a//b", "no empty steps"),
        ("s3://bucket/a/../b", "no empty steps"),
        ("s3://bucket/./b", "no empty steps"),
        ("s3://bucket/a\nb", "control characters"),
        ("file://elsewhere/x", "file:///folder/file"),
        ("file://", "file:///folder/file"),
    ],
)
def test_what_is_no_address_is_told(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        as_location(text)


@given(st.lists(STEP, max_size=4))
def test_an_address_is_written_as_it_is_read(steps: list[str]) -> None:
    address = Address("s3", "bucket")
    for step in steps:
        address /= step
    assert Address.parse(str(address)) == as_location(str(address)) == address
    assert Address("s3", "bucket") / "/".join(steps) == address


@given(st.lists(NAME, min_size=2, max_size=4), NAME)
def test_an_address_has_the_parts_of_a_path(steps: list[str], other: str) -> None:
    address, path = Address("s3", "bucket") / "/".join(steps), PurePosixPath("/bucket") / "/".join(steps)
    assert (address.name, address.stem, address.suffix) == (path.name, path.stem, path.suffix)
    for ours, theirs in (
        (address.parent, path.parent),
        (address / other, path / other),
        (address.with_name(other), path.with_name(other)),
        (address.with_suffix(".x"), path.with_suffix(".x")),
        (address.absolute(), path),
        (address.resolve(), path),
    ):
        assert str(ours) == f"s3:/{theirs}"


def test_a_bucket_is_its_own_parent() -> None:
    bucket = Address.parse("s3://bucket")
    assert bucket.parent == bucket == bucket / "" == (bucket / "x").parent
    assert bucket.name == "bucket"
    assert bucket / "/a/" / "b/" == Address("s3", "bucket", "a/b")
    assert sorted([bucket / "b", bucket, bucket / "a"]) == [bucket, bucket / "a", bucket / "b"]

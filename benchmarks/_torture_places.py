"""Folders on this machine and in a bucket, looked at and changed behind the back of who writes into them."""

import hashlib
import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

_VOLATILE = ("times", "versions", "run", "digest")  # of a manifest: when, by what, and over which stamps it was made
_MANIFEST = ".bertfeat/manifest.json"


class Place(Protocol):
    """A folder of files."""

    def __str__(self) -> str:
        """As commands name it."""

    def __truediv__(self, name: str) -> "Place": ...

    def names(self) -> list[str]:
        """The names of all files at any depth."""

    def read(self, name: str) -> bytes: ...

    def write(self, name: str, content: bytes) -> None: ...

    def remove(self, name: str) -> None: ...


class Folder:
    """A folder of this machine."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def __truediv__(self, name: str) -> "Folder":
        return Folder(self.path / name)

    def names(self) -> list[str]:
        return sorted(str(path.relative_to(self.path)) for path in self.path.rglob("*") if path.is_file())

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        """Write as others do: beside its place, then renamed."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f"{path.name}~")
        beside.write_bytes(content)
        beside.replace(path)

    def remove(self, name: str) -> None:
        (self.path / name).unlink()


class BucketFolder:
    """A folder in a bucket, reached past the proxy."""

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        self.client, self.bucket, self.prefix = client, bucket, prefix

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"

    def __truediv__(self, name: str) -> "BucketFolder":
        return BucketFolder(self.client, self.bucket, f"{self.prefix}/{name}")

    def names(self) -> list[str]:
        return sorted(self._keys())

    def read(self, name: str) -> bytes:
        content: bytes = self.client.get_object(Bucket=self.bucket, Key=f"{self.prefix}/{name}")["Body"].read()
        return content

    def write(self, name: str, content: bytes) -> None:
        self.client.put_object(Bucket=self.bucket, Key=f"{self.prefix}/{name}", Body=content)

    def remove(self, name: str) -> None:
        self.client.delete_object(Bucket=self.bucket, Key=f"{self.prefix}/{name}")

    def leave_upload(self, name: str) -> None:
        """Begin a multipart upload of a file, bring one piece of it, and never end it."""
        key = f"{self.prefix}/{name}"
        upload = self.client.create_multipart_upload(Bucket=self.bucket, Key=key)["UploadId"]
        self.client.upload_part(Bucket=self.bucket, Key=key, UploadId=upload, PartNumber=1, Body=b"half" * 1000)

    def _keys(self) -> Iterator[str]:
        for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=f"{self.prefix}/"):
            yield from (found["Key"].removeprefix(f"{self.prefix}/") for found in page.get("Contents", ()))


def set_content(place: Place, *, sources: bool = True) -> dict[str, str]:
    """A digest of every file of a set; of its manifest without what may differ.

    Parts that were kept while files came to the corpus or left it name the files that there were: without
    ``sources`` these names are left out, and with them the digests that a manifest has of parts.
    """
    return {name: hashlib.sha256(_content(place, name, sources=sources)).hexdigest() for name in place.names()}


def differences(found: dict[str, str], expected: dict[str, str]) -> list[str]:
    """The files of a set that are missing, other ones, or too many parts; nothing of leftovers."""
    ours = {name for name in found if name in expected or name.startswith("part-")}
    return sorted(name for name in ours | expected.keys() if found.get(name) != expected.get(name))


def part_count(place: Place) -> int:
    """The parts in a folder and those below it."""
    return sum(is_part(name) for name in place.names())


def is_part(name: str) -> bool:
    """Whether a file is named like a part."""
    last = name.rpartition("/")[2]
    return last.startswith("part-") and last.endswith(".parquet")


def _content(place: Place, name: str, *, sources: bool) -> bytes:
    content = place.read(name)
    try:
        if name == _MANIFEST:
            return _without(content, *_VOLATILE, *(() if sources else ("parts",)))
        if is_part(name) and not sources:
            import pyarrow.parquet as pq

            header = pq.read_metadata(BytesIO(content)).metadata[b"bertfeat"]
            footer = int.from_bytes(content[-8:-4], "little")
            return content[: -8 - footer] + _without(header, "sources")
    except (ValueError, KeyError, OSError):
        pass  # it is damaged
    return content


def _without(content: bytes, *names: str) -> bytes:
    plain = json.loads(content)
    return json.dumps({name: value for name, value in plain.items() if name not in names}, sort_keys=True).encode()

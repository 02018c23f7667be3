"""Addresses of folders and files in object storage, such as ``s3://bucket/corpus.features``, usable like paths."""

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from bertfeat.errors import UsageError

SCHEMES = {"s3": "s3", "s3a": "s3", "gs": "gs", "az": "az", "abfs": "az", "abfss": "az", "memory": "memory"}
"""Schemes of addresses, and the kind of storage that each stands for; ``memory`` lives as long as the process."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_BUCKET = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._-]*(@[A-Za-z0-9.-]+)?")  # container@account of Azure
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """The address of a folder or file in a bucket, with the properties of ``pathlib.Path`` that bertfeat uses."""

    scheme: str
    bucket: str
    key: str = ""  # without slashes at its ends

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read ``s3://bucket/key``.

        Raises:
            UsageError: another scheme, no bucket, or a key with empty or relative steps or control characters.
        """
        scheme, _, rest = text.partition("://")
        bucket, _, key = rest.partition("/")
        kind = SCHEMES.get(scheme.lower())
        if kind is None:
            known = ", ".join(f"{name}://" for name in SCHEMES if name != "memory")
            raise UsageError(f"not storage that bertfeat knows; known are {known} and file://", where=text)
        key = key.strip("/")
        if not _BUCKET.fullmatch(bucket) or ("@" in bucket and kind != "az"):
            raise UsageError(
                f"an address is written {scheme}://bucket/folder, and this is no bucket's name", where=text
            )
        if any(step in ("", ".", "..") for step in key.split("/") if key) or _CONTROL.search(key):
            raise UsageError("an address has no empty steps, no . or .., and no control characters", where=text)
        return cls(kind, bucket, key)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.key}" if self.key else f"{self.scheme}://{self.bucket}"

    def __truediv__(self, name: "str | PurePosixPath") -> "Address":
        return Address(self.scheme, self.bucket, "/".join(filter(None, (self.key, str(name).strip("/")))))

    @property
    def name(self) -> str:
        """The last step, or the bucket."""
        return self.key.rpartition("/")[2] or self.bucket

    @property
    def suffix(self) -> str:
        """The ending of the name."""
        return PurePosixPath(self.name).suffix

    @property
    def stem(self) -> str:
        """The name without its ending."""
        return PurePosixPath(self.name).stem

    @property
    def parent(self) -> "Address":
        """The folder that it is in; the bucket is its own parent."""
        return Address(self.scheme, self.bucket, self.key.rpartition("/")[0])

    def with_name(self, name: str) -> "Address":
        """The address of another file of the same folder."""
        return self.parent / name

    def with_suffix(self, suffix: str) -> "Address":
        """The address with another ending."""
        return self.with_name(self.stem + suffix)

    def absolute(self) -> "Address":
        """The address itself: there are no relative ones."""
        return self

    resolve = absolute


Location = Path | Address
"""The place of a file or folder: on this machine, or in object storage."""


def is_address(text: object) -> bool:
    """Whether a value is an :class:`Address`, or a text with a scheme, such as ``s3://bucket/key``."""
    return isinstance(text, Address) or (isinstance(text, str) and _SCHEME.match(text) is not None)


def as_location(place: "str | Path | Address") -> Location:
    """A path, or an address where it is written like one; ``file://`` addresses become paths.

    Raises:
        UsageError: an address of unknown storage.
    """
    if not isinstance(place, str):
        return place
    if not is_address(place):
        return Path(place)
    if place[:7].lower() == "file://":
        split = urlsplit(place)
        if split.netloc not in ("", "localhost") or not split.path:
            raise UsageError("a file's address is written file:///folder/file", where=place)
        return Path(unquote(split.path))
    return Address.parse(place)

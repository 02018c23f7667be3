"""JSON files that bertfeat writes: whole or not at all, with their own digest and a format version.

The digest covers the file itself, so that a byte that changed later is noticed. The record of a result lists its other
files with their digests.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from bertfeat.errors import BertfeatError
from bertfeat.io.file_digests import FileDigest, find_difference
from bertfeat.io.json_codec import JsonError, canonical_json, encode_json, from_plain, load_json, to_plain
from bertfeat.io.storage import Location, create_file, read_file

T = TypeVar("T")
DIGEST = "digest"  # the key under which a file's own digest stands, last


@dataclass(frozen=True, slots=True)
class JsonFormat(Generic[T]):
    """One kind of JSON that bertfeat writes: its type and version, and the errors of those who read it."""

    kind: type[T]
    version: int  # that is written; newer ones are refused
    error: type[BertfeatError]  # of what cannot be read
    remedy: str | Callable[[], str]  # a function if it names parameters: they are spelled when the error is raised
    refusal: type[BertfeatError] | None = None  # for a newer version, or a file that cannot be opened
    subject: str = ""  # what cannot be read, where the file alone does not say it: "the header"

    def read(self, path: Location) -> T | None:
        """Read a file of this format; None where there is none.

        Raises:
            BertfeatError: it cannot be read, was changed after it was written, or is of a newer version.
            StorageError: object storage that cannot be reached.
        """
        try:
            return self.decode(read_file(path), path, own_digest=True)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._unreadable(error.strerror or error, path, self.refusal) from error

    def decode(self, text: bytes | str, where: object, *, own_digest: bool = False) -> T:
        """Decode JSON of this format; ``where`` is named in errors, which are those of :meth:`read`."""
        try:
            raw = load_json(text)
            if isinstance(raw, dict):
                self.refuse_newer(raw.get("format_version"), where)
                if own_digest:
                    _check_digest(raw)
            return from_plain(raw, self.kind)
        except JsonError as error:
            raise self._unreadable(error, where) from error

    def check_files(
        self, folder: Path, recorded: Mapping[str, FileDigest], problem: str, *, unread: Collection[str] = ()
    ) -> None:
        """Check that the files of a folder are those that its record lists: see :func:`find_difference`.

        Raises:
            BertfeatError: states the ``problem``, and the first file that differs.
        """
        if difference := find_difference(folder, recorded, unread=unread):
            raise self.error(f"{problem}: {difference}", where=folder, remedy=self._remedy())

    def refuse_newer(self, version: object, where: object) -> None:
        """Refuse a version that this bertfeat does not know yet, and what is no version at all."""
        if version is not None and type(version) is not int:
            raise self._unreadable(f"format_version is {version!r}, not a number", where)
        if isinstance(version, int) and version < 1:
            raise self._unreadable(f"format_version is {version}, and the first is 1", where)
        if isinstance(version, int) and version > self.version:
            raise (self.refusal or self.error)(
                f"written in format {version} by a newer bertfeat; this one reads formats up to {self.version}",
                where=where,
                remedy="upgrade bertfeat",
            )

    def _unreadable(self, reason: object, where: object, kind: type[BertfeatError] | None = None) -> BertfeatError:
        problem = f"{self.subject} cannot be read ({reason})".strip()
        return (kind or self.error)(problem, where=where, remedy=self._remedy())

    def _remedy(self) -> str:
        return self.remedy if isinstance(self.remedy, str) else self.remedy()


def write_json(path: Location, value: object) -> None:
    """Write a JSON object to a file, whole or not at all, with its own digest.

    Raises:
        StorageError: the folder cannot be written, or object storage not reached.
    """
    with create_file(path) as new:
        new.path.write_bytes(json_content(value))


def json_content(value: object) -> bytes:
    """The content of a file of a JSON object, with its own digest."""
    plain = to_plain(value)
    text = encode_json({**plain, DIGEST: _json_digest(plain)})
    # a lone surrogate has no UTF-8 form, but its backslash form is JSON
    return text.encode("utf-8", "backslashreplace")


def _check_digest(raw: dict[str, object]) -> None:
    digest = raw.pop(DIGEST, None)
    if digest is None:
        raise JsonError("its digest is missing: the file was changed after it was written")
    if digest != _json_digest(raw):
        raise JsonError("its digest does not hold: the file was changed after it was written")


def _json_digest(plain: object) -> str:
    """sha256 of the values in an order of their own, so that white space and the order of keys do not matter."""
    return hashlib.sha256(canonical_json(plain)).hexdigest()

"""JSON files of bertfeat: written whole or not at all, decoded strictly by type, with a digest and a format version.

The first half is the codec, dataclasses ⇄ JSON, that all of bertfeat uses. Each file contains its own digest, so that a
later change of any byte is noticed. The record of a result lists its other files with their digests. The parts of a
feature set contain theirs (:mod:`bertfeat.core.features.sealed_file`), because a run in a bucket uploads each part as
soon as it is made.
"""

import hashlib
import json
import os
import stat
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import msgspec
import xxhash
from msgspec import Meta

from bertfeat.errors import BertfeatError
from bertfeat.io.storage.address import Location
from bertfeat.io.storage.files import create_file, read_file
from bertfeat.io.storage.local import open_regular

T = TypeVar("T")
_DIGEST = "digest"  # the key under which a file's own digest stands, last
_analyzed_types: set[object] = set()  # types that msgspec has analyzed
_analysis_lock = threading.Lock()  # held while msgspec analyzes a type


class JsonError(ValueError):
    """A text that is not the expected JSON; the message says where and why, and the caller adds what to do."""


def decode_json(text: bytes | str, kind: type[T]) -> T:
    """Decode JSON as a dataclass (or another type), strictly: no string for a number, no number beyond its range.

    Fields that the type does not know are left out, so that files of later versions can be read.

    Raises:
        JsonError: not JSON, of other types, nested too deeply, or with NaN or numbers too large for a float.
    """
    return from_plain(_load_json(text), kind)


def encode_json(value: object) -> str:
    """Encode a dataclass (or mappings, enums, paths …) as indented JSON that ends with a newline."""
    return json.dumps(to_plain(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def canonical_json(value: object) -> bytes:
    """The JSON of a value in one form: equal values give equal bytes, whatever the order of their keys.

    It is ASCII: ids and values may hold lone surrogates, which have no UTF-8 form.
    """
    return json.dumps(to_plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def _load_json(text: bytes | str) -> object:
    """Parse JSON into dictionaries, lists, strings and numbers; errors as in :func:`decode_json`."""
    try:
        parsed: object = json.loads(text, parse_constant=_refuse_constant, parse_float=_parse_finite)
    except RecursionError:
        raise JsonError("nested too deeply") from None
    except ValueError as error:  # also for bytes that are not UTF-8, and for integers of thousands of digits
        raise JsonError(f"no JSON ({error})") from None
    return parsed


def from_plain(raw: object, kind: type[T]) -> T:
    """Build a dataclass (or another type) from parsed JSON; errors as in :func:`decode_json`."""
    try:
        return _convert_to_type(raw, kind)
    except (msgspec.ValidationError, BertfeatError) as error:  # settings check themselves when they are built
        raise JsonError(str(error).replace("`", "'")) from None
    except UnicodeEncodeError:  # where msgspec has to encode a string
        raise JsonError("half of a character (a lone surrogate) in the place of a value") from None
    except RecursionError:
        raise JsonError("nested too deeply") from None


def _convert_to_type(raw: object, kind: type[T]) -> T:
    if kind in _analyzed_types:
        return msgspec.convert(raw, kind, from_attributes=True)
    with _analysis_lock:  # msgspec 0.22 crashes the process if two threads have it analyze a type at the same time
        try:
            return msgspec.convert(raw, kind, from_attributes=True)
        finally:
            _analyzed_types.add(kind)


def to_plain(value: object) -> dict[str, object]:
    """A dataclass or mapping as JSON values: dictionaries, lists, strings and numbers."""
    plain: dict[str, object] = msgspec.to_builtins(value, enc_hook=str)
    return plain


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _parse_finite(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{digits} is beyond what a number holds")
    return value


# ── files with digests ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class FileDigest:
    """The size and digest of a file, as another file records them."""

    bytes: Annotated[int, Meta(ge=0, le=2**62)]
    xxh3: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]  # 128 bits, computed seven times as fast as sha256


@dataclass(frozen=True, slots=True)
class JsonFormat(Generic[T]):
    """One kind of JSON that bertfeat writes: its type and version, and the errors that reading it raises."""

    kind: type[T]
    version: int  # that is written; newer ones are refused
    error: type[BertfeatError]  # for content that cannot be read
    remedy: str | Callable[[], str]  # a function if it names parameters: they are spelled when the error is raised
    refusal: type[BertfeatError] | None = None  # for a newer version, or a file that cannot be opened
    subject: str = ""  # what cannot be read, in messages where the file's name does not say it: "the header"

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
            raw = _load_json(text)
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
        """Check that the files of a folder are those that its record lists; of those ``unread`` only the sizes.

        Raises:
            BertfeatError: states the ``problem``, and the first file that differs.
        """
        if difference := _find_difference(folder, recorded, unread):
            raise self.error(f"{problem}: {difference}", where=folder, remedy=self._remedy())

    def refuse_newer(self, version: object, where: object) -> None:
        """Refuse a version that this bertfeat does not know yet, and a value that is no version; None is accepted."""
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
    """The bytes of a file that holds a JSON object with its own digest."""
    plain = to_plain(value)
    text = encode_json({**plain, _DIGEST: _json_digest(plain)})
    # a lone surrogate has no UTF-8 form, but its backslash form is JSON
    return text.encode("utf-8", "backslashreplace")


def _check_digest(raw: dict[str, object]) -> None:
    digest = raw.pop(_DIGEST, None)
    if digest is None:
        raise JsonError("its digest is missing: the file was changed after it was written")
    if digest != _json_digest(raw):
        raise JsonError("its digest does not hold: the file was changed after it was written")


def _json_digest(plain: object) -> str:
    """sha256 of the values in canonical form, so that white space and the order of keys do not matter."""
    return hashlib.sha256(canonical_json(plain)).hexdigest()


def digest_file(path: Path) -> FileDigest:
    """The size and digest of a file.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    with open_regular(path) as file:
        digest = file_digest(file, xxhash.xxh3_128)
        return FileDigest(os.fstat(file.fileno()).st_size, digest.hexdigest())


def _find_difference(folder: Path, recorded: Mapping[str, FileDigest], unread: Collection[str]) -> str | None:
    """Describe the first file that differs from the recorded one; None if all agree."""
    for name, digest in recorded.items():
        path = folder / name
        try:
            status = path.stat()  # first, so that neither a pipe nor a huge file in its place is read
            if not stat.S_ISREG(status.st_mode):
                return f"{name} is not a regular file"
            if status.st_size != digest.bytes:
                sizes = f"{status.st_size:,} bytes, but {digest.bytes:,} were written"
                return f"{name} has {sizes}: it was cut off or replaced"
            if name not in unread and digest_file(path) != digest:
                return f"{name} was changed after it was written"
        except FileNotFoundError:
            return f"{name} is missing"
        except OSError as error:
            return f"{name} cannot be read ({error.strerror or error})"
    return None

"""JSON that we wrote, or that others did, decoded by type at the door: what comes in is what its dataclass says.

Files of our own carry a digest over themselves, so that a changed byte is told from a written one.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from bertfeat.errors import BertfeatError
from bertfeat.io.atomic import atomic
from bertfeat.io.regular import read_regular

T = TypeVar("T")
DIGEST = "digest"  # the key under which a file's own digest stands, last


class JsonError(ValueError):
    """A text that is not the JSON that was expected; the message says where and why, and the caller what to do."""


@dataclass(frozen=True, slots=True)
class _Version:
    format_version: int


def decode_json(text: bytes | str, kind: type[T]) -> T:
    """Decode JSON as a dataclass (or another type), strictly: no string for a number, no number beyond its range.

    Fields that the type does not know are left out, so that files of later versions can be read.

    Raises:
        BadJson: no JSON, of other types, nested too deeply, or with NaN or numbers that no float holds.
    """
    return _converted(_parsed(text), kind)


def encode_json(value: object) -> str:
    """Write a dataclass (mappings, enums, paths …) as indented JSON that ends with a newline."""
    return json.dumps(msgspec.to_builtins(value, enc_hook=str), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def read_version(path: Path) -> int:
    """Read the ``format_version`` of a JSON file, on which it depends how the rest is read.

    Raises:
        BadJson: see :func:`decode_json`.
        OSError: it cannot be read.
    """
    return decode_json(read_regular(path), _Version).format_version


def read_json(path: Path, kind: type[T], *, digest_from: int | None = None) -> T:
    """Read a JSON file as :func:`decode_json` does, and hold it against its own digest where it carries one.

    Format versions from ``digest_from`` on must carry one.

    Raises:
        BadJson: see :func:`decode_json`; or it was changed after it was written.
        OSError: it cannot be read.
    """
    raw = _parsed(read_regular(path))
    if isinstance(raw, dict):
        _check_digest(raw, digest_from)
    return _converted(raw, kind)


def write_json(path: Path, value: object) -> None:
    """Write a JSON object to a file, whole or not at all, with its own digest.

    Raises:
        StorageError: the folder cannot be written.
    """
    plain = msgspec.to_builtins(value, enc_hook=str)
    text = encode_json({**plain, DIGEST: _digest(plain)})
    with atomic(path) as temporary:
        # a lone surrogate has no UTF-8 form, but its backslash form is JSON
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def _parsed(text: bytes | str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except RecursionError:
        raise JsonError("nested too deeply") from None
    except ValueError as error:  # also of bytes that are no UTF-8, and of numbers of thousands of digits
        raise JsonError(f"no JSON ({error})") from None


def _converted(raw: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(raw, kind)
    except (msgspec.ValidationError, BertfeatError) as error:  # settings check themselves when they are built
        raise JsonError(str(error).replace("`", "'")) from None
    except UnicodeEncodeError:  # where msgspec looks into a string
        raise JsonError("half of a character (a lone surrogate) in the place of a value") from None
    except RecursionError:
        raise JsonError("nested too deeply") from None


def _check_digest(raw: dict[str, Any], digest_from: int | None) -> None:
    digest = raw.pop(DIGEST, None)
    version = raw.get("format_version", 0)
    if digest is None:
        if digest_from is None or not isinstance(version, int) or version < digest_from:
            return
        raise JsonError("its digest is missing: the file was changed after it was written")
    if digest != _digest(raw):
        raise JsonError("its digest does not hold: the file was changed after it was written")


def _digest(plain: Any) -> str:
    """sha256 of the values in an order of their own, so that white space and the order of keys do not matter."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _finite(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{digits} is beyond what a number holds")
    return value

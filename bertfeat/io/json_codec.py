"""Dataclasses ⇄ JSON, decoded strictly by type: the one codec of every file that bertfeat writes."""

import json
import threading
from typing import TypeVar

import msgspec

from bertfeat.errors import BertfeatError

T = TypeVar("T")


class JsonError(ValueError):
    """A text that is not the JSON that was expected; the message says where and why, and the caller what to do."""


def decode_json(text: bytes | str, kind: type[T]) -> T:
    """Decode JSON as a dataclass (or another type), strictly: no string for a number, no number beyond its range.

    Fields that the type does not know are left out, so that files of later versions can be read.

    Raises:
        JsonError: no JSON, of other types, nested too deeply, or with NaN or numbers that no float holds.
    """
    return from_plain(load_json(text), kind)


def encode_json(value: object) -> str:
    """Write a dataclass (mappings, enums, paths …) as indented JSON that ends with a newline."""
    return json.dumps(to_plain(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def canonical_json(value: object) -> bytes:
    """The JSON of a value in one form: equal values give equal bytes, whatever the order of their keys.

    It is ASCII: ids and values may hold lone surrogates, which have no UTF-8 form.
    """
    return json.dumps(to_plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def load_json(text: bytes | str) -> object:
    """Parse JSON into dictionaries, lists, strings and numbers.

    Raises:
        JsonError: no JSON, nested too deeply, or with NaN or numbers that no float holds.
    """
    try:
        parsed: object = json.loads(text, parse_constant=_refuse_constant, parse_float=_parse_finite)
    except RecursionError:
        raise JsonError("nested too deeply") from None
    except ValueError as error:  # also of bytes that are no UTF-8, and of numbers of thousands of digits
        raise JsonError(f"no JSON ({error})") from None
    return parsed


def from_plain(raw: object, kind: type[T]) -> T:
    """Build a dataclass (or another type) from parsed JSON; errors as in :func:`decode_json`."""
    try:
        return _build_known(raw, kind)
    except (msgspec.ValidationError, BertfeatError) as error:  # settings check themselves when they are built
        raise JsonError(str(error).replace("`", "'")) from None
    except UnicodeEncodeError:  # where msgspec looks into a string
        raise JsonError("half of a character (a lone surrogate) in the place of a value") from None
    except RecursionError:
        raise JsonError("nested too deeply") from None


_met: set[object] = set()  # types that msgspec has looked into
_meeting = threading.Lock()


def _build_known(raw: object, kind: type[T]) -> T:
    if kind in _met:
        return msgspec.convert(raw, kind, from_attributes=True)
    with _meeting:  # two threads that have msgspec look into a type at once crash the process (msgspec 0.22)
        try:
            return msgspec.convert(raw, kind, from_attributes=True)
        finally:
            _met.add(kind)


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

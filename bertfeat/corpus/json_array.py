"""The items of one array in a JSON object, one after the other, so that only one of them is held."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

_decode = json.JSONDecoder().raw_decode
_BLANKS = re.compile(r"[ \t\n\r]*")


class JsonArrayError(Exception):
    """A text is not JSON, or not an object with the array; says what, and where."""


@dataclass(frozen=True, slots=True)
class ArrayItem:
    """An item of an array, and where in the text it stands."""

    value: object
    begin: int
    end: int


def array_items(text: str, name: str, begin: int = 0) -> Iterator[ArrayItem]:
    """Read the items of the array ``name`` of an object, from the one that begins at ``begin`` on, or all.

    Raises:
        JsonArrayError: later, after the items before that place.
    """
    scan = _Scanner(text, begin)
    if begin == 0:
        _enter_array(scan, name)
    if begin or scan.peek() != "]":
        while True:
            scan.peek()
            first = scan.at
            yield ArrayItem(scan.take_value(), first, scan.at)
            if scan.take(",]") == "]":
                break
    else:
        scan.take("]")
    _leave_array(scan, name)


class _Scanner:
    """Goes through a JSON text, a value or a sign at a time."""

    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self.at = at

    def peek(self) -> str:
        """The next sign, to which it goes; nothing at the end."""
        blanks = _BLANKS.match(self._text, self.at)
        assert blanks is not None
        self.at = blanks.end()
        return self._text[self.at : self.at + 1]

    def take(self, signs: str) -> str:
        """Go past one of these signs."""
        sign = self.peek()
        if not sign or sign not in signs:
            raise self.error(f"{' or '.join(map(repr, signs))} expected")
        self.at += 1
        return sign

    def take_value(self) -> object:
        """Go past a value."""
        self.peek()
        try:
            value, self.at = _decode(self._text, self.at)
        except json.JSONDecodeError as error:
            self.at = error.pos
            raise self.error(error.msg) from None
        except RecursionError:
            raise self.error("nested too deeply") from None
        except ValueError:
            raise self.error("a huge number") from None
        return value

    def take_key(self) -> object:
        """Go past a key and its colon."""
        if self.peek() != '"':
            raise self.error("a key expected")
        key = self.take_value()
        self.take(":")
        return key

    def error(self, problem: str) -> JsonArrayError:
        """Return the error of a problem at this place, with its line and column."""
        line = self._text.count("\n", 0, self.at) + 1
        column = self.at - self._text.rfind("\n", 0, self.at)
        return JsonArrayError(f"{problem}, line {line}, column {column}")


def _enter_array(scan: _Scanner, name: str) -> None:
    """Go to the first item of the array."""
    if scan.peek() != "{":
        raise scan.error("an object expected")
    scan.take("{")
    if scan.peek() == "}":
        raise JsonArrayError(f'the object has no "{name}"')
    while scan.take_key() != name:
        scan.take_value()
        if scan.take(",}") == "}":
            raise JsonArrayError(f'the object has no "{name}"')
    if scan.peek() != "[":
        raise scan.error(f'"{name}" is not a list')
    scan.take("[")


def _leave_array(scan: _Scanner, name: str) -> None:
    """Go from the end of the array to the end of the text."""
    while scan.take(",}") == ",":
        if scan.take_key() == name:
            raise scan.error(f'a second "{name}"')
        scan.take_value()
    if scan.peek():
        raise scan.error("something follows the object")

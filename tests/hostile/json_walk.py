"""A JSON file with one value replaced, at every path of it, with its old digest or with a new one that holds."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertfeat.io import write_json

Place = tuple[str | int, ...]
_HERE = "\x01HERE\x01"
DEEP = 10_000


@dataclass(frozen=True, slots=True)
class Replacement:
    """What stands in the place of a value: JSON text, which need not be a value that Python can write."""

    name: str
    text: str

    @property
    def forgeable(self) -> bool:
        """Whether a digest over it can be computed."""
        return self.name in _FORGEABLE


WRONG = (
    Replacement("null", "null"),
    Replacement("true", "true"),
    Replacement("-1", "-1"),
    Replacement("1e308", "1e308"),
    Replacement("0.5", "0.5"),
    Replacement("2^63", str(2**63)),
    Replacement("x", '"x"'),
    Replacement("an empty text", '""'),
    Replacement("half a character", '"\\ud800"'),
    Replacement("a path", '"../../x/\\u0000\\n\\u001b[31m"'),
    Replacement("5,000 characters", json.dumps("y" * 5000)),
    Replacement("[]", "[]"),
    Replacement("{}", "{}"),
    Replacement("a list of lists", "[[[]]]"),
)
RAW = (
    Replacement("NaN", "NaN"),
    Replacement("1e999", "1e999"),
    Replacement("a number of 5,000 digits", "9" * 5000),
    Replacement(f"{DEEP:,} lists deep", "[" * DEEP + "]" * DEEP),
    Replacement(f"{DEEP:,} objects deep", '{"a":' * DEEP + "1" + "}" * DEEP),
    Replacement("no JSON", "@"),
)
_FORGEABLE = {each.name for each in WRONG}


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Every path in a JSON value; of a list only its first and last item."""
    yield at
    if isinstance(value, dict):
        for key, each in value.items():
            yield from places(each, (*at, key))
    elif isinstance(value, list):
        for number in sorted({0, len(value) - 1} if value else set()):
            yield from places(value[number], (*at, number))


def value_at(value: Any, place: Place) -> Any:
    """The value at a path."""
    for key in place:
        value = value[key]
    return value


def replaced(value: Any, place: Place, new: Any) -> Any:
    """A copy with another value at a path."""
    if not place:
        return new
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = replaced(value[place[0]], place[1:], new)
    return copy


def text_with(value: Any, place: Place, text: str) -> str:
    """JSON text with another text at a path."""
    return json.dumps(replaced(value, place, _HERE), indent=1).replace(json.dumps(_HERE), text)


def write_raw(path: Path, value: Any, place: Place, new: Replacement) -> None:
    """Change a file and leave its digest as it was."""
    path.write_text(text_with(value, place, new.text), "utf-8")


def write_forged(path: Path, value: Any, place: Place, new: Any) -> None:
    """Change a file and give it a digest that holds."""
    forged = replaced({key: each for key, each in value.items() if key != "digest"}, place, new)
    if isinstance(forged, dict):
        write_json(path, forged)
    else:
        path.write_text(json.dumps(forged), "utf-8")


def shown(place: Place) -> str:
    """A path as people read it."""
    return "/".join(map(str, place)) or "all of it"

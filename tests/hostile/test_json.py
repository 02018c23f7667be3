"""Every JSON file of ours, every value replaced, the digest stale or forged: refused, or nothing follows from it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.json_walk import (
    RAW,
    WRONG,
    Place,
    Replacement,
    places,
    shown,
    text_with,
    value_at,
    write_forged,
    write_raw,
)
from tests.hostile.judge import Rule
from tests.hostile.uses import BEGUN, CLASSIFY, CRF, FEATURES, FLAT, HNSW, KEPT, PLAIN, PROBE, TABLE, WORD
from tests.hostile.yard import Result, Tell, Use, Yard


@dataclass(frozen=True, slots=True)
class Target:
    """A JSON file, what reads it, and which of its values are only told, never used or derived.

    ``claimed`` is what nothing else says: another value that could be right is taken as it is.
    """

    path: str
    uses: Sequence[Use]
    told: tuple[str, ...] = ()  # patterns of paths
    claimed: tuple[str, ...] = ()  # patterns of paths
    digest: bool = True
    believed: bool = False  # a digest that holds is believed: who forges one has made a file of his own


_HEADS = {"plain.tagger": PLAIN, "crf.tagger": CRF, "classify.head": CLASSIFY}
TARGETS = (
    Target(
        "docs.features/.bertfeat/manifest.json",
        FEATURES,
        ("run", "sources*", "times*", "versions*"),
        ("format_version",),
    ),
    # verify of an index is its digests and its opening: with a digest that holds every value is taken as it is
    *(
        Target(f"{name}.index/.bertfeat/index.json", uses, ("*",))
        for name, uses in (("flat", FLAT), ("hnsw", HNSW), ("word", WORD), ("kept", KEPT))
    ),
    *(Target(f"{name}/head.json", uses, believed=True) for name, uses in _HEADS.items()),
    Target("begun.tagger/checkpoint.json", BEGUN, believed=True),
    *(
        Target(f"paper.table7/{name}.json", TABLE, believed=True)
        for name in ("_settings", "runs/last/seed-1", "table7")
    ),
    Target("probe.json", PROBE, digest=False),
)
FORGED = [target for target in TARGETS if target.digest and not target.believed]
EACH = 2  # uses beside verify


def _id(target: Target) -> str:
    return target.path.replace("/", "|")


@pytest.mark.hostile
@pytest.mark.parametrize("new", [*WRONG, *RAW], ids=lambda new: new.name)
@pytest.mark.parametrize("target", TARGETS, ids=_id)
def test_a_digest_tells_every_change(yard: Yard, tell: Tell, target: Target, new: Replacement) -> None:
    value = json.loads((yard.world / target.path).read_text("utf-8"))
    tell(result for place in places(value) for result in _raw(yard, target, value, place, new))


@pytest.mark.hostile
@pytest.mark.parametrize("new", WRONG, ids=lambda new: new.name)
@pytest.mark.parametrize("target", FORGED, ids=_id)
def test_wrong_types_with_a_digest_that_holds(yard: Yard, tell: Tell, target: Target, new: Replacement) -> None:
    value = json.loads((yard.world / target.path).read_text("utf-8"))
    found = [place for place in places(value) if place != ("digest",)]
    tell(result for place in found for result in _forged(yard, target, value, place, json.loads(new.text), new.name))


@pytest.mark.hostile
@pytest.mark.parametrize("target", FORGED, ids=_id)
def test_false_values_with_a_digest_that_holds(yard: Yard, tell: Tell, target: Target) -> None:
    """Counts off by one, texts with another last letter, lists that lack their last item.

    An object with a key more is of a later version, and one without its last key may take the default.
    """
    value = json.loads((yard.world / target.path).read_text("utf-8"))
    target = replace(target, told=(*target.told, *target.claimed))
    pairs = [(place, new) for place in places(value) for new in _near(value_at(value, place)) if place != ("digest",)]
    tell(
        result
        for place, new in pairs
        for result in _forged(
            yard, replace(target, told=("*",)) if isinstance(new, dict) else target, value, place, new, _short(new)
        )
    )


@pytest.mark.parametrize("number", range(0, 260, 13))
def test_some_values(yard: Yard, tell: Tell, number: int) -> None:
    target = TARGETS[number % (len(TARGETS) - 1)]
    value = json.loads((yard.world / target.path).read_text("utf-8"))
    found = [place for place in places(value) if place != ("digest",)]
    place, new = found[number % len(found)], WRONG[number % len(WRONG)]
    tell(_raw(yard, target, value, place, new))
    if target in FORGED:
        tell(_forged(yard, target, value, place, json.loads(new.text), new.name))


def _near(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1]
    if isinstance(value, float):
        return [value * 0.5 + 0.125]
    if isinstance(value, str) and value:
        return [value[:-1] + ("a" if value[-1] != "a" else "b")]
    if isinstance(value, list) and value:
        return [value[:-1], [*value, value[-1]], value[::-1]] if len(value) > 1 else [[], value * 2]
    if isinstance(value, dict) and value:
        return [dict(list(value.items())[:-1]), {**value, "strange": 1}]
    return []


def _short(new: Any) -> str:
    text = json.dumps(new)
    return text if len(text) < 40 else f"{text[:30]}… ({len(text)} characters)"


def _raw(yard: Yard, target: Target, value: Any, place: Place, new: Replacement) -> Iterator[Result]:
    if text_with(value, place, new.text) == json.dumps(value, indent=1):
        return
    case = f"{target.path}: {shown(place)} is {new.name}, digest stale"
    for use in _chosen(target, case, 1):
        result = yard.run(
            use,
            case,
            f"JSON: {target.path}",
            prepare=lambda at: write_raw(at / target.path, value, place, new),
            rule=_rule(target),
        )
        if target.digest and result.told.code == 0 and use.verb == "verify":
            yield result.but("is not told by verify")
        elif (
            target.digest and result.told.code == 0 and result.told.but(target.path) != yard.sound(use).but(target.path)
        ):
            yield result.but("gives another result")
        else:
            yield result


def _forged(yard: Yard, target: Target, value: Any, place: Place, new: Any, name: str) -> Iterator[Result]:
    if value_at(value, place) == new and type(value_at(value, place)) is type(new):
        return
    case = f"{target.path}: {shown(place)} is {name}, digest forged"
    free = any(fnmatch(shown(place), pattern) for pattern in target.told)
    has_verify = any(use.verb == "verify" for use in target.uses)
    told = False
    for use in _chosen(target, case, EACH):
        result = yard.run(
            use,
            case,
            f"JSON: {target.path}",
            prepare=lambda at: write_forged(at / target.path, value, place, new),
            rule=_rule(target),
        )
        told |= result.told.code != 0
        if use.verb == "verify" and result.told.code == 0 and not free:
            yield result.but("is not told by verify")
        elif (
            not has_verify
            and not free
            and result.told.code == 0
            and result.told.but(target.path) != yard.sound(use).but(target.path)
        ):
            yield result.but("gives another result, and no verify tells it")
        else:
            yield result


def _chosen(target: Target, case: str, each: int) -> list[Use]:
    checks = [use for use in target.uses if use.verb == "verify"][:1]
    others = [use for use in target.uses if use.verb != "verify"]
    start = sum(map(ord, case))
    return [*checks, *(others[(start + at) % len(others)] for at in range(min(each, len(others))))]


def _rule(target: Target) -> Rule:
    return Rule(names=(target.path.partition("/")[0], Path(target.path).name))

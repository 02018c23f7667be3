"""Standard streams that are closed, full, broken or no streams, for every verb."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.hostile.judge import Rule
from tests.hostile.process import BROKEN, CLOSED, Command, words
from tests.hostile.verbs import BASES
from tests.hostile.yard import Result, Tell, Use, Yard

_ANY = (0, 1, 2, 120)  # 120: the interpreter could not write what was left
STREAMS: dict[str, tuple[dict[str, str], tuple[int, ...]]] = {
    "closed stdin": ({"stdin": CLOSED}, (0,)),
    "closed stdout": ({"stdout": CLOSED}, (1,)),
    "closed stderr": ({"stderr": CLOSED}, (0,)),
    "everything closed": ({"stdin": CLOSED, "stdout": CLOSED, "stderr": CLOSED}, (1,)),
    "stdin and stdout closed": ({"stdin": CLOSED, "stdout": CLOSED}, (1,)),
    "stdout and stderr closed": ({"stdout": CLOSED, "stderr": CLOSED}, (1,)),
    "full stdout": ({"stdout": "/dev/full"}, (0, 1)),
    "full stderr": ({"stderr": "/dev/full"}, _ANY),
    "broken stdout": ({"stdout": BROKEN}, (0, 141)),
    "broken stderr": ({"stderr": BROKEN}, (*_ANY, 141)),
}

READERS = {
    "extract": Use(
        "extract -",
        Command(words("extract - -o out.features --model model --device cpu --precision fp32")),
        ("model",),
        ("out.features",),
    ),
    "search": Use("search -", Command(words("search flat.index --queries - --model model")), ("flat.index", "model")),
    "index": Use("index -", Command(words("index -o flat.index --remove -")), ("flat.index",), ("flat.index",)),
    "tag predict": Use(
        "predict -", Command(words("tag predict plain.tagger - --model model")), ("plain.tagger", "model")
    ),
    "tag evaluate": Use(
        "evaluate -",
        Command(words("tag evaluate plain.tagger - --model model --format conll")),
        ("plain.tagger", "model"),
    ),
    "predictions": Use("predictions -", Command(words("tag evaluate --predictions -")), ()),
}
"""Verbs that read standard input."""
INPUTS = {
    "closed": (CLOSED, (1, 2)),
    "empty": ("/dev/null", (0, 1, 2)),
    "no text": ("noise", (0, 1, 2, 3)),
    "one long line": ("line", (0, 1, 2, 3)),
    "an index": ("flat.index/version-1/index.faiss", (0, 1, 2, 3)),
}


@pytest.mark.sampled(0, 14)
@pytest.mark.parametrize("verb", BASES)
def test_streams(yard: Yard, tell: Tell, verb: str, request: pytest.FixtureRequest) -> None:
    whole = "hostile or" in request.config.getoption("-m")  # make hostile
    names = list(STREAMS) if whole else list(STREAMS)[sum(map(ord, verb)) % 3 :: 4]
    tell(_streams(yard, BASES[verb], name) for name in names)


@pytest.mark.hostile
@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("verb", READERS)
def test_what_comes_in(yard: Yard, tell: Tell, verb: str, name: str) -> None:
    stream, codes = INPUTS[name]
    use = READERS[verb]
    use = replace(use, command=replace(use.command, stdin=stream), needs=(*use.needs, "flat.index"))

    def prepare(place: object) -> None:
        (yard.place / "noise").write_bytes(bytes(range(256)) * 300)
        (yard.place / "line").write_bytes(b"ab " * 200_000)

    tell([yard.run(use, f"{use.name}: {name} comes in", "stdin", prepare=prepare, rule=Rule(codes=codes))])


def _streams(yard: Yard, use: Use, name: str) -> Result:
    streams, codes = STREAMS[name]
    use = replace(use, command=replace(use.command, **streams))  # type: ignore[arg-type]
    result = yard.run(use, f"{use.name}: {name}", "streams", rule=Rule(codes=codes))
    return replace(result, problems=tuple(_heard(result, name)))


def _heard(result: Result, name: str) -> Iterator[str]:
    """Problems but for silence where nothing can be said."""
    for problem in result.problems:
        if not (problem == "says 0 errors" and ("stderr" in name or "everything" in name)):
            yield problem

"""Commands that write, killed before a step of theirs in the file system: the same command again does it all."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.hostile.judge import Rule
from tests.hostile.process import Command, words
from tests.hostile.snapshot import Snapshot, contents, snapshot
from tests.hostile.uses import FLAT, HNSW, KEPT, WORD
from tests.hostile.verbs import BASES
from tests.hostile.world import HEADS
from tests.hostile.yard import Result, Tell, Use, Yard

KILLS = 16  # of each command
EVERY = 1000  # more than there are steps: of a command with a moment between two moves


def _writer(name: str, arguments: str, needs: str, writes: str) -> Use:
    return Use(name, Command(words(arguments)), tuple(needs.split()), tuple(writes.split()))


_TINY = "--model model --device cpu --precision fp32"
_SETS = "--train train.features --dev dev.features"
_EXTRACT = f"extract docs.jsonl {_TINY} --pooling mean,word --part-rows 6 --allow-failures"
WRITERS = (
    _writer("extract", f"{_EXTRACT} -o out.features", "docs.jsonl model", "out.features"),
    _writer(
        "extract again", f"{_EXTRACT} -o docs.features --overwrite", "docs.jsonl model docs.features", "docs.features"
    ),
    _writer("extract, joined", f"{_EXTRACT} -o out.features --join", "docs.jsonl model", "out.features"),
    _writer("index", "index many.features -o out.index --type flat --no-evaluate", "many.features", "out.index"),
    _writer(
        "index again",
        "index over.features -o flat.index --type flat --no-evaluate --overwrite",
        "over.features flat.index",
        "flat.index",
    ),
    _writer(
        "index of words",
        "index docs.features -o out.index --column last_word --type flat --no-evaluate",
        "docs.features",
        "out.index",
    ),
    *(
        use
        for use in (*FLAT, *HNSW, *WORD, *KEPT)
        if use.name in ("update flat", "remove flat", "remove hnsw", "update word", "update kept")
    ),
    _writer("export npy", "export docs.features --to npy --column last_mean -o out.npy", "docs.features", "out.*"),
    _writer(
        "export again",
        "export docs.features --to jsonl --column last_mean -o plain.txt --overwrite",
        "docs.features plain.txt",
        "plain.txt",
    ),
    BASES["contexts"],
    _writer("export saelens", "export ids.features --to saelens -o out.saelens", "ids.features", "out.saelens"),
    _writer(
        "export saelens again",
        "export ids.features --to saelens --column mlp:2 -o rows.saelens --overwrite",
        "ids.features rows.saelens",
        "rows.saelens",
    ),
    _writer(
        "train",
        f"tag train {_SETS} -o out.tagger --layers last --hidden 4 --epochs 3",
        "train.features dev.features",
        "out.tagger",
    ),
    _writer(
        "train of corpora",
        f"tag train --train train.conll --dev dev.conll -o out.tagger --layers last --hidden 4 --epochs 1 {_TINY}",
        "train.conll dev.conll model",
        "out.tagger",
    ),
    _writer(
        "table7",
        f"tag table7 {_SETS} -o out.table7 --rows last,mix=4..5 --seeds 1 --hidden 4 --epochs 1",
        "train.features dev.features",
        "out.table7",
    ),
    *(
        replace(use, writes=(*use.writes, "*.features"))
        for use in (BASES[f"{kind} {verb}"] for kind in HEADS for verb in ("train", "table7"))
    ),
    _writer(
        "pretrain",
        "pretrain plain.txt -o out.model --model model --device cpu --max-length 16 --batch-size 2 --steps 2 "
        "--held-out 0 --checkpoint-minutes 0",
        "plain.txt model",
        "out.model",
    ),
    BASES["pretrain from scratch"],
    _writer(
        "predict",
        "tag predict plain.tagger plain.txt --model model -o out.conll",
        "plain.tagger plain.txt model",
        "out.conll",
    ),
    _writer("map", "plot map docs.features --column last_mean -o out.png", "docs.features", "out.*"),
    _writer("page", "plot map docs.features --column last_mean -o out.html", "docs.features", "out.*"),
)
"""Commands with their outputs; where these are there already, something else was in them."""
REFUSING = ("export npy", "export saelens", "contexts")
"""Those that refuse what is there, also if they had just put it there when they were killed."""


@pytest.mark.hostile
@pytest.mark.parametrize("use", WRITERS, ids=lambda use: use.name)
def test_killed_and_started_again(yard: Yard, tell: Tell, use: Use) -> None:
    tell(_killed(yard, use, EVERY if use.name == "export saelens again" else KILLS))


@pytest.mark.parametrize("use", WRITERS[::4], ids=lambda use: use.name)
def test_some_kills(yard: Yard, tell: Tell, use: Use) -> None:
    tell(_killed(yard, use, 2))


def _killed(yard: Yard, use: Use, kills: int) -> Iterator[Result]:
    counted = yard.run(_at_step(use, 0), "undisturbed", "kill")
    assert counted.told.code == 0, counted
    steps, whole, names = counted.ended.steps, _written(yard, use), _names(yard)
    beside = tuple(f".{name}*" for name in use.writes)  # what is not finished has a name of its own
    yard.run(use, "undisturbed", "kill")
    pictures = {name for name in whole if name.endswith(".png")} if _written(yard, use) != whole else set()
    for number in sorted({1 + at * (steps - 1) // max(1, kills - 1) for at in range(kills)}):
        case = f"{use.name} killed before step {number} of {steps}"
        first = yard.run(_at_step(use, number), case, "kill", rule=Rule(codes=(-9,), writes=beside))
        killed = [problem for problem in first.problems if not problem.startswith(("dies of SIGKILL", "fails, and"))]
        lost = _lost(yard, use)
        done = use.name in REFUSING and _written(yard, use) == whole
        again = yard.again(use, case, "kill", Rule(codes=(1,) if done else (0,), writes=beside))
        left = sorted(
            name for name, kind in _written(yard, use).items() if whole.get(name) != kind and name not in pictures
        )
        gone = sorted(set(whole) - set(_written(yard, use)))
        differ = [f"differs in {', '.join([*left, *gone][:4])}"] if left or gone else []
        differ += [f"leaves {name}" for name in sorted(_names(yard) - names)]
        yield replace(again, problems=(*killed, *lost, *again.problems, *differ))


def _at_step(use: Use, step: int) -> Use:
    return replace(use, command=replace(use.command, step=step))


_OFTEN = re.compile(r'"updates": \d+|(?<=version-)\d+')
"""How often an index was changed: after its last step a killed update has been made, and is made once more."""


def _written(yard: Yard, use: Use) -> Snapshot:
    """What a use wrote, however often an index was changed."""
    found = contents(yard.place, use.writes, pictures=True)
    return {_OFTEN.sub("", name): _OFTEN.sub("", kind) for name, kind in found.items()}


def _names(yard: Yard) -> set[str]:
    """All names in the place, however often an index was changed."""
    return {_OFTEN.sub("", name) for name in snapshot(yard.place)}


def _goes_back(place: Path, name: str) -> bool:
    """Whether a folder waits beside its place, which the next writer gives back to it."""
    return any(place.glob(f".{name}.*.tmp/former"))


def _lost(yard: Yard, use: Use) -> Iterator[str]:
    """What was there before is there, or its successor: an index answers, a file is the old or the new one."""
    for name in use.needs:
        if name in use.writes and name.endswith(".index"):
            found = yard.again(Use("check", Command(words("verify", (name,))), ()), "", "")
            yield from (
                f"afterwards verify says: {found.ended.stderr.strip()}"
                for _ in found.problems or ([1] if found.told.code else [])
            )
        elif name in use.writes and not (yard.place / name).exists() and not _goes_back(yard.place, name):
            yield f"{name} is gone"
        elif name not in use.writes and snapshot(yard.world / name) != snapshot(yard.place / name):
            yield f"{name} is changed"

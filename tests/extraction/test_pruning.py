"""``extract --prune``, killed at its steps in the file system, and started twice: only what was asked to go goes."""

import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.runs import contents, lines, text_file
from tests.support.steps import Ended, Stop, preload, start, steps
from tests.support.tiny_models import Tiny
from tests.support.ways import options

preload("bertfeat.core.extraction", "bertfeat.scale", "bertfeat.core.features", "bertfeat.cli.extract")
preload("bertfeat.core.encoder.packed")

ROWS = 6  # of a part
WHOLE = lines(29)
CORPORA: dict[str, list[str]] = {
    "its end cut off": WHOLE[:15],
    "of all rows two left": WHOLE[14:16],
    "the middle gone, and more at the end": [*WHOLE[:12], *WHOLE[18:], *lines(9, 100)],
}
JOIN = ("--join", "--lease", "1")


@pytest.fixture(scope="module")
def old(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished set of the whole corpus, with a file of somebody else's."""
    place = tmp_path_factory.mktemp("old")
    text_file(place / "c.txt", WHOLE)
    assert run(command(tiny("bert")), place).exit_code == 0
    (place / "out" / "notes.txt").write_text("mine")
    return place


def fresh(old: Path, place: Path, name: str) -> Path:
    """A copy of it whose corpus has become another one."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(old, place)
    text_file(place / "c.txt", CORPORA[name])
    return place


def command(bert: Tiny, *more: str) -> list[str]:
    return ["extract", "c.txt", "-o", "out", *options(bert), "--part-rows", str(ROWS), "--prune", *more]


def run(arguments: list[str], place: Path) -> Ended:
    with start(arguments, [place / "out"], cwd=place) as running:
        return running.wait()


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize(
    ("name", "way"), [*((name, ()) for name in CORPORA), ("of all rows two left", JOIN)], ids=lambda each: "".join(each)
)
def test_killed_and_started_again_it_ends_as_if_undisturbed(
    bert: Tiny, old: Path, tmp_path: Path, name: str, way: tuple[str, ...]
) -> None:
    arguments, place = command(bert, *way), fresh(old, tmp_path / "place", name)
    before = contents(place / "out")
    events = steps(arguments, [place / "out"], cwd=place)
    whole = contents(place / "out")
    shutil.rmtree(place / "out")
    assert run(command(bert), place).exit_code == 0
    assert whole == contents(place / "out") | {"notes.txt": before["notes.txt"]}
    to_stay = {each: before[each] for each in whole if whole[each] == before.get(each)}
    tried = [at for at, event in enumerate(events, 1) if is_removal(event)]
    if not way:  # joined, the number of later steps differs from run to run
        tried += [tried[-1] + 1, (tried[-1] + len(events)) // 2, len(events)]
    for step in tried:
        fresh(old, place, name)
        with start(arguments, [place / "out"], stop=Stop(step, signal.SIGKILL), cwd=place) as killed:
            assert killed.wait().exit_code == -signal.SIGKILL
        assert contents(place / "out").items() >= to_stay.items(), events[step - 1]
        again = run(arguments, place)
        assert (again.exit_code, "Traceback" in again.stderr) == (0, False), (events[step - 1], again.stderr)
        assert contents(place / "out") == whole, events[step - 1]


def is_removal(event: str) -> bool:
    return event.startswith("os.remove") and event.endswith((".parquet", "manifest.json"))


@pytest.mark.slow
@pytest.mark.parametrize("way", [(), JOIN], ids=["alone", "joined"])
def test_of_two_at_once_one_prunes(bert: Tiny, old: Path, tmp_path: Path, way: tuple[str, ...]) -> None:
    arguments, place = command(bert, *way), fresh(old, tmp_path / "place", "its end cut off")
    events = steps(arguments, [place / "out"], cwd=place)
    whole = contents(place / "out")
    for step in [at for at, event in enumerate(events, 1) if is_removal(event)][1::2]:
        fresh(old, place, "its end cut off")
        with start(arguments, [place / "out"], stop=Stop(step, signal.SIGSTOP), cwd=place) as first:
            assert first.wait_until_stopped()
            there = contents(place / "out")
            with start(arguments, [place / "out"], cwd=place) as second:
                if way:  # which waits for the lock
                    time.sleep(1)
                    first.go_on()
                ended = second.wait()
            if not way:
                assert ended.exit_code == 1
                assert "another run is at work on it" in ended.stderr
                assert contents(place / "out") == there
                first.go_on()
            else:
                assert ended.exit_code == 0, ended.stderr
            assert first.wait().exit_code == 0
        assert contents(place / "out") == whole

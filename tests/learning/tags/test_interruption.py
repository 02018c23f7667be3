"""``bertfeat tag train`` and ``table7``, killed, stopped, started twice or out of space at any of their steps.

By default some steps are tried; with BERTFEAT_TEST_STEPS=1 every one (it takes hours), with 5 every fifth.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.support.steps import Ended, Stop, preload, start, steps
from tests.support.tagging_toy import sentences, write_conll
from tests.support.timeless import timeless_table
from tests.support.tiny_models import Tiny

preload("bertfeat.cli.learning", "bertfeat.core.extraction", "bertfeat.plots", "bertfeat.learning.table7.training")
preload("matplotlib.backends.backend_agg", "matplotlib.figure", "torch._dynamo", "transformers.models.auto")

pytestmark = pytest.mark.slow

EVERY = int(os.environ.get("BERTFEAT_TEST_STEPS", "0"))
SOME = 3  # steps that are tried otherwise
TIMES = ("seconds", "digest")  # how long an epoch took, and the digest of a file that says so
QUICK = ("--hidden", "4", "--epochs", "2", "--batch-size", "8", "--learning-rate", "0.01", "--precision", "fp32")
SETS = ("--train", "train.conll", "--dev", "dev.conll", "--model", "model", "--device", "cpu", "-o", "made")
COMMANDS = {
    "train": ("tag", "train", *SETS, *QUICK),
    "table7": ("tag", "table7", *SETS, *QUICK, "--test", "test.conll", "--rows", "last,concat4", "--seeds", "1"),
}


def one_thread() -> None:
    """In each process: what runs beside others does not wait for them."""
    import torch

    torch.set_num_threads(1)


PREPARE = f"{__name__}:one_thread"


@pytest.fixture(scope="module")
def corpora(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("corpora")
    for number, name in ((40, "train"), (20, "dev"), (12, "test")):
        write_conll(home / f"{name}.conll", sentences(number, number + len(name)))
    (home / "model").symlink_to(tiny("bert").folder)
    return home


@pytest.fixture(params=COMMANDS)
def verb(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def undisturbed(corpora: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, str]]:
    """What a command leaves that nobody disturbs."""
    known: dict[str, dict[str, str]] = {}

    def made(verb: str) -> dict[str, str]:
        if verb not in known:
            place = fresh(corpora, tmp_path_factory.mktemp("whole") / "place")
            ended = run(verb, place)
            assert ended.exit_code == 0, ended.stderr
            known[verb] = contents(place)
        return known[verb]

    return made


def fresh(corpora: Path, place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    return shutil.copytree(corpora, place, symlinks=True)


def run(verb: str, place: Path) -> Ended:
    with start(COMMANDS[verb], [place], cwd=place, prepare=PREPARE) as running:
        return running.wait()


def contents(place: Path) -> dict[str, str]:
    """A digest of every file; times are left out, and what only holds some."""
    found = {}
    for path in sorted(place.rglob("*")):
        if path.is_file() and path.name != "manifest.json":
            data = path.read_bytes()
            if path.suffix == ".json" and "model" not in path.relative_to(place).parts:
                data = json.dumps(timeless(json.loads(data))).encode()
            if path.name == "table7.md":
                data = timeless_table(data.decode()).encode()
            found[str(path.relative_to(place))] = sha256(data).hexdigest()
    return found


def timeless(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: timeless(each) for key, each in value.items() if key not in TIMES}
    return [timeless(each) for each in value] if isinstance(value, list) else value


def tried(verb: str, corpora: Path, work: Path) -> range:
    """The steps of a command that are tried."""
    place = fresh(corpora, work / "counted")
    count = len(steps(COMMANDS[verb], [place], cwd=place, prepare=PREPARE))
    assert count > 100
    every = EVERY or count // SOME
    return range(1 + count % every, count + 1, every)


# ── killed ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(0, 1)
def test_killed_and_started_again_it_ends_as_if_undisturbed(
    corpora: Path, undisturbed: Callable[[str], dict[str, str]], tmp_path: Path, verb: str
) -> None:
    for step in tried(verb, corpora, tmp_path):
        place = fresh(corpora, tmp_path / "killed")
        stop = Stop(step, signal.SIGKILL)
        with start(COMMANDS[verb], [place], stop=stop, cwd=place, prepare=PREPARE) as running:
            assert running.wait().exit_code == -signal.SIGKILL, step
        again = run(verb, place)
        assert (again.exit_code, "Traceback" in again.stderr) == (0, False), (step, again.stderr)
        assert contents(place) == undisturbed(verb), step


# ── beside another run ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(0, 1)
def test_while_one_is_stopped_at_a_step_another_is_told_or_does_it_all(
    corpora: Path, undisturbed: Callable[[str], dict[str, str]], tmp_path: Path, verb: str
) -> None:
    seconds = []
    for step in tried(verb, corpora, tmp_path):
        place = fresh(corpora, tmp_path / "stopped")
        stop = Stop(step, signal.SIGSTOP)
        with start(COMMANDS[verb], [place], stop=stop, cwd=place, prepare=PREPARE) as first:
            assert first.wait_until_stopped()
            second = run(verb, place)
            first.go_on()
            ended = [second, first.wait()]
        check_both(ended, step)
        seconds.append(second.exit_code)
        assert contents(place) == undisturbed(verb), step
    assert 1 in seconds


@pytest.mark.sampled(0, 2)
@pytest.mark.parametrize("delay", [0, 50, 200])
def test_of_two_starts_one_does_it_and_one_is_told(
    corpora: Path, undisturbed: Callable[[str], dict[str, str]], tmp_path: Path, verb: str, delay: int
) -> None:
    place = fresh(corpora, tmp_path / "place")
    with start(COMMANDS[verb], [place], cwd=place, prepare=PREPARE) as first:
        time.sleep(delay / 1000)
        with start(COMMANDS[verb], [place], cwd=place, prepare=PREPARE) as second:
            check_both([first.wait(), second.wait()], delay)
    assert contents(place) == undisturbed(verb)


def check_both(ended: list[Ended], where: object) -> None:
    """One run at least did it; one that did not was told why."""
    codes = {each.exit_code for each in ended}
    assert 0 in codes, (where, [each.stderr for each in ended])
    assert codes <= {0, 1}, (where, [each.stderr for each in ended])
    for each in ended:
        assert "Traceback" not in each.stderr
        assert each.exit_code == 0 or "another run is at work on it" in each.stderr, (where, each.stderr)


# ── disks ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a small disk needs root")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def sizes(least: int, most: int) -> range:
    return range(least, most, max(4, (most - least) // (200 if EVERY == 1 else SOME)) // 4 * 4)


@pytest.mark.sampled(0, 1)
def test_a_disk_that_is_full_at_any_step(
    corpora: Path, undisturbed: Callable[[str], dict[str, str]], small_disk: Path, verb: str
) -> None:
    """It ends with a sentence; with more room, it ends as if undisturbed."""
    place = small_disk / "place"
    corpus = sum(path.stat().st_size for path in corpora.iterdir() if path.is_file()) // 1024
    remount(small_disk, 4096)
    fresh(corpora, place)
    assert run(verb, place).exit_code == 0
    most = shutil.disk_usage(small_disk).used // 1024
    codes = set()
    for size in sizes(corpus + 16, most + 8):
        remount(small_disk, 4096)
        fresh(corpora, place)
        remount(small_disk, size)
        full = run(verb, place)
        codes.add(full.exit_code)
        assert full.exit_code in (0, 1), (size, full.stderr)
        assert "Traceback" not in full.stderr, (size, full.stderr)
        assert full.exit_code == 0 or "No space left on device; free some space" in full.stderr, (size, full.stderr)
        remount(small_disk, 4096)
        again = run(verb, place)
        assert again.exit_code == 0, (size, again.stderr)
        assert contents(place) == undisturbed(verb), size
    assert 1 in codes


def remount(disk: Path, size: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}k", str(disk)], check=True)


def test_a_folder_that_cannot_be_written(corpora: Path, small_disk: Path, verb: str) -> None:
    place = fresh(corpora, small_disk / "place")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    ended = run(verb, place)
    assert (ended.exit_code, "Traceback" in ended.stderr) == (1, False)
    assert "Read-only file system; choose another folder" in ended.stderr


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("kind", ["features", "another result"])
def test_a_folder_with_results_of_another_kind(corpora: Path, tmp_path: Path, verb: str, kind: str) -> None:
    place = fresh(corpora, tmp_path / "place")
    other = "table7" if verb == "train" else "train"
    assert run("train" if kind == "features" else other, place).exit_code == 0
    if kind == "features":
        shutil.move(place / "made/features/train.features", place / "features")
        shutil.rmtree(place / "made")
        shutil.move(place / "features", place / "made")
    before = contents(place)
    ended = run(verb, place)
    assert ended.exit_code == 1
    assert "made holds a" in ended.stderr
    assert contents(place).items() >= {name: each for name, each in before.items() if name.startswith("made")}.items()


@pytest.mark.hostile
def test_features_that_change_meanwhile_are_told(corpora: Path, tmp_path: Path) -> None:
    """A training goes on from features that another run has replaced since it began: told, and nothing mixed."""
    place = fresh(corpora, tmp_path / "place")
    assert run("train", place).exit_code == 0
    shutil.rmtree(place / "made")
    names = steps(COMMANDS["train"], [place / "made"], cwd=place, prepare=PREPARE)
    after_first_epoch = 1 + next(at for at, name in enumerate(names) if "checkpoint-1" in name)
    shutil.rmtree(place / "made")
    stop = Stop(after_first_epoch, signal.SIGSTOP)
    with start(COMMANDS["train"], [place / "made"], stop=stop, cwd=place, prepare=PREPARE) as first:
        assert first.wait_until_stopped()
        write_conll(place / "train.conll", sentences(39, 45))
        given = ("extract", "train.conll", "-o", "made/features/train.features", "--layers", "concat4")
        more = ("--pooling", "word", "--model", "model", "--precision", "fp32", "--overwrite")
        with start([*given, *more], [place], cwd=place, prepare=PREPARE) as other:
            assert other.wait().exit_code == 0
        first.go_on()
        ended = first.wait()
    assert ended.exit_code == 1
    assert "train.features was changed while it was read; run the same command again" in ended.stderr
    assert not (place / "made" / "head.json").exists()
    later = run("train", place)
    assert later.exit_code == 1
    assert "a training that was begun in another way (they differ in: data)" in later.stderr

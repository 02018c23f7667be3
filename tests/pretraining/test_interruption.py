"""``bertfeat pretrain``, killed or stopped at any of its steps in the file system.

By default some steps are tried; with BERTFEAT_TEST_STEPS=1 every one, with 5 every fifth.
"""

import json
import os
import shutil
import signal
from hashlib import sha256
from pathlib import Path

import pytest

from tests.support.pretraining_toy import write_corpus
from tests.support.steps import Ended, Stop, preload, start, steps

preload("bertfeat.pretraining", "bertfeat.plots", "matplotlib.backends.backend_agg", "transformers.trainer")
preload("transformers.models.bert", "accelerate", "torch._dynamo")

pytestmark = pytest.mark.slow

EVERY = int(os.environ.get("BERTFEAT_TEST_STEPS", "0"))
SOME = 3  # steps that are tried otherwise
TIMES = ("seconds", "digest", "stamps")  # what differs from run to run, and the digest of a file that says so
COMMAND = (
    *("pretrain", "toy.txt", "-o", "made", "--shape", "L=1,H=16,A=2", "--vocabulary", "120", "--steps", "6"),
    *("--max-length", "24", "--batch-size", "2", "--held-out", "0.2", "--device", "cpu", "--checkpoint-minutes", "0"),
)


def one_thread() -> None:
    """In each process: what runs beside others does not wait for them."""
    import torch

    torch.set_num_threads(1)


PREPARE = f"{__name__}:one_thread"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus."""
    home = tmp_path_factory.mktemp("home")
    write_corpus(home / "toy.txt")
    return home


@pytest.fixture(scope="module")
def undisturbed(home: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the command leaves that nobody disturbs."""
    place = fresh(home, tmp_path_factory.mktemp("whole") / "place")
    ended = run(place)
    assert ended.exit_code == 0, ended.stderr
    return contents(place)


def fresh(home: Path, place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    return shutil.copytree(home, place)


def run(place: Path) -> Ended:
    with start(COMMAND, [place], cwd=place, prepare=PREPARE) as running:
        return running.wait()


def contents(place: Path) -> dict[str, str]:
    """A digest of every file; times are left out."""
    found = {}
    for path in sorted(place.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            if path.name == "pretraining.json":
                raw = json.loads(data)
                data = json.dumps({name: raw[name] for name in raw if name not in TIMES}).encode()
            found[str(path.relative_to(place))] = sha256(data).hexdigest()
    return found


def tried(home: Path, work: Path) -> range:
    """The steps of the command that are tried."""
    place = fresh(home, work / "counted")
    count = len(steps(COMMAND, [place], cwd=place, prepare=PREPARE))
    assert count > 100
    every = EVERY or count // SOME
    return range(1 + count % every, count + 1, every)


def test_killed_and_started_again_it_ends_as_if_undisturbed(
    home: Path, undisturbed: dict[str, str], tmp_path: Path
) -> None:
    for step in tried(home, tmp_path):
        place = fresh(home, tmp_path / "killed")
        with start(COMMAND, [place], stop=Stop(step, signal.SIGKILL), cwd=place, prepare=PREPARE) as running:
            assert running.wait().exit_code == -signal.SIGKILL, step
        again = run(place)
        assert (again.exit_code, "Traceback" in again.stderr) == (0, False), (step, again.stderr)
        assert contents(place) == undisturbed, step


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"])
def test_interrupted_it_says_what_it_has_kept_and_goes_on_as_if_undisturbed(
    home: Path, undisturbed: dict[str, str], tmp_path: Path, sent: signal.Signals, code: int
) -> None:
    told = set()
    for step in tried(home, tmp_path)[1::SOME]:
        place = fresh(home, tmp_path / "interrupted")
        with start(COMMAND, [place], stop=Stop(step, sent), cwd=place, prepare=PREPARE) as running:
            ended = running.wait()
        assert (ended.exit_code, "Traceback" in ended.stderr) == (code, False), (step, ended.stderr)
        told.add("stays in made; the same command goes on from there" in ended.stderr)
        again = run(place)
        assert again.exit_code == 0, (step, again.stderr)
        assert contents(place) == undisturbed, step
    assert True in told  # not while libraries are imported


@pytest.mark.hostile
def test_while_one_is_stopped_at_a_step_another_is_told_or_does_it_all(
    home: Path, undisturbed: dict[str, str], tmp_path: Path
) -> None:
    for step in tried(home, tmp_path):
        place = fresh(home, tmp_path / "stopped")
        with start(COMMAND, [place], stop=Stop(step, signal.SIGSTOP), cwd=place, prepare=PREPARE) as first:
            assert first.wait_until_stopped()
            second = run(place)
            first.go_on()
            ended = [second, first.wait()]
        assert {each.exit_code for each in ended} <= {0, 1}
        assert 0 in {each.exit_code for each in ended}
        assert not any("Traceback" in each.stderr for each in ended), step
        assert contents(place) == undisturbed, step

"""Several runs on one index: none is lost, none is half done, and a reader sees one index or the other.

Every update is stopped or killed at some of its own steps (tests/support/steps.py); benchmarks/concurrent_updates.py
goes through all of them.
"""

import random
import shutil
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertfeat.errors import BertfeatError
from bertfeat.search import BuildOptions, VectorIndex, build_index, index_files, update_index, verify_index
from tests.support.index_toy import clustered, current_files, files_of, ids_of, vector_set, version_of
from tests.support.steps import Ended, Stop, preload, start, steps

LOCKED = "another run is at work on it"
OLD = {str(row + 1) for row in range(60)}
NEW = {f"new {row}" for row in range(15)}
OTHER = {f"other {row}" for row in range(25)}
GONE = {str(row + 1) for row in range(20)}

preload(
    "bertfeat.cli.index",
    "bertfeat.search.building.build",
    "bertfeat.search.building.update",
    "bertfeat.search.verify",
    "bertfeat.search.queries",
    "faiss",
    "pyarrow.compute",
)


@dataclass(frozen=True)
class Place:
    """A folder with an index of its own and what is needed to update it."""

    work: Path

    @property
    def index(self) -> Path:
        return self.work / "toy.index"

    @property
    def folders(self) -> list[Path]:
        return [self.index]

    @property
    def append(self) -> list[str]:
        return ["index", str(self.work / "new.features"), "-o", str(self.index), "--update", "--quiet"]

    @property
    def remove(self) -> list[str]:
        return ["index", "-o", str(self.index), "--remove", str(self.work / "gone.txt"), "--quiet"]

    @property
    def build(self) -> list[str]:
        return [
            "index",
            str(self.work / "other.features"),
            "-o",
            str(self.index),
            "--no-evaluate",
            "--overwrite",
            "--quiet",
        ]

    def run(self, arguments: Sequence[str], **options: Any) -> Ended:
        with start(arguments, self.folders, **options) as run:
            return run.wait()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    vector_set(tmp_path / "old.features", clustered(60))
    vector_set(tmp_path / "new.features", clustered(15, seed=1), ids=sorted(NEW))
    vector_set(tmp_path / "other.features", clustered(25, seed=2), ids=sorted(OTHER))
    (tmp_path / "gone.txt").write_text("\n".join(sorted(GONE)))
    build_index(tmp_path / "old.features", tmp_path / "toy.index", options=BuildOptions(evaluate=False))
    return Place(tmp_path)


def expected(one: Ended, other: Ended, effects: tuple[set[str], set[str]]) -> set[str]:
    """The ids after an append and a removal: neither touches what the other does, so their order does not matter."""
    ids = set(OLD)
    for ended, effect in zip((one, other), effects, strict=True):
        if ended.exit_code == 0:
            ids = ids - effect if effect <= OLD else ids | effect
        else:
            assert (ended.exit_code, LOCKED in ended.stderr) == (1, True), ended.stderr
    return ids


def sampled(count: int, wanted: int, *, seed: int = 0) -> list[int]:
    """Steps from 1 to ``count``: the first few, where locks are taken, the last few, and some between them."""
    middle = random.Random(seed).sample(range(7, count - 4), wanted)
    return sorted({2, 4, 6, *middle, count - 3, count})


@pytest.mark.slow
@pytest.mark.parametrize("first", ["append", "remove"])
def test_an_update_that_is_stopped_while_another_runs(first: str, place: Place) -> None:
    """Whichever is refused says so; what is told to be done is done."""
    whole = files_of(place.index)
    one, two = (place.append, place.remove) if first == "append" else (place.remove, place.append)
    effects = (NEW, GONE) if first == "append" else (GONE, NEW)
    count = len(steps(one, place.folders))
    for step in sampled(count, 3):
        restore(place.index, whole)
        with start(one, place.folders, stop=Stop(step, signal.SIGSTOP)) as stopped:
            assert stopped.wait_until_stopped()
            other = place.run(two)
            stopped.go_on()
            ended = stopped.wait()
        assert ids_of(place.index) == expected(ended, other, effects), f"step {step}"
        verify_index(place.index)
        assert sorted(path.name for path in place.work.glob(".*")) == []


@pytest.mark.slow
def test_updates_that_start_together(place: Place) -> None:
    whole = files_of(place.index)
    for delay in (0.0, 0.02, 0.05, 0.1, 0.2):
        restore(place.index, whole)
        with start(place.append, place.folders) as one:
            threading.Event().wait(delay)
            with start(place.remove, place.folders) as two:
                ended = one.wait(), two.wait()
        assert ids_of(place.index) == expected(*ended, (NEW, GONE))
        verify_index(place.index)


@pytest.mark.slow
def test_a_build_and_an_append(place: Place) -> None:
    """Their order matters: the build replaces what was appended, or is appended to."""
    count = len(steps(place.build, place.folders))
    for step in sampled(count, 1, seed=1):
        shutil.rmtree(place.index)
        build_index(place.work / "old.features", place.index, options=BuildOptions(evaluate=False))
        with start(place.build, place.folders, stop=Stop(step, signal.SIGSTOP)) as stopped:
            assert stopped.wait_until_stopped()
            appended = place.run(place.append)
            stopped.go_on()
            built = stopped.wait()
        assert built.exit_code == 0
        assert appended.exit_code == 0 or LOCKED in appended.stderr
        allowed = [OTHER] if appended.exit_code else [OTHER, OTHER | NEW]
        assert ids_of(place.index) in allowed
        verify_index(place.index)


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("command", ["append", "remove", "build"])
def test_killed_at_a_step_the_old_index_or_the_new_one_is_there(command: str, place: Place) -> None:
    whole, old = files_of(place.index), current_files(place.index)
    arguments: list[str] = getattr(place, command)
    count = len(steps(arguments, place.folders))
    done = current_files(place.index)
    for step in sampled(count, 6):
        restore(place.index, whole)
        ended = place.run(arguments, stop=Stop(step, signal.SIGKILL))
        assert ended.exit_code == -signal.SIGKILL
        verify_index(place.index)
        found = current_files(place.index)
        assert found in (old, done)
        assert place.run(arguments).exit_code == 0
        verify_index(place.index)
        if command != "append" or found == old:
            assert current_files(place.index) == done
        assert sorted(path.name for path in place.index.iterdir()) == [".bertfeat", version_of(place.index).name]
        assert sorted(path.name for path in (place.index / ".bertfeat").iterdir()) == ["index.json", "kind"]
        assert sorted(path.name for path in place.work.glob(".*")) == []


@pytest.mark.slow
def test_a_first_build_that_is_killed_leaves_what_the_next_one_removes(place: Place) -> None:
    shutil.rmtree(place.index)
    count = len(steps(place.build, place.folders))
    done = current_files(place.index)
    for step in sampled(count, 6, seed=2):
        shutil.rmtree(place.index)
        assert place.run(place.build, stop=Stop(step, signal.SIGKILL)).exit_code == -signal.SIGKILL
        assert place.run(place.build).exit_code == 0
        assert current_files(place.index) == done
        assert sorted(path.name for path in place.index.iterdir()) == [".bertfeat", version_of(place.index).name]


def restore(folder: Path, files: dict[str, bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


# ── readers ─────────────────────────────────────────────────────────────────────────────────────────────────


def rebuild(place: Place, name: str) -> None:
    build_index(place.work / f"{name}.features", place.index, options=BuildOptions(evaluate=False), overwrite=True)


@pytest.mark.parametrize("moment", ["read_index_settings", "check_files", "ArrowStore", "_check_contents"])
def test_a_rebuild_between_two_files_is_not_seen(moment: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many documents in both indexes, so nothing but the record tells them apart."""
    vector_set(place.work / "same.features", clustered(60, seed=8), ids=[f"same {row}" for row in range(60)])
    real: Callable[..., Any] = getattr(index_files, moment)
    left = ["same"]

    def disturbed(*arguments: Any, **named: Any) -> Any:
        if left:
            monkeypatch.setattr(index_files, moment, real)
            rebuild(place, left.pop())
        return real(*arguments, **named)

    monkeypatch.setattr(index_files, moment, disturbed)
    index = VectorIndex(place.index)
    assert not left
    found = index.search(clustered(60, seed=8), 1)
    assert index.documents.take(found.numbers[:, 0])["id"].to_pylist() == [f"same {row}" for row in range(60)]
    np.testing.assert_allclose(found.scores, 1, atol=1e-5)


def test_searches_while_indexes_are_replaced(place: Place) -> None:
    """Each vector's document is the one that it was made of, whichever index is met; and one always is."""
    stop, wrong, seen = threading.Event(), list[str](), set[str]()
    vectors = {"old": clustered(60), "other": clustered(25, seed=2)}

    def read() -> None:
        while not stop.is_set():
            try:
                index = VectorIndex(place.index)
            except BertfeatError as error:
                wrong.append(str(error))
                return
            name = "old" if len(index) == 60 else "other"
            found = index.search(vectors[name], 1)
            ids = index.documents.take(found.numbers[:, 0])["id"].to_pylist()
            every = sorted(OTHER) if name == "other" else [str(row + 1) for row in range(60)]
            seen.add(name)
            if ids != every or not np.allclose(found.scores, 1, atol=1e-5):
                wrong.append(name)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for name in ["other", "old"] * 8:
        rebuild(place, name)
    stop.set()
    for reader in readers:
        reader.join()
    assert (wrong, seen) == ([], {"old", "other"})


def test_an_open_index_stays_what_it_was(place: Place) -> None:
    index = VectorIndex(place.index)
    rebuild(place, "other")
    update_index(place.index, [place.work / "new.features"])
    found = index.search(clustered(60), 1)
    assert index.documents.take(found.numbers[:, 0])["text"].to_pylist() == [f"text of {row + 1}" for row in range(60)]
    assert ids_of(place.index) == OTHER | NEW

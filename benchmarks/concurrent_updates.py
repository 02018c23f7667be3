"""Two runs on one folder, and runs killed at each of their steps: is anything lost, or left half done?

    python benchmarks/concurrent_updates.py [--cases index] [--pairs 200] [--kills 0] [--seed 0] [--out FILE]

A case is a folder with the commands that change it (``CASES``). Half of the pairs start 0 to 200 ms apart. Of the
others one is stopped at a random step of its own (the n-th time that it touches the folder, tests/support/steps.py),
the other runs to its end, and the first goes on. A reader looks at the folder all the time. Then every command is
killed at every step (``--kills`` limits them): what is left must be the old state or the new one, byte for byte, and
the next command must do its work. Exit code 1 if anything is wrong.
"""

import argparse
import functools
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from _machine import machine

sys.path.insert(0, str(Path(__file__).parent.parent))  # tests are no package that is installed
from tests.support.steps import Ended, Stop, preload, start, steps

HERE = Path(__file__).parent
LOCKED = "another run is at work on it"
State = frozenset[str]


class Case(Protocol):
    """A folder and the commands that change it."""

    name: str
    folders: Sequence[Path]  # whose events are steps
    commands: Mapping[str, Sequence[str]]
    effects: Mapping[str, Callable[[State], State]]  # of each command on what the folder holds
    is_killed: bool  # at each of the steps of its commands, too

    def reset(self, variant: int) -> State:
        """Bring the folder to where every trial begins, in one of several variants; returns what it holds."""
        ...

    def read(self) -> State:
        """What the folder holds; raises where that is not what was written."""
        ...

    def check(self) -> None:
        """Raise where the folder is not sound."""
        ...

    def files(self) -> Mapping[str, bytes]:
        """What must be equal byte for byte, by path."""
        ...


@dataclass
class Account:
    """What happened so far."""

    runs: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def main() -> None:
    options = _options()
    os.environ["OMP_NUM_THREADS"] = "1"  # many small processes share the cores
    account: dict[str, Any] = {}
    for name in options.cases.split(","):
        told = machine("faiss-cpu")
        with tempfile.TemporaryDirectory(dir=options.work) as work:
            begin = time.monotonic()
            account[name] = trials(CASES[name](Path(work)), options)
        account[name] |= {"seconds": round(time.monotonic() - begin), "machine": told}
        print(json.dumps({name: account[name]}, indent=1), flush=True)
    before = json.loads(options.out.read_text()) if options.out.exists() else {}
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps({**before, **account}, indent=1) + "\n")
    sys.exit(1 if any(each[kind]["wrong"] for each in account.values() for kind in ("pairs", "kills")) else 0)


def trials(case: Case, options: argparse.Namespace) -> dict[str, Any]:
    case.reset(0)
    pairs, kills = Account(), Account()
    with reader(case, pairs):
        run_pairs(case, pairs, options)
    run_kills(case, kills, options)
    return {name: {**each.runs, "wrong": each.wrong} for name, each in (("pairs", pairs), ("kills", kills))}


def run_pairs(case: Case, account: Account, options: argparse.Namespace) -> None:
    draw = random.Random(options.seed)
    counts = {name: count_steps(case, name, 0) for name in case.commands}
    for number in range(options.pairs):
        before = case.reset(number // 2)
        one, two = draw.choices(list(case.commands), k=2)
        if number % 2:
            step = draw.randint(1, counts[one])
            what, ended = f"{one} stopped at step {step}, {two}", stopped_pair(case, one, two, step)
        else:
            delay = draw.uniform(0, 0.2)
            what, ended = f"{one}, {delay * 1000:.0f} ms, {two}", started_pair(case, one, two, delay)
        account.runs["stops" if number % 2 else "starts"] += 1
        judge_pair(case, before, what, ended, account)


def started_pair(case: Case, one: str, two: str, delay: float) -> list[tuple[str, Ended]]:
    with start(case.commands[one], case.folders) as first:
        time.sleep(delay)
        with start(case.commands[two], case.folders) as second:
            return [(one, first.wait()), (two, second.wait())]


def stopped_pair(case: Case, one: str, two: str, step: int) -> list[tuple[str, Ended]]:
    with start(case.commands[one], case.folders, stop=Stop(step, signal.SIGSTOP)) as first:
        stopped = first.wait_until_stopped()
        with start(case.commands[two], case.folders) as second:
            other = second.wait()
        if stopped:
            first.go_on()
        return [(one, first.wait()), (two, other)]


def judge_pair(case: Case, before: State, what: str, ended: list[tuple[str, Ended]], account: Account) -> None:
    """Those that say they did their work did it, in some order; the others said why not."""
    done = [name for name, end in ended if end.exit_code == 0]
    account.runs[("none", "one", "both")[len(done)] + " done"] += 1
    for name, end in ended:
        if end.exit_code and LOCKED not in end.stderr:
            account.wrong.append(f"{what}: {name} ended with {end.exit_code}: {end.stderr.strip()}")
    allowed = set()
    for order in itertools.permutations(done):
        state = before
        for name in order:
            state = case.effects[name](state)
        allowed.add(state)
    try:
        case.check()
        if case.read() not in allowed:
            account.wrong.append(f"{what}: lost or come back, after {' and '.join(done)}")
    except Exception as error:
        account.wrong.append(f"{what}: corrupt: {error}")


def run_kills(case: Case, account: Account, options: argparse.Namespace) -> None:
    for variant, name in enumerate(case.commands if case.is_killed else ()):
        before = case.reset(variant)
        old, count = case.files(), count_steps(case, name, variant)
        new = case.files()
        for step in range(1, min(count, options.kills or count) + 1):
            case.reset(variant)
            what = f"{name} killed at step {step} of {count}"
            with start(case.commands[name], case.folders, stop=Stop(step, signal.SIGKILL)) as run:
                account.runs["killed" if run.wait().exit_code == -signal.SIGKILL else "ended before"] += 1
            judge_kill(case, what, (old, new), account)
            with start(case.commands[name], case.folders) as run:
                if (end := run.wait()).exit_code:
                    account.wrong.append(f"{what}: the next one ended with {end.exit_code}: {end.stderr}")
            case.check()
            if case.read() != case.effects[name](before):
                account.wrong.append(f"{what}: the next one did not do its work")


def judge_kill(
    case: Case, what: str, states: tuple[Mapping[str, bytes], Mapping[str, bytes]], account: Account
) -> None:
    try:
        case.read()
        found = case.files()
    except Exception as error:
        account.wrong.append(f"{what}: corrupt: {error}")
        return
    if found not in states:
        account.wrong.append(f"{what}: neither the old nor the new one")
    account.runs["old one left" if found == states[0] else "new one left"] += 1


def count_steps(case: Case, name: str, variant: int) -> int:
    """How many steps a command has; it is done afterwards."""
    case.reset(variant)
    return len(steps(case.commands[name], case.folders))


@contextmanager
def reader(case: Case, account: Account) -> Iterator[None]:
    """Read the folder all the time; what is read must be what was written."""
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            try:
                case.read()
                account.runs["reads"] += 1
                time.sleep(0.001)
            except Exception as error:
                account.wrong.append(f"a reader: {type(error).__name__}: {error}")

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class IndexCase:
    """An index: built anew, appended to, and removed from."""

    name, is_killed = "index", True

    def __init__(self, work: Path) -> None:
        preload(
            "bertfeat.cli.index",
            "bertfeat.search.building.build",
            "bertfeat.search.building.update",
            "bertfeat.search.verify",
            "bertfeat.search.queries",
            "faiss",
            "pyarrow.compute",
        )
        from tests.support.index_toy import clustered, vector_set

        self._work, self._folder = work, work / "toy.index"
        self.folders = (self._folder,)
        groups = {"old": range(60), "new": range(60, 75), "other": range(75, 100)}
        self._vectors = {f"d{row}": vector for row, vector in enumerate(clustered(100))}
        self._ids = {name: frozenset(f"d{row}" for row in rows) for name, rows in groups.items()}
        for name, rows in groups.items():
            vector_set(
                work / f"{name}.features", clustered(100)[rows.start : rows.stop], ids=[f"d{row}" for row in rows]
            )
        gone = [f"d{row}" for row in range(20)]
        (work / "gone.txt").write_text("\n".join(gone))
        to = ["-o", str(self._folder), "--quiet"]
        self.commands = {
            "build": ["index", str(work / "other.features"), *to, "--no-evaluate", "--type", "hnsw"],
            "append": ["index", str(work / "new.features"), *to, "--update"],
            "remove": ["index", *to, "--remove", str(work / "gone.txt")],
        }
        self.effects = {
            "build": lambda _state: self._ids["other"],
            "append": lambda state: state | self._ids["new"],
            "remove": lambda state: state - set(gone),
        }

    def reset(self, variant: int) -> State:
        from bertfeat.search import BuildOptions, build_index

        kind, memory = (("flat", None), ("ivf", None), ("hnsw", None), ("ivf", 100))[variant % 4]  # the last on disk
        options = BuildOptions(type=kind, evaluate=False, memory=memory)
        build_index(self._work / "old.features", self._folder, options=options)
        return self._ids["old"]

    def read(self) -> State:
        """The ids of the living documents; each is found by its own vector, at a score of 1."""
        import numpy as np

        from bertfeat.search import VectorIndex

        index = VectorIndex(self._folder)
        every = [name for batch in index.documents.batches(["id"]) for name in batch.column("id").to_pylist()]
        ids = [name for row, name in enumerate(every) if index.removed is None or not index.removed[row]]
        if ids:
            found = index.search(np.stack([self._vectors[name] for name in ids]), 1, exact=True)
            names = index.documents.take(found.numbers[:, 0])["id"].to_pylist()
            if names != ids or not np.allclose(found.scores, 1, atol=1e-5):
                raise ValueError("vectors lie under other documents")
        return frozenset(ids)

    def check(self) -> None:
        from bertfeat.search import verify_index

        verify_index(self._folder)

    def files(self) -> Mapping[str, bytes]:
        """Those of the current version; check() holds the record, in which times stand, against them."""
        from tests.support.index_toy import current_files

        return current_files(self._folder)


class RunCase:
    """A result that a command makes in many steps: it goes on where another run was killed, or begins anew.

    Whoever did it, what is there in the end is byte for byte what one undisturbed run leaves. What is left where a run
    is killed is tested by tests/hostile/test_kills.py.
    """

    WHOLE: State = frozenset({"whole"})
    is_killed = False

    def __init__(self, name: str, command: Sequence[str], result: str, work: Path) -> None:
        preload(
            "bertfeat.core.extraction",
            "bertfeat.cli.extract",
            "bertfeat.cli.learning",
            "bertfeat.learning.table7.training",
        )
        from tests.support.tagging_toy import sentences, write_conll
        from tests.support.tiny_models import build

        self.name, self._work, self._result = name, work, work / result
        self.folders = (work,)
        os.chdir(work)  # commands name their files as seen from here
        build("bert", work / "model")
        (work / "corpus.txt").write_text("".join(f"The bank of the river, number {at}.\n" for at in range(60)))
        for number, part in ((40, "train"), (20, "dev")):
            write_conll(work / f"{part}.conll", sentences(number, number))
        again = () if name == "table7" else ("--overwrite",)  # a table is never begun anew
        self.commands = {"go on": [*command, "-o", result], "anew": [*command, "-o", result, *again]}
        self.effects = {name: lambda _state: self.WHOLE for name in self.commands}
        self._given = set(os.listdir(work))
        count = len(steps(self.commands["go on"], self.folders, prepare=ONE_THREAD))
        self._whole = self.files()
        self._half = Path(tempfile.mkdtemp(prefix="half-"))
        self._clear()
        with start(self.commands["go on"], self.folders, stop=Stop(count * 2 // 3, signal.SIGKILL)) as run:
            run.wait()
        self._copy(work, self._half)

    def reset(self, variant: int) -> State:
        """Nothing, or what a killed run left."""
        self._clear()
        if variant % 2:
            self._copy(self._half, self._work)
        return frozenset()

    def read(self) -> State:
        from bertfeat.core.features import FeatureSet
        from bertfeat.errors import BertfeatError
        from bertfeat.learning import Tagger

        try:
            if self.name == "extract":
                sum(1 for _ in FeatureSet(self._result).check())
            elif self.name == "train":
                Tagger(self._result)
            elif not (self._result / "table7.md").exists():
                return frozenset()
        except (BertfeatError, FileNotFoundError):
            return frozenset()  # not there, not finished, or being begun anew
        return self.WHOLE

    def check(self) -> None:
        if self.read() == self.WHOLE and self.files() != self._whole:
            wrong = sorted(
                name for name in {*self.files(), *self._whole} if self.files().get(name) != self._whole.get(name)
            )
            raise ValueError(f"other than of an undisturbed run: {', '.join(wrong)}")

    def files(self) -> Mapping[str, bytes]:
        """What was written, without times."""
        from tests.hostile.snapshot import contents

        made = [name for name in os.listdir(self._work) if name not in self._given]
        return {name: kind.encode() for name, kind in contents(self._work, made).items()}

    def _clear(self) -> None:
        for name in set(os.listdir(self._work)) - self._given:
            path = self._work / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _copy(self, source: Path, target: Path) -> None:
        for name in set(os.listdir(source)) - self._given:
            path = source / name
            (shutil.copytree if path.is_dir() else shutil.copy2)(path, target / name)


ONE_THREAD = "tests.learning.tags.test_interruption:one_thread"
_TINY = ("--model", "model", "--device", "cpu", "--precision", "fp32", "--quiet")
_SETS = ("--train", "train.conll", "--dev", "dev.conll", "--hidden", "4", "--epochs", "2", *_TINY)
_RUNS: Mapping[str, tuple[Sequence[str], str]] = {
    "extract": (("extract", "corpus.txt", *_TINY, "--part-rows", "10"), "made.features"),
    "train": (("tag", "train", *_SETS, "--layers", "last"), "made.tagger"),
    "table7": (("tag", "table7", *_SETS, "--rows", "last,concat4", "--seeds", "1"), "made.table7"),
}
CASES: Mapping[str, Callable[[Path], Case]] = {
    "index": IndexCase,
    **{name: functools.partial(RunCase, name, *told) for name, told in _RUNS.items()},
}
"""By name, made in an empty folder."""


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES), help="separated by commas")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--kills", type=int, default=0, help="at most so many steps of each command; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, help="where the folders are made; default: the system's temporary folder")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "concurrent_updates.json")
    return parser.parse_args()


if __name__ == "__main__":
    main()

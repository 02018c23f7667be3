"""Random faults over small runs on every way: is each set byte for byte that of an undisturbed run?

    python benchmarks/torture.py [--trials 350] [--ways plain-s3,join-local] [--faults kill,stop] [--seed 0] [--lanes 3]
    python benchmarks/torture.py --only join-s3/stop/4

A trial is a small corpus (of one of several kinds, here or in a bucket), a way to work through it (one process, two
workers, two workers on Ray or on a Ray cluster of two nodes, three runs that join), a
place for the set (a folder of this machine, or a bucket of moto's server behind a proxy that does harm), and a fault
whose moments and kinds are drawn. The same commands are run again, as a scheduler would, until they say that they are
done; then every part, the list of failures and the manifest are compared with those of one undisturbed process, and
``bertfeat verify`` looks at the set.

An end is right bytes at once; or a clear error and right bytes when the command is run again; or WRONG: other bytes,
an error that is no single line, a run that hangs, one that can never be finished. A trial that a fault did not hit (the
run had just ended) is counted by itself. Results are written after every trial, and a torture that was stopped goes on
behind them. Exit code 1 if anything is wrong. As root, full disks are small file systems that are mounted; otherwise
limits on the size of files.
"""

import argparse
import json
import os
import queue
import random
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from multiprocessing import forkserver
from pathlib import Path
from signal import SIGTERM
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # tests are no package that is installed
from _machine import machine
from _models import TINY, random_model
from _torture_clock import build_clock
from _torture_faults import ClockJumps, Intruder, Kill, Stale, Stop
from _torture_harm import Changed, Corrupt, FullDisk, Storm, remove_mounts
from _torture_ray import Machines
from _torture_records import Fault, Lane, Record
from _torture_runs import PRELOADED, SERVER
from _torture_trial import BUCKET, Trial
from _torture_ways import WAYS

from tests.support.s3_server import S3Server

RESULTS = Path(__file__).parent / "results" / "torture.json"
STORMS = ("throttled", "dropped", "unanswered", "torn", "cut", "stalled", "slow", "down", "refused", "storm")
FAULTS: Mapping[str, Callable[[], Fault]] = {
    "kill": lambda: Kill("command"),
    "kill-all": lambda: Kill("all"),
    "kill-worker": lambda: Kill("worker"),
    "kill-node": lambda: Kill("node"),
    "term": lambda: Kill("command", SIGTERM),
    "stop": Stop,
    "stale": Stale,
    "intruder": Intruder,
    "clock": ClockJumps,
    "corrupt": Corrupt,
    "changed": Changed,
    "full-output": lambda: FullDisk("output"),
    "full-temporary": lambda: FullDisk("temporary"),
    **{kind: lambda kind=kind: Storm(kind) for kind in STORMS},  # type: ignore[misc]
}
_ANYWHERE = ("kill", "term", "corrupt", "changed", "stop", "intruder", "clock")
_LOCAL, _S3 = ("full-output",), ("full-temporary", *STORMS)
PLAN: Mapping[str, tuple[int, Sequence[str]]] = {  # a weight, and the faults of each way
    "plain-local": (3, (*_ANYWHERE, *_LOCAL)),
    "plain-s3": (3, (*_ANYWHERE, "stale", *_S3)),
    "workers-local": (2, (*_ANYWHERE, "kill-worker", *_LOCAL)),
    "workers-s3": (1, ("kill", "kill-worker", "stop", "stale", "throttled", "unanswered", "down", "torn", "storm")),
    "join-local": (4, (*_ANYWHERE, "kill-all", "stale", *_LOCAL)),
    "join-s3": (4, (*_ANYWHERE, "kill-all", "stale", *_S3)),
    "ray-local": (2, ("kill", "kill-worker", "term", "corrupt", "changed", *_LOCAL)),
    "ray-s3": (1, ("kill", "kill-worker", "unanswered", "down", "storm")),
    "nodes-local": (4, ("kill-node",)),
    "nodes-s3": (3, ("kill-node",)),
}


class Tally:
    """What became of all trials, on the disk after each."""

    def __init__(self, path: Path, seed: int) -> None:
        self._path, self._seed, self._lock = path, seed, threading.Lock()
        self._before: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        if self._before.get("seed", seed) != seed:
            sys.exit(f"{path} is the tally of seed {self._before['seed']}: give that one, or another --out")
        self.trials: dict[str, dict[str, Any]] = self._before.get("trials", {})
        self._machine = self._before.get("machine") or machine("obstore", "ray", "moto")
        self._began, self._seconds = time.monotonic(), float(self._before.get("seconds", 0))

    def add(self, record: Record) -> None:
        """Count a trial, and write all."""
        with self._lock:
            told = {name: value for name, value in asdict(record).items() if value not in ([], 0) and name != "name"}
            told["messages"] = sorted(set(record.messages))
            self.trials[record.name] = {name: value for name, value in told.items() if value}
            hit = f"{record.faults} faults" if record.faults else "missed"
            notes = "; ".join([*record.notes, *record.left, *record.messages[:1]])
            print(f"{record.name}: {record.outcome}, {hit}, {record.seconds} s {notes}", file=sys.stderr, flush=True)
            for problem in record.wrong:
                print(f"  WRONG {problem}", file=sys.stderr, flush=True)
            beside = self._path.with_suffix(".tmp")
            beside.write_text(self._text())
            beside.replace(self._path)

    def summary(self) -> dict[str, Any]:
        """The counts, by way and fault."""
        counts: dict[str, dict[str, Counter[str]]] = {}
        for name, told in self.trials.items():
            way, fault, _ = name.split("/")
            outcome = told["outcome"] if told.get("faults") or told.get("wrong") else "missed"
            counts.setdefault(way, {}).setdefault(fault, Counter())[outcome] += 1
        total = sum((count for faults in counts.values() for count in faults.values()), Counter[str]())
        return {
            "machine": self._machine,
            "seed": self._seed,
            "seconds": round(self._seconds + time.monotonic() - self._began),
            "trials_run": len(self.trials),
            "faults": sum(told.get("faults", 0) for told in self.trials.values()),
            "requests_harmed": sum(told.get("requests", 0) for told in self.trials.values()),
            "outcomes": dict(total),
            "wrong": sorted(name for name, told in self.trials.items() if told.get("wrong")),
            "left_behind": sorted({left for told in self.trials.values() for left in told.get("left", ())}),
            "counts": {way: {fault: dict(count) for fault, count in faults.items()} for way, faults in counts.items()},
        }

    def _text(self) -> str:
        """One trial a line."""
        head = json.dumps(self.summary(), indent=1)[:-2]
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(told)}" for name, told in self.trials.items())
        return f'{head},\n "trials": {{\n{lines}\n }}\n}}\n'


def main() -> None:
    options = _options()
    work = Path(tempfile.mkdtemp(prefix="torture-", dir=options.work))
    tally = Tally(options.out or (work / "only.json" if options.only else RESULTS), options.seed)
    names = [options.only] if options.only else [name for name in plan(options) if name not in tally.trials]
    try:
        _start_server(work)
        model = str(random_model(work / "model", TINY))
        torture(names, work, model, tally, options)
    finally:
        remove_mounts(work)
        if options.keep:
            print(f"kept: {work}", file=sys.stderr)
        else:
            shutil.rmtree(work, ignore_errors=True)
    print(json.dumps(tally.summary(), indent=1))
    sys.exit(1 if tally.summary()["wrong"] else 0)


def plan(options: argparse.Namespace) -> list[str]:
    """The names of the trials, shares by weight, in an order that is drawn."""
    pairs = {
        f"{way}/{fault}": weight
        for way, (weight, faults) in PLAN.items()
        for fault in faults
        if (not options.ways or way in options.ways) and (not options.faults or fault in options.faults)
    }
    if not pairs:
        raise SystemExit(f"no such ways or faults; there are: {', '.join(PLAN)}; {', '.join(FAULTS)}")
    draw, total, names = random.Random(options.seed), sum(pairs.values()), list[str]()
    for pair, weight in pairs.items():
        share = options.trials * weight / total
        names += [f"{pair}/{number}" for number in range(int(share) + (draw.random() < share % 1))]
    draw.shuffle(names)
    return names


def torture(names: Sequence[str], work: Path, model: str, tally: Tally, options: argparse.Namespace) -> None:
    """Run trials in several lanes; those on Ray one after the other, in the first one."""
    todo: queue.SimpleQueue[str] = queue.SimpleQueue()
    on_ray = {way: [name for name in names if name.startswith(way)] for way in ("ray", "nodes")}
    for name in names:
        if not any(name in mine for mine in on_ray.values()):
            todo.put(name)
    failures: list[str] = []
    threads = [
        threading.Thread(target=_guarded, args=(failures, _work_lane, work / f"{number}", model, tally, options, todo))
        for number in range(options.lanes)
    ]
    for thread in threads:
        thread.start()
    for nodes, way in enumerate(("ray", "nodes"), 1):
        if on_ray[way]:
            _guarded(failures, _work_cluster, work / way, model, tally, options, nodes, on_ray[way])
    for thread in threads:
        thread.join()
    if failures:
        sys.exit("\n".join(failures))


def _guarded(failures: list[str], work: Callable[..., None], *arguments: Any) -> None:
    try:
        work(*arguments)
    except BaseException:
        failures.append(traceback.format_exc())


def _work_lane(
    folder: Path, model: str, tally: Tally, options: argparse.Namespace, todo: "queue.SimpleQueue[str]"
) -> None:
    with S3Server() as server:
        lane = _lane(folder, model, server)
        while True:
            try:
                name = todo.get_nowait()
            except queue.Empty:
                return
            tally.add(run_trial(lane, name, options.seed))


def _work_cluster(
    folder: Path, model: str, tally: Tally, options: argparse.Namespace, nodes: int, names: Sequence[str]
) -> None:
    with S3Server() as server:
        lane = _lane(folder, model, server)
        lane.machines = Machines(nodes)
        try:
            for name in names:
                tally.add(run_trial(lane, name, options.seed))
        finally:
            lane.machines.close()


def run_trial(lane: Lane, name: str, seed: int) -> Record:
    """Run a trial by its name: WAY-STORE/FAULT/NUMBER."""
    place, fault, number = name.split("/")
    way, _, store = place.rpartition("-")
    found = next(each for each in WAYS if each.name == way)
    return Trial(lane, found, store, fault, int(number), seed).run(FAULTS[fault]())


def _lane(folder: Path, model: str, server: S3Server) -> Lane:
    import boto3

    folder.mkdir()
    keys = {"aws_access_key_id": "past", "aws_secret_access_key": "proxy", "region_name": "us-east-1"}
    server.make_bucket(BUCKET)
    return Lane(folder, model, server, boto3.client("s3", endpoint_url=f"http://127.0.0.1:{server.upstream}", **keys))


def _start_server(work: Path) -> None:
    """Start the process that others are forked from, and whose clock can jump."""
    os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "BERTFEAT_CACHE": ""}
    SERVER.set_forkserver_preload(PRELOADED)
    library = build_clock(work)
    if library is None:
        sys.exit("the clocks that jump need a C compiler (cc)")
    os.environ["LD_PRELOAD"] = str(library)
    forkserver.ensure_running()
    del os.environ["LD_PRELOAD"]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=350)
    parser.add_argument("--ways", type=lambda text: text.split(","), help=", ".join(PLAN))
    parser.add_argument("--faults", type=lambda text: text.split(","), help=", ".join(FAULTS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", metavar="WAY/FAULT/NUMBER", help="one trial, again")
    parser.add_argument("--lanes", type=int, default=3, help="trials at a time, beside those on Ray")
    parser.add_argument("--work", type=Path, help="where the folders are made; default: the system's temporary folder")
    parser.add_argument("--keep", action="store_true", help="leave the folders")
    parser.add_argument("--out", type=Path, help=f"default: results/{RESULTS.name}; none of --only")
    return parser.parse_args()


if __name__ == "__main__":
    main()

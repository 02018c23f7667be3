"""Killed with SIGKILL at random moments and resumed: are parts and failures byte for byte those of an undisturbed run?

    python benchmarks/kill_and_resume.py [--kills 50] [--rows 2400] [--model FOLDER] [--seed 0] [--out FILE]

A run over a corpus with blank lines, failing rows and equal texts is killed and started again on the same folder, until
it ends by itself; then the folder is compared and the next one begins. Each kill falls at a random moment between the
first look at the folder and the end of what is left to do; every second one waits on for a file that is half written.
Every run is a process of its own, forked from a server that has imported the libraries already, so that the time goes
into kills. Exit code 1 if a single byte differs.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from _machine import machine

SERVER = multiprocessing.get_context("forkserver")
PRELOADED = [
    "bertfeat.cli.extract",
    "bertfeat.core.extraction.run",
    "transformers.models.auto",
    "transformers.models.bert",
]
ROWS_FAILED = 3
RESULTS = Path(__file__).parent / "results" / "kill_and_resume.json"
WORDS = ("river", "bank", "money", "water", "old", "mill", "stone", "north", "wind", "house", "letter", "light")


@dataclass
class Outcome:
    """What happened so far."""

    kills: int = 0
    runs_to_the_end: int = 0
    moments: list[dict[str, Any]] = field(default_factory=list)
    different: list[str] = field(default_factory=list)


def main() -> None:
    options = _options()
    SERVER.set_forkserver_preload(PRELOADED)
    with tempfile.TemporaryDirectory(dir=options.work) as work:
        outcome, told = trial(Path(work), options)
    results = {**told, "kills": outcome.kills, "runs_to_the_end": outcome.runs_to_the_end}
    results |= {"different": outcome.different, "moments": outcome.moments}
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps({key: value for key, value in results.items() if key != "moments"}, indent=1))
    sys.exit(1 if outcome.different else 0)


def trial(work: Path, options: argparse.Namespace) -> tuple[Outcome, dict[str, Any]]:
    told = {"machine": machine(), "model": Path(options.model).name if options.model else "default"}
    command = ["bertfeat", "extract", str(corpus(work / "corpus.jsonl", options.rows, options.seed)), "--quiet"]
    command += ["--part-rows", str(options.part_rows), "--layers", "last,concat4", "--pooling", "mean,word"]
    command += ["--model", options.model] if options.model else []
    undisturbed = work / "undisturbed"
    begin = time.monotonic()
    process = start(command, undisturbed)
    wait_for_folder(process, undisturbed)
    ready = time.monotonic()
    wait_for(process, undisturbed, "part-*")
    first = time.monotonic() - ready
    process.join()
    if process.exitcode != ROWS_FAILED:
        sys.exit("the undisturbed run did not end as it should")
    each = time.monotonic() - ready - first
    expected = contents(undisturbed)
    times = first, each / len(expected)
    told |= {"rows": options.rows, "parts": len(expected) - 1, "seconds": round(time.monotonic() - begin, 1)}
    outcome, draw, number = Outcome(), random.Random(options.seed), 0
    while outcome.kills < options.kills:
        number += 1
        folder = work / f"killed-{number}"
        killed_until_done(command, folder, expected, times, draw, options.kills, outcome)
        if found := differences(folder, expected):
            outcome.different += [f"{number}: {name}" for name in found]
    return outcome, told


def killed_until_done(
    command: Sequence[str],
    folder: Path,
    expected: dict[str, str],
    times: tuple[float, float],  # seconds to the first part, and for each one
    draw: random.Random,
    most: int,
    outcome: Outcome,
) -> None:
    """Kill and start again until the run ends by itself, or has been killed often enough; then let it end."""
    while True:
        process = start(command, folder)
        wait_for_folder(process, folder)
        if outcome.kills < most:
            live_a_while(process, folder, len(expected) - 1, times, draw)
            if outcome.kills % 2:
                wait_for(process, folder, ".*.tmp")
            process.kill()
        process.join()
        if process.exitcode == ROWS_FAILED:
            outcome.runs_to_the_end += 1
            return
        if process.exitcode != -signal.SIGKILL:
            sys.exit(f"a resumed run ended with {process.exitcode}")
        outcome.kills += 1
        names = {path.name for path in folder.rglob("*")}
        state = {
            "run": outcome.runs_to_the_end + 1,
            "parts": sum(name.startswith("part-") for name in names),
            "half_written": sorted(name for name in names if name.endswith(".tmp")),
            "manifest": "manifest.json" in names,
        }
        outcome.moments.append(state)
        print(outcome.kills, state, file=sys.stderr, flush=True)


def live_a_while(
    process: BaseProcess, folder: Path, parts: int, times: tuple[float, float], draw: random.Random
) -> None:
    """Wait for a random moment: while the run starts, or at one of the parts that it has to do and some time more.

    Parts are counted rather than seconds, since how fast a shared machine is changes from run to run.
    """
    done = len(list(folder.glob("part-*.parquet")))
    whole, more = divmod(draw.uniform(0.0, 1.0 + parts - done), 1.0)
    if whole:
        wait_for(process, folder, f"part-{done + int(whole) - 1:05d}.parquet")
    process.join(more * times[1 if whole else 0])


def start(command: Sequence[str], folder: Path) -> BaseProcess:
    process = SERVER.Process(target=extract, args=([*command, "-o", str(folder)],))
    process.start()
    return process


def extract(command: list[str]) -> None:
    """Run the command in this process, silently."""
    from bertfeat.cli import run

    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    sys.argv = command
    run()


def wait_for_folder(process: BaseProcess, folder: Path) -> None:
    """Wait until the process has signed the folder's lock: imports are over, the work begins."""
    lock = folder / ".bertfeat" / "lock"
    while process.is_alive():
        try:
            if json.loads(lock.read_bytes())["pid"] == process.pid:
                return
        except (OSError, ValueError):
            pass
        time.sleep(0.002)


def wait_for(process: BaseProcess, folder: Path, pattern: str) -> None:
    """Wait until a file of that kind is seen, or the process has ended."""
    while process.is_alive() and next(folder.glob(pattern), None) is None:
        time.sleep(0.0005)


def differences(folder: Path, expected: dict[str, str]) -> list[str]:
    found = contents(folder)
    return sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))


def contents(folder: Path) -> dict[str, str]:
    """Digest of every file but the manifest, in which the times differ."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json"]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def corpus(path: Path, rows: int, seed: int) -> Path:
    draw = random.Random(seed)
    made: list[str] = []
    for number in range(rows):
        kind = draw.random()
        text = " ".join(draw.choices(WORDS, k=draw.randrange(1, 40)))
        if kind < 0.02:
            made.append("{this is no JSON")
        elif kind < 0.04:
            made.append(json.dumps({"id": number, "text": number}))
        elif kind < 0.06:
            made.append("")
        elif kind < 0.1 and made:
            made.append(made[-1])
        else:
            made.append(json.dumps({"id": f"n{number}", "text": text}))
    made[0] = json.dumps({"id": "first", "text": "first"})
    path.write_text("\n".join(made) + "\n")
    return path


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--rows", type=int, default=2400)
    parser.add_argument("--part-rows", type=int, default=100)
    parser.add_argument("--model", help="default: the default model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, help="where the folders are made; default: the system's temporary folder")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""What do the ways to work through a plan cost, next to one process?

    python benchmarks/ways.py --data NOVELS [--rows N] [--rounds 2] [--steps speed,memory,resume] [--out FILE]

speed: paragraphs of the novels (repeated, if need be) to mean vectors with the default model, by each way in turn: one
process; ``--join`` with one run; ``--engine ray`` with one worker; ``--workers 2`` with a thread each. The seconds are
those of the whole command, from its start to its end, and those that the run itself reports, in tokens a second. Every
other round goes the other way round; ratios are those within a round, of which the median counts. All write the same
parts, which is checked, but for the two workers, which have another number of threads.

memory: peak memory of the process that hands out the parts, with the tiny BERT and two workers, for a corpus and one
ten times as large.

resume: a finished set of 10,000 parts on an S3 server on this machine, run again: seconds, and requests by kind.
"""

import argparse
import hashlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from _machine import machine
from _models import TINY, random_model

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.support.s3_server import S3Server

RESULTS = Path(__file__).parent / "results" / "ways.json"
MEMORY_ROWS = (20_000, 200_000)
PROGRAM = [sys.executable, "-c", "from bertfeat.cli import run; run()", "extract"]
WAYS: dict[str, list[str]] = {
    "one process": [],
    "join": ["--join"],
    "ray, one worker": ["--engine", "ray", "--workers", "1"],
    "two workers": ["--workers", "2"],
}


def main() -> None:
    options = _options()
    results: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    results["machine"] = machine("ray", "obstore")
    with tempfile.TemporaryDirectory(dir=options.work) as work:
        for step in options.steps.split(","):
            results[step] = {"speed": speed, "memory": memory, "resume": resume}[step](Path(work), options)
            options.out.parent.mkdir(exist_ok=True)
            options.out.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))


# ── speed ───────────────────────────────────────────────────────────────────────────────────────────────────


def speed(work: Path, options: argparse.Namespace) -> dict[str, Any]:
    lines = (options.data / "paragraphs.txt").read_text().splitlines()
    lines = [line for line in lines if line.strip()]
    corpus = work / "corpus.txt"
    corpus.write_text("".join(f"{lines[n % len(lines)]} {n}\n" for n in range(options.rows)))
    times: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    expected = ""
    for number in range(options.rounds):
        for way, words in list(WAYS.items())[:: -1 if number % 2 else 1]:
            folder = work / f"{number}-{way.replace(' ', '-').replace(',', '')}"
            began = time.monotonic()
            done = subprocess.run(
                [*PROGRAM, str(corpus), "-o", str(folder), "--quiet", "--json", *words],
                capture_output=True,
                text=True,
                check=False,
            )
            seconds = time.monotonic() - began
            if done.returncode:
                sys.exit(f"{way}: {done.stderr[-2000:]}")
            told = json.loads(done.stdout)
            times[way].append(
                {"command_seconds": seconds, "run_seconds": told["seconds"], "tokens": told["counts"]["tokens"]}
            )
            if way != "two workers":  # which have another number of threads
                digest = digest_of(folder)
                expected = expected or digest
                if digest != expected:
                    sys.exit(f"{way} wrote other bytes")
            subprocess.run(["rm", "-rf", str(folder)], check=True)
            print(way, times[way][-1], file=sys.stderr, flush=True)
    rates = {way: [each["tokens"] / each["run_seconds"] for each in some] for way, some in times.items()}
    commands = {way: [each["command_seconds"] for each in some] for way, some in times.items()}
    return {
        "rows": options.rows,
        "rounds": options.rounds,
        "tokens_per_second": {way: [round(rate) for rate in some] for way, some in rates.items()},
        "of_one_process": ratios(rates),
        "command_seconds": {way: [round(seconds, 1) for seconds in some] for way, some in commands.items()},
        "command_of_one_process": ratios(commands),
    }


def ratios(figures: dict[str, list[float]]) -> dict[str, float]:
    """The median over the rounds of what each way has in a round, divided by what one process has in it."""
    one = figures["one process"]
    return {
        way: round(statistics.median(a / b for a, b in zip(some, one, strict=True)), 3) for way, some in figures.items()
    }


def digest_of(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.glob("part-*.parquet")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────


def memory(work: Path, options: argparse.Namespace) -> dict[str, Any]:
    tiny = random_model(work / "tiny", TINY)
    peaks = {}
    for rows in MEMORY_ROWS:
        corpus = work / f"{rows}.txt"
        corpus.write_text("".join(f"the old mill by the river, number {n}\n" for n in range(rows)))
        words = [*PROGRAM, str(corpus), "-o", str(work / f"{rows}.features"), "--model", str(tiny), "--quiet"]
        process = subprocess.Popen([*words, "--workers", "2", "--part-rows", "200"], stdout=subprocess.DEVNULL)
        peak = 0
        while process.poll() is None:
            peak = max(peak, _peak_memory(process.pid))
            time.sleep(0.05)
        if process.returncode:
            sys.exit("a run for memory failed")
        peaks[f"{rows // 200:,} parts"] = round(peak / 1024)
    return {"peak_of_the_run_mib": peaks}


def _peak_memory(pid: int) -> int:
    try:
        match = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(match[1]) if match else 0


# ── resume ──────────────────────────────────────────────────────────────────────────────────────────────────


def resume(work: Path, options: argparse.Namespace) -> dict[str, Any]:
    tiny = random_model(work / "tiny-for-s3", TINY)
    corpus = work / "many.txt"
    corpus.write_text("".join(f"the old mill by the river, number {n}\n" for n in range(options.parts)))
    with S3Server() as server:
        server.make_bucket("parts")
        environment = {**os.environ, **server.environment}
        words = [*PROGRAM, str(corpus), "-o", "s3://parts/set", "--model", str(tiny), "--quiet", "--part-rows", "1"]
        told = {}
        for name in ("first_run", "again"):
            server.forget()
            began = time.monotonic()
            subprocess.run(words, env=environment, check=True, stdout=subprocess.DEVNULL)
            requests = Counter(request.kind for request in server.requests)
            told[name] = {"seconds": round(time.monotonic() - began, 1), "requests": dict(requests)}
            print(name, told[name], file=sys.stderr, flush=True)
    return {"parts": options.parts, **told}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with paragraphs.txt")
    parser.add_argument("--rows", type=int, default=80_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--parts", type=int, default=10_000)
    parser.add_argument("--steps", default="speed,memory,resume")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    main()

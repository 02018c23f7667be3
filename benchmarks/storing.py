"""What does storing cost, where most is stored: concat4 features of every token, 3 kB each?

    python benchmarks/storing.py --data NOVELS

Runs over the same sentences (some 1 GB of features, several parts), in turn: whole ones, and ones whose parts are
computed and not written. A process for each way in which threads wait for work: spinning, as torch's do unless told
otherwise, and asleep (OMP_WAIT_POLICY=PASSIVE), as the command line sets it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from _machine import machine

POLICIES = {"spinning, as in Python": "", "asleep, as on the command line": "PASSIVE"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with sentences.txt")
    parser.add_argument("--documents", type=int, default=12_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "storing.json")
    parser.add_argument("--step", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    lines = (options.data / "sentences.txt").read_text("utf-8").splitlines()[: options.documents]
    if options.step:
        print(json.dumps(step(lines, options.repeats)))
        return
    results: dict[str, Any] = {"machine": machine(), "documents": len(lines)}
    for name, policy in POLICIES.items():
        environment = {**os.environ, **({"OMP_WAIT_POLICY": policy} if policy else {})}
        told = subprocess.run(
            [sys.executable, *sys.argv, "--step"], env=environment, check=True, stdout=subprocess.PIPE
        )
        results[name] = json.loads(told.stdout.splitlines()[-1])
        print(name, results[name], flush=True)
    options.out.write_text(json.dumps(results, indent=1) + "\n")


def step(lines: list[str], repeats: int) -> dict[str, Any]:
    """Tokens a second, stored and not, in turn after a warm-up of each."""
    from bertfeat import Extractor, memory_corpus
    from bertfeat.extraction import part_writer, run_manifest

    extractor = Extractor(layers="concat4", pooling="token")
    stored = (part_writer.write_part, run_manifest.write_manifest)
    writers = {"stored": stored, "not stored": (_nothing, _nothing)}
    speeds: dict[str, list[float]] = {name: [] for name in writers}
    for repeat in range(repeats + 1):
        for name, (part_writer.write_part, run_manifest.write_manifest) in writers.items():
            with tempfile.TemporaryDirectory() as folder:
                report = extractor.extract(memory_corpus(lines), Path(folder) / "features")
            if repeat:
                speeds[name].append(report.tokens_per_second)
    with_parts, without = speeds.values()
    return {
        "tokens_per_second": {name: round(median(each)) for name, each in speeds.items()},
        "runs": {name: [round(speed) for speed in each] for name, each in speeds.items()},
        "ratio": round(median(a / b for a, b in zip(with_parts, without, strict=True)), 3),
    }


def _nothing(*_: Any, **__: Any) -> None:
    return None


if __name__ == "__main__":
    main()

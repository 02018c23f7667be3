"""Is today's code slower than the build that was the fastest on this kind of processor?

    make bench-guard [NOVELS=folder]
    python benchmarks/guard.py --data NOVELS [--against COMMIT] [--repeats 7]

REFERENCES names that build for each family of processors; its sources are taken from the repository's history, its
kernels built by this machine's C compiler alone. Both compute pooled mean vectors of the default model in each
precision that the processor multiplies, each in a process of its own, in turn (see pooled.py). Ends with 1 where the
median of the paired ratios of seconds, today's over its, is above 1.05 in a precision, on sentences or on paragraphs.
Where a family has no reference yet, it says so and ends with 0. What is found against another commit has a file of its
own.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from _duel import Way, corpora, duel, ratio
from _machine import machine
from processors import LENGTH, family_of_processor, our_ways

from bertfeat.core.models import find_model

REFERENCES = {"amx": "9479e34", "avx512_bf16": "4b9552e"}
MOST = 1.05  # of the seconds of the reference
ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with sentences.txt and paragraphs.txt")
    parser.add_argument("--against", help="a commit, in place of the reference")
    parser.add_argument("--tokens", type=int, default=40_000, help="about how many tokens of each corpus")
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    family = family_of_processor()
    commit = arguments.against or REFERENCES.get(family)
    if commit is None:
        print(f"no build is the reference on {family} yet; name a commit with --against")
        return
    pairs = [(today, Way(today.function, checkout=checkout(commit))) for today in our_ways(family)]
    results: dict[str, Any] = {"machine": machine(), "family": family, "reference": commit, "corpora": {}}
    for name, texts in corpora(arguments.data, arguments.tokens).items():
        if name != "mix":
            ways = [way for pair in pairs for way in pair]
            found = duel(ways, texts, find_model().folder, LENGTH, arguments.repeats)
            found["seconds_to_reference"] = {  # of speeds the other way round
                today.name.partition(":")[2]: ratio(found, reference.name, today.name) for today, reference in pairs
            }
            results["corpora"][name] = found
            print(name, json.dumps(found, indent=1), flush=True)
    other = f"-{commit}" if arguments.against else ""
    target = ROOT / "benchmarks" / "results" / f"guard-{family}{other}.json"
    target.write_text(json.dumps(results, indent=1) + "\n")
    ratios = {name: found["seconds_to_reference"] for name, found in results["corpora"].items()}
    print(f"seconds of today's code over those of {commit}: {json.dumps(ratios)}")
    if any(share is None or share > MOST for shares in ratios.values() for share in shares.values()):
        sys.exit(f"more than {MOST}, or one of them failed: today's code is slower than {commit}")


def checkout(commit: str) -> Path:
    """The sources of a commit with kernels built there: in build/guard, where they are kept."""
    folder = ROOT / "build" / "guard" / commit
    if (folder / "made").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    for sources in (folder / "bertfeat").rglob("csrc"):  # older commits have one, elsewhere
        library = "_wordpiece.so" if sources.parent.name == "tokens" else "_kernels.so"
        command = [os.environ.get("CC", "cc"), "-O3", "-fPIC", "-shared", *sorted(sources.glob("*.c"))]
        subprocess.run([*command, "-o", sources.parent / library], check=True)
    (folder / "made").touch()
    return folder


if __name__ == "__main__":
    main()

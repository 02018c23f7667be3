"""Is today's code slower than the build that was the fastest on this kind of processor?

    make bench-guard [NOVELS=folder]
    python benchmarks/guard.py --data NOVELS [--against COMMIT] [--precision bf16] [--repeats 7]

REFERENCES names that build for each family of processors; its sources are taken from the repository's history, its
kernels built with this machine's compiler. Both compute pooled mean vectors of the default model, each in a process of
its own, in turn (see pooled.py). Ends with 1 where the median of the paired ratios of seconds, today's over its, is
above 1.05 on sentences or on paragraphs. Where a family has no reference yet, it says so and ends with 0.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from _duel import Way, corpora, duel, ratio
from _machine import machine
from processors import LENGTH, family_of_processor

from bertfeat.models import find_model

REFERENCES = {"amx": "fa44b0b", "avx512_bf16": "4b9552e"}
MOST = 1.05  # of the seconds of the reference
ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with sentences.txt and paragraphs.txt")
    parser.add_argument("--against", help="a commit, in place of the reference")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--tokens", type=int, default=40_000, help="about how many tokens of each corpus")
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    family = family_of_processor()
    commit = arguments.against or REFERENCES.get(family)
    if commit is None:
        print(f"no build is the reference on {family} yet; name a commit with --against")
        return
    today = Way(f"pooled_ours:{arguments.precision}")
    reference = Way(today.function, checkout=checkout(commit))
    results: dict[str, Any] = {"machine": machine(), "family": family, "reference": commit, "corpora": {}}
    for name, texts in corpora(arguments.data, arguments.tokens).items():
        if name != "mix":
            found = duel((today, reference), texts, find_model().folder, LENGTH, arguments.repeats)
            found["seconds_to_reference"] = ratio(found, reference.name, today.name)  # of speeds the other way round
            results["corpora"][name] = found
            print(name, json.dumps(found, indent=1), flush=True)
    target = ROOT / "benchmarks" / "results" / f"guard-{family}.json"
    target.write_text(json.dumps(results, indent=1) + "\n")
    ratios = {name: found["seconds_to_reference"] for name, found in results["corpora"].items()}
    told = ", ".join(f"{share} on {name}" for name, share in ratios.items())
    print(f"seconds of today's code over those of {commit}: {told}")
    if any(share is None or share > MOST for share in ratios.values()):
        sys.exit(f"more than {MOST}, or one of them failed: today's code is slower than {commit}")


def checkout(commit: str) -> Path:
    """The sources of a commit with kernels built there: in build/guard, where they are kept."""
    folder = ROOT / "build" / "guard" / commit
    if (folder / "made").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    sources = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=sources, check=True)
    subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=folder, check=True)
    (folder / "made").touch()
    return folder


if __name__ == "__main__":
    main()

"""Do time and memory grow in a straight line from 1,000 to 1,000,000 documents?

    python benchmarks/growth.py [--sizes 1000,10000] [--tiny-sizes 1000,1000000] [--work DIR]

Distinct short documents, mean vectors; each size is a run of its own process, of which time and peak memory are
reported. The same with a tiny random BERT, in which what grows with the number of documents is not hidden by the model.
"""

import argparse
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _machine import machine
from _models import TINY, random_model

RESULTS = Path(__file__).parent / "results" / "growth.json"
WORDS = (
    "river",
    "bank",
    "money",
    "water",
    "old",
    "mill",
    "stone",
    "north",
    "wind",
    "house",
    "letter",
    "garden",
    "light",
)


def main() -> None:
    options = _options()
    if options.step:
        print(json.dumps(step(*options.step)))
        return
    results: dict[str, Any] = {"machine": machine(), "note": " ".join((__doc__ or "").split("\n\n")[2].split())}
    with tempfile.TemporaryDirectory(dir=options.work) as work:
        tiny = random_model(Path(work) / "tiny", TINY)
        for name, model, sizes in (("default", "", options.sizes), ("tiny", str(tiny), options.tiny_sizes)):
            results[name] = [measured(Path(work), size, model) for size in _numbers(sizes)]
    for name in ("default", "tiny"):
        peaks = {each["documents"]: each["peak_mib"] for each in results[name]}
        if {100_000, 1_000_000} <= set(peaks):
            results[f"peak_growth_100k_to_1m_{name}"] = round(peaks[1_000_000] / peaks[100_000] - 1.0, 4)
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(results, indent=1) + "\n")


def measured(work: Path, size: int, model: str) -> dict[str, Any]:
    """Run one size in a process of its own."""
    path, folder = corpus(work / f"{size}.txt", size), work / "features"
    command = [sys.executable, __file__, "--step", str(path), str(folder), model]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    result: dict[str, Any] = {"documents": size, **json.loads(told.splitlines()[-1])}
    shutil.rmtree(folder)
    path.unlink()
    print(result, flush=True)
    return result


def step(path: str, folder: str, model: str) -> dict[str, Any]:
    from bertfeat.extraction import Extractor

    begin = time.perf_counter()
    report = Extractor(model or None, pooling="mean").extract(path, folder)
    return {
        "seconds": round(time.perf_counter() - begin, 2),
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "parts": report.parts,
        "tokens": report.counts.tokens,
        "tokens_per_second": round(report.tokens_per_second),
        "waited_for_tokens": round(report.waited_for_tokens, 2),
        "waited_for_disk": round(report.waited_for_disk, 2),
        "bytes": report.bytes,
    }


def corpus(path: Path, size: int) -> Path:
    """Distinct texts of 5 to 15 words."""
    draw = random.Random(0)
    with path.open("w") as file:
        for number in range(size):
            file.write(f"{' '.join(draw.choices(WORDS, k=draw.randrange(4, 14)))} {number}\n")
    return path


def _numbers(listed: str) -> list[int]:
    return [int(each) for each in listed.split(",") if each]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000,100000,1000000", help="with the default model")
    parser.add_argument("--tiny-sizes", default="1000,10000,100000,1000000", help="with a tiny random model")
    parser.add_argument("--work", type=Path, help="where folders are made; default: the system's temporary folder")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--step", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()

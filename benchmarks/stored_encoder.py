"""What does ``StoredEncoder`` save where texts are embedded again and again, as evaluators and topic models do?

    python benchmarks/stored_encoder.py --data DATA [--work DIR]

DATA holds novels/sentences.txt, of which the first 5,000 are extracted once. Then a process of its own, in turn, embeds
all of them by an ``Extractor``, or reads them by a ``StoredEncoder``: seconds from opening either to the last vector,
and most memory. Both must give the same vectors, but for the last digits of other batches.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from _machine import machine

from bertfeat import Extractor

RESULT = Path(__file__).parent / "results" / "stored_encoder.json"
TEXTS = 5000
WAYS = {
    "Extractor": "encoder = bertfeat.Extractor()",
    "StoredEncoder": "encoder = bertfeat.StoredEncoder(folder)",
}
SCRIPT = """
import sys, time
from pathlib import Path
import numpy as np
import bertfeat

folder, texts = Path(sys.argv[1]), Path(sys.argv[2]).read_text("utf-8").splitlines()
bertfeat.Extractor, bertfeat.StoredEncoder  # whose imports are not measured
begin = time.perf_counter()
{way}
vectors = encoder.encode(texts)
seconds = time.perf_counter() - begin
(most,) = (line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(seconds, int(most) / 1024)
np.save(sys.argv[3], vectors)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--work", type=Path, default=Path("build/stored_encoder"))
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    before = machine()
    lines = (options.data / "novels" / "sentences.txt").read_text("utf-8").splitlines()
    texts, features = options.work / "texts.txt", options.work / "texts.features"
    texts.write_text("\n".join(line for line in lines[:TEXTS] if line.strip()) + "\n", "utf-8")
    shutil.rmtree(features, ignore_errors=True)
    Extractor().extract(texts, features)
    runs: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for _ in range(options.repeats):
        for way, made in WAYS.items():
            runs[way].append(embed(made, features, texts, options.work / f"{way}.npy"))
    one, other = (np.load(options.work / f"{way}.npy") for way in WAYS)
    found: dict[str, Any] = {
        "machine": before,
        "texts": len(one),
        "largest_difference": float(np.abs(one - other).max()),
        "ways": {
            way: {
                "seconds": round(median(seconds for seconds, _ in measured), 3),
                "memory_mib": round(median(memory for _, memory in measured)),
                "runs": measured,
            }
            for way, measured in runs.items()
        },
    }
    print(json.dumps({key: found[key] for key in ("largest_difference", "ways")}))
    RESULT.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


def embed(way: str, features: Path, texts: Path, out: Path) -> tuple[float, float]:
    """Embed the texts in a process of its own; returns seconds, and most memory in MiB."""
    command = [sys.executable, "-c", SCRIPT.format(way=way), str(features), str(texts), str(out)]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    seconds, memory = map(float, told.split())
    return round(seconds, 3), round(memory, 1)


if __name__ == "__main__":
    main()

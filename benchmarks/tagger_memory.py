"""Does training on features larger than the memory stay within it?

    python benchmarks/tagger_memory.py [--work DIR]

Trains taggers with half a GiB of memory on synthetic sets of concat4 features, of which the largest takes six times
that, one epoch each, and reports the peak memory of each process. 15 words of 20 are drawn from a list, and tags go by
word.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _commands import bertfeat
from _machine import machine
from growth import WORDS

SENTENCES = (4_000, 18_000, 54_000)
LENGTH = 20  # words
MEMORY = 0.5
TRAINING = """
import sys
from bertfeat import HeadSettings, train_head
train, dev, folder, memory = sys.argv[1:]
train_head("tag", train, dev, folder, settings=HeadSettings(memory=int(memory), hidden=64, epochs=1))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path)
    options = parser.parse_args()
    result: dict[str, Any] = {"machine": machine(), "memory_gib": MEMORY, "sets": []}
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        dev = features(Path(folder) / "dev.conll", 500)
        for sentences in SENTENCES:
            found = trained(features(Path(folder) / f"{sentences}.conll", sentences), dev)
            result["sets"].append({"words": sentences * LENGTH, **found})
            print(result["sets"][-1], flush=True)
    target = Path(__file__).parent / "results" / "tagger_memory.json"
    target.write_text(json.dumps(result, indent=1) + "\n")


def features(corpus: Path, sentences: int) -> Path:
    """A feature set of random sentences with tags."""
    draw = random.Random(sentences)
    names = ["Ada", "Berlin", "Kafka", "Lima", "Oslo", "Rosa"]
    with corpus.open("w", encoding="utf-8") as file:
        for _ in range(sentences):
            words = draw.choices(WORDS, k=LENGTH - 5) + draw.choices(names, k=5)
            draw.shuffle(words)
            file.writelines(f"{word} {'B-NAME' if word in names else 'O'}\n" for word in words)
            file.write("\n")
    folder = corpus.with_suffix(".features")
    asked = ["-o", str(folder), "--layers", "concat4", "--pooling", "word", "--quiet"]
    bertfeat("extract", str(corpus), *asked)
    return folder


def trained(train: Path, dev: Path) -> dict[str, Any]:
    """Train for an epoch in a process of its own: its peak memory and its speed."""
    begun = time.perf_counter()
    given = [str(train), str(dev), str(train.with_suffix(".tagger")), str(int(MEMORY * 2**30))]
    process = subprocess.Popen([sys.executable, "-c", TRAINING, *given])
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"training ended with status {status}")
    epoch = json.loads((train.with_suffix(".tagger") / "head.json").read_text())["history"][0]
    return {
        "features_gib": round(sum(part.stat().st_size for part in train.glob("*.parquet")) / 2**30, 2),
        "peak_mib": usage.ru_maxrss // 1024,
        "words_per_second": round(epoch["words"] / epoch["seconds"]),
        "seconds": round(time.perf_counter() - begun, 1),
    }


if __name__ == "__main__":
    main()

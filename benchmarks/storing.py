"""What does storing cost: concat4 features of every token, 3 kB each, and one vector a text?

    python benchmarks/storing.py --data NOVELS

concat4: runs over the same sentences (several parts), in turn: whole ones, ones whose features are dropped as they
come, and ``encode``, which gives mean vectors. pooled: mean vectors of sentences and of paragraphs, from a file to
Parquet and, of texts in memory, by ``encode``. A process for each way in which threads wait for work: spinning, as
torch's do unless told otherwise, and asleep (OMP_WAIT_POLICY=PASSIVE), as the command line sets it.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from _commands import json_printed
from _machine import machine

POLICIES = {"spinning, as in Python": "", "asleep, as on the command line": "PASSIVE"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with sentences.txt and paragraphs.txt")
    parser.add_argument("--documents", type=int, default=12_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "storing.json")
    parser.add_argument("--step", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        print(json.dumps(step(options.data, options.documents, options.repeats)))
        return
    results: dict[str, Any] = {"machine": machine(), "documents": options.documents}
    for name, policy in POLICIES.items():
        policies = {"OMP_WAIT_POLICY": policy} if policy else {}
        results[name] = json_printed([sys.executable, *sys.argv, "--step"], **policies)
        print(name, results[name], flush=True)
    options.out.write_text(json.dumps(results, indent=1) + "\n")


def step(data: Path, documents: int, repeats: int) -> dict[str, Any]:
    """Tokens a second of each way, in turn after a warm-up of each."""
    from bertfeat import Extractor, memory_corpus

    concat4, pooled = Extractor(layers="concat4", pooling="token"), Extractor()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)

        def parquet(extractor: Extractor, corpus: Any) -> Callable[[], int]:
            def store() -> int:
                report = extractor.extract(corpus, place / "features")
                shutil.rmtree(place / "features")
                return report.computed_tokens

            return store

        def dropped(extractor: Extractor, lines: list[str]) -> Callable[[], int]:
            return lambda: sum(int(each.n_tokens.sum()) for each in extractor.contents(lines))

        def encoded(lines: list[str]) -> Callable[[], int]:
            tokens = len(pooled.tokenizer.pieces(lines, offsets=False).ids) + 2 * len(lines)
            return lambda: tokens if len(pooled.encode(lines)) else 0

        told: dict[str, Any] = {}
        for name, count in (("sentences", documents), ("paragraphs", documents // 3)):
            read = (line for line in (data / f"{name}.txt").read_text("utf-8").splitlines() if line.strip())
            lines = list(islice(read, count))
            (place / name).write_text("\n".join(lines) + "\n", "utf-8")
            told[f"pooled {name}"] = in_turn(
                {"stored": parquet(pooled, place / name), "encode": encoded(lines)}, repeats
            )
            if name == "sentences":
                ways = {"stored": parquet(concat4, memory_corpus(lines)), "not stored": dropped(concat4, lines)}
                told["concat4 tokens"] = in_turn(ways | {"encode": encoded(lines)}, repeats)
        return told


def in_turn(ways: Mapping[str, Callable[[], int]], repeats: int) -> dict[str, Any]:
    """The speeds of ways, and of the first the ratio to each other one."""
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(repeats + 1):
        for name, compute in ways.items():
            begin = time.perf_counter()
            tokens = compute()
            if repeat:
                speeds[name].append(tokens / (time.perf_counter() - begin))
    first, *others = speeds
    return {
        "tokens_per_second": {name: round(median(each)) for name, each in speeds.items()},
        "runs": {name: [round(speed) for speed in each] for name, each in speeds.items()},
        "ratios": {
            other: round(median(a / b for a, b in zip(speeds[first], speeds[other], strict=True)), 3)
            for other in others
        },
    }


if __name__ == "__main__":
    main()

"""What does torch.compile bring on a CPU, next to our kernels, and what does its warm-up cost?

    python benchmarks/compiled.py --data NOVELS

Pooled mean vectors of the default model: ours, sentence-transformers as it is, and sentence-transformers with its model
compiled (dynamic sizes, frozen weights, so that inductor takes oneDNN's packed and fused products). Every way has a
process of its own; told are the seconds of its first run, over an eighth of the texts, the tokens a second of the runs
after that, and the number of tokens after which the compiler has paid for itself.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from _duel import Way, corpora, duel, ratio
from _machine import machine

LENGTH = 256
PRECISIONS = ("fp32", "bf16")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with sentences.txt and paragraphs.txt")
    parser.add_argument("--tokens", type=int, default=60_000, help="about how many tokens of each corpus")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "compiled.json")
    arguments = parser.parse_args()
    from bertfeat.core.models import find_model

    names = ("ours", "sentence_transformers", "compiled")
    ways = [Way(f"pooled_{name}:{precision}") for precision in PRECISIONS for name in names]
    results: dict[str, Any] = {"machine": machine("sentence-transformers"), "corpora": {}}
    for name, texts in corpora(arguments.data, arguments.tokens).items():
        found = duel(ways, texts, find_model().folder, LENGTH, arguments.repeats)
        found["ratios"], found["tokens_until_paid"] = {}, {}
        for precision in PRECISIONS:
            ours, plain, compiled = (f"pooled_{each}:{precision}" for each in names)
            found["ratios"][f"ours to compiled, {precision}"] = ratio(found, ours, compiled)
            found["ratios"][f"compiled to plain, {precision}"] = ratio(found, compiled, plain)
            found["tokens_until_paid"][precision] = _until_paid(found, plain, compiled)
        results["corpora"][name] = found
        print(name, json.dumps(found, indent=1), flush=True)
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")


def _until_paid(found: dict[str, Any], plain: str, compiled: str) -> int | None:
    """Tokens after which the longer first run is won back; none where the compiled model is no faster."""
    speeds, warm_ups = found["tokens_per_second"], found["warm_up_seconds"]
    if not {plain, compiled} <= speeds.keys() or speeds[compiled] <= speeds[plain]:
        return None
    saved = 1 / speeds[plain] - 1 / speeds[compiled]
    return round((warm_ups[compiled] - warm_ups[plain]) / saved)


if __name__ == "__main__":
    main()

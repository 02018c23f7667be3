"""What does int8 change in search, and in taggers that learn from its features? (precision.py compares vectors.)

    python benchmarks/int8_quality.py --data DATA [--seeds N]

DATA holds cranfield/ in BEIR's layout and wikigold/. The default model. nDCG@10 on Cranfield, corpus and queries in one
precision; span F1 on Wikigold (split by documents as in table7.py) of taggers on concat4 with default settings.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path

from _commands import search_score, tagger_score
from _machine import machine
from table7 import split_by_documents

RESULT = Path(__file__).parent / "results" / "int8_quality.json"
PRECISIONS = ("fp32", "bf16", "int8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    told: dict[str, object] = {"machine": machine()}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        told["ndcg_at_10"] = {
            each: search_score(work / each, ("--precision", each), options.data / "cranfield") for each in PRECISIONS
        }
        print(json.dumps(told["ndcg_at_10"]), flush=True)
        corpus = split_by_documents(options.data / "wikigold" / "wikigold.conll", work / "split")
        scores = {
            each: [
                tagger_score(
                    work / f"{each}-{seed}",
                    ("--precision", each, "--layers", "concat4", "--seed", str(seed)),
                    corpus,
                )
                for seed in range(1, options.seeds + 1)
            ]
            for each in ("fp32", "int8")
        }
    told["wikigold_f1"] = {
        each: {
            "mean": statistics.mean(values),
            "spread": statistics.stdev(values) if len(values) > 1 else 0.0,
            "runs": values,
        }
        for each, values in scores.items()
    }
    print(json.dumps(told["wikigold_f1"]), flush=True)
    RESULT.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()

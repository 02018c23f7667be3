"""Word and token features of the last four layers, into Parquet: how fast, next to Flair and to the loop people write?

    make peers
    python benchmarks/concat4.py --data NOVELS --peers .venv-peers/bin/python

Ours goes from text to Parquet on disk. Flair's frozen word embeddings (in the environment that `make peers` makes)
and the padded loop over transformers keep nothing. Every way has a process of its own and a warm-up; they run in turn.
So small a corpus is one part, which is written after it is computed: what storing costs a long run, storing.py says.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from _duel import Way, corpora, duel, ratio
from _machine import machine

LENGTH = 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with sentences.txt and paragraphs.txt")
    parser.add_argument("--peers", help="Python of the environment for Flair; without it Flair is left out")
    parser.add_argument("--tokens", type=int, default=60_000, help="about how many tokens of each corpus")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "concat4.json")
    arguments = parser.parse_args()
    from bertfeat.core.models import find_model

    ways = [
        *(Way(f"{kind}_ours:{precision}") for kind in ("words", "tokens") for precision in ("fp32", "bf16")),
        Way("tokens_ours_not_stored:bf16"),
        Way("tokens_loop:fp32", share=1 / 4),
        Way("tokens_loop:bf16", share=1 / 4),
    ]
    if arguments.peers:
        ways.append(Way("words_flair:fp32", arguments.peers, share=1 / 4))
    results: dict[str, Any] = {"machine": machine(), "corpora": {}}
    texts = corpora(arguments.data, arguments.tokens)
    for name in ("sentences", "paragraphs"):
        found = duel(ways, texts[name], find_model().folder, LENGTH, arguments.repeats)
        found["ratios"] = {
            **{f"words, {p} to Flair": ratio(found, f"words_ours:{p}", "words_flair:fp32") for p in ("fp32", "bf16")},
            **{
                f"tokens, {p} to the loop in {p}": ratio(found, f"tokens_ours:{p}", f"tokens_loop:{p}")
                for p in ("fp32", "bf16")
            },
            "tokens, bf16 to the loop in fp32": ratio(found, "tokens_ours:bf16", "tokens_loop:fp32"),
            "tokens, stored to not stored": ratio(found, "tokens_ours:bf16", "tokens_ours_not_stored:bf16"),
        }
        results["corpora"][name] = found
        print(name, json.dumps(found, indent=1), flush=True)
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

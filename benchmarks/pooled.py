"""How fast are pooled mean vectors of the default model, next to sentence-transformers and its backends?

    make peers
    python benchmarks/pooled.py --data NOVELS --peers .venv-peers/bin/python

From texts to a float32 matrix in memory. sentence-transformers is the one of this environment, in fp32 and bf16; its
ONNX and OpenVINO backends, which ask for older libraries, run in the environment that `make peers` makes; the
transformers pipeline gets a sixteenth of the texts. Every way has a process of its own and a warm-up; they run in turn.
Texts of more than 256 tokens are cut, in the mix those of more than 512. The ceiling is the FLOP-weighted rate of the
model's own four products at 8,192 rows, measured in the same run; the share counts 24·H²·L a token.
"""

import argparse
import json
from pathlib import Path
from statistics import median
from typing import Any

import torch
from _duel import Way, corpora, duel, ratio
from _machine import machine

LENGTHS = {"sentences": 256, "paragraphs": 256, "mix": 512}
PRECISIONS = ("fp32", "bf16")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with sentences.txt and paragraphs.txt")
    parser.add_argument("--peers", help="Python of the environment for ONNX and OpenVINO; without it they are left out")
    parser.add_argument("--tokens", type=int, default=60_000, help="about how many tokens of each corpus")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "pooled.json")
    arguments = parser.parse_args()
    from bertfeat.core.encoder import Precision, block_flop, product_rate
    from bertfeat.core.models import find_model

    model = find_model()
    flop = model.num_layers * block_flop(model.hidden_size, model.inner_size)
    ways = [
        *(Way(f"pooled_ours:{precision}") for precision in PRECISIONS),
        *(Way(f"pooled_sentence_transformers:{precision}") for precision in PRECISIONS),
        Way("pooled_pipeline:fp32", share=1 / 16),
    ]
    if arguments.peers:
        others = ("pooled_onnx:fp32", "pooled_openvino:fp32", "pooled_openvino:bf16")
        ways += [Way(name, arguments.peers) for name in others]
    results: dict[str, Any] = {"machine": machine("sentence-transformers"), "corpora": {}}
    for name, texts in corpora(arguments.data, arguments.tokens).items():
        rates: dict[str, list[float]] = {precision: [] for precision in PRECISIONS}
        for precision in PRECISIONS * 3:
            rates[precision].append(
                product_rate(model.hidden_size, model.inner_size, Precision(precision), torch.device("cpu"), rows=8192)
            )
        found = duel(ways, texts, model.folder, LENGTHS[name], arguments.repeats)
        ours = {precision: found["tokens_per_second"][f"pooled_ours:{precision}"] for precision in PRECISIONS}
        ceilings = {precision: median(each) / flop for precision, each in rates.items()}
        found["ceiling_tokens_per_second"] = {precision: round(each) for precision, each in ceilings.items()}
        found["share_of_ceiling"] = {each: round(ours[each] / ceilings[each], 3) for each in PRECISIONS}
        found["ratios"] = {
            f"{precision} to {way.name}": ratio(found, f"pooled_ours:{precision}", way.name)
            for precision in PRECISIONS
            for way in ways
            if "ours" not in way.name
        }
        results["corpora"][name] = found
        print(name, json.dumps(found, indent=1), flush=True)
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

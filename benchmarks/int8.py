"""How fast is int8, next to our own bf16 and fp32, to sentence-transformers and to its int8 by ONNX Runtime?

    make peers
    python benchmarks/int8.py --data NOVELS --peers .venv-peers/bin/python

Pooled mean vectors of the default model, from texts to a float32 matrix in memory, every way in a process of its own,
in turn (see pooled.py). What comes out of int8 is measured by int8_quality.py.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from _duel import Way, corpora, duel, ratio
from _machine import machine

from bertfeat.encoder import kernels_in_use
from bertfeat.encoder.precision import Precision, has_native_bf16, resolve_device
from bertfeat.models import find_model

LENGTH = 256
OURS = "pooled_ours:int8"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with sentences.txt and paragraphs.txt")
    parser.add_argument("--peers", help="Python of the environment for ONNX; without it that is left out")
    parser.add_argument("--tokens", type=int, default=60_000, help="about how many tokens of each corpus")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "int8.json")
    arguments = parser.parse_args()
    device = resolve_device("cpu")
    kernels = kernels_in_use(device, Precision.INT8)
    ways = [Way(OURS), Way("pooled_ours:fp32"), Way("pooled_sentence_transformers:fp32")]
    if has_native_bf16(device):
        ways.append(Way("pooled_ours:bf16"))
    if arguments.peers:
        instructions = "avx512_vnni" if kernels == "vnni" else "avx2"
        ways.append(Way(f"pooled_onnx_int8:{instructions}", arguments.peers))
    results: dict[str, Any] = {"machine": machine("sentence-transformers"), "kernels": kernels, "corpora": {}}
    for name, texts in corpora(arguments.data, arguments.tokens).items():
        if name == "mix":
            continue
        found = duel(ways, texts, find_model().folder, LENGTH, arguments.repeats)
        found["ratios"] = {way.name: ratio(found, OURS, way.name) for way in ways[1:]}
        results["corpora"][name] = found
        print(name, json.dumps(found, indent=1), flush=True)
    arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

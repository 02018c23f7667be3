"""How fast is our kernel for what follows attention in a block, next to torch's operators, in bf16?

    python benchmarks/block.py

Output product, residual, norm, up product, gelu, down product, residual, norm: :class:`TiledPostAttention` and
:class:`TorchPostAttention` (oneDNN's prepacked and fused products) on the same rows, in turn, medians of 15 runs after
a warm-up. GFLOP/s count 18·H² a row, the three products alone, whose inner width is 4·H.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch
from _machine import machine

from bertfeat.encoder.blocks import TiledPostAttention, TorchPostAttention, find_tile_kernels
from bertfeat.encoder.weights import Affine, BlockWeights

RESULTS = Path(__file__).parent / "results" / "block.json"
WIDTHS = {"all-MiniLM-L6-v2": 384, "bert-base": 768}
ROWS = (128, 256, 512, 1024, 2048, 4096, 8192)
CPU = torch.device("cpu")
EPS, ACTIVATION = 1e-12, "gelu"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    result = {
        "question": "milliseconds for what follows attention in a block, bf16",
        "machine": machine(),
        "threads": torch.get_num_threads(),
        "rows": [row for model in WIDTHS for row in compare(model, arguments.repeats)],
    }
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")


@torch.inference_mode()
def compare(model: str, repeats: int) -> list[dict[str, Any]]:
    hidden = WIDTHS[model]
    kernels = find_tile_kernels(CPU, torch.bfloat16, hidden, 4 * hidden)
    if kernels is None:
        raise SystemExit("the kernels were not built here, or this CPU has no AMX")
    weights = block_weights(hidden, 4 * hidden)
    runs = {
        "kernel": TiledPostAttention(weights, EPS, ACTIVATION, kernels),
        "torch": TorchPostAttention.of(weights, EPS, ACTIVATION, CPU, torch.bfloat16),
    }
    rows = []
    for number in ROWS:
        context, residual = (torch.randn(number, hidden).bfloat16() for _ in range(2))
        times: dict[str, list[float]] = {name: [] for name in runs}
        for repeat in range(repeats + 1):
            for name, finish in runs.items():
                begin = time.perf_counter()
                finish(context, residual)
                if repeat:  # the first is the warm-up
                    times[name].append(1000 * (time.perf_counter() - begin))
        medians = {name: median(each) for name, each in times.items()}
        rows.append(
            {
                "widths": f"{model}'s: {hidden} and {4 * hidden}",
                "rows": number,
                "milliseconds": {name: round(each, 3) for name, each in medians.items()},
                "gflops": {name: round(18e-6 * number * hidden**2 / each) for name, each in medians.items()},
                "ratio": round(median(b / a for a, b in zip(*times.values(), strict=True)), 2),
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    return rows


def block_weights(hidden: int, inner: int) -> BlockWeights:
    def product(outputs: int, inputs: int) -> Affine:
        return Affine(torch.randn(outputs, inputs) / inputs**0.5, torch.randn(outputs))

    def norm() -> Affine:
        return Affine(torch.ones(hidden), torch.zeros(hidden))

    query, key, value, out = (product(hidden, hidden) for _ in range(4))
    return BlockWeights(query, key, value, out, norm(), product(inner, hidden), product(hidden, inner), norm())


if __name__ == "__main__":
    main()
